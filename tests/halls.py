"""Drives any protocol's debate by hand: replies come from a function, answers from a mapping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roundtable_local.steps import Answer, Debate, Entry, Outcome, Publish, Question, Replies, Turn

Reply = Callable[[Turn], Replies]


class Hall:
    """One debate, driven to its outcome or to a question that nobody answers.

    Args:
        debate: the generator.
        reply: answers a turn.
        answers: by question name; a question that is not in it gets its default.
    """

    def __init__(self, debate: Debate, reply: Reply, answers: Mapping[str, Answer] | None = None) -> None:
        self.turns: dict[str, Turn] = {}
        self.asked: list[Question] = []
        self.files: dict[str, str] = {}
        self.folders: list[str] = []
        self.notices: list[str] = []
        self.entries: list[Entry] = []
        self.writes: list[str] = []
        self.outcome: Outcome | None = None
        sent: Any = None
        while True:
            try:
                step = debate.send(sent)
            except StopIteration as end:
                self.outcome = end.value
                return
            sent = None
            if isinstance(step, Turn):
                self.turns[step.name] = step
                self.writes.append(f"ask {step.name} {len(step.asks)}")
                sent = reply(step)
            elif isinstance(step, Question):
                self.asked.append(step)
                sent = (answers or {}).get(step.name)
                if sent is None and step.default is not None:
                    sent = Answer(step.default)
                if sent is None:
                    return
            elif isinstance(step, Publish):
                self.files |= step.files
                self.writes += step.files
                self.folders += step.folders
                self.notices += step.notices
                self.entries += step.entries

    @property
    def ended(self) -> Outcome:
        """The outcome; fails where a question was left open."""
        assert self.outcome is not None, f"waits for {self.asked[-1].name}"
        return self.outcome
