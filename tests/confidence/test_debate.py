"""Whole sittings, driven by hand: rounds, inspector, questions, empty seats, hand-back (O-001 to O-086)."""

from __future__ import annotations

import json

import pytest

from roundtable_local.protocols.confidence.debate import PROTOCOL, gate, intake
from roundtable_local.protocols.confidence.replies import Voting
from roundtable_local.protocols.confidence.tally import vote
from roundtable_local.schema import grammar
from roundtable_local.seats import Fact, Place
from roundtable_local.steps import Answer, Refused, Replies, Turn
from tests.confidence.tables import NAMES, OPTIONS, RULES, Script, named, sit, table
from tests.halls import Hall
from tests.helpers import draw_debate, rehearsed

AGREED = dict.fromkeys(NAMES, ("adopt-modified", 8))
MINUTE = "lab/round-table/2026-05-16_adopt-the-pattern.md"
STATE = "lab/round-table/2026-05-16_adopt-the-pattern.json"
DECISION = "inbox/decisions/2026-05-16_adopt-the-pattern.md"


def turns(hall: Hall) -> list[str]:
    return list(hall.turns)


def minute(hall: Hall) -> str:
    return hall.files[MINUTE]


# --- rounds and the inspector


def test_o_005_o_030_four_rounds_each_in_one_call() -> None:
    hall = sit()
    assert turns(hall) == ["round1", "round2", "axes", "round3", "round4"]
    assert all(len(hall.turns[name].asks) == 5 for name in ("round1", "round2", "round3", "round4"))
    assert hall.ended.verdict == "adopt-modified"


def test_o_053_early_stop_goes_straight_to_the_vote() -> None:
    hall = sit(Script(AGREED))
    assert turns(hall) == ["round1", "round2", "round4"]
    assert 'EARLY-STOP: all hold "adopt-modified" at ≥8 after round 2' in minute(hall)


def test_o_054_o_g3_skip_confirms_itself_unattended_and_says_so() -> None:
    hall = sit(Script(update=" No change"))
    assert turns(hall) == ["round1", "round2", "round4"]
    assert "SKIP-ROUND-3: nobody moved in round 2" in minute(hall)
    assert "no new evidence arrived" in minute(hall)
    assert any("no new evidence arrived" in notice for notice in hall.notices)


def test_o_050_new_evidence_holds_round_3() -> None:
    hall = sit(Script(update="no change"), answers={"new-evidence": Answer("yes")})
    assert "round3" in turns(hall)


EXPERT = {name: ("reject", 10) if name == "finance" else ("adopt-modified", 3) for name in NAMES}


def test_o_055_o_g3_an_expert_is_a_question_that_goes_on_unattended() -> None:
    hall = sit(Script(EXPERT))
    assert [question.name for question in hall.asked][:1] == ["expert"]
    assert "round3" in turns(hall)
    assert "EXPERT-DEFERENCE: only Finance is certain (10), the rest ≤3" in minute(hall)


def test_o_g3_the_short_circuit_still_votes() -> None:
    hall = sit(Script(EXPERT), answers={"expert": Answer("vote")})
    assert turns(hall) == ["round1", "round2", "round4"]
    assert hall.ended.verdict == "adopt-modified"  # the expert is outvoted


def test_o_038_the_inspector_speaks_after_rounds_2_and_3() -> None:
    assert minute(sit()).count("**Inspector after round") == 2


def test_o_026_state_and_minute_are_flushed_after_every_round() -> None:
    hall = sit()
    first = hall.writes.index("ask round2 5")
    assert MINUTE in hall.writes[hall.writes.index("ask round1 5") : first]
    assert STATE in hall.writes[hall.writes.index("ask round1 5") : first]


# --- what is shown


def test_o_g6_contexts_grow_and_souls_come_last() -> None:
    hall = sit(seated=table(facts=(Fact(kind="context", title="costs.md", text="It costs 12."),)))
    shown = {name: [(block.title, block.text) for block in turn.context[:-1]] for name, turn in hall.turns.items()}
    assert [title for title, _ in shown["round1"]] == ["QUESTION", "FACT, costs.md", "OPTIONS"]
    for earlier, later in [("round1", "round2"), ("round2", "axes"), ("axes", "round3"), ("round3", "round4")]:
        assert shown[later][: len(shown[earlier])] == shown[earlier]
        assert len(shown[later]) > len(shown[earlier])
    text = "".join(block.render() for turn in hall.turns.values() for block in turn.context)
    assert "The soul of" not in text


def test_o_021_o_031_every_prompt_carries_the_whole_soul() -> None:
    hall = sit()
    for name in ("round1", "round2", "round3", "round4"):
        for ask in hall.turns[name].asks:
            assert f"The soul of {ask.seat}." in ask.brief.text
            assert f"souls/{ask.seat}.md" in ask.brief.text


def test_o_032_round_1_hears_nobody() -> None:
    assert all(block.origin != "replies" for block in sit().turns["round1"].context)


def test_o_034_round_3_has_the_axes_and_o_041_only_them() -> None:
    turn = sit().turns["round3"]
    assert any(block.title == "AXES OF DISAGREEMENT" for block in turn.context)
    assert turn.asks[0].narrow["axis_that_decides_my_vote"].allowed == ("speed against care", "cost against voice")  # type: ignore[union-attr]


def test_o_033_o_040_challenges_go_to_other_seats_only() -> None:
    for ask in sit().turns["round2"].asks:
        allowed = ask.narrow["challenge.target"].allowed  # type: ignore[union-attr]
        assert ask.seat not in allowed
        assert set(allowed) | {ask.seat} == set(NAMES)


def test_o_044_five_is_legal_before_the_vote_only() -> None:
    turned = sit().turns
    before = grammar(turned["round1"].asks[0].reply, turned["round1"].asks[0].narrow)
    final = grammar(turned["round4"].asks[0].reply, turned["round4"].asks[0].narrow)
    assert before["properties"]["confidence_now"]["enum"] == list(range(1, 11))
    assert final["properties"]["final_confidence"]["enum"] == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert final["properties"]["final_vote"]["enum"] == list(OPTIONS)


# --- empty seats


def test_o_036_o_g1_a_lost_seat_leaves_the_table_and_the_state() -> None:
    hall = sit(Script(losing={"round2": ["brand"]}))
    assert [ask.seat for ask in hall.turns["round3"].asks] == ["editor", "engineer", "facilitator", "finance"]
    assert [agent["name"] for agent in json.loads(hall.files[STATE])["agents"]] == [
        "Editor", "Engineer", "Facilitator", "Finance",
    ]  # fmt: skip
    assert "**Empty seat:** Brand" in minute(hall)
    assert hall.ended.verdict == "adopt-modified"


@pytest.mark.parametrize("turn", ["round1", "round2", "round3", "round4"])
def test_o_020_below_three_seats_nothing_is_decided(turn: str) -> None:
    hall = sit(Script(losing={turn: ["brand", "editor", "engineer"]}))
    assert hall.ended.failed
    assert hall.ended.verdict == "no quorum"
    assert "2 seats are left and 3 are needed" in minute(hall)
    assert hall.files[DECISION].startswith("no decision")
    assert turns(hall)[-1] == turn


class Stubborn(Script):
    """One seat casts a ballot that the grammar would not allow; `times` says how often."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def __call__(self, turn: Turn) -> Replies:
        replies = super().__call__(turn)
        if turn.name.startswith("round4") and "brand" in replies and self.times:
            self.times -= 1
            bad = Voting.model_construct(
                one_line_rationale="undecided", dissent_note="", final_vote="reject", final_confidence=5
            )
            return Replies({**replies.values_by_id, "brand": bad}, replies.lost)
        return replies


def test_o_060_o_g2_only_named_seats_vote_again() -> None:
    hall = sit(Stubborn(1))
    assert [ask.seat for ask in hall.turns["round4-again"].asks] == ["brand"]
    assert any("RE-PROMPT" in notice and "Brand: confidence 5 is forbidden" in notice for notice in hall.notices)
    assert "| Brand | adopt-modified | 6 |" in minute(hall)


def test_o_g2_a_second_failure_empties_the_seat() -> None:
    hall = sit(Stubborn(2))
    assert "**Empty seat:** Brand, in the vote: confidence 5" in minute(hall)
    assert "| Brand |" not in minute(hall).split("## Round 4")[1]
    assert hall.ended.verdict == "adopt-modified"


# --- options


def test_o_002_without_options_the_sitting_waits_for_a_yes() -> None:
    hall = sit(seated=table(options=[]))
    assert hall.outcome is None
    assert hall.asked[-1].name == "options"
    assert hall.asked[-1].consent
    assert "take it, leave it" in hall.asked[-1].parts[0]
    assert turns(hall) == ["options"]


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ("yes", ["take it", "leave it"]),
        ("YES", ["take it", "leave it"]),
        ("now, never ,later", ["now", "never", "later"]),
    ],
)
def test_o_002_a_yes_or_a_list_settles_them(said: str, options: list[str]) -> None:
    votes = dict.fromkeys(NAMES, (options[0], 8))
    hall = sit(Script(votes), table(options=[]), {"options": Answer(said)})
    assert json.loads(hall.files[STATE])["options"] == options
    assert hall.ended.verdict == options[0]


def test_o_002_a_no_ends_the_sitting() -> None:
    hall = sit(seated=table(options=[]), answers={"options": Answer("no")})
    assert hall.ended.verdict == "not convened"
    assert hall.ended.needs_human


@pytest.mark.parametrize("said", ["one", "a,b,c,d,e", "a,a", "a,,b", ""])
def test_o_001_two_to_four_distinct_options(said: str) -> None:
    hall = sit(seated=table(options=[]))
    assert hall.asked[-1].check(said)
    assert not hall.asked[-1].check("a, b")


def test_proposed_options_that_repeat_are_told_apart() -> None:
    class Repeating(Script):
        def value(self, turn: str, slug: str, narrow: object) -> dict[str, object]:
            return {"why_these": "They are what can be done.", "options": ["wait, then", "wait, then", "act"]}

    hall = sit(Repeating(), table(options=[]))
    assert "wait; then, wait, then (2), act" in hall.asked[-1].parts[0] or "(2)" in hall.asked[-1].parts[0]


# --- the gate and what is refused


def test_o_001_o_003_the_gate_has_three_parts_and_no_default() -> None:
    questions = gate(table())
    assert len(questions) == 3
    assert all(question.default is None and question.consent for question in questions)
    assert "adopt-as-is, adopt-modified, reject" in questions[1].parts[0]


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_o_020_three_to_eight_seats(count: int) -> None:
    with pytest.raises(Refused, match=f"not {count} "):
        intake(table(tuple(f"seat{number}" for number in range(count))), len)


@pytest.mark.parametrize("count", [3, 8])
def test_o_020_three_and_eight_are_seated(count: int) -> None:
    seated = table(tuple(f"seat{number}" for number in range(count)))
    assert intake(seated, len) == (seated, ())


@pytest.mark.parametrize("options", [["a"], ["a", "b", "c", "d", "e"], ["a", "a"], ["a", " "]])
def test_o_001_options_are_checked_before_the_run(options: list[str]) -> None:
    with pytest.raises(Refused):
        intake(table(options=options), len)


# --- vote and hand-back

SPLIT = {
    "brand": ("adopt-as-is", 9, ""), "editor": ("adopt-as-is", 9, ""), "engineer": ("reject", 9, ""),
    "facilitator": ("reject", 9, ""), "finance": ("adopt-modified", 4, ""),
}  # fmt: skip


def test_o_064_o_066_a_deadlock_waits_for_a_human_in_plain_words() -> None:
    hall = sit(Script(finals=SPLIT))
    question = hall.asked[-1]
    assert hall.outcome is None
    assert (question.name, question.choices, question.signed, question.default) == ("deadlock", OPTIONS, True, None)
    assert "adopt-as-is has Brand (9), Editor (9)" in question.parts[0]
    assert "tie between adopt-as-is and reject survives every tie-break" in question.parts[1]
    assert "## Deadlock" in minute(hall)
    assert hall.files[DECISION].startswith("ESCALATE: a human decides — ")


def test_o_060_the_humans_decision_ends_it_in_minute_and_inbox() -> None:
    answer = Answer("reject", by="Ada *L*", why="costs | least")
    hall = sit(Script(finals=SPLIT), answers={"deadlock": answer})
    assert hall.ended.verdict == "reject"
    assert not hall.ended.needs_human
    assert hall.ended.data["decided_by"] == "Ada *L*"
    said = r"reject (decided by Ada \*L\* after a deadlock: costs \| least)"
    assert said in minute(hall)
    assert hall.files[DECISION].startswith(said)
    assert hall.files[DECISION].count("\n") == 1


def test_o_080_the_block_stands_verbatim_after_the_table() -> None:
    hall = sit()
    block = vote(json.loads(hall.files[STATE]), RULES).block
    table_then_block = minute(hall).split("## Round 4: Vote")[1]
    assert table_then_block.index("| Soul | Vote | Confidence | Rationale |") < table_then_block.index(block)


def test_o_081_o_082_one_line_with_the_minutes_absolute_path() -> None:
    hall = sit(seated=named(table(), place=Place("/srv/ψ", "2026-05-16_x-2")))
    line = hall.files["inbox/decisions/2026-05-16_x-2.md"]
    assert line == "adopt-modified (weighted) — /srv/ψ/lab/round-table/2026-05-16_x-2.md\n"
    assert [(each.label, each.path) for each in hall.ended.results] == [
        ("🪑 Minute", "lab/round-table/2026-05-16_x-2.md"),
        ("📥 Decision", "inbox/decisions/2026-05-16_x-2.md"),
    ]


def test_o_083_o_084_a_seat_is_a_lens_and_a_decision_is_advice() -> None:
    text = minute(sit())
    assert "The Finance lens voted reject (6)." in text
    assert "Finance decided" not in text
    assert "A decision is advice" in text


def test_o_025_o_037_o_045_the_state_has_the_shape_of_the_rules() -> None:
    state = json.loads(sit(Script(finals={"finance": ("reject", 7, "too dear")})).files[STATE])
    assert list(state)[:4] == ["id", "question", "options", "aggregator"]
    finance = state["agents"][-1]
    assert finance["soul"] == "souls/finance.md"
    assert finance["rounds"][1] == {
        "round": 2, "position": "reject", "confidence": 6, "self_update": "the engineer's point moved me",
    }  # fmt: skip
    assert finance["final"] == {"vote": "reject", "confidence": 7, "rationale": "finance votes in one line"}
    assert finance["dissent_note"] == "too dear"
    assert state["agents"][0]["dissent_note"] is None


# --- the engine's side


@pytest.mark.parametrize("options", [OPTIONS, ()])
def test_the_rehearsal_visits_every_turn(options: tuple[str, ...]) -> None:
    rows = rehearsed(PROTOCOL, table(options=options)).rows
    expected = ["round1", "round2", "axes", "round3", "round4"]
    assert [row.turn for row in rows] == ([] if options else ["options"]) + expected


@pytest.mark.parametrize("seed", range(6))
def test_a_debate_of_drawn_replies_ends(seed: int) -> None:
    hall = draw_debate(PROTOCOL, table(), seed, {"deadlock": Answer("reject", "Ada")})
    assert hall.ended.verdict in OPTIONS
    assert vote(json.loads(hall.files[STATE]), RULES).block in hall.files[MINUTE]
