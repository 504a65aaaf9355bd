"""Whole debates, driven by hand: phases, rejections, the devil's advocate, lost personas, the report (R-001 to R-057)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from roundtable_local.protocols.divergence.debate import PROTOCOL, intake
from roundtable_local.protocols.divergence.files import header
from roundtable_local.protocols.divergence.replies import DevilAnalysis, DevilDiscussion, FinalDissent, Kind
from roundtable_local.protocols.divergence.state import State
from roundtable_local.protocols.divergence.tally import Category
from roundtable_local.schema import grammar
from roundtable_local.seats import Seat
from roundtable_local.steps import Refused
from tests.divergence.tables import DEVIL, OTHERS, THREE, Script, hold, person, settings, table
from tests.halls import Hall
from tests.helpers import draw_debate, rehearsed

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "divergence"
MARKER = "합의 없음 — 사용자 결정 필요"
SECTIONS = ["Executive Summary", "Panel", "Agreements", "Main Disputes", "Minority Opinions",
            "Devil's Advocate: Final Dissent", "Recommended Actions", "Limits"]  # fmt: skip
KOREAN = [
    "요약",
    "패널",
    "공통 합의 사항",
    "주요 쟁점",
    "보존된 소수의견",
    "Devil's Advocate 최종 반대 의견",
    "권장 조치",
    "한계",
]
ALONE = {(slug, "architect.C1"): THREE for slug in ("implementer", "user-advocate")}
"""Everyone rejects the architect's claim, with grounds."""


def section(hall: Hall, heading: str) -> str:
    return hall.files["REPORT.md"].split(f"\n## {heading}\n")[1].split("\n## ")[0]


def outcomes(hall: Hall) -> dict[str, dict[str, object]]:
    return {claim["id"]: claim for claim in json.loads(hall.files["outcomes.json"])["claims"]}


# --- phases


def test_r_010_r_017_r_g4_two_rounds_always_and_everybody_in_one_call() -> None:
    hall = hold()  # everybody agrees at once, and both rounds are held all the same
    assert list(hall.turns) == ["phase0", "round1", "round2", "report"]
    assert all(len(hall.turns[name].asks) == 4 for name in ("phase0", "round1", "round2"))
    assert all(turn.theory for turn in hall.turns.values())


def test_r_010_phase_0_sees_nobody_and_r_013_round_1_sees_all() -> None:
    hall = hold()
    assert all(block.origin != "replies" for block in hall.turns["phase0"].context)
    titles = [block.title for block in hall.turns["round1"].context]
    assert titles == ["PROBLEM", "FACT, load.md", *(f"PHASE 0, {slug}" for slug in hall.turns["phase0"].asks and
                      ["architect", DEVIL, "implementer", "user-advocate"]), "TASK"]  # fmt: skip


def test_contexts_begin_with_one_another() -> None:
    turns = list(hold(Script(added=("architect",))).turns.values())
    for earlier, later in pairwise(turns):
        shared = earlier.context[:-1]
        assert later.context[: len(shared)] == shared


def test_r_011_r_043_r_g7_one_artifact_per_persona_and_phase_with_its_header() -> None:
    hall = hold()
    slugs = ["architect", DEVIL, "implementer", "user-advocate"]
    expected = {f"{phase}/{slug}.md" for phase in ("phase0", "round1", "round2") for slug in slugs}
    assert set(hall.files) == expected | {"outcomes.json", "REPORT.md"}
    for name in (*expected, "REPORT.md"):
        _, front, _ = hall.files[name].split("---\n", 2)
        assert yaml.safe_load(front) == {
            "skill": "roundtable-divergence", "date": "2026-03-01", "query": "Should we split the order system?",
        }  # fmt: skip


@given(st.text(min_size=1, max_size=40).filter(lambda text: re.search(r"\w", text)))
@example('DEL \x7f, C1 \x9f, \ufffe, --- and "quotes": # \\ {x}')
@example("결정 😀 \u2028 \U000e0001")
def test_r_051_whatever_the_query_its_header_is_yaml(topic: str) -> None:
    state = State(table(text=f"---\ntopic: {json.dumps(topic)}\n---\nBody."))
    front = header(state).removeprefix("---\n").removesuffix("\n---")
    assert "\n---" not in front
    assert yaml.safe_load(front)["query"] == state.table.decision.topic


# --- claims, rejections, minorities


def test_r_018_what_all_hold_is_agreed() -> None:
    hall = hold()
    assert outcomes(hall)["architect.C1"]["category"] == "consensus"
    assert "### architect.C1: " in section(hall, "Agreements")
    assert MARKER not in section(hall, "Agreements")


def test_r_016_a_minority_opinion_survives_a_valid_rejection_with_its_grounds() -> None:
    hall = hold(Script(ALONE))
    text = section(hall, "Minority Opinions")
    assert "### architect.C1: architect holds this" in text
    assert f"**{MARKER}**" in text
    assert "Against: Implementer: (evidence) it was measured twice; (cost) it costs a year" in text
    assert "void" not in text
    assert "What keeps them apart: they weigh architect.C1 differently" in text


def test_r_014_r_g2_a_rejection_without_three_distinct_grounds_is_void_and_says_so() -> None:
    same = [{"text": "it is too dear", "kind": "cost"}, {"text": "It is TOO dear!", "kind": "risk"}, THREE[0]]
    hall = hold(Script({("implementer", "architect.C1"): same, ("user-advocate", "architect.C1"): THREE}))
    rejections = {each["by"]: each["void"] for each in outcomes(hall)["architect.C1"]["rejections"]}  # type: ignore[attr-defined]
    assert rejections == {"implementer": True, "user-advocate": False}
    assert any("Implementer's rejection of architect.C1 in round2 is void" in notice for notice in hall.notices)
    text = section(hall, "Minority Opinions")
    assert "Against: Implementer (void: too few distinct grounds, the opinion stays): (cost) it is too dear" in text
    assert "Against: User Advocate: (evidence)" in text


@pytest.mark.parametrize(("grounds", "noted"), [(1, True), (2, True), (3, False)])
def test_r_014_a_void_rejection_of_round_1_is_logged_even_where_it_is_dropped_later(grounds: int, noted: bool) -> None:
    class Relenting(Script):
        def value(self, turn: str, slug: str, keys: object, kind: str) -> dict[str, Any]:
            said = super().value(turn, slug, keys, kind)  # type: ignore[arg-type]
            if turn == "round1" and slug == "implementer":
                said["stances"]["architect.C1"] = {"grounds": THREE[:grounds], "stance": "REJECT"}
            return said

    hall = hold(Relenting())
    told = "Implementer's rejection of architect.C1 in round1 is void: fewer than 3 distinct grounds (R-014)"
    assert hall.notices == ([told] if noted else [])
    assert outcomes(hall)["architect.C1"]["rejections"] == []


def test_r_014_a_void_rejection_is_logged_once_per_round() -> None:
    notices = hold(Script({("implementer", "architect.C1"): THREE[:2]})).notices
    assert [re.findall(r"in (round\d) is void", notice) for notice in notices] == [["round1"], ["round2"]]


def test_r_g2_the_majority_is_no_kind_of_ground() -> None:
    assert {kind.value for kind in Kind} == {
        "evidence", "feasibility", "cost", "risk", "scope", "contradiction", "precedent",
    }  # fmt: skip


def test_r_019_every_open_claim_carries_the_marker_exactly() -> None:
    hall = hold(Script({("implementer", "architect.C1"): "OPEN"}))
    assert outcomes(hall)["architect.C1"]["category"] == "open"
    text = section(hall, "Main Disputes")
    assert text.count(f"**{MARKER}**") == 1
    assert "- Undecided: Implementer: implementer on architect.C1" in text


def test_r_057_a_claim_its_author_gave_up_says_why_where_others_hold_it() -> None:
    hall = hold(Script(withdrawn=("architect.C1",)))
    assert outcomes(hall)["architect.C1"]["category"] == "open"
    assert "- Withdrawn: Architect: architect on its own" in section(hall, "Main Disputes")


def test_r_g3_claims_are_added_in_round_1_only_and_judged_in_round_2() -> None:
    hall = hold(Script(added=("implementer",)))
    assert "new_claims" in hall.turns["round1"].asks[0].narrow
    assert "new_claims" not in hall.turns["round2"].asks[0].narrow
    assert outcomes(hall)["implementer.N1"]["category"] == "consensus"
    asked = next(ask for ask in hall.turns["round2"].asks if ask.seat == "architect")
    assert "implementer.N1" in asked.narrow["stances"].required  # type: ignore[union-attr]


def test_r_g3_a_claim_that_nobody_holds_is_withdrawn() -> None:
    stances = {(slug, "architect.C1"): "OPEN" for slug in ("implementer", "user-advocate")}
    hall = hold(Script(stances, withdrawn=("architect.C1",)))
    assert outcomes(hall)["architect.C1"]["category"] == "withdrawn"
    assert "Withdrawn: architect.C1: architect holds this" in section(hall, "Limits")


# --- the devil's advocate


def test_r_015_r_g5_agreement_cannot_be_expressed() -> None:
    for kind in (DevilAnalysis, DevilDiscussion, FinalDissent):
        assert not {"stances", "reflection"} & set(kind.model_fields)
    turn = hold().turns["round1"]
    ask = next(ask for ask in turn.asks if ask.seat == DEVIL)
    form = grammar(ask.reply, ask.narrow)
    assert "SUPPORT" not in json.dumps(form)
    assert set(form["properties"]["objections"]["required"]) == {f"{slug}.C1" for slug in OTHERS}


def test_r_018_r_g1_the_final_dissent_is_a_track_of_its_own() -> None:
    hall = hold()
    text = section(hall, "Devil's Advocate: Final Dissent")
    assert "It will fail all the same." in text
    assert "Fails if: round2 failure 0 Then: round2 consequence 0" in text
    assert "It will fail all the same." not in section(hall, "Minority Opinions")
    assert all(ask.required is (ask.seat == DEVIL) for ask in hall.turns["round2"].asks)


def test_r_g1_a_unique_claim_of_the_devils_advocate_is_a_minority_opinion() -> None:
    stances = {(slug, f"{DEVIL}.C1"): "OPEN" for slug in OTHERS}
    assert f"### {DEVIL}.C1: " in section(hold(Script(stances)), "Minority Opinions")


def test_r_056_r_g5_without_a_concrete_failure_scenario_it_is_told_once_more() -> None:
    hall = hold(Script(scenarios={"round1": 0}))
    assert list(hall.turns) == ["phase0", "round1", "round1-devil", "round2", "report"]
    again = hall.turns["round1-devil"]
    assert [ask.seat for ask in again.asks] == [DEVIL]
    assert again.context == hall.turns["round1"].context
    assert "round1-devil failure 0" in hall.files[f"round1/{DEVIL}.md"]
    assert not any("names no new concrete" in notice for notice in hall.notices)


def test_r_056_a_second_failure_is_noted_and_the_debate_goes_on() -> None:
    hall = hold(Script(scenarios={"round1": 0, "round1-devil": 0}))
    assert any("names no new concrete failure scenario in round1" in notice for notice in hall.notices)
    assert "named no new concrete failure scenario: round1" in section(hall, "Limits")
    assert hall.ended.verdict == "consensus"


def test_r_056_a_repeated_scenario_is_not_concrete() -> None:
    class Repeating(Script):
        def value(self, turn: str, slug: str, keys: object, kind: str) -> dict[str, object]:
            said = super().value(turn, slug, keys, kind)  # type: ignore[arg-type]
            if "failure_scenarios" in said:
                said["failure_scenarios"] = [{"scenario": "The SAME failure!", "consequence": "it stops"}]
            return said

    assert list(hold(Repeating()).turns) == ["phase0", "round1", "round1-devil", "round2", "round2-devil", "report"]


def test_r_056_one_scenario_told_twice_is_one() -> None:
    class Twice(Script):
        def value(self, turn: str, slug: str, keys: object, kind: str) -> dict[str, Any]:
            said = super().value(turn, slug, keys, kind)  # type: ignore[arg-type]
            if "failure_scenarios" in said:
                said["failure_scenarios"] *= 2
            return said

    turns = list(hold(Twice(), table(failure_scenarios=2)).turns)
    assert [name for name in turns if name.endswith("-devil")] == ["phase0-devil", "round1-devil", "round2-devil"]
    assert not any(name.endswith("-devil") for name in hold(Twice()).turns)


# --- what personas may not be told


def test_r_054_r_g6_no_count_share_or_majority_reaches_a_persona() -> None:
    hall = hold(Script(ALONE, added=("architect",), scenarios={"round1": 0}))
    for name, turn in hall.turns.items():
        said = [block.text for block in turn.context if block.origin in {"replies", "moderator"}]
        told = [block.text for block in turn.context if block.origin == "instructions"]
        told = [re.sub(r"^ROUND \d of 2", "", text) for text in told] + [ask.brief.text for ask in turn.asks]
        for text in (*said, *told):
            assert not re.search(
                r"\d\s*%|\bmajority\b|\b\d+ (?:of|out of|votes?|personas? (?:support|hold))\b", text
            ), (name, text)


def test_r_054_personas_are_told_no_category_and_the_moderator_no_number() -> None:
    hall = hold(Script(ALONE, added=("architect",)))
    for name in ("phase0", "round1", "round2"):
        assert all(block.origin != "moderator" for block in hall.turns[name].context)
    (told,) = (block.text for block in hall.turns["report"].context if block.origin == "moderator")
    names = "|".join(category.value for category in Category)
    assert all(re.fullmatch(rf"[\w-]+\.[CN]\d \((?:{names})\): [^:\d]+", line) for line in told.splitlines())


# --- lost personas


def test_a_lost_persona_leaves_and_what_it_said_last_stands() -> None:
    hall = hold(Script(losing={"round2": ["implementer"]}))
    assert "**Persona lost:** Implementer, in round2" in hall.files["REPORT.md"]
    assert outcomes(hall)["implementer.C1"]["holders"] == ["architect", "implementer", "user-advocate"]
    assert hall.ended.verdict == "consensus"


def test_r_g1_a_rejection_stands_although_its_persona_left() -> None:
    """What a lost persona said last counts against a claim as it counts for its own."""
    hall = hold(Script({("implementer", "architect.C1"): THREE}, losing={"round2": ["implementer"]}))
    assert outcomes(hall)["architect.C1"]["category"] == "open"
    assert "### architect.C1: " in section(hall, "Main Disputes")


def test_r_015_the_devils_advocate_is_no_part_of_a_consensus() -> None:
    claim = outcomes(hold())[f"{DEVIL}.C1"]
    assert claim["category"] == "consensus"
    assert claim["holders"] == ["architect", "implementer", "user-advocate"]


@pytest.mark.parametrize("turn", ["phase0", "round1", "round2"])
def test_below_three_personas_it_stops(turn: str) -> None:
    hall = hold(Script(losing={turn: ["implementer", "architect"]}))
    assert hall.ended.verdict == "stopped"
    assert hall.ended.needs_human
    assert (
        "> **Stopped before the last round was complete:** personas left: 2, needed: 3 (R-031)"
        in (hall.files["REPORT.md"])
    )
    assert list(hall.turns)[-1] == turn


@pytest.mark.parametrize("turn", ["phase0", "round1", "round2"])
def test_r_031_r_g3_a_debate_that_stopped_agreed_on_nothing(turn: str) -> None:
    hall = hold(Script(losing={turn: ["implementer", "architect"]}))
    assert section(hall, "Agreements").strip() == "None."
    categories = {claim["category"] for claim in outcomes(hall).values()}
    assert categories and "consensus" not in categories
    assert hall.files["REPORT.md"].count(f"**{MARKER}**") == len(outcomes(hall))
    assert hall.ended.data["consensus"] == 0


# --- settings and seats


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_r_031_r_g4_max_rounds_is_a_hard_cap(rounds: int) -> None:
    with pytest.raises(ValidationError, match="hard cap"):
        settings(max_rounds=rounds)


@pytest.mark.parametrize(
    "change",
    [
        {"devil_advocate": "optional"}, {"minority_protection": "none"}, {"most_personas": 6}, {"least_personas": 2},
        {"grounds": 2}, {"grounds": 0}, {"marker": "no consensus"}, {"failure_scenarios": 0},
        {"least_personas": 5, "most_personas": 4},
    ],
)  # fmt: skip
def test_r_031_what_protects_cannot_be_switched_off(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        settings(**change)


def seated(count: int, devils: int) -> tuple[Seat, ...]:
    return tuple(person(f"p{number}", devil=number < devils) for number in range(count))


@pytest.mark.parametrize(("count", "devils", "says"), [
    (2, 1, "not 2"), (6, 1, "not 6"), (4, 0, "exactly one .* not 0"), (4, 2, "exactly one .* not 2"),
])  # fmt: skip
def test_r_031_r_g4_three_to_five_personas_and_one_devils_advocate(count: int, devils: int, says: str) -> None:
    with pytest.raises(Refused, match=says):
        intake(table(seated(count, devils)), len)


@pytest.mark.parametrize("count", [3, 5])
def test_r_031_three_and_five_are_seated(count: int) -> None:
    given = table(seated(count, 1))
    assert intake(given, len) == (given, ())
    assert hold(Script(), given).ended.verdict == "consensus"


# --- the report


@pytest.mark.parametrize(("language", "headings"), [("English", SECTIONS), ("Korean", KOREAN), ("French", SECTIONS)])
def test_r_057_sections_and_the_minority_section_even_when_empty(language: str, headings: list[str]) -> None:
    hall = hold(seated=table(language=language))
    assert re.findall(r"^## (.+)$", hall.files["REPORT.md"], re.MULTILINE) == headings
    assert section(hall, headings[4]).strip() == ("없음." if language == "Korean" else "None.")


def test_r_g6_a_korean_report_has_no_english_words_of_ours() -> None:
    seats = (person("p0", devil=True), person("p1"), person("p2"), person("p3"))
    said = Script(losing={"round1": ["p3"], "round2": ["p2"]})
    hall = hold(said, replace(table(seats, language="Korean"), caveats=("CAVEAT",)))
    report = hall.files["REPORT.md"]
    assert "> **주의:** CAVEAT" in report
    assert "> **이탈한 페르소나:** P3, in round1: " in report
    assert "남은 페르소나: 2, 필요: 3" in report
    assert "- P0 (Devil's Advocate): 페르소나 파일: p0.md" in report
    english = settings().headings["English"].model_dump()
    ours = {word for key, word in english.items() if word not in settings().headings["Korean"].model_dump().values()}
    assert not {word for word in ours if re.search(rf"(?m)^(?:#+ |> \*\*|- ){re.escape(word)}", report)}


def test_the_language_stands_in_every_task() -> None:
    hall = hold(seated=table(language="Korean"))
    assert all("Write in Korean." in turn.context[-1].text for turn in hall.turns.values())


@pytest.mark.parametrize("language", ["English", "Korean"])
def test_golden(language: str) -> None:
    """Set UPDATE_GOLDEN=1 to write the files anew, then read the diff."""
    script = Script(
        {**ALONE, ("implementer", "user-advocate.C1"): THREE[:1], ("architect", f"{DEVIL}.C1"): "OPEN"},
        added=("implementer",), withdrawn=("implementer.N1",), scenarios={"round2": 0, "round2-devil": 0},
    )  # fmt: skip
    hall = hold(script, replace(table(language=language), caveats=("A caveat that every report carries.",)))
    for name in ("REPORT.md", "outcomes.json", f"round2/{DEVIL}.md", "round1/implementer.md"):
        path = GOLDEN / language / name.replace("/", "-")
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(hall.files[name], "utf-8")
        assert hall.files[name] == path.read_text("utf-8")


# --- the engine's side


def test_the_rehearsal_visits_every_turn() -> None:
    turns = ["phase0", "phase0-devil", "round1", "round1-devil", "round2", "round2-devil", "report"]
    assert [row.turn for row in rehearsed(PROTOCOL, table()).rows] == turns


@pytest.mark.parametrize("seed", range(6))
def test_a_debate_of_drawn_replies_ends(seed: int) -> None:
    hall = draw_debate(PROTOCOL, table(), seed)
    assert hall.ended.verdict in {"consensus", "partial", "divergent"}
    report = hall.files["REPORT.md"]
    unsettled = [claim for claim in outcomes(hall).values() if claim["category"] in {"open", "minority"}]
    assert report.count(f"**{MARKER}**") == len(unsettled)
    assert all(
        f"### {claim['id']}: " in report for claim in outcomes(hall).values() if claim["category"] != "withdrawn"
    )
