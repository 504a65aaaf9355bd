"""How far a sitting has come: who said what, who left, what the inspector and the vote came to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roundtable_local.protocols.confidence.replies import Deepening, Position, Voting
from roundtable_local.protocols.confidence.settings import ConfidenceSettings
from roundtable_local.protocols.confidence.tally import Inspection, Vote
from roundtable_local.seats import Seat, Table
from roundtable_local.steps import Answer, Replies

_NO_NOTE = frozenset({"", "null", "none"})
"""How models write that they have no dissent note (O-042)."""

SettingsTable = Table[ConfidenceSettings]


@dataclass
class Sitting:
    """One debate so far; `emptied` seats have left the table for good (O-036, O-g1).

    Args:
        table: seats, question, facts and settings.
        options: settled before round 1; empty until then.
        rounds: replies by seat, by number of the round before the vote.
        axes: what round 3 is about.
        inspections: by number of the round after which it was asked.
        finals: votes by seat.
        emptied: why a seat left, by seat.
        notes: what else a reader of the minute must know.
        vote: what the vote came to.
        answer: the human's decision after a deadlock.
    """

    table: SettingsTable
    options: tuple[str, ...] = ()
    rounds: dict[int, dict[str, Position]] = field(default_factory=dict)
    axes: tuple[str, ...] = ()
    inspections: dict[int, Inspection] = field(default_factory=dict)
    finals: dict[str, Voting] = field(default_factory=dict)
    emptied: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    vote: Vote | None = None
    answer: Answer | None = None

    @property
    def seats(self) -> list[Seat]:
        """The seats still at the table, in roster order."""
        return [seat for seat in self.table.seats if seat.slug not in self.emptied]

    def is_quorate(self) -> bool:
        """Whether enough seats are left (O-020)."""
        return len(self.seats) >= self.table.settings.least_seats

    @property
    def name(self) -> str:
        """`YYYY-MM-DD_<slug>`: the id of the state and the name of its files (O-011)."""
        return self.table.place.name or f"{self.table.date}_{self.table.decision.slug}"

    def others(self, seat: Seat) -> tuple[str, ...]:
        """Slugs of the other seats at the table."""
        return tuple(each.slug for each in self.seats if each.slug != seat.slug)

    def name_of(self, slug: str) -> str:
        """A seat's name."""
        return self.table.seat(slug).name

    def leave(self, called: str, replies: Replies) -> tuple[str, ...]:
        """Lost seats leave the table; returns a notice for each (O-036, O-g1)."""
        notices = []
        for slug, reason in replies.lost.items():
            self.emptied[slug] = f"in {called}: {reason}"
            notices.append(f"{self.name_of(slug)}'s seat is empty from {called} on: {reason} (O-036)")
        return tuple(notices)

    def state(self) -> dict[str, Any]:
        """The state of O-025 and O-045; emptied seats are no agents (O-g1)."""
        settings = self.table.settings
        return {
            "id": self.name,
            "question": self.table.decision.topic,
            "options": list(self.options),
            "aggregator": settings.aggregator,
            "values_keywords": list(settings.values_keywords),
            "agents": [self._agent(seat) for seat in self.seats],
            "emptied": [{"name": self.name_of(slug), "reason": reason} for slug, reason in self.emptied.items()],
        }

    def state_text(self) -> str:
        """The state as its file holds it."""
        return json.dumps(self.state(), indent=2, ensure_ascii=False) + "\n"

    def _agent(self, seat: Seat) -> dict[str, Any]:
        agent: dict[str, Any] = {"name": seat.name, "soul": seat.source}
        agent["rounds"] = [
            _round(number, replies[seat.slug]) for number, replies in self.rounds.items() if seat.slug in replies
        ]
        if (final := self.finals.get(seat.slug)) is not None:
            agent["final"] = {
                "vote": final.final_vote,
                "confidence": final.final_confidence,
                "rationale": final.one_line_rationale,
            }
            note = final.dissent_note.strip()
            agent["dissent_note"] = None if note.lower() in _NO_NOTE else note
        return agent


def _round(number: int, reply: Position) -> Mapping[str, Any]:
    """O-037; only round 2 asks what changed."""
    said = {"round": number, "position": reply.position, "confidence": reply.confidence_now}
    return said | ({"self_update": reply.self_update} if isinstance(reply, Deepening) else {})
