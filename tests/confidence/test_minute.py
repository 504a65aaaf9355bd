"""The minute and its state against golden files, and what no text of a seat can do to them (O-026, O-080, O-083)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local.protocols.confidence.minute import decision_line, minute
from roundtable_local.protocols.confidence.sitting import Sitting
from roundtable_local.protocols.confidence.tally import Ballot, Vote
from roundtable_local.seats import Fact, Place
from roundtable_local.steps import Answer
from tests.confidence.tables import NAMES, OPTIONS, Script, sit, table

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "confidence"
SPLIT = {"brand": ("adopt-as-is", 9, ""), "editor": ("adopt-as-is", 9, "it is a question of honesty")}
CASES = {
    "decided": (Script(), {}),
    "early-stop": (Script(dict.fromkeys(NAMES, ("adopt-modified", 9))), {}),
    "deadlock": (Script(finals=SPLIT), {"deadlock": Answer("reject", "Ada", "it costs least")}),
    "waiting": (Script(finals=SPLIT), {}),
    "empty-seat": (Script(losing={"round2": ["brand"]}), {}),
    "no-quorum": (Script(losing={"round3": ["brand", "editor", "finance"]}), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    """Set UPDATE_GOLDEN=1 to write the files anew, then read the diff."""
    script, answers = CASES[case]
    facts = (Fact(kind="context", title="costs.md", text="12 a year"),)
    seated = replace(table(facts=facts), caveats=("A caveat that every minute carries.",), place=Place("/home", "x"))
    hall = sit(script, seated, answers)
    for name, text in hall.files.items():
        path = GOLDEN / case / f"{name.split('/')[0]}{Path(name).suffix}"
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8")


NASTY = st.text(alphabet=st.sampled_from("#`|*_<>[]!\n\r\u2028 -ab1.~"), min_size=1, max_size=30)


@given(NASTY, NASTY, NASTY)
def test_no_text_of_a_seat_becomes_structure(rationale: str, dissent: str, why: str) -> None:
    """O-080: headings, fences and table rows are the writer's alone."""
    ballots = tuple(Ballot(name, "reject", 7, rationale, dissent) for name in NAMES)
    counted = Vote((), "weighted", {"reject": 35}, ballots, "reject", (f"because {' '.join(why.split())}",))
    sitting = Sitting(table(), OPTIONS, vote=counted, answer=Answer("reject", why, why))
    plain = Sitting(table(), OPTIONS, vote=Vote((), "weighted", {"reject": 35}, tuple(Ballot(name, "reject", 7, "x", "x") for name in NAMES), "reject", ("x",)), answer=Answer("reject", "x", "x"))  # fmt: skip
    fence = [line for line in minute(sitting).splitlines() if line.startswith("```")]
    assert len(fence) == 2
    assert fence[0] == fence[1] + "text"
    marks = ("#", "|")
    assert [line[:3] for line in outside(minute(sitting)) if line.startswith(marks)] == [
        line[:3] for line in outside(minute(plain)) if line.startswith(marks)
    ]
    assert decision_line(sitting).count("\n") == 1


def outside(text: str) -> list[str]:
    """The lines outside of the fenced block."""
    lines, fenced, kept = text.splitlines(), False, []
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            kept.append(line)
    return kept
