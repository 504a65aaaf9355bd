"""How long replies may be, and whether the whole debate fits the model's window: known before round 1.

A rehearsal drives the protocol's generator with replies as long as their bounds allow. Where a turn does
not fit, the caps of all replies shrink in proportion until it does, never below the floors in
configs/engine.yaml; if even those do not fit, the run is refused with the numbers. Nothing is cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from roundtable_local.errors import WindowError
from roundtable_local.prompts import render
from roundtable_local.schema import FILL, Schema, canonical, grammar, largest
from roundtable_local.settings import BudgetSettings
from roundtable_local.steps import (
    MODERATOR,
    Answer,
    Ask,
    Debate,
    Narrowing,
    Publish,
    Question,
    Replies,
    Turn,
    WorstCase,
)
from roundtable_local.tokens import Codec

REASON_CHARACTERS = 300
"""Longest reason that a re-ask quotes; the rehearsal reserves room for it."""

_SEARCH_STEPS = 8


@dataclass(frozen=True)
class Form:
    """The form of one reply: its grammar, as data and as canonical JSON, and its cap in tokens."""

    schema: Schema
    schema_json: str
    max_tokens: int


@dataclass(frozen=True)
class Budget:
    """Turns bounds in characters into caps in tokens.

    Args:
        codec: the model's tokenizer.
        window: tokens of prompt and reply together.
        tokens_per_character: upper estimate for replies.
        settings: the floors.
        thought_tokens: what a thought before a reply adds to its prompt at most.
        shrink: 1 leaves replies their full length, 0 takes them to the floors.
    """

    codec: Codec
    window: int
    tokens_per_character: float
    settings: BudgetSettings
    shrink: float = 1.0
    thought_tokens: int = 0

    def form(self, ask: Ask) -> Form:
        """Grammar and cap of an ask."""
        floor = self.settings.moderator_floor_tokens if ask.seat == MODERATOR else self.settings.seat_floor_tokens
        return self._form(ask.reply, tuple(ask.narrow.items()), floor // ask.parts)

    @lru_cache(maxsize=1024)  # noqa: B019 - budgets are few and live as long as the run
    def _form(self, kind: type[BaseModel], narrow: tuple[tuple[str, Narrowing], ...], floor: int) -> Form:
        rules, least_characters = dict(narrow), self.settings.min_field_characters
        full = self._tokens(grammar(kind, rules))
        least = self._tokens(grammar(kind, rules, 0.0, least_characters))
        cap = min(full, max(floor, least, math.ceil(full * self.shrink)))
        share = (cap - least) / (full - least) if full > least else 1.0
        schema = grammar(kind, rules, share, least_characters)
        return Form(schema, canonical(schema), cap)

    def _tokens(self, schema: Schema) -> int:
        return self.filled(canonical(largest(schema, {}, self.codec.count))) + self.settings.slack_tokens

    def filled(self, text: str) -> int:
        """Tokens of a text in which FILL stands for characters of largest replies."""
        return self.codec.count(text.replace(FILL, "")) + math.ceil(text.count(FILL) * self.tokens_per_character)


@dataclass(frozen=True)
class Row:
    """The worst case of one turn, in tokens; `brief` (with a thought, where seats think) and `reply` are its largest seat's."""

    case: str
    turn: str
    asks: int
    context: int
    brief: int
    reply: int

    @property
    def total(self) -> int:
        """Prompt and reply of the largest seat."""
        return self.context + self.brief + self.reply


@dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal found: the budget to run with, a row per turn, and the files and folders that will be written."""

    budget: Budget
    rows: tuple[Row, ...]
    paths: tuple[str, ...]


def rehearse(start: Callable[[], Debate], cases: Iterable[WorstCase], budget: Budget) -> Rehearsal:
    """Find the longest replies with which every turn of every worst case fits the window.

    Args:
        start: makes a fresh generator of the debate.
        cases: the protocol's branches.
        budget: with `shrink` 1.

    Raises:
        WindowError: not even the floors fit.
    """
    cases = tuple(cases)
    full = _drive(start, cases, budget)
    if _fits(full):
        return full
    best = _drive(start, cases, replace(budget, shrink=0.0))
    if not _fits(best):
        raise _too_large(best)
    low, high = 0.0, 1.0
    for _ in range(_SEARCH_STEPS):
        middle = (low + high) / 2
        tried = _drive(start, cases, replace(budget, shrink=middle))
        if _fits(tried):
            best, low = tried, middle
        else:
            high = middle
    return best


def _fits(rehearsal: Rehearsal) -> bool:
    return all(row.total <= rehearsal.budget.window for row in rehearsal.rows)


def _too_large(rehearsal: Rehearsal) -> WindowError:
    row = max(rehearsal.rows, key=lambda each: each.total)
    decision = rehearsal.rows[0].context
    return WindowError(
        f"the debate does not fit the model's window of {rehearsal.budget.window:,} tokens: turn {row.turn} needs "
        f"{row.total:,} even with the shortest replies (decision and rules {decision:,}, whole context {row.context:,}, "
        f"brief {row.brief:,}, reply {row.reply:,})",
        f"shorten the decision by about {row.total - rehearsal.budget.window:,} tokens or use a model with a larger window",
    )


def _drive(start: Callable[[], Debate], cases: Sequence[WorstCase], budget: Budget) -> Rehearsal:
    rows: dict[tuple[str, str], Row] = {}
    paths: dict[str, None] = {}
    for case in cases:
        debate = start()
        sent: Any = None
        while True:
            try:
                step = debate.send(sent)
            except StopIteration:
                break
            sent = None
            if isinstance(step, Turn):
                row, key = _row(case, step, budget), (case.name, step.name)
                before = rows.get(key, row)  # one request at a time: the turn comes again for each seat
                rows[key] = max(before, row, key=lambda each: each.total)
                sent = Replies({ask.id: _largest_reply(ask, case, budget) for ask in step.asks})
            elif isinstance(step, Question):
                sent = Answer(step.default or next(iter(step.choices), ""))
            elif isinstance(step, Publish):
                paths.update(dict.fromkeys([*(f"{folder}/" for folder in step.folders), *step.files]))
    return Rehearsal(budget, tuple(rows.values()), tuple(paths))


def _row(case: WorstCase, turn: Turn, budget: Budget) -> Row:
    frame = budget.codec.frame
    context = len(frame.head) + sum(budget.filled(block.render()) for block in turn.context)
    context += case.reserve.get(turn.name, 0)
    reask = render("reask.j2", reason=FILL * REASON_CHARACTERS).text
    brief, reply = max(
        (
            (
                budget.filled(f"{ask.brief.text}\n\n{reask}") + len(frame.tail) + budget.thought_tokens,
                budget.form(ask).max_tokens,
            )
            for ask in turn.asks
        ),
        key=sum,
    )
    return Row(case.name, turn.name, len(turn.asks), context, brief, reply)


def _largest_reply(ask: Ask, case: WorstCase, budget: Budget) -> BaseModel:
    prefer = {**case.prefer, **case.by_ask.get(ask.id, {})}
    value = largest(budget.form(ask).schema, prefer, budget.codec.count, case.empty)
    return ask.reply.model_validate(value)
