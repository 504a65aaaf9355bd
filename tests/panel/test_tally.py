"""Verdicts to results and log lines: M-030 to M-036, M-050, M-051, M-g1, M-g2, M-g4, M-g6, M-g7."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from roundtable_local.protocols.panel.log import (
    concern_lines,
    concerns_heading,
    decisions_heading,
    load_bearing,
    log_file,
    must_log_concerns,
    user_line,
    vote_line,
)
from roundtable_local.protocols.panel.replies import Concern, Severity, Verdict
from roundtable_local.protocols.panel.settings import Quorum
from roundtable_local.protocols.panel.tally import SEATS, Follows, Result, count
from roundtable_local.steps import Entry
from tests.panel.tables import CONCERNS, DATE, Triple

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "panel" / "lines.txt"
A, R, X = "accept", "revise", "reject"
VALUES = (A, R, X, None)
QUORUMS: tuple[Quorum, ...] = ("2/3", "3/3")
EVERY = [(triple, quorum, last) for triple in product(VALUES, repeat=3) for quorum in QUORUMS for last in (False, True)]
LISTED = [Concern.model_validate(each) for each in CONCERNS]


def counted(triple: Triple, quorum: Quorum, last: bool) -> Result:
    verdicts = {seat: Verdict(value) if value else None for seat, value in zip(SEATS, triple, strict=True)}
    return count(verdicts, quorum, last=last)


def line(triple: Triple, quorum: Quorum, last: bool, concerns: list[Concern] = LISTED) -> str:
    return vote_line(counted(triple, quorum, last), "approach selection", "option B", concerns, "a reason.")


# --- every combination of three verdicts or none, quorum, first or last vote


@pytest.mark.parametrize(("triple", "quorum", "last"), EVERY)
def test_every_combination_m_030_to_m_036(triple: Triple, quorum: Quorum, last: bool) -> None:
    """The rules read anew, in other words than the code's."""
    result, accepts = counted(triple, quorum, last), triple.count(A)
    assert result.accepts == accepts
    if accepts == 3 or (accepts == 2 and quorum == "2/3"):
        assert (result.follows, result.verdict) == (Follows.PROCEED, Verdict.ACCEPT), "M-030 to M-032"
    else:
        first = Follows.ESCALATE if triple[1] is None else Follows.REVISE
        assert result.follows is (Follows.ESCALATE if last else first), "M-033 to M-036, M-g1, M-g6"
        assert result.verdict is (Verdict.REJECT if triple.count(X) >= 2 else Verdict.REVISE), "M-g4"
    assert result.dissenters == tuple(seat for seat, verdict in zip(SEATS, triple, strict=True) if verdict in (R, X))
    assert result.invalid == tuple(seat for seat, verdict in zip(SEATS, triple, strict=True) if verdict is None)


def test_the_line_of_every_combination_m_051() -> None:
    """Set UPDATE_GOLDEN=1 to write the file anew, then read the diff."""
    rows = [
        f"{' '.join(str(each or 'invalid') for each in triple)}, {quorum}, {'last' if last else 'first'} vote:\n"
        f"{line(triple, quorum, last)}\n"
        for triple, quorum, last in EVERY
    ]
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text("\n".join(rows), "utf-8")
    assert len(rows) == 256
    assert "\n".join(rows) == GOLDEN.read_text("utf-8")


TITLES = "no way back; race risk in step 4"


@pytest.mark.parametrize(
    ("triple", "quorum", "last", "expected"),
    [
        ((A, A, A), "2/3", False, "- [3/3 accept] approach selection: option B"),  # M-031
        ((A, A, A), "3/3", True, "- [3/3 accept] approach selection: option B"),  # M-031
        ((A, R, A), "2/3", False, f"- [2/3 accept, skeptic dissented] approach selection: option B (concerns logged: {TITLES})"),
        ((A, X, A), "2/3", True, f"- [2/3 accept, skeptic dissented] approach selection: option B (concerns logged: {TITLES})"),
        ((R, A, A), "2/3", False, "- [2/3 accept, proponent dissented] approach selection: option B"),  # M-g2
        ((A, A, X), "2/3", False, "- [2/3 accept, arbiter dissented] approach selection: option B"),  # M-g2
        ((A, None, A), "2/3", False, "- [2/3 accept, skeptic invalid] approach selection: option B"),  # M-g6
        ((A, R, A), "3/3", False, "- [2/3 accept, revising] approach selection: option B"),  # M-033
        ((A, R, R), "2/3", False, "- [1/3 accept, revising] approach selection: option B"),  # M-g7
        ((X, R, R), "2/3", False, "- [0/3 accept, revising] approach selection: option B"),
        ((None, R, A), "2/3", False, "- [1/3 accept, proponent invalid, revising] approach selection: option B"),  # M-g6
        ((A, R, R), "2/3", True, f"- [escalated to user] approach selection: panel split 1/3 on {TITLES}"),  # M-036
        ((A, R, A), "3/3", True, f"- [escalated to user] approach selection: panel split 2/3 on {TITLES}"),  # M-g1
        ((X, X, X), "3/3", True, f"- [escalated to user] approach selection: panel split 0/3 on {TITLES}"),
        ((A, R, None), "2/3", True, f"- [escalated to user] approach selection: panel split 1/3 (arbiter invalid) on {TITLES}"),
    ],
)  # fmt: skip
def test_lines_of_the_rules_m_051_m_g2_m_g7(triple: Triple, quorum: Quorum, last: bool, expected: str) -> None:
    assert line(triple, quorum, last) == expected


def test_a_lost_skeptic_on_a_failed_first_vote_escalates_m_g6() -> None:
    said = "- [escalated to user] approach selection: panel split 1/3 (skeptic invalid) on a reason."
    assert line((A, None, R), "2/3", False, []) == said


@pytest.mark.parametrize(("triple", "quorum", "last"), EVERY)
def test_concerns_are_logged_where_a_decision_goes_ahead_against_the_skeptic_alone_m_032(
    triple: Triple, quorum: Quorum, last: bool
) -> None:
    expected = triple[0] == triple[2] == A and triple[1] in {R, X} and quorum == "2/3"
    assert must_log_concerns(counted(triple, quorum, last)) is expected


def test_high_and_medium_concerns_high_ones_first_m_032() -> None:
    assert concern_lines("approach selection", LISTED) == [
        "- [high] approach selection: Nothing tells how to go \\*back\\*.",
        "- [medium] approach selection: Two writers race for one file.",
    ]


def test_a_dissent_without_weighty_concerns_says_none_m_032() -> None:
    assert line((A, R, A), "2/3", False, LISTED[:1]).endswith("(concerns logged: none)")
    assert concern_lines("approach selection", LISTED[:1]) == []


def test_headings_and_user_line_m_050_m_054() -> None:
    assert decisions_heading(DATE) == "## Panel decisions 2026-05-21"
    assert concerns_heading(DATE) == "## Panel concerns 2026-05-21"
    assert user_line("approach selection", "Wrap it") == "- [user-directed] approach selection: Wrap it"


def test_log_file_has_each_heading_once_m_050() -> None:
    entries = [Entry("a", "## D", "- 1"), Entry("b", "## C", "- x\n- y"), Entry("c", "## D", "- 2")]
    assert log_file(entries) == "## D\n- 1\n- 2\n\n## C\n- x\n- y\n"


# --- properties

texts = st.text(st.sampled_from("a#*_[]|<>`~\\ \n\r\t-1.\u2028\x00한") | st.characters(codec="utf-8"), max_size=40)
concerns = st.lists(
    st.builds(
        Concern.model_construct, part=texts, concern=texts, severity=st.sampled_from(Severity), title=texts
    ),
    max_size=4,
)  # fmt: skip
results = st.sampled_from([counted(*each) for each in EVERY])


@given(results, texts, texts, concerns, texts)
def test_a_vote_is_one_list_item_whatever_is_said_m_050(
    result: Result, decision: str, outcome: str, listed: list[Concern], reason: str
) -> None:
    said = vote_line(result, decision, outcome, listed, reason)
    assert said.startswith("- [")
    assert len(said.splitlines()) == 1
    kinds = [token.type for token in MarkdownIt("commonmark").parse(said)]
    assert kinds == ["bullet_list_open", "list_item_open", "paragraph_open", "inline", "paragraph_close",
                     "list_item_close", "bullet_list_close"]  # fmt: skip


@given(concerns, texts)
def test_every_weighty_concern_is_one_line_m_032(listed: list[Concern], decision: str) -> None:
    weighty = [each for each in listed if each.severity is not Severity.LOW]
    assert sorted(map(id, load_bearing(listed))) == sorted(map(id, weighty))
    lines = concern_lines(decision, listed)
    assert len("\n".join(lines).splitlines()) == len(weighty)
    levels = [each.split("]")[0] for each in lines]
    assert levels == sorted(levels), "high before medium"


@given(st.tuples(*[st.sampled_from(VALUES)] * 3), st.booleans())
def test_who_passes_at_unanimity_passes_at_two_thirds_m_031(triple: Triple, last: bool) -> None:
    if counted(triple, "3/3", last).follows is Follows.PROCEED:
        assert counted(triple, "2/3", last).follows is Follows.PROCEED
