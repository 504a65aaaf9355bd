"""Who watches a run, and who answers its questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from roundtable_local.backends.base import Generation
from roundtable_local.errors import UsageError
from roundtable_local.steps import Answer, Entry, Question


class Listener(Protocol):
    """Who watches a run: the terminal, or a test."""

    def starting(self) -> None:
        """The engine is being started."""

    def begun(self, path: Path) -> None:
        """The run directory is made."""

    def turn(self, name: str, asks: int, attempt: int) -> None:
        """A generate call begins."""

    def reply(self, turn: str, ask: str, done: int, asks: int, generation: Generation) -> None:
        """One reply of it has finished."""

    def notice(self, text: str) -> None:
        """A line for LOG.md came up."""

    def entry(self, entry: Entry) -> None:
        """A log entry that goes to no file."""

    def ask(self, question: Question) -> Answer | None:
        """A human is asked; None where nobody is there."""


class Silent:
    """A listener that shows nothing."""

    def starting(self) -> None:
        """Nothing is shown."""

    def begun(self, path: Path) -> None:
        """Nothing is shown."""

    def turn(self, name: str, asks: int, attempt: int) -> None:
        """Nothing is shown."""

    def reply(self, turn: str, ask: str, done: int, asks: int, generation: Generation) -> None:
        """Nothing is shown."""

    def notice(self, text: str) -> None:
        """Nothing is shown."""

    def entry(self, entry: Entry) -> None:
        """Nothing is shown."""

    def ask(self, question: Question) -> Answer | None:
        """Nobody is there."""
        return None


@dataclass(frozen=True)
class Human:
    """What a human said beforehand.

    Args:
        answers: by question name.
        yes: consents to whatever asks for consent.
    """

    answers: Mapping[str, Answer] = field(default_factory=dict)
    yes: bool = False

    def says(self, question: Question) -> Answer | None:
        """The answer to a question, if it was given."""
        given = self.answers.get(question.name)
        return Answer("yes") if given is None and self.yes and question.consent else given


def check_answer(question: Question, answer: Answer) -> None:
    """Whether a question can be answered so.

    Raises:
        UsageError: it is not among the choices, or nobody signed it.
    """
    if question.choices and answer.value not in question.choices:
        raise UsageError(
            f"{answer.value!r} is no answer to question {question.name!r}", f"one of: {', '.join(question.choices)}"
        )
    if problem := question.check(answer.value):
        raise UsageError(f"{answer.value!r} is no answer to question {question.name!r}: {problem}", "answer again")
    if question.signed and not answer.by.strip():
        raise UsageError(f"question {question.name!r} needs the name of who decides", "add --by NAME")


def answering(question: Question) -> str:
    """The options of a command line that answer a question."""
    value = "|".join(question.choices) or "VALUE"
    return f"--answer {question.name}={value}" + (" --by NAME [--why TEXT]" if question.signed else "")
