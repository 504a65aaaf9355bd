"""The words that protocols and the runner share: what a debate asks for, and what comes back.

A protocol is a generator of steps. It never sees a model, a file, a terminal or a clock; this
module therefore knows nothing of the rest of the package.

    Turn      one generation call for several seats      -> sent back: Replies
    Question  something only a human can decide          -> sent back: Answer
    Publish   files, folders, notices, ledger entries    -> sent back: None
    Outcome   what the generator returns
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

Origin = Literal["decision", "facts", "replies", "moderator", "instructions", "codebase"]

ReplyT = TypeVar("ReplyT", bound=BaseModel)

MODERATOR = "moderator"
"""Slug of the one seat that writes syntheses and summaries and never votes."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of context that every seat of a turn sees, byte for byte.

    Nothing that belongs to one seat, no clock, path or run id may stand in it: blocks come first in
    every prompt, so that their KV cache is shared.
    """

    title: str
    text: str
    origin: Origin

    def render(self) -> str:
        """The block as the model reads it: title line, text, and a blank line."""
        return f"{self.title}:\n{self.text}\n\n" if self.title else f"{self.text}\n\n"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Rendered prompt text with the template it came from and that template's sha256."""

    text: str
    template: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Values:
    """Narrows a string field to these values."""

    allowed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """Narrows a mapping to exactly these keys, all required, in this order."""

    required: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """Narrows a list to between `least` and `most` items."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Length:
    """Narrows a text to at most `most` characters; where the window is small, less, but never below `least`."""

    most: int
    least: int = 0


Narrowing = Values | Keys | Count | Length


@dataclass(frozen=True)
class Ask:
    """What one seat alone is told, and the form its reply must have.

    Args:
        seat: slug of the seat that answers.
        brief: role, overlays and what is addressed to this seat; comes after the shared context.
        reply: static pydantic type of the reply; its JSON schema is the grammar.
        narrow: per dotted field path ("votes.*.vote", "challenges.*.to"), what is allowed this time.
        id: name of the ask within its turn; the seat's slug unless given.
        required: whether the debate cannot go on without this reply.
        parts: how many replies make up one text; they share the lower limit of its length.
    """

    seat: str
    brief: Prompt
    reply: type[BaseModel]
    narrow: Mapping[str, Narrowing] = field(default_factory=dict)
    id: str = ""
    required: bool = False
    parts: int = 1

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.seat)


@dataclass(frozen=True)
class Turn:
    """One generation call: a shared context and what each seat is asked on top of it.

    Raises:
        ValueError: a theory turn was given codebase text (A-005, A-g19), two asks share an id, or
            the turn asks nobody.
    """

    name: str
    context: tuple[Block, ...]
    asks: tuple[Ask, ...]
    theory: bool = False

    def __post_init__(self) -> None:
        if self.theory and any(block.origin == "codebase" for block in self.context):
            raise ValueError(f"turn {self.name!r} is a theory turn: codebase text may not reach it (A-005)")
        ids = [ask.id for ask in self.asks]
        if not ids or len(set(ids)) != len(ids):
            raise ValueError(f"turn {self.name!r} needs asks with distinct ids, got {ids}")


@dataclass(frozen=True)
class Replies(Mapping[str, BaseModel]):
    """Replies by ask id, in ask order, and why the missing ones are missing.

    A lost reply is not an abstention: what it means is the protocol's rule.
    """

    values_by_id: Mapping[str, BaseModel]
    lost: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, ask_id: str) -> BaseModel:
        return self.values_by_id[ask_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_id)

    def __len__(self) -> int:
        return len(self.values_by_id)

    def of(self, kind: type[ReplyT]) -> dict[str, ReplyT]:
        """The replies, checked to be of one type.

        Raises:
            TypeError: a reply is of another type (a fault of the protocol, not of a seat).
        """
        typed: dict[str, ReplyT] = {}
        for ask_id, reply in self.values_by_id.items():
            if not isinstance(reply, kind):
                raise TypeError(f"{ask_id}: expected {kind.__name__}, got {type(reply).__name__}")
            typed[ask_id] = reply
        return typed


@dataclass(frozen=True, slots=True)
class Question:
    """Something for a human: answered at the terminal, by `--answer NAME=VALUE`, or by its default.

    Without an answer and a default the run suspends and can be resumed with the answer.

    Args:
        name: as given to `--answer`.
        parts: what the human must know, one line each.
        default: what holds when nobody is there to answer; None suspends the run.
        choices: the only values allowed; empty allows any text.
        signed: whether the answer must name who gave it.
        consent: whether `--yes` answers it with yes.
        check: says what is wrong with an answer; "" where nothing is.
    """

    name: str
    parts: tuple[str, ...]
    default: str | None = None
    choices: tuple[str, ...] = ()
    signed: bool = False
    consent: bool = False
    check: Callable[[str], str] = lambda answer: ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a human answered; `by` and `why` are empty unless given."""

    value: str
    by: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Lines for a log outside the run directory, below a heading; added once per key, never by a replay.

    Args:
        key: names the entry within its run.
        heading: the whole heading line; made at the end of the log where it is not there yet.
        text: the lines.
    """

    key: str
    heading: str
    text: str


@dataclass(frozen=True)
class Publish:
    """What becomes visible: whole files and empty folders (paths relative to the run directory), notices, entries."""

    files: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """A file to point the user to, relative to the run directory, with what it is called in the closing lines."""

    label: str
    path: str


@dataclass(frozen=True)
class Outcome:
    """What a debate returns.

    Args:
        verdict: in the protocol's words.
        needs_human: whether a human must decide.
        summary: one line that sums it up.
        failed: whether the debate could not be held to its end.
        results: the files to point to; a label comes before its path.
        data: the result for programs, as JSON values.
    """

    verdict: str
    needs_human: bool
    summary: str
    failed: bool = False
    results: tuple[Result, ...] = (Result("", "REPORT.md"),)
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WorstCase:
    """A branch that the rehearsal drives with every reply at its largest.

    Args:
        name: what the branch is, for `--dry-run`.
        prefer: per dotted field path, the value to pick where a choice steers the debate; elsewhere the
            longest value is taken.
        by_ask: the same for single asks, by ask id; these go before `prefer`.
        empty: dotted paths of lists that this branch needs empty.
        reserve: tokens to set aside for a turn's context beyond what the rehearsal sees, by turn name.
    """

    name: str
    prefer: Mapping[str, str] = field(default_factory=dict)
    by_ask: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    reserve: Mapping[str, int] = field(default_factory=dict)


Step = Turn | Question | Publish
Debate = Generator[Step, Any, Outcome]


def hold(turn: Turn) -> Generator[Step, Any, Replies]:
    """Yield a turn and return its replies."""
    replies = yield turn
    if not isinstance(replies, Replies):
        raise TypeError(f"turn {turn.name!r} must be answered with Replies, got {type(replies).__name__}")
    return replies


def publish(step: Publish) -> Generator[Step, Any, None]:
    """Yield something to publish."""
    yield step


def consult(question: Question) -> Generator[Step, Any, Answer]:
    """Yield a question and return the answer."""
    answer = yield question
    if not isinstance(answer, Answer):
        raise TypeError(f"question {question.name!r} must be answered with an Answer, got {type(answer).__name__}")
    return answer


class Refused(ValueError):
    """A table that a protocol cannot hold its debate at; says why, and what to do about it."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
