"""REPORT.md against golden files: what was decided, the votes, the concerns, the escalation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from roundtable_local.steps import Answer
from tests.halls import Hall
from tests.panel.tables import ACCEPTED, SPLIT, hall, table

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "panel"
CAVEATS = ("A caveat that every report carries.",)


def held(case: str) -> Hall:
    """The debates of the golden files."""
    seated = table(caveats=CAVEATS)
    if case == "unanimous":
        return hall(ACCEPTED, seated=seated)
    if case == "skeptic-dissents":
        return hall(("accept", "revise", "accept"), seated=seated)
    if case == "revised":
        return hall(("accept", "reject", "reject"), (None, "accept", "accept"), seated=seated)
    if case == "directed":
        return hall(
            SPLIT,
            ("accept", "revise", None),
            answers={"escalation": Answer("a", "Ada | Bo", "why *not*?")},
            seated=seated,
        )
    if case == "waiting":
        return hall(SPLIT, SPLIT, seated=seated)
    return hall(("accept", None, "revise"), seated=table(caveats=CAVEATS, escalation="return"))


CASES = ["unanimous", "skeptic-dissents", "revised", "directed", "waiting", "returned"]


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    """Set UPDATE_GOLDEN=1 to write the files anew, then read the diff."""
    report, path = held(case).files["REPORT.md"], GOLDEN / f"{case}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(report, "utf-8")
    assert report == path.read_text("utf-8")


@pytest.mark.parametrize("case", CASES)
def test_every_section_holds_something_and_caveats_stand_before_the_first(case: str) -> None:
    report = held(case).files["REPORT.md"]
    assert report.index(CAVEATS[0]) < report.index("## Decision")
    parts = report.split("\n## ")[1:]
    assert [part.splitlines()[0] for part in parts if part.splitlines()[0] not in {"Revision", "Escalation"}] == [
        "Decision", "Votes", "Concerns", "Log",
    ]  # fmt: skip
    assert all(part.split("\n", 1)[1].strip() for part in parts)


def test_the_table_of_votes_shows_verdicts_accepts_and_the_panel_s_label_m_g4() -> None:
    report = held("revised").files["REPORT.md"]
    assert "| 1 | accept | reject | reject | 1/3 | reject | revision |" in report
    assert "| 2 | invalid | accept | accept | 2/3 | accept | goes ahead |" in report
    assert "Accepted as revised (`revised.md`)." in report


@pytest.mark.parametrize("case", CASES)
def test_model_text_makes_no_html(case: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(held(case).files["REPORT.md"])
    children = [child.type for token in tokens for child in (token.children or [])]
    assert not any("html" in kind for kind in [*(token.type for token in tokens), *children])
