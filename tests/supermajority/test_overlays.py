"""Personas, dissent, orchestration, anti-groupthink, lightning: A-050 to A-082, A-110 to A-113, A-153, A-170 to A-182."""

from __future__ import annotations

import pytest

from roundtable_local.config import read_yaml
from roundtable_local.protocols.supermajority.replies import DissentingRoundTwo, RoundTwo
from roundtable_local.seats import PersonaFile, Roster, assign_personas, choose_dissenters
from roundtable_local.shipped import shipped
from tests.supermajority.tables import Hall, Script, table
from tests.supermajority.test_debate import SLUGS, headings

SEATS = Roster.model_validate(read_yaml(shipped("configs") / "rosters" / "supermajority.yaml")).seats
PERSONAS = PersonaFile.model_validate(read_yaml(shipped("configs") / "personas.yaml")).personas
TWO = ("empiricist", "futurist")


def brief(hall: Hall, turn: str, slug: str) -> str:
    return next(ask.brief.text for ask in hall.turns[turn].asks if ask.id == slug)


def contexts(hall: Hall, turn: str) -> str:
    return "".join(block.render() for block in hall.turns[turn].context)


def test_at_least_twelve_personas_with_distinct_ids_a_g1() -> None:
    assert len({persona.id for persona in PERSONAS}) == len(PERSONAS) >= 12
    assert all(persona.id == persona.id.lower() and " " not in persona.id for persona in PERSONAS)


def test_unknown_personas_and_roles_warn_and_are_ignored_a_057() -> None:
    wanted = {"empiricist": "data-purist", "futurist": "nobody", "emperor": "data-purist"}
    assigned, warnings = assign_personas(wanted, SEATS, PERSONAS)
    assert list(assigned) == ["empiricist"]
    assert len(warnings) == 2


@pytest.mark.parametrize(
    ("wanted", "kept", "warnings"),
    [
        ([], (), 0),
        (["empiricist", "empiricist"], ("empiricist",), 0),
        (["nobody", "empiricist", "futurist"], ("empiricist", "futurist"), 1),
        (["futurist", "devils-advocate", "empiricist", "futurist"], ("futurist", "devils-advocate"), 1),
        (["nobody", "a", "b", "empiricist", "futurist", "pragmatist"], ("empiricist", "futurist"), 4),
    ],
)
def test_dissenters_unknown_repeats_then_cap_a_074_a_075_a_g13(
    wanted: list[str], kept: tuple[str, ...], warnings: int
) -> None:
    chosen, said = choose_dissenters(wanted, SEATS, 2)
    assert chosen == kept
    assert len(said) == warnings


def test_a_persona_stands_in_every_prompt_of_its_seat_and_nowhere_else_a_058_a_060() -> None:
    plain, voiced = Hall(table(), Script()), Hall(table(personas={"empiricist": "data-purist"}), Script())
    for name, turn in plain.turns.items():
        for ask in turn.asks:
            other = brief(voiced, name, ask.id)
            if ask.id == "empiricist":
                assert "\n\nPERSONA: Data Purist\nYou believe nothing that was not measured." in other
                assert (
                    other.replace(other[other.index("\n\nPERSONA") : other.index("you accept.\n") + 12], "\n")
                    == ask.brief.text
                )
            else:
                assert other == ask.brief.text
        assert contexts(voiced, name) == contexts(plain, name)
    assert "<summary>Empiricist</summary>\n\n**Persona:** Data Purist\n" in voiced.files["REPORT.md"]
    assert voiced.files["REPORT.md"].count("**Persona:**") == 1


def test_persona_before_dissent_a_077() -> None:
    hall = Hall(table(personas={"empiricist": "data-purist"}, dissent=TWO), Script())
    for name in ("round1", "round2", "vote"):
        text = brief(hall, name, "empiricist")
        assert 0 < text.index("PERSONA: ") < text.index("DISSENT OVERLAY (C8 structured dissent):")


def test_dissent_changes_only_what_its_rules_add_a_076_a_079_a_105() -> None:
    plain, dissenting = Hall(table(), Script()), Hall(table(dissent=TWO), Script())
    assert contexts(plain, "round1") == contexts(dissenting, "round1")
    assert contexts(plain, "round2") == contexts(dissenting, "round2")
    for name in ("round1", "round2"):
        for slug in SLUGS:
            same = brief(plain, name, slug) == brief(dissenting, name, slug)
            assert same == (slug not in TWO)
    added = [
        line
        for line in contexts(dissenting, "synthesis-R1").splitlines()
        if line not in contexts(plain, "synthesis-R1").splitlines()
    ]
    assert added == [f"Unstated assumption of the consensus: {slug} assumes: | quoted <b> text" for slug in TWO]
    kinds = {ask.id: ask.reply for ask in dissenting.turns["round2"].asks}
    assert {slug for slug, kind in kinds.items() if kind is DissentingRoundTwo} == set(TWO)
    assert {kind for slug, kind in kinds.items() if slug not in TWO} == {RoundTwo}
    assert "### Unstated Assumption" in headings(dissenting.files["round2/futurist.md"])
    assert "### Unstated Assumption" not in dissenting.files["round2/pragmatist.md"]


def test_structured_dissent_in_the_synthesis_is_verbatim_a_122() -> None:
    text = Hall(table(dissent=("systems-analyst",)), Script()).files["round2/SYNTHESIS.md"]
    section = text.split("## Structured Dissent\n")[1]
    assert section.startswith(
        "\n### Systems Analyst (dissenter)\n\n- **Unstated assumption named:** systems-analyst assumes: \\| quoted"
    )
    assert "- **Recommendations opposed:** R1, R2, R3\n" in section
    assert "## Structured Dissent" not in Hall(table(), Script()).files["round2/SYNTHESIS.md"]


def test_dissent_is_a_choice_of_dissenters_alone_and_counts_against_a_142_a_146_a_165() -> None:
    hall = Hall(table(dissent=("synthesizer",)), Script({"R1": 9, "R2": 9, "R3": 9}))
    for ask in hall.turns["vote"].asks:
        assert ("DISSENT" in ask.narrow["votes.*.vote"].allowed) == (ask.id == "synthesizer")  # type: ignore[union-attr]
    report = hall.files["REPORT.md"]
    assert "### [STRUCTURED DISSENT] Synthesizer on R1" in report
    assert "**Votes:** 9/10 AGREE" in report
    assert "| R1: Title 1 | DISSENT |" in hall.files["votes/synthesizer.md"]


@pytest.mark.parametrize(("content", "fires"), [(10, True), (9, True), (8, False), (0, False)])
def test_anti_groupthink_fires_at_nine_of_ten_a_110_a_g10(content: int, fires: bool) -> None:
    hall = Hall(table(), Script(content=content))
    assert ("supplement" in hall.turns) == fires
    if fires:
        turn = hall.turns["supplement"]
        assert [ask.id for ask in turn.asks] == ["risk-analyst", "devils-advocate"]
        assert "ANTI-GROUPTHINK OVERRIDE: 9+ agents agree on everything." in turn.context[-1].text
        text = hall.files["round2/risk-analyst.md"]
        assert headings(text)[-1] == "### Supplementary Challenge"
        blocks = hall.turns["synthesis-R1"].context
        assert [block.title for block in blocks[-3:]] == [
            "SUPPLEMENT, risk-analyst",
            "SUPPLEMENT, devils-advocate",
            "TASK",
        ]
        assert blocks[:-3] == turn.context[:-1]


def test_anti_groupthink_is_skipped_and_logged_with_dissenters_a_113() -> None:
    hall = Hall(table(dissent=TWO), Script(content=10))
    assert "supplement" not in hall.turns
    assert any("(A-113)" in notice for notice in hall.notices)


@pytest.mark.parametrize(
    ("votes", "fires"),
    [
        ({"R1": 10, "R2": 10, "R3": 5}, True),
        ({"R1": 10, "R2": 10, "R3": 10, "R4": 5}, False),
        ({"R1": 10, "R2": 3, "R3": 3}, False),
    ],
)
def test_lightning_fires_below_three_passed_and_something_contested_a_153_a_g11(
    votes: dict[str, int], fires: bool
) -> None:
    hall = Hall(table(), Script(votes, revote=7))
    assert ("revote" in hall.turns) == fires
    report = hall.files["REPORT.md"]
    if fires:
        assert [ask.id for ask in hall.turns["compromise"].asks] == ["synthesizer", "pragmatist"]
        assert hall.turns["revote"].asks[0].narrow["votes"].required == ("R3-C1", "R3-C2")  # type: ignore[union-attr]
        assert "### R3-C1: Less by synthesizer" in report
        assert "**Recommendations passed:** 4/5" in report
        assert "## Contested Recommendations (4-6/10)\n\n### R3: Title 3" in report  # the original stays contested
        assert hall.outcome.verdict == "consensus"  # A-g3: its compromise passed
    if votes["R3"] == 3:
        assert any("nothing is contested (A-g11)" in notice for notice in hall.notices)


def test_a_compromise_that_fails_leaves_a_split_a_g3() -> None:
    assert Hall(table(), Script({"R1": 10, "R2": 10, "R3": 5}, revote=4)).outcome.verdict == "split"


def test_lost_seats_in_the_re_vote_have_their_own_n_a_g6() -> None:
    script = Script({"R1": 10, "R2": 10, "R3": 5}, {"revote": ["futurist"]}, revote=6)
    report = Hall(table(), script).files["REPORT.md"]
    assert "## Lightning Round (Supermajority: 6/9+)" in report
    assert "**Votes:** 6/9 AGREE | passed" in report
    assert "## Consensus Recommendations (Supermajority: 7/10+)" in report


def test_sequential_writes_each_file_before_the_next_request_a_172_a_g18() -> None:
    batched, single = Hall(table(), Script()), Hall(table(orchestration="sequential"), Script())
    at = single.writes.index("ask round1 1")
    assert single.writes[at : at + 4] == [
        "ask round1 1",
        "round1/systems-analyst.md",
        "ask round1 1",
        "round1/devils-advocate.md",
    ]
    assert single.files == batched.files


def test_agent_team_exchanges_challenges_then_positions_a_180_a_g18() -> None:
    hall = Hall(table(orchestration="agent-team", dissent=("futurist",)), Script())
    assert list(hall.turns)[:3] == ["round1", "round2-challenges", "round2"]
    text = brief(hall, "round2", "systems-analyst")
    assert "From Empiricist (empiricist): empiricist challenges systems-analyst" in text
    assert "CHALLENGES YOU SENT:\nTo devils-advocate: systems-analyst challenges devils-advocate" in text
    assert "challenges systems-analyst" not in contexts(hall, "round2")  # an inbox is private
    assert "- From Empiricist: systems-analyst answers empiricist" in hall.files["round2/systems-analyst.md"]
    assert "### Unstated Assumption" in hall.files["round2/futurist.md"]
    assert any("orchestration: agent-team" in notice for notice in hall.notices)


def test_a_seat_lost_in_the_exchange_leaves_a_179() -> None:
    hall = Hall(table(orchestration="agent-team"), Script(losing={"round2-challenges": ["empiricist"]}))
    assert "empiricist" not in [ask.id for ask in hall.turns["round2"].asks]
    assert "Supermajority: 6/9+" in hall.files["REPORT.md"]
