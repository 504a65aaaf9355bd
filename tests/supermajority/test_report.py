"""REPORT.md and SYNTHESIS.md against golden files (A-121, A-160 to A-168, A-g15, A-g25)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from roundtable_local.protocols.supermajority.report import EMPTY
from tests.supermajority.tables import Hall, Script, table

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "supermajority"
SECTIONS = ["Executive Summary", "Consensus Recommendations", "Contested Recommendations", "Rejected Recommendations",
            "Dissenting Views", "Risk Assessment", "Research Gaps", "Individual Agent Summaries"]  # fmt: skip
CASES = {
    "mixed": Script({"R1": 8, "R2": 5, "R3": 1}),
    "unanimous": Script({"R1": 10, "R2": 10, "R3": 10}),
    "nine-seats": Script({"R1": 6, "R2": 5, "R3": 3}, {"round2": ["futurist"]}),
    "no-quorum": Script(
        {"R1": 10, "R2": 10, "R3": 10}, {"vote": ["futurist", "pragmatist", "empiricist", "synthesizer"]}
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    """Set UPDATE_GOLDEN=1 to write the files anew, then read the diff."""
    seated = replace(table(), caveats=("A caveat that every report carries.",))
    hall = Hall(seated, CASES[case])
    for name in ("REPORT.md", "round2/SYNTHESIS.md"):
        path = GOLDEN / case / Path(name).name
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(hall.files[name], "utf-8")
        assert hall.files[name] == path.read_text("utf-8")


@pytest.mark.parametrize("case", CASES)
def test_every_section_is_there_and_none_is_blank_a_g25(case: str) -> None:
    report = Hall(table(), CASES[case]).files["REPORT.md"]
    parts = report.split("\n## ")[1:]
    names = [part.splitlines()[0].split(" (")[0] for part in parts]
    assert [name for name in names if name != "Lightning Round"] == SECTIONS
    assert all(part.split("\n", 1)[1].strip() for part in parts)


def test_dissent_on_passed_recommendations_is_verbatim_and_untagged_a_165() -> None:
    report = Hall(table(), Script({"R1": 8, "R2": 5, "R3": 1})).files["REPORT.md"]
    views = report.split("## Dissenting Views")[1].split("\n## ")[0]
    assert "### Domain Investigator on R1" in views
    assert "domain-investigator dissents on R1 because of \\| pipes and \\<b>tags\\</b>" in views
    assert "on R2" not in views
    assert "STRUCTURED DISSENT" not in report


def test_without_dissent_the_section_says_so_in_the_fixed_sentence_a_g25() -> None:
    report = Hall(table(), Script({"R1": 10, "R2": 10, "R3": 10})).files["REPORT.md"]
    assert f"## Dissenting Views\n\n{EMPTY}\n" in report
    assert f"## Contested Recommendations (4-6/10)\n\n{EMPTY}\n" in report


def test_ten_summaries_even_of_lost_seats_a_168() -> None:
    report = Hall(table(), CASES["nine-seats"]).files["REPORT.md"]
    assert report.count("<details>") == report.count("</details>") == 10
    assert "Left the table: in round 2: the reply was empty" in report


def test_research_gaps_say_that_nothing_was_looked_up_a_g17() -> None:
    report = Hall(table(), Script()).files["REPORT.md"]
    assert "no web search" in report.split("## Research Gaps")[1].split("\n## ")[0]
