"""Caps of replies and the rehearsal before round 1: it fits, it shrinks, or it is refused with numbers (D1, D3, D4)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local import protocols
from roundtable_local.budget import Rehearsal, rehearse
from roundtable_local.config import engine_settings
from roundtable_local.errors import WindowError
from roundtable_local.prompts import render
from roundtable_local.protocols.supermajority.replies import Merged
from roundtable_local.schema import FILL, Schema, canonical, largest
from roundtable_local.steps import (
    MODERATOR,
    Ask,
    Block,
    Debate,
    Outcome,
    Publish,
    Question,
    Turn,
    WorstCase,
    consult,
    hold,
    publish,
)
from tests.helpers import (
    PROBLEM,
    SCRIPTED_MODEL,
    any_ask,
    draw,
    fill,
    prose,
    scripted_budget,
    scripted_codec,
    supermajority_asks,
    supermajority_table,
    supermajority_turns,
)

FLOORS = engine_settings().budget
WORDS = (SCRIPTED_MODEL / "words.txt").read_text("utf-8").split()


def rehearsed(window: int, problem: str = PROBLEM, tokens_per_character: float = 0.4) -> Rehearsal:
    protocol, table = protocols.find("supermajority"), supermajority_table(problem)
    budget = scripted_budget(window, tokens_per_character)
    return rehearse(lambda: protocol.debate(table), protocol.worst_cases(table), budget)


# --- full, shrunk, refused


def test_d4_a_debate_that_fits_has_its_full_caps() -> None:
    rehearsal = rehearsed(100_000)
    assert rehearsal.budget.shrink == 1.0
    assert all(row.total <= 100_000 for row in rehearsal.rows)
    full = scripted_budget(100_000, 0.4)
    for asked in supermajority_asks():
        assert rehearsal.budget.form(asked.ask) == full.form(asked.ask)


def numbers_in(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d", text)]


@cache
def needs() -> tuple[int, int]:
    """Windows that the example needs: with the shortest replies, and with full ones."""
    with pytest.raises(WindowError) as caught:
        rehearsed(1024)
    return numbers_in(caught.value.message)[1], max(row.total for row in rehearsed(1_000_000).rows)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_d4_a_smaller_window_shrinks_all_caps_until_every_turn_fits(share: float) -> None:
    least, full_window = needs()
    window = least + int((full_window - least) * share)
    rehearsal = rehearsed(window)
    assert 0 <= rehearsal.budget.shrink < 1
    assert max(row.total for row in rehearsal.rows) <= window
    full, fitted = scripted_budget(window, 0.4), rehearsal.budget
    caps = [(full.form(asked.ask), fitted.form(asked.ask)) for asked in supermajority_asks()]
    assert all(small.max_tokens <= large.max_tokens for large, small in caps)
    assert any(small.max_tokens < large.max_tokens for large, small in caps)
    assert all(len(small.schema_json) <= len(large.schema_json) for large, small in caps)


def test_d4_a_window_a_little_too_small_costs_little() -> None:
    _, need = needs()
    assert rehearsed(need).budget.shrink == 1.0
    assert 0.9 < rehearsed(need - 1).budget.shrink < 1.0


def test_d4_the_rehearsal_knows_every_turn_and_file() -> None:
    rehearsal = rehearsed(100_000)
    turns = {row.turn for row in rehearsal.rows}
    most = supermajority_table().settings.recommendations.most
    assert {"round1", "round2", "vote", "report", *(f"synthesis-R{number}" for number in range(1, most + 1))} <= turns
    assert {"PROBLEM.md", "REPORT.md", "round1/pragmatist.md", "votes/futurist.md", "round3/"} <= set(rehearsal.paths)


@pytest.mark.parametrize("seed", range(3))
def test_d4_no_real_debate_needs_more_than_was_rehearsed(seed: int) -> None:
    """Contexts and briefs of a drawn debate against the worst case of the same turn."""
    rehearsal = rehearsed(100_000, tokens_per_character=1.0)
    turns = {row.turn for row in rehearsal.rows}
    contexts = {turn: max(row.context for row in rehearsal.rows if row.turn == turn) for turn in turns}
    totals = {turn: max(row.total for row in rehearsal.rows if row.turn == turn) for turn in turns}
    codec = scripted_codec()
    for turn in supermajority_turns(seed):
        context = codec.context(turn.context)
        assert len(context) <= contexts[turn.name]
        for ask in turn.asks:
            prompt = codec.prompt(context, ask.brief.text)
            assert len(prompt) + rehearsal.budget.form(ask).max_tokens <= totals[turn.name]
            again = codec.prompt(context, f"{ask.brief.text}\n\n{render('reask.j2', reason='x ' * 150).text}")
            assert len(again) + rehearsal.budget.form(ask).max_tokens <= totals[turn.name]


def test_d3_a_decision_that_is_too_large_is_refused_with_numbers() -> None:
    problem = "# Should we?\n\n" + "The team should weigh the cost of it. " * 4000
    with pytest.raises(WindowError) as caught:
        rehearsed(8192, problem)
    numbers = numbers_in(caught.value.message)
    window, need, decision, context, brief, reply = numbers[0], *numbers[-5:]
    assert window == 8192
    assert need == context + brief + reply > window
    assert 20_000 < decision <= context
    over = int(re.sub(r"\D", "", caught.value.fix))
    assert over == need - window
    assert "larger window" in caught.value.fix


def test_d3_what_the_refusal_asks_for_is_enough() -> None:
    sentence = "The team should weigh the cost of it. "
    problem = "# Should we?\n\n" + sentence * 400
    with pytest.raises(WindowError) as caught:
        rehearsed(9000, problem)
    over = int(re.sub(r"\D", "", caught.value.fix))
    each = scripted_codec().count(sentence * 2) - scripted_codec().count(sentence)
    shorter = problem.removesuffix(sentence * (over // each + 1))
    assert scripted_codec().count(problem) - scripted_codec().count(shorter) > over
    assert max(row.total for row in rehearsed(9000, shorter).rows) <= 9000


# --- caps


@pytest.mark.parametrize("seed", range(2))
def test_floors_are_kept_where_a_full_reply_is_not_shorter(seed: int) -> None:
    full, least = scripted_budget(shrink=1.0), scripted_budget(shrink=0.0)
    for asked in supermajority_asks(seed):
        floor = FLOORS.moderator_floor_tokens if asked.ask.seat == MODERATOR else FLOORS.seat_floor_tokens
        cap = least.form(asked.ask).max_tokens
        assert cap >= min(floor // asked.ask.parts, full.form(asked.ask).max_tokens)


def test_the_parts_of_one_text_share_its_floor() -> None:
    asks = [asked.ask for asked in supermajority_asks() if asked.ask.reply is Merged]
    least = scripted_budget(shrink=0.0)
    settings = supermajority_table().settings
    assert {ask.parts for ask in asks} == {settings.recommendations.least}
    alone = [replace(ask, parts=1) for ask in asks]
    assert all(least.form(ask).max_tokens <= least.form(one).max_tokens for ask, one in zip(asks, alone, strict=True))


@given(st.integers(0, 999), st.floats(0, 1), st.floats(0, 1))
def test_caps_and_bounds_grow_with_the_share(number: int, one: float, other: float) -> None:
    ask = any_ask(number)
    low, high = (scripted_budget(shrink=share).form(ask) for share in sorted((one, other)))
    assert low.max_tokens <= high.max_tokens
    assert bounds(low.schema_json) <= bounds(high.schema_json)


def bounds(schema_json: str) -> int:
    return sum(int(number) for number in re.findall(r'"maxLength":(\d+)', schema_json))


def test_a_form_s_json_is_its_schema_in_order() -> None:
    for asked in supermajority_asks():
        form = scripted_budget().form(asked.ask)
        assert form.schema_json == canonical(form.schema)


@pytest.mark.parametrize("shrink", [0.0, 0.3, 1.0])
def test_b1_drawn_replies_stay_under_their_caps(shrink: float) -> None:
    """One token per character is more than any text here needs, so no reply may ever be cut off."""
    codec, budget = scripted_codec(), scripted_budget(tokens_per_character=1.0, shrink=shrink)
    for number, asked in enumerate(supermajority_asks()):
        form = budget.form(asked.ask)
        for seed in range(3):
            assert codec.count(draw(form.schema_json, 31 * number + seed)) + 1 <= form.max_tokens


def density(replies: Iterable[tuple[Any, Schema]]) -> float:
    """The most tokens per character that any text of these replies has."""
    return max(scripted_codec().count(text) / len(text) for value, schema in replies for text in prose(value, schema))


@pytest.mark.parametrize("shrink", [0.0, 0.3, 1.0])
def test_b1_replies_as_long_as_their_grammar_allows_stay_under_their_caps(shrink: float) -> None:
    """Every string and list full, the tokens-per-character value no larger than these texts need, and the end token."""
    asks = [asked.ask for asked in supermajority_asks()]
    most = 1.0
    for _ in range(40):  # bounds move with the value, and the texts with the bounds
        budget = scripted_budget(tokens_per_character=most, shrink=shrink)
        forms = [budget.form(ask) for ask in asks]
        replies = [fill(form.schema, random.Random(number), WORDS) for number, form in enumerate(forms)]
        needed = density(zip(replies, (form.schema for form in forms), strict=True))
        if most - 0.01 < needed <= most:
            break
        most = needed + 0.002
    else:
        pytest.fail("no value that is true of its own texts was found")
    for form, reply in zip(forms, replies, strict=True):
        assert scripted_codec().count(canonical(reply)) + 1 <= form.max_tokens


@given(st.text(max_size=30), st.integers(0, 200), st.sampled_from([0.25, 0.4, 1.0]))
def test_filling_counts_at_the_model_s_tokens_per_character(text: str, filled: int, density: float) -> None:
    budget = scripted_budget(tokens_per_character=density)
    plain = text.replace(FILL, "")
    count = budget.filled(plain + FILL * filled)
    assert budget.codec.count(plain) + filled * density <= count <= budget.codec.count(plain) + filled * density + 1


# --- the rehearsal itself, on a debate of two turns


QUESTION = Question("go", ("Go on?",), default="no")


def small(table_text: str = "Decide.", deep: int = 0) -> Debate:
    ask = supermajority_asks()[0].ask
    context = (Block("PROBLEM", table_text, "decision"),)
    replies = yield from hold(Turn("first", context, (ask,)))
    assert list(replies) == [ask.id]
    answer = yield from consult(QUESTION)
    yield from publish(Publish(files={f"{answer.value}.md": "text"}, folders=("empty",)))
    for number in range(deep):
        yield from hold(Turn(f"more-{number}", context, (ask,)))
    return Outcome("done", needs_human=False, summary="done")


def test_questions_get_their_default_and_publishing_is_listed() -> None:
    rehearsal = rehearse(small, (WorstCase("a"), WorstCase("b")), scripted_budget())
    assert [(row.case, row.turn) for row in rehearsal.rows] == [("a", "first"), ("b", "first")]
    assert rehearsal.paths == ("empty/", "no.md")


def test_d1_every_row_counts_frame_context_brief_reask_and_reply() -> None:
    budget = scripted_budget()
    ask = supermajority_asks()[0].ask
    (row,) = rehearse(small, (WorstCase("a"),), budget).rows
    prompt = budget.codec.prompt(budget.codec.context([Block("PROBLEM", "Decide.", "decision")]), ask.brief.text)
    assert row.total == row.context + row.brief + row.reply
    assert row.reply == budget.form(ask).max_tokens
    assert len(prompt) < row.context + row.brief


def test_the_longest_of_several_asks_decides() -> None:
    asks = [asked.ask for asked in supermajority_asks() if asked.turn.name == "round2"]
    budget = scripted_budget()

    def debate(asks: tuple[Ask, ...]) -> Debate:
        yield from hold(Turn("round2", (Block("", "x", "decision"),), asks))
        return Outcome("done", needs_human=False, summary="done")

    alone = [rehearse(lambda ask=ask: debate((ask,)), (WorstCase("a"),), budget).rows[0].total for ask in asks]  # type: ignore[misc]
    together = rehearse(lambda: debate(tuple(asks)), (WorstCase("a"),), budget).rows[0]
    assert together.total == max(alone)
    assert together.asks == len(asks)


def test_largest_replies_of_the_rehearsal_are_valid_json_of_their_type() -> None:
    budget = scripted_budget(shrink=0.3)
    for asked in supermajority_asks():
        value = largest(budget.form(asked.ask).schema, {}, budget.codec.count)
        assert isinstance(asked.ask.reply.model_validate(json.loads(canonical(value))), asked.ask.reply)
