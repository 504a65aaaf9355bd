"""The supermajority debate as steps: A-020 to A-026, A-090 to A-168, A-g4 to A-g7, A-g20 to A-g22."""

from __future__ import annotations

import pytest

from roundtable_local.protocols.supermajority.debate import debate
from roundtable_local.steps import Block, Publish, Turn
from tests.supermajority.tables import DECISION, Hall, Script, table

SLUGS = ["systems-analyst", "devils-advocate", "empiricist", "first-principles-thinker", "pragmatist", "risk-analyst",
         "innovation-scout", "futurist", "domain-investigator", "synthesizer"]  # fmt: skip


@pytest.fixture(name="hall")
def _hall() -> Hall:
    return Hall(table(), Script())


def test_the_ten_roles_in_order_a_026_a_030(hall: Hall) -> None:
    assert [ask.seat for ask in hall.turns["round1"].asks] == SLUGS


def test_files_and_folders_a_020_to_a_025(hall: Hall) -> None:
    assert set(hall.folders) == {"round1", "round2", "round3", "votes"}
    expected = {f"{folder}/{slug}.md" for folder in ("round1", "round2", "votes") for slug in SLUGS}
    assert set(hall.files) == expected | {"PROBLEM.md", "round2/SYNTHESIS.md", "REPORT.md"}


def test_folders_and_problem_come_before_any_turn_a_025() -> None:
    first = next(debate(table()))
    assert isinstance(first, Publish)
    assert first.folders == ("round1", "round2", "round3", "votes")
    assert list(first.files) == ["PROBLEM.md"]


def test_problem_file_a_192() -> None:
    hall = Hall(table("---\ntopic: Split *it*?\n---\nBody | text."), Script())
    assert hall.files["PROBLEM.md"] == (
        "# Roundtable Problem Statement\n\n**Topic:** Split \\*it\\*?\n**Date:** 2026-03-01\n"
        "**Initiated by:** User via roundtable-local run\n\n## Problem Specification\n\nBody | text.\n"
    )


def test_round_one_file_a_095(hall: Hall) -> None:
    assert headings(hall.files["round1/empiricist.md"]) == [
        "## Empiricist -- Round 1",
        "### Key Findings",
        "### Recommendations",
        "### Concerns",
        "### Strongest Disagreement",
    ]
    assert numbered(hall.files["round1/empiricist.md"]) == ["1.", "2.", "3.", "1.", "2.", "3.", "4.", "5."]


def test_round_two_file_a_104(hall: Hall) -> None:
    text = hall.files["round2/systems-analyst.md"]
    assert headings(text) == [
        "## Systems Analyst -- Round 2",
        "### Challenges Issued",
        "### Responses to Challenges",
        "### Changed Since Round 1",
        "### Updated Recommendations",
    ]
    assert "- To Devil's Advocate: systems-analyst challenges devils-advocate" in text
    assert "- From Devil's Advocate: systems-analyst answers devils-advocate" in text


def test_strongest_disagreement_is_routed_to_its_target_a_g21(hall: Hall) -> None:
    asks = {ask.id: ask for ask in hall.turns["round2"].asks}
    assert (
        "From Empiricist (empiricist): empiricist thinks systems-analyst is wrong" in asks["systems-analyst"].brief.text
    )
    assert "CHALLENGES TO YOU" not in asks["futurist"].brief.text
    assert "No challenge was addressed to this seat." in hall.files["round2/futurist.md"]


def test_synthesis_headings_and_counts_a_121_a_g22(hall: Hall) -> None:
    text = hall.files["round2/SYNTHESIS.md"]
    assert headings(text) == [
        "# Round 2 Synthesis",
        "## Numbered Recommendations for Vote",
        "### R1: Title 1",
        "### R2: Title 2",
        "### R3: Title 3",
        "## Key Disagreements Remaining",
        "## Points Merged Into No Recommendation",
    ]
    # R1 holds systems-analyst P1-P3 and devils-advocate P1, and a challenge by systems-analyst: mixed, in neither count
    assert "- Supported by (1): Devil's Advocate\n- Opposed by (0): none\n" in text
    assert "- Both supported and challenged by (1): Systems Analyst" in text


def test_points_taken_leave_the_choice_a_g22(hall: Hall) -> None:
    first, second = (hall.turns[name].asks[0].narrow["points.*"].allowed for name in ("synthesis-R1", "synthesis-R2"))  # type: ignore[union-attr]
    assert len(first) == 30
    assert list(second) == list(first)[4:]


def test_three_recommendations_at_least_seven_at_most_a_g22() -> None:
    hall = Hall(table(), Script({f"R{n}": 10 for n in range(1, 8)}))
    another = [
        turn.asks[0].narrow["another"].allowed for name, turn in hall.turns.items() if name.startswith("synthesis-R")
    ]  # type: ignore[union-attr]
    assert another == [("YES",), ("YES",), *[("YES", "NO")] * 4, ("NO",)]


def test_ballots_cover_every_recommendation_and_dissent_is_no_choice_a_141_a_142(hall: Hall) -> None:
    for ask in hall.turns["vote"].asks:
        assert ask.narrow["votes"].required == ("R1", "R2", "R3")  # type: ignore[union-attr]
        assert ask.narrow["votes.*.vote"].allowed == ("AGREE", "DISAGREE", "ABSTAIN")  # type: ignore[union-attr]


def test_vote_file_a_144(hall: Hall) -> None:
    text = hall.files["votes/synthesizer.md"]
    assert headings(text) == ["## Synthesizer -- Final Votes", "### Dissenting View"]
    assert "| R1: Title 1 | AGREE | MEDIUM | synthesizer on R1 |" in text
    assert "**R2:** synthesizer dissents on R2 because of \\| pipes and \\<b>tags\\</b>" in text
    assert (
        "### Dissenting View" not in Hall(table(), Script({"R1": 10, "R2": 10, "R3": 10})).files["votes/synthesizer.md"]
    )


def test_contexts_a_g20_a_g25(hall: Hall) -> None:
    problem = Block("PROBLEM SPECIFICATION", DECISION, "decision")
    for turn in hall.turns.values():
        assert turn.context[0] == problem
        assert turn.context[-1].origin == "instructions"
    assert hall.turns["round1"].context[1:-1] == ()
    assert len(hall.turns["round2"].context) == 1 + 10 + 1
    assert len(hall.turns["synthesis-R1"].context) == 1 + 20 + 1
    assert [block.title for block in hall.turns["vote"].context] == ["PROBLEM SPECIFICATION", "RECOMMENDATIONS", "TASK"]
    assert [block.title for block in hall.turns["report"].context[2:-1]] == [
        "BALLOTS", "ROUND 1, risk-analyst", "ROUND 2, risk-analyst", "ROUND 1, devils-advocate", "ROUND 2, devils-advocate",
    ]  # fmt: skip


def test_nothing_of_one_seat_or_of_the_clock_stands_in_a_context_a_g20(hall: Hall) -> None:
    for turn in hall.turns.values():
        text = "".join(block.render() for block in turn.context)
        assert "2026-03-01" not in text
        assert "YOUR SEAT" not in text


def test_every_theory_prompt_forbids_project_code_a_092_a_093_a_101(hall: Hall) -> None:
    for name in ("round1", "round2"):
        assert "FORBIDDEN to read or refer to project source code" in hall.turns[name].context[-1].text
        assert hall.turns[name].theory


def test_theory_turns_refuse_codebase_text_a_005_a_g19(hall: Hall) -> None:
    turn = hall.turns["round1"]
    with pytest.raises(ValueError, match="A-005"):
        Turn("round1", (*turn.context, Block("CODE", "x", "codebase")), turn.asks, theory=True)


def test_a_lost_seat_leaves_for_good_and_thresholds_follow_a_g4_a_g6_a_213() -> None:
    hall = Hall(table(), Script({"R1": 6, "R2": 5, "R3": 3}, {"round1": ["empiricist"]}))
    for name in ("round2", "vote"):
        assert "empiricist" not in [ask.id for ask in hall.turns[name].asks]
    report = hall.files["REPORT.md"]
    assert "**Agents:** 9/10" in report
    assert "## Consensus Recommendations (Supermajority: 6/9+)" in report
    assert "## Contested Recommendations (4-5/9)" in report
    assert "**Votes:** 6/9 AGREE" in report
    assert "Empiricist, in round 1: the reply was empty" in report
    assert any("Empiricist leaves the table in round 1; 9 seats go on" in notice for notice in hall.notices)
    assert "votes/empiricist.md" not in hall.files


def test_a_seat_lost_in_the_vote_has_no_ballot_and_is_no_abstention_a_g6() -> None:
    hall = Hall(table(), Script({"R1": 10, "R2": 0, "R3": 0}, {"vote": ["futurist", "pragmatist"]}))
    report = hall.files["REPORT.md"]
    assert "**Votes:** 8/8 AGREE" in report
    assert "Supermajority: 6/8+" in report
    assert not hall.outcome.needs_human


def test_below_seven_seats_the_debate_stops_without_a_decision_a_g7() -> None:
    hall = Hall(table(), Script(losing={"round1": SLUGS[:2], "round2": SLUGS[2:4]}))
    assert list(hall.turns) == ["round1", "round2"]
    assert hall.outcome.needs_human
    assert hall.outcome.verdict == "no-decision"
    assert "**Recommendations passed:** 0/0" in hall.files["REPORT.md"]
    assert "A human must decide" in hall.files["REPORT.md"]


def test_below_seven_ballots_nothing_is_decided_a_g7() -> None:
    hall = Hall(table(), Script({"R1": 10, "R2": 10, "R3": 10}, {"vote": SLUGS[:4]}))
    assert "report" not in hall.turns
    assert hall.outcome.needs_human
    assert "**Recommendations passed:** 0/3" in hall.files["REPORT.md"]


def test_a_floor_set_lower_lets_them_decide_a_g7() -> None:
    hall = Hall(table(ballot_floor=3), Script({"R1": 10, "R2": 10, "R3": 10}, {"vote": SLUGS[:4]}))
    assert not hall.outcome.needs_human
    assert "Supermajority: 4/6+" in hall.files["REPORT.md"]


def test_more_words_than_asked_for_are_kept_and_recorded_a_g16() -> None:
    hall = Hall(table(words=20), Script())
    assert sum("more than the 20 asked for (A-g16)" in notice for notice in hall.notices) == 20
    assert "empiricist recommendation 5" in hall.files["round1/empiricist.md"]


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def numbered(text: str) -> list[str]:
    return [line.split(" ")[0] for line in text.splitlines() if line[:1].isdigit()]
