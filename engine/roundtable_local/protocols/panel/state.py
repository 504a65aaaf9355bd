"""How far a panel has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roundtable_local.protocols.panel.replies import (
    Concern,
    Critique,
    Defense,
    Escalation,
    Judgement,
    Output,
    Revision,
    Verdict,
)
from roundtable_local.protocols.panel.settings import PanelSettings
from roundtable_local.protocols.panel.tally import ARBITER, PROPONENT, SEATS, SKEPTIC, Result
from roundtable_local.seats import Table
from roundtable_local.steps import Answer, Entry

PanelTable = Table[PanelSettings]

NOTHING = "no seat gave a valid reply"
"""Stands in a log's line where all three seats were lost."""


@dataclass(frozen=True)
class Outputs:
    """What the seats wrote in one vote, and why the missing ones are missing."""

    defense: Defense | None
    critique: Critique | None
    judgement: Judgement | None
    lost: Mapping[str, str]

    def of(self, seat: str) -> Output | None:
        """One seat's output; None where it was lost."""
        outputs: dict[str, Output | None] = {PROPONENT: self.defense, SKEPTIC: self.critique, ARBITER: self.judgement}
        return outputs[seat]

    @property
    def verdicts(self) -> dict[str, Verdict | None]:
        """Verdicts by seat; None where a seat gave none (M-g6)."""
        outputs = {seat: self.of(seat) for seat in SEATS}
        return {seat: output.verdict if output else None for seat, output in outputs.items()}

    @property
    def concerns(self) -> tuple[Concern, ...]:
        """The Skeptic's."""
        return tuple(self.critique.concerns) if self.critique else ()


@dataclass(frozen=True)
class Vote:
    """One vote: what was judged, what the seats wrote, what it came to."""

    number: int
    artifact: str
    outputs: Outputs
    result: Result

    @property
    def outcome(self) -> str:
        """What goes ahead, or was to, in a few words (M-g7).

        The Arbiter's words, else the Skeptic's, else the Proponent's; once the panel has accepted, a seat that accepted
        speaks before one that did not.
        """
        voices = [output for output in map(self.outputs.of, reversed(SEATS)) if output]
        if self.result.verdict is Verdict.ACCEPT:
            voices.sort(key=lambda output: output.verdict is not Verdict.ACCEPT)
        return voices[0].outcome if voices else NOTHING

    @property
    def split_on(self) -> str:
        """What speaks against the artifact where no concern of the Skeptic's does: the reason of a seat that dissented."""
        voices = [output for output in map(self.outputs.of, reversed(SEATS)) if output]
        voices.sort(key=lambda output: output.verdict is Verdict.ACCEPT)
        return voices[0].reason if voices else NOTHING


@dataclass
class State:
    """Votes and what stands between and after them."""

    table: PanelTable
    votes: list[Vote] = field(default_factory=list)
    revision: Revision | None = None
    escalation: Escalation | None = None
    answer: Answer | None = None
    entries: list[Entry] = field(default_factory=list)

    @property
    def decision(self) -> str:
        """What log lines call the decision."""
        return self.table.decision.topic

    @property
    def last(self) -> Vote:
        """The vote held last."""
        return self.votes[-1]

    @property
    def lines(self) -> list[str]:
        """All log lines so far."""
        return [line for entry in self.entries for line in entry.text.split("\n")]

    @property
    def chosen(self) -> str:
        """Label of the path that the user chose; empty before that."""
        if self.escalation is None or self.answer is None:
            return ""
        return self.escalation.choices[choice_ids(self.escalation).index(self.answer.value)].label


def choice_ids(escalation: Escalation) -> tuple[str, ...]:
    """What the user answers with: a, b, c, d."""
    return tuple("abcd"[: len(escalation.choices)])
