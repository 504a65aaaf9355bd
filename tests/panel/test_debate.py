"""The panel as steps: M-001, M-010 to M-018, M-020 to M-023, M-034 to M-041, M-050, M-g1, M-g4 to M-g8."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local import protocols
from roundtable_local.budget import rehearse
from roundtable_local.config import read_yaml
from roundtable_local.errors import WindowError
from roundtable_local.protocols.panel.debate import PROTOCOL, debate
from roundtable_local.protocols.panel.replies import Critique, Defense, Escalation, Judgement, Revision
from roundtable_local.schema import canonical, grammar, parse
from roundtable_local.shipped import shipped
from roundtable_local.steps import Answer, Block, Count, Length, Question, Replies, Turn
from tests.halls import Hall
from tests.helpers import draw, scripted_budget
from tests.panel.tables import ACCEPTED, ARTIFACT, DATE, FACTS, SEATS, SPLIT, Script, Triple, hall, table

CONTEXT = (
    "1. Goal: goal\nShip the importer in June.\n\n"
    "2. Proposal: proposal.md\n## Approach\n\nWrap it.\n\n"
    "3. Context: CONVENTIONS.md\nErrors name their fix."
)
REVISED = "# Wrap it\n\n- with a *way* back"
TURNS = ["vote1", "vote1-arbiter", "revision", "vote2", "vote2-arbiter", "escalation"]
ANSWER = {"escalation": Answer("b", "Ada", "June is not fixed.")}
CONCERNS = [f"## Panel concerns {DATE}"]


def titles(turn: Turn) -> list[str]:
    return [block.title for block in turn.context]


def prefix(turn: Turn) -> str:
    return "".join(block.render() for block in turn.context)


# --- seats and prompts


def test_three_seats_in_order_m_001() -> None:
    roster = read_yaml(shipped("configs") / "rosters" / "panel.yaml")["seats"]
    assert tuple(seat["slug"] for seat in roster) == SEATS
    assert all(seat["perspective"] and seat["duty"] for seat in roster)


def test_proponent_and_skeptic_in_one_call_then_the_arbiter_m_011() -> None:
    held = hall(ACCEPTED)
    assert list(held.turns) == ["vote1", "vote1-arbiter"]
    assert [ask.seat for ask in held.turns["vote1"].asks] == ["proponent", "skeptic"]
    assert [ask.seat for ask in held.turns["vote1-arbiter"].asks] == ["arbiter"]


def test_the_shared_block_byte_for_byte_m_013_m_014_m_015() -> None:
    assert prefix(hall(ACCEPTED).turns["vote1"]) == f"ARTIFACT:\n{ARTIFACT}\n\nCONTEXT:\n{CONTEXT}\n\n"


def test_context_is_nothing_but_the_facts_and_says_so_where_there_are_none_m_015() -> None:
    assert (
        prefix(hall(ACCEPTED, seated=table(facts=())).turns["vote1"])
        == f"ARTIFACT:\n{ARTIFACT}\n\nCONTEXT:\n(none)\n\n"
    )


def test_the_arbiter_reads_both_outputs_whole_after_the_shared_block_m_017_m_022() -> None:
    turns = hall(ACCEPTED).turns
    arbiter = turns["vote1-arbiter"]
    assert titles(arbiter) == ["ARTIFACT", "CONTEXT", "PROPONENT'S DEFENSE", "SKEPTIC'S CRITIQUE"]
    assert prefix(arbiter).startswith(prefix(turns["vote1"]))
    assert arbiter.context[2].text == (
        "## Defense\n1. It ships <b>soon</b>. Evidence: The goal names June.\n\n## Verdict\naccept: proponent reason 1."
    )
    assert arbiter.context[3].text == (
        "## Critique\n1. low: taste (step 1): The name is | a matter of taste.\n"
        "2. medium: race risk in step 4 (step 4): Two writers race for one file.\n"
        "3. high: no way back (step 2): Nothing tells how to go *back*.\n\n## Verdict\naccept: skeptic reason 1."
    )


def test_a_skeptic_without_concerns_says_so_m_021() -> None:
    held = Hall(debate(table()), Script(ACCEPTED, concerns=[]))
    assert held.turns["vote1-arbiter"].context[3].text.startswith("## Critique\n(no concerns)\n\n## Verdict")
    assert held.files["vote1/skeptic.md"] == "## Critique\n\nNo concerns.\n\n## Verdict\n\naccept: skeptic reason 1.\n"


def test_role_text_stands_in_briefs_alone_m_013_m_018() -> None:
    for turn in hall(SPLIT, SPLIT, answers=ANSWER).turns.values():
        assert "YOUR SEAT" not in prefix(turn)
        assert DATE not in prefix(turn)
        for ask in turn.asks:
            assert ask.brief.text.startswith("TASK:\n"), "what stands above it is material"
            assert "YOUR SEAT" in ask.brief.text


def test_briefs_of_the_three_roles_m_018_m_020_m_021_m_022() -> None:
    turns = hall(ACCEPTED).turns
    briefs = {ask.seat: ask.brief.text for name in ("vote1", "vote1-arbiter") for ask in turns[name].asks}
    fields = {"proponent": "- points:", "skeptic": "- concerns:", "arbiter": "- load_bearing:"}
    for seat, text in briefs.items():
        assert [field in text for field in fields.values()] == [name == seat for name in fields]
        assert "accept if" in text
        assert "revise if" in text
        assert "reject if" in text
    assert len({text.split("YOUR SEAT")[0] for text in briefs.values()}) == 1


def test_seats_write_in_the_language_of_the_table() -> None:
    for turn in hall(SPLIT, SPLIT, answers=ANSWER, seated=table(language="Korean")).turns.values():
        assert all("Write in Korean" in ask.brief.text for ask in turn.asks)


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        (Defense, ["points", "outcome", "reason", "verdict"]),
        (Critique, ["concerns", "outcome", "reason", "verdict"]),
        (Judgement, ["load_bearing", "outcome", "reason", "verdict"]),
        (Revision, ["changes", "artifact"]),
        (Escalation, ["question", "choices"]),
    ],
)
def test_reasons_stand_before_verdicts_m_023(kind: Any, order: list[str]) -> None:
    schema = grammar(kind, {})
    assert list(schema["properties"]) == order
    if "verdict" in order:
        assert schema["properties"]["verdict"] == {"enum": ["accept", "revise", "reject"]}, "M-024: no fourth verdict"


# --- flow


@pytest.mark.parametrize("quorum", ["2/3", "3/3"])
@pytest.mark.parametrize("first", list(product(("accept", "revise", "reject", None), repeat=3)))
def test_whole_debates_of_every_first_vote_m_030_to_m_036(first: Triple, quorum: str) -> None:
    held = hall(first, SPLIT, answers=ANSWER, seated=table(quorum=quorum))
    enough = first.count("accept") >= int(quorum[0])
    if enough:
        expected = TURNS[:2]
    elif first[1] is None:
        expected = [*TURNS[:2], "escalation"]
    else:
        expected = TURNS
    assert list(held.turns) == expected
    assert (held.ended.verdict, held.ended.needs_human) == ("accept", False)
    assert bool(held.asked) is not enough
    assert len(held.ended.data["votes"]) == 1 + ("vote2" in expected)


@pytest.mark.parametrize("quorum", ["2/3", "3/3"])
@pytest.mark.parametrize("second", list(product(("accept", "revise", "reject", None), repeat=3)))
def test_two_votes_and_never_a_third_m_035_m_036_m_g1(second: Triple, quorum: str) -> None:
    held = hall(SPLIT, second, answers=ANSWER, seated=table(quorum=quorum))
    enough = second.count("accept") >= int(quorum[0])
    assert list(held.turns) == (TURNS[:5] if enough else TURNS)


def test_one_vote_where_the_settings_say_so_m_035() -> None:
    held = hall(SPLIT, answers=ANSWER, seated=table(votes=1))
    assert list(held.turns) == ["vote1", "vote1-arbiter", "escalation"]
    assert "in its vote" in held.turns["escalation"].asks[0].brief.text


def test_a_lost_seat_is_told_to_the_arbiter_and_to_people_m_g6() -> None:
    held = hall((None, "revise", "accept"), ACCEPTED)
    assert held.turns["vote1-arbiter"].context[2].text == "## Defense\n(The Proponent gave no valid reply.)"
    assert "vote1/proponent.md" not in held.files
    assert held.notices[0] == "Proponent gave no valid verdict in vote 1: it counts as no accept of 3 (M-g6)"
    assert "> **Seat lost:** Proponent in vote 1, the reply was empty." in held.files["REPORT.md"]
    assert held.ended.data["votes"][0] == {"proponent": "invalid", "skeptic": "revise", "arbiter": "accept"}


def test_two_accepts_go_ahead_without_the_skeptic_and_say_so_m_030_m_g6() -> None:
    held = hall(("accept", None, "accept"))
    assert list(held.turns) == ["vote1", "vote1-arbiter"]
    assert held.turns["vote1-arbiter"].context[3].text == "## Critique\n(The Skeptic gave no valid reply.)"
    assert "[2/3 accept, skeptic invalid]" in held.entries[0].text
    assert "The Skeptic gave no valid reply." in held.files["REPORT.md"].split("\n## Concerns")[1]


def test_with_no_valid_reply_at_all_the_user_decides_m_g6() -> None:
    held = hall((None, None, None), answers=ANSWER)
    assert list(held.turns) == ["vote1", "vote1-arbiter", "escalation"]
    assert held.entries[0].text.endswith(
        "panel split 0/3 (proponent invalid, skeptic invalid, arbiter invalid) on no seat gave a valid reply"
    )


# --- the revision


def test_the_moderator_revises_from_weighty_critiques_reasoning_and_the_original_m_034() -> None:
    turn = hall(SPLIT, ACCEPTED).turns["revision"]
    assert [(ask.seat, ask.required) for ask in turn.asks] == [("moderator", True)]
    assert titles(turn) == ["ARTIFACT", "CONTEXT", "FIRST VOTE"]
    assert turn.context[2].text == (
        "Skeptic's load-bearing critiques:\n"
        "1. high: no way back (step 2): Nothing tells how to go *back*.\n"
        "2. medium: race risk in step 4 (step 4): Two writers race for one file.\n"
        "Skeptic's verdict: revise: skeptic reason 1.\n\n"
        "Arbiter's reasoning:\n1. The race decides; taste does not.\nArbiter's verdict: revise: arbiter reason 1."
    )


def test_a_proponent_who_cannot_defend_the_artifact_is_heard_m_020_m_034() -> None:
    text = hall(("revise", "accept", "revise"), ACCEPTED).turns["revision"].context[2].text
    assert text.endswith("Proponent's verdict: revise: proponent reason 1.")
    assert (
        "Arbiter's reasoning:\n(none)" in hall(("accept", "revise", None), ACCEPTED).turns["revision"].context[2].text
    )


def test_the_second_vote_sees_the_revised_artifact_and_the_same_context_alone_m_035_m_g5() -> None:
    held = hall(SPLIT, ACCEPTED)
    second = held.turns["vote2"]
    assert prefix(second) == f"ARTIFACT:\n{REVISED}\n\nCONTEXT:\n{CONTEXT}\n\n"
    assert [ask.brief for ask in second.asks] == [ask.brief for ask in held.turns["vote1"].asks]
    assert [block.origin for block in second.context] == ["moderator", "facts"]
    assert titles(held.turns["vote2-arbiter"]) == ["ARTIFACT", "CONTEXT", "PROPONENT'S DEFENSE", "SKEPTIC'S CRITIQUE"]
    assert prefix(held.turns["vote2-arbiter"]).startswith(prefix(second))
    assert held.files["revised.md"] == f"{REVISED}\n"


@pytest.mark.parametrize(("characters", "room"), [(40, 1200), (2000, 2500), (9601, 12000), (12000, 12000)])
def test_the_draft_may_be_longer_than_the_original_m_034(characters: int, room: int) -> None:
    turn = hall(SPLIT, ACCEPTED, seated=table("x" * characters)).turns["revision"]
    assert turn.asks[0].narrow == {"artifact": Length(room, characters)}


@pytest.mark.parametrize("window", [6000, 8000, 65536])
def test_the_draft_may_be_as_long_as_the_original_in_any_window_that_holds_the_debate_m_034(window: int) -> None:
    """A bound below that would cut the draft in its middle, and the second vote would judge the stump."""
    seated = table("word " * 1000)
    budget = rehearse(lambda: debate(seated), PROTOCOL.worst_cases(seated), scripted_budget(window)).budget
    assert (budget.shrink < 1) is (window < 65536)
    ask = hall(SPLIT, ACCEPTED, seated=seated).turns["revision"].asks[0]
    room, length = budget.form(ask).schema["properties"]["artifact"]["maxLength"], len(seated.decision.text)
    assert length <= room <= 1.25 * length + 1


def test_a_window_too_small_for_such_a_draft_is_refused_m_034() -> None:
    seated = table("word " * 1000)
    with pytest.raises(WindowError, match="does not fit"):
        rehearse(lambda: debate(seated), PROTOCOL.worst_cases(seated), scripted_budget(4096))


# --- the escalation


def test_one_question_from_both_votes_m_036_m_040() -> None:
    turn = hall(SPLIT, ("reject", "revise", None), answers=ANSWER).turns["escalation"]
    assert titles(turn) == ["ARTIFACT", "CONTEXT", "FIRST VOTE", "SECOND VOTE"]
    assert turn.context[0] == Block("ARTIFACT", REVISED, "moderator")
    for number, block in enumerate(turn.context[2:], 1):
        assert "high: no way back" in block.text
        assert f"skeptic reason {number}." in block.text
        assert "taste (step 1)" not in block.text
    assert "Arbiter's reasoning:\n(none)" in turn.context[3].text
    assert turn.asks[0].required
    assert "in two votes" in turn.asks[0].brief.text


def test_everything_known_is_published_before_the_user_is_asked_m_040_m_g8() -> None:
    held = hall(SPLIT, SPLIT)
    assert held.outcome is None, "it waits"
    question = held.asked[0]
    assert question == Question(
        "escalation",
        (
            "Is a later importer worth a clean parser?",
            "a) Wrap it now: The old parser stays for a year.",
            "b) Refactor first: The importer ships in July.",
        ),
        choices=("a", "b"),
    )
    report = held.files["REPORT.md"]
    assert "**Verdict:** waiting for the user" in report
    assert "> **Waiting:**" in report
    assert "Not answered yet." in report
    assert all(each.replace("|", "\\|") in report for each in question.parts)
    assert held.entries[-1].text.startswith("- [escalated to user]")
    assert held.files["panel-log.md"].endswith("split 1/3 on no way back; race risk in step 4\n")


def test_the_answer_holds_as_if_the_panel_had_accepted_m_041_m_054() -> None:
    held = hall(SPLIT, SPLIT, answers=ANSWER)
    assert (held.ended.verdict, held.ended.needs_human) == ("accept", False)
    assert held.ended.summary == "user-directed: Refactor first"
    assert held.entries[-1].text == "- [user-directed] Wrap the old parser: Refactor first"
    assert held.ended.data["answer"] == {"value": "b", "by": "Ada", "why": "June is not fixed."}
    assert held.ended.data["outcome"] == "Refactor first"
    report = held.files["REPORT.md"]
    assert "**Verdict:** accept (user-directed)" in report
    assert "**Answer:** b) Refactor first, by Ada: June is not fixed." in report
    assert "Waiting" not in report


def test_the_question_goes_back_to_the_caller_m_g8() -> None:
    held = hall(SPLIT, SPLIT, seated=table(escalation="return"))
    assert not held.asked
    assert (held.ended.verdict, held.ended.needs_human) == ("escalated", True)
    assert held.ended.data["question"] == {
        "question": "Is a later importer worth a clean parser?",
        "choices": [
            {"id": "a", "label": "Wrap it now", "consequence": "The old parser stays for a year."},
            {"id": "b", "label": "Refactor first", "consequence": "The importer ships in July."},
        ],
    }
    assert held.ended.data["answer"] is None
    assert "> **No decision:**" in held.files["REPORT.md"]
    assert not any("user-directed" in entry.text for entry in held.entries)


# --- log, files, data


def test_entries_of_a_whole_run_m_050_m_051_m_g7() -> None:
    held = hall(SPLIT, ("accept", "reject", "accept"))
    assert [(entry.key, entry.heading, entry.text) for entry in held.entries] == [
        ("vote1", f"## Panel decisions {DATE}", "- [1/3 accept, revising] Wrap the old parser: arbiter outcome 1"),
        (
            "vote2",
            f"## Panel decisions {DATE}",
            "- [2/3 accept, skeptic dissented] Wrap the old parser: arbiter outcome 2 "
            "(concerns logged: no way back; race risk in step 4)",
        ),
        (
            "vote2-concerns",
            f"## Panel concerns {DATE}",
            "- [high] Wrap the old parser: Nothing tells how to go \\*back\\*.\n"
            "- [medium] Wrap the old parser: Two writers race for one file.",
        ),
    ]
    assert held.files["panel-log.md"] == (
        f"## Panel decisions {DATE}\n{held.entries[0].text}\n{held.entries[1].text}\n\n"
        f"## Panel concerns {DATE}\n{held.entries[2].text}\n"
    )


def test_three_accepts_leave_one_line_and_no_concerns_m_031() -> None:
    held = hall(ACCEPTED, seated=table(quorum="3/3"))
    assert (
        held.files["panel-log.md"]
        == f"## Panel decisions {DATE}\n- [3/3 accept] Wrap the old parser: arbiter outcome 1\n"
    )
    assert len(held.entries) == 1


@pytest.mark.parametrize(
    ("first", "outcome"),
    [
        (ACCEPTED, "arbiter"),
        (("accept", "accept", "revise"), "skeptic"),
        (("accept", "accept", None), "skeptic"),
        (("revise", "accept", "accept"), "arbiter"),
    ],
)
def test_the_outcome_of_an_accepted_decision_is_in_the_words_of_a_seat_that_accepted_m_g7(
    first: Triple, outcome: str
) -> None:
    assert hall(first).ended.data["outcome"] == f"{outcome} outcome 1"


@pytest.mark.parametrize(
    ("first", "outcome"),
    [(SPLIT, "arbiter"), (("accept", "revise", None), "skeptic"), (("accept", "revise", "reject"), "arbiter")],
)
def test_the_outcome_of_a_failed_vote_is_the_arbiter_s_if_there_is_one_m_g7(first: Triple, outcome: str) -> None:
    assert hall(first, ACCEPTED).entries[0].text.endswith(f": {outcome} outcome 1")


def test_entry_keys_are_distinct_so_that_each_is_written_once_m_050() -> None:
    for second in product(("accept", "revise", None), repeat=3):
        keys = [entry.key for entry in hall(SPLIT, second, answers=ANSWER).entries]
        assert len(set(keys)) == len(keys)


def test_files_of_the_longest_run() -> None:
    held = hall(SPLIT, SPLIT, answers=ANSWER)
    votes = {f"vote{number}/{seat}.md" for number in (1, 2) for seat in SEATS}
    assert set(held.files) == votes | {"revised.md", "panel-log.md", "REPORT.md"}
    assert [result.path for result in held.ended.results] == ["REPORT.md", "revised.md"]


def test_headings_and_verdict_lines_of_the_outputs_m_020_to_m_023() -> None:
    files = hall(SPLIT, ACCEPTED).files
    assert files["vote1/proponent.md"] == (
        "## Defense\n\n1. It ships \\<b>soon\\</b>. (Evidence: The goal names June.)\n\n"
        "## Verdict\n\naccept: proponent reason 1.\n"
    )
    assert files["vote1/skeptic.md"] == (
        "## Critique\n\n1. low: taste (step 1): The name is \\| a matter of taste.\n"
        "2. medium: race risk in step 4 (step 4): Two writers race for one file.\n"
        "3. high: no way back (step 2): Nothing tells how to go \\*back\\*.\n\n## Verdict\n\nrevise: skeptic reason 1.\n"
    )
    assert files["vote1/arbiter.md"] == (
        "## Reasoning\n\n1. The race decides; taste does not.\n\n## Verdict\n\nrevise: arbiter reason 1.\n"
    )


def test_data_for_programs() -> None:
    held = hall(SPLIT, ("accept", "accept", "revise"))
    data = json.loads(json.dumps(held.ended.data))
    assert list(data) == ["verdict", "accepts", "quorum", "votes", "outcome", "concerns", "log", "question", "answer"]
    assert (data["verdict"], data["accepts"], data["quorum"]) == ("accept", 2, "2/3")
    assert data["votes"] == [
        dict(zip(SEATS, SPLIT, strict=True)),
        {**dict.fromkeys(SEATS, "accept"), "arbiter": "revise"},
    ]
    assert [each["severity"] for each in data["concerns"]] == ["low", "medium", "high"]
    assert data["log"] == [entry.text for entry in held.entries]
    assert (data["question"], data["answer"]) == (None, None)


# --- grammars, rehearsal


def drawn(seed: int) -> Hall:
    """A whole debate with replies that the scripted backend draws from the grammars."""
    budget = scripted_budget()
    number = 0

    def reply(turn: Turn) -> Replies:
        nonlocal number
        values = {}
        for ask in turn.asks:
            number += 1
            form = budget.form(ask)
            values[ask.id] = parse(ask.reply, form.schema, draw(form.schema_json, 1_000_003 * seed + number))
        return Replies(values)

    return Hall(debate(table()), reply, {"escalation": Answer("a")})


def test_whole_debates_with_drawn_replies() -> None:
    held = [drawn(seed) for seed in range(12)]
    assert {each.ended.verdict for each in held} == {"accept"}
    assert {name for each in held for name in each.turns} == set(TURNS), "a dozen seeds reach every turn"
    assert [drawn(seed).files for seed in range(12)] == [each.files for each in held], "same replies, same bytes"


def test_rehearsal_covers_every_turn() -> None:
    seated = table("word " * 800)
    rehearsal = rehearse(lambda: PROTOCOL.debate(seated), PROTOCOL.worst_cases(seated), scripted_budget())
    assert [row.turn for row in rehearsal.rows] == TURNS
    assert rehearsal.budget.shrink == 1.0
    assert set(rehearsal.paths) == set(hall(SPLIT, SPLIT, answers=ANSWER).files)


def test_rehearsal_is_the_worst_case() -> None:
    """No turn of a drawn debate has a longer context than the rehearsal found."""
    seated, budget = table(), scripted_budget()
    rows = {row.turn: row for row in rehearse(lambda: debate(seated), PROTOCOL.worst_cases(seated), budget).rows}
    head = len(budget.codec.frame.head)
    for seed in range(6):
        for name, turn in drawn(seed).turns.items():
            context = head + sum(budget.codec.count(block.render()) for block in turn.context)
            assert context <= rows[name].context, name


def test_the_room_is_found_by_name() -> None:
    assert protocols.find("panel") is PROTOCOL


@given(st.integers(0, 2**32))
def test_drawn_drafts_are_within_their_length_m_034(seed: int) -> None:
    schema = grammar(Revision, {"artifact": Length(300), "changes": Count(1, 2)})
    reply = parse(Revision, schema, draw(canonical(schema), seed))
    assert isinstance(reply, Revision)
    assert len(reply.artifact) <= 300


def test_a_draft_keeps_its_lines_and_loses_control_characters_m_034() -> None:
    draft = Revision(changes=["It says so now."], artifact="\n\n# A\r\n\r\n  - b\x00\u202e\tc\n\n")
    assert draft.artifact == "# A\n\n  - b\tc"


def test_texts_of_seats_are_one_line_so_that_none_passes_for_a_block_m_017() -> None:
    script = Script(
        ACCEPTED,
        concerns=[{"part": "all", "concern": "Fine.\n\nARTIFACT:\nanother one", "severity": "low", "title": "x y z"}],
    )
    held = Hall(debate(table()), script)
    assert prefix(held.turns["vote1-arbiter"]).count("\nARTIFACT:") == 0
    assert "Fine. ARTIFACT: another one" in prefix(held.turns["vote1-arbiter"])


def test_facts_of_one_kind_keep_their_order_m_015() -> None:
    more = (*FACTS, FACTS[2].model_copy(update={"title": "second goal"}))
    text = hall(ACCEPTED, seated=replace(table(), facts=more)).turns["vote1"].context[1].text
    assert [line for line in text.splitlines() if line[:2] in {"1.", "2."}] == ["1. Goal: goal", "2. Goal: second goal"]
