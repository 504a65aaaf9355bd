"""Tally of the supermajority protocol: A-146, A-150 to A-152, A-g3 to A-g8."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local.protocols.supermajority.replies import BallotLine, Concurring, Confidence, Opposing, Vote
from roundtable_local.protocols.supermajority.tally import Result, Verdict, confidence_label, tally, thresholds, verdict
from tests.supermajority.tables import settings

SETTINGS = settings()


def line(vote: Vote, confidence: Confidence = Confidence.HIGH) -> BallotLine:
    if vote in {Vote.AGREE, Vote.ABSTAIN}:
        return Concurring.model_validate(
            {"rationale": "because it is", "vote": vote, "confidence": confidence, "dissent": ""}
        )
    return Opposing.model_validate(
        {"rationale": "because it is", "vote": vote, "confidence": confidence, "dissent": "it is not"}
    )


def ballots(votes: list[Vote]) -> dict[str, dict[str, BallotLine]]:
    return {f"seat-{number}": {"R1": line(vote)} for number, vote in enumerate(votes)}


@pytest.mark.parametrize(
    ("voters", "passed", "contested"),
    [(10, 7, 4), (9, 6, 4), (8, 6, 4), (7, 5, 3), (6, 4, 3), (5, 4, 2), (4, 3, 2), (3, 2, 2)],
)
def test_thresholds_scale_with_the_ballots_a_g4_a_g5(voters: int, passed: int, contested: int) -> None:
    bars = thresholds(voters, SETTINGS)
    assert (bars.passed, bars.contested) == (passed, contested)


@pytest.mark.parametrize("voters", range(1, 40))
def test_a_pass_is_always_two_thirds_a_g4(voters: int) -> None:
    bar = thresholds(voters, SETTINGS).passed
    assert 3 * bar >= 2 * voters > 3 * (bar - 1)


@pytest.mark.parametrize("voters", [7, 8, 9, 10])
def test_every_combination_of_counts_a_150_a_146_a_g6(voters: int) -> None:
    bars = thresholds(voters, SETTINGS)
    for agree, against, dissent in product(range(voters + 1), repeat=3):
        abstain = voters - agree - against - dissent
        if abstain < 0:
            continue
        votes = [Vote.AGREE] * agree + [Vote.DISAGREE] * against + [Vote.DISSENT] * dissent + [Vote.ABSTAIN] * abstain
        count = tally(ballots(votes), ("R1",), SETTINGS).counts["R1"]
        assert (count.agree, count.disagree, count.dissent, count.abstain) == (agree, against, dissent, abstain)
        expected = (
            Result.PASSED if agree >= bars.passed else Result.CONTESTED if agree >= bars.contested else Result.REJECTED
        )
        assert count.result is expected  # abstentions do not shrink n, dissent only counts as disagreement


@given(
    st.lists(st.sampled_from(list(Vote)), min_size=7, max_size=10).flatmap(
        lambda votes: st.tuples(st.just(votes), st.permutations(votes))
    )
)
def test_order_of_ballots_does_not_matter(both: tuple[list[Vote], list[Vote]]) -> None:
    one, other = (tally(ballots(votes), ("R1",), SETTINGS).counts for votes in both)
    assert one == other


@pytest.mark.parametrize("voters", range(7))
def test_below_the_floor_nothing_is_decided_a_g7(voters: int) -> None:
    counted = tally(ballots([Vote.AGREE] * voters), ("R1",), SETTINGS)
    assert not counted.quorate
    assert counted.having(Result.PASSED) == []
    assert verdict(len(counted.having(Result.PASSED)), len(counted.having(Result.CONTESTED))) is Verdict.NO_DECISION


@given(st.lists(st.tuples(st.sampled_from(list(Vote)), st.sampled_from(list(Confidence))), min_size=7, max_size=10))
def test_average_confidence_is_over_agree_ballots_a_g8(cast: list[tuple[Vote, Confidence]]) -> None:
    lines = {f"s{number}": {"R1": line(vote, confidence)} for number, (vote, confidence) in enumerate(cast)}
    weight = {Confidence.HIGH: 3, Confidence.MEDIUM: 2, Confidence.LOW: 1}
    agreeing = [weight[confidence] for vote, confidence in cast if vote is Vote.AGREE]
    expected = Fraction(sum(agreeing), len(agreeing)) if agreeing else None
    assert tally(lines, ("R1",), SETTINGS).counts["R1"].confidence == expected


@pytest.mark.parametrize(
    ("average", "label"),
    [("3", "HIGH"), ("5/2", "HIGH"), ("249/100", "MEDIUM"), ("3/2", "MEDIUM"), ("149/100", "LOW"), ("1", "LOW")],
)
def test_confidence_labels_at_the_edges_a_g8(average: str, label: str) -> None:
    assert confidence_label(Fraction(average), SETTINGS) == label


@pytest.mark.parametrize(
    ("agreements", "expected"),
    [((10, 10), Verdict.CONSENSUS), ((10, 0), Verdict.CONSENSUS), ((10, 5), Verdict.SPLIT), ((6, 5), Verdict.NO_DECISION), ((0, 0), Verdict.NO_DECISION)],
)  # fmt: skip
def test_verdict_a_g3(agreements: tuple[int, int], expected: Verdict) -> None:
    rids = ("R1", "R2")
    cast = {
        f"s{seat}": {
            rid: line(Vote.AGREE if seat < agree else Vote.DISAGREE)
            for rid, agree in zip(rids, agreements, strict=True)
        }
        for seat in range(10)
    }
    counted = tally(cast, rids, SETTINGS)
    assert verdict(len(counted.having(Result.PASSED)), len(counted.having(Result.CONTESTED))) is expected
