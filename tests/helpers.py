"""Small models, tables and debates that several tests need; no network and no engine."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import jsonschema

import roundtable_local
from roundtable_local import protocols
from roundtable_local.backends.base import Generation, Request, Sampling
from roundtable_local.backends.scripted import ScriptedBackend
from roundtable_local.budget import Budget, Rehearsal, rehearse
from roundtable_local.config import engine_settings, protocol_settings, read_yaml
from roundtable_local.decision import parse_decision
from roundtable_local.prompts import render
from roundtable_local.protocols import Protocol
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings
from roundtable_local.schema import Schema, parse
from roundtable_local.seats import Roster, Table
from roundtable_local.shipped import shipped
from roundtable_local.steps import Answer, Ask, Outcome, Question, Replies, Turn
from roundtable_local.tokens import Codec
from tests.halls import Hall

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(roundtable_local.__file__).resolve().parent
SCRIPTED_MODEL = PACKAGE / "backends" / "scripted_model"
PROBLEM = "# Should we use microservices or a monolith?\n\nEight engineers, one product, a yearly audit.\n"
SAMPLING = Sampling(0.0, 1.0, 0, 0.0, 0.0, 1.0)


@cache
def scripted_codec() -> Codec:
    """The codec of the scripted backend's own model folder."""
    return Codec(SCRIPTED_MODEL, render("system.j2").text)


def scripted_budget(window: int = 32768, tokens_per_character: float = 0.5, shrink: float = 1.0) -> Budget:
    return Budget(scripted_codec(), window, tokens_per_character, engine_settings().budget, shrink)


@cache
def supermajority_table(problem: str = PROBLEM, date: str = "2026-03-01") -> Table[Any]:
    """A table with the shipped roster and settings."""
    settings = protocol_settings("supermajority", SupermajoritySettings, config={}, decision={}, command_line={})
    roster = Roster.model_validate(read_yaml(shipped("configs") / "rosters" / "supermajority.yaml"))
    return Table(roster.seats, parse_decision(problem, "decision.md", engine_settings().slug), settings, date)


@dataclass(frozen=True)
class Asked:
    """One ask of a debate with the turn it stood in."""

    turn: Turn
    ask: Ask


def request(label: str, schema: str | None, seed: int = 0, max_tokens: int = 100_000) -> Request:
    return Request(label, [1], max_tokens, SAMPLING, seed, schema)


def draw(schema_json: str, seed: int) -> str:
    """A reply that the scripted backend draws from a grammar."""
    (generation,) = ScriptedBackend().generate([request("turn/ask/1", schema_json, seed)], ignore, never)
    return generation.text


def ignore(index: int, generation: Generation) -> None:
    """An `on_done` that does nothing."""


def never() -> bool:
    """A `stop` that never stops."""
    return False


@cache
def supermajority_turns(seed: int = 0, problem: str = PROBLEM) -> tuple[Turn, ...]:
    """Every turn of one whole debate, driven with drawn replies."""
    budget, table = scripted_budget(), supermajority_table(problem)
    debate = protocols.find("supermajority").debate(table)
    turns: list[Turn] = []
    sent: Any = None
    while True:
        try:
            step = debate.send(sent)
        except StopIteration as end:
            outcome: Outcome = end.value
            assert outcome.verdict
            return tuple(turns)
        sent = None
        if isinstance(step, Turn):
            turns.append(step)
            replies = {}
            for number, ask in enumerate(step.asks):
                form = budget.form(ask)
                text = draw(form.schema_json, 1_000_003 * seed + 1_009 * len(turns) + number)
                replies[ask.id] = parse(ask.reply, form.schema, text)
            sent = Replies(replies)
        elif isinstance(step, Question):
            sent = Answer(step.default or "")


@cache
def supermajority_asks(seed: int = 0) -> tuple[Asked, ...]:
    """Every ask of one whole debate."""
    return tuple(Asked(turn, ask) for turn in supermajority_turns(seed) for ask in turn.asks)


def any_ask(number: int) -> Ask:
    """One of them; a number reads better than an ask where a property fails."""
    asks = supermajority_asks()
    return asks[number % len(asks)].ask


def fill(schema: Schema, dice: random.Random, words: Sequence[str]) -> Any:
    """A reply as long as its grammar allows: strings and lists full, choices and branches by chance."""
    if "anyOf" in schema:
        return fill(dice.choice(schema["anyOf"]), dice, words)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    if schema["type"] == "object":
        return {key: fill(value, dice, words) for key, value in schema["properties"].items()}
    if schema["type"] == "array":
        return [fill(schema["items"], dice, words) for _ in range(schema["maxItems"])]
    text = ""
    while len(text) < schema["maxLength"]:
        text += dice.choice(words) + " "
    return text[: schema["maxLength"] - 1] + "."


def prose(value: Any, schema: Schema) -> Iterator[str]:
    """The free strings of a reply."""
    if "anyOf" in schema:
        for branch in schema["anyOf"]:
            if jsonschema.Draft202012Validator(branch).is_valid(value):
                yield from prose(value, branch)
    elif schema.get("type") == "object":
        for key, child in schema["properties"].items():
            yield from prose(value[key], child)
    elif schema.get("type") == "array":
        for item in value:
            yield from prose(item, schema["items"])
    elif "enum" not in schema:
        yield value


def write_folder(folder: Path, files: Mapping[str, Any]) -> Path:
    """A folder of files: text and bytes as they are, everything else as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return folder


@contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """Fails an endless loop, with an error that no handler of OSError takes for its own."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def rehearsed(protocol: Protocol, table: Table[Any]) -> Rehearsal:
    """The rehearsal of any protocol's debate, with the scripted model's tokenizer."""
    return rehearse(lambda: protocol.debate(table), protocol.worst_cases(table), scripted_budget())


def draw_debate(protocol: Protocol, table: Table[Any], seed: int, answers: Mapping[str, Answer] | None = None) -> Hall:
    """A whole debate of any protocol, with replies drawn from the grammars."""
    budget, drawn = scripted_budget(), random.Random(seed)

    def reply(turn: Turn) -> Replies:
        values = {}
        for ask in turn.asks:
            form = budget.form(ask)
            values[ask.id] = parse(ask.reply, form.schema, draw(form.schema_json, drawn.getrandbits(40)))
        return Replies(values)

    return Hall(protocol.debate(table), reply, answers)
