"""The vote: vectors of O9, edges and properties (O-060 to O-074)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local.protocols.confidence.statefile import BadState
from roundtable_local.protocols.confidence.tally import Vote, percent, vote
from tests.confidence.tables import RULES, settings

Cast = tuple[str, int, str]
"""Option, confidence, dissent note."""


def state(votes: list[Cast], options: str = "abc", **more: Any) -> dict[str, Any]:
    agents = [
        {
            "name": f"seat{number}",
            "final": {"vote": option, "confidence": confidence, "rationale": f"because {number}"},
            "dissent_note": note or None,
        }
        for number, (option, confidence, note) in enumerate(votes, 1)
    ]
    return {"options": list(options), "agents": agents, **more}


def cast(text: str) -> list[Cast]:
    """`a6 b8!note` as votes; _ stands for a blank."""
    votes = []
    for word in text.split():
        ballot, _, note = word.partition("!")
        votes.append((ballot[0], int(ballot[1:]), note.replace("_", " ")))
    return votes


def count(text: str, aggregator: str, **more: Any) -> Vote:
    return vote(state(cast(text), aggregator=aggregator, **more), RULES)


WEIGHTED, MAJORITY, UNANIMITY = "weighted", "majority", "unanimity-or-escalate"
VECTORS = [  # votes, aggregator, winner, "sum/most (percent", decided
    ("b8 b6 b9 b8 b6", WEIGHTED, "b", "37/50 (74%)", True),
    ("b8 b6 b9 b8 b6", MAJORITY, "b", "37/50 (74%)", True),
    ("b8 b6 b9 b8 b6", UNANIMITY, "b", "37/50 (74%)", False),
    ("a4 a4 b9", WEIGHTED, "b", "9/30 (30%)", False),
    ("a4 a4 b9", MAJORITY, "a", "8/30 (27%)", False),
    ("a4 a4 b9", UNANIMITY, "b", "9/30 (30%)", False),
    ("a6 a6 b8", WEIGHTED, "a", "12/30 (40%)", True),
    ("a6 a6 b8", MAJORITY, "a", "12/30 (40%)", True),
    ("a6 a6 b8", UNANIMITY, "a", "12/30 (40%)", False),
    ("a9 a3 b6 b6", WEIGHTED, "a", "12/40 (30%)", False),
    ("a9 a3 b6 b6", MAJORITY, "a", "12/40 (30%)", False),
    ("a9 a3 b6 b6", UNANIMITY, "a", "12/40 (30%)", False),
    ("a9 a9 b4 b4", WEIGHTED, "a", "18/40 (45%)", True),
    ("a9 a9 b4 b4", MAJORITY, "a", "18/40 (45%)", True),
    ("a9 a9 b4 b4", UNANIMITY, "a", "18/40 (45%)", False),
    ("a6 b6 c6", WEIGHTED, None, None, False),
    ("a6 b6 c6", MAJORITY, None, None, False),
    ("a6 b6 c6", UNANIMITY, None, None, False),
    ("a10 a10 b10", WEIGHTED, "a", "20/30 (67%)", False),
    ("a10 a10 b10", MAJORITY, "a", "20/30 (67%)", False),
    ("a10 a10 b10", UNANIMITY, "a", "20/30 (67%)", False),
    ("a9 a9 b3!it_breaks_SAFETY", WEIGHTED, "a", "18/30 (60%)", False),
    ("a9 a9 b3!it_breaks_SAFETY", MAJORITY, "a", "18/30 (60%)", False),
    ("a9 a9 b3!it_breaks_SAFETY", UNANIMITY, "a", "18/30 (60%)", False),
    ("a7 a8 a9", WEIGHTED, "a", "24/30 (80%)", True),
    ("a7 a8 a9", MAJORITY, "a", "24/30 (80%)", True),
    ("a7 a8 a9", UNANIMITY, "a", "24/30 (80%)", True),
    ("a6 a8 a9", WEIGHTED, "a", "23/30 (77%)", True),
    ("a6 a8 a9", MAJORITY, "a", "23/30 (77%)", True),
    ("a6 a8 a9", UNANIMITY, "a", "23/30 (77%)", False),
]


@pytest.mark.parametrize(("votes", "aggregator", "winner", "confidence", "decided"), VECTORS)
def test_o_060_to_o_072_vectors(
    votes: str, aggregator: str, winner: str | None, confidence: str | None, decided: bool
) -> None:
    counted = count(votes, aggregator)
    assert counted.winner == winner
    assert counted.decided is decided
    lines = counted.block.splitlines()
    assert lines[0] == f"DECISION: {winner if decided else 'ESCALATE'}"
    assert (f"Weighted confidence: {confidence} for {winner}" in lines) is (winner is not None)
    assert (lines[-1] == "The human decides.") is not decided


def test_o_071_the_whole_block_of_an_escalation() -> None:
    assert count("a10 b10!dishonesty c4", WEIGHTED).block.splitlines() == [
        "DECISION: ESCALATE",
        "Aggregator: weighted · a: 10 · b: 10 · c: 4",
        "Weighted confidence: 10/30 (33%) for a",  # O-064: fewer dissent notes
        "Top dissent: seat2 (b, 10) — because 2",
        "Top hedger: seat1 (10) — because 1",  # O-073: also at 10
        "Escalate because:",
        "  a holds 10 of 24 points of confidence, less than 60%",
        "  certainty (10) on opposite sides: a and b",
        '  seat2 dissents for a value: "honesty"',  # O-069: a part of a word is enough
        "The human decides.",
    ]


def test_o_071_without_a_winner_every_vote_is_against() -> None:
    assert count("a6 b6 c6", MAJORITY).block.splitlines() == [
        "DECISION: ESCALATE",
        "Aggregator: majority · a: 6 · b: 6 · c: 6",
        "Top dissent: seat1 (a, 6) — because 1",
        "Escalate because:",
        "  tie between a and b and c survives every tie-break",
        "The human decides.",
    ]


def test_o_065_a_dissent_note_counts_against_the_option_it_votes_for() -> None:
    assert count("a6!no a6 b6 b6", MAJORITY).winner == "b"
    assert count("a6!no a6 b6!no b6", MAJORITY).winner is None


def test_o_073_ties_go_by_roster_order() -> None:
    counted = count("a7 a7 b4 b4", WEIGHTED)
    assert "Top dissent: seat3 (b, 4) — because 3" in counted.block
    assert "Top hedger: seat1 (7) — because 1" in counted.block


@pytest.mark.parametrize(
    ("keywords", "note", "hit"),
    [
        (None, "this is DISHONESTY", "honesty"),
        (None, "consent and safety", "safety"),  # the first keyword, not the first word
        (None, "about money", None),
        ([], "honesty and safety", None),
        (["Money"], "about MONEY", "money"),
        (["money"], "honesty", None),
    ],
)
def test_o_066_o_069_values(keywords: list[str] | None, note: str, hit: str | None) -> None:
    more = {} if keywords is None else {"values_keywords": keywords}
    votes = [("a", 9, note), ("a", 9, ""), ("a", 9, "")]  # whichever side
    reasons = vote(state(votes, **more), RULES).reasons
    assert reasons == (() if hit is None else (f'seat1 dissents for a value: "{hit}"',))


def test_o_061_all_problems_are_listed() -> None:
    given = state([("a", 8, ""), ("x", 5, ""), ("b", 11, ""), ("b", 7, "")])
    given["agents"][3].pop("final")
    given["agents"].append({"name": "late", "final": {"vote": None, "confidence": "8"}})
    assert vote(given, RULES).block.splitlines() == [
        "RE-PROMPT",
        '  seat2: vote "x" is not one of: a, b, c',
        "  seat2: confidence 5 is forbidden in the vote",
        "  seat3: confidence 11 is not an integer from 1 to 10",
        "  seat4: no final vote",
        "  late: vote null is not one of: a, b, c",
        '  late: confidence "8" is not an integer from 1 to 10',
    ]


def test_o_057_two_seats_are_no_quorum() -> None:
    with pytest.raises(BadState, match="2 seats are no quorum"):
        vote(state(cast("a8 a8")), RULES)


def test_the_thresholds_stand_in_the_settings() -> None:
    assert vote(state(cast("a6 a6 b8")), settings(share="2/3")).reasons == (
        "a holds 12 of 20 points of confidence, less than 67%",
    )
    assert not vote(state(cast("a5 a8 a9")), settings(forbidden=4)).problems


Ballots = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([1, 2, 3, 4, 6, 7, 8, 9, 10]), st.sampled_from(["", "no", "safety"])),
    min_size=3,
    max_size=8,
)  # fmt: skip
Aggregators = st.sampled_from([WEIGHTED, MAJORITY, UNANIMITY])


@given(Ballots, Aggregators)
def test_o_067_sixty_percent_in_integers(votes: list[Cast], aggregator: str) -> None:
    counted = vote(state(votes, "abcd", aggregator=aggregator), RULES)
    total = sum(confidence for _, confidence, _ in votes)
    won = sum(confidence for option, confidence, _ in votes if option == counted.winner)
    split = any("points of confidence" in reason for reason in counted.reasons)
    assert split == (counted.winner is not None and 5 * won < 3 * total)


@given(Ballots, Aggregators)
def test_o_070_reasons_are_cumulative_and_any_one_escalates(votes: list[Cast], aggregator: str) -> None:
    counted = vote(state(votes, "abcd", aggregator=aggregator), RULES)
    tens = {option for option, confidence, _ in votes if confidence == 10}
    united = len({option for option, _, _ in votes}) == 1 and min(confidence for _, confidence, _ in votes) >= 7
    expected = (
        (counted.winner is None or any("points of confidence" in each for each in counted.reasons))
        + (len(tens) > 1)
        + sum("safety" in note for _, _, note in votes)
        + (aggregator == UNANIMITY and not united)
    )
    assert len(counted.reasons) == expected
    assert counted.decided is (expected == 0)
    assert counted.block.startswith("DECISION: ESCALATE") is (expected > 0)


@given(Ballots, Aggregators, st.randoms())
def test_o_064_the_winner_does_not_depend_on_the_order_of_seats(votes: list[Cast], aggregator: str, dice: Any) -> None:
    shuffled = votes.copy()
    dice.shuffle(shuffled)
    one = vote(state(votes, "abcd", aggregator=aggregator), RULES)
    other = vote(state(shuffled, "abcd", aggregator=aggregator), RULES)
    assert one.winner == other.winner
    assert one.sums == other.sums


@given(Ballots)
def test_o_066_under_weighted_a_tie_always_escalates(votes: list[Cast]) -> None:
    counted = vote(state(votes, "abcd"), RULES)
    top = max((counted.sums or {}).values())
    if list((counted.sums or {}).values()).count(top) > 1:
        assert not counted.decided


@given(st.integers(0, 80), st.integers(1, 8))
def test_o_072_percent_is_rounded_half_up(part: int, seats: int) -> None:
    most = 10 * seats
    rounded = percent(part, most)
    assert 2 * most * rounded - most <= 200 * part < 2 * most * rounded + most


def test_o_072_half_goes_up() -> None:
    assert percent(1, 200) == 1
    assert percent(5, 1000) == 1
    assert percent(25, 1000) == 3
