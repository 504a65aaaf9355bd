"""How far a supermajority debate has come, and the one way its turns are held."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from roundtable_local.protocols.replies import Reply
from roundtable_local.protocols.supermajority.replies import Ballot, RoundOne, RoundThree, RoundTwo, Supplement
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings
from roundtable_local.seats import Seat, Table
from roundtable_local.steps import Publish, Replies, Step, Turn, hold, publish

SettingsTable = Table[SupermajoritySettings]
Render = Callable[[str, Any], Mapping[str, str]]
"""Files of one seat's reply: (slug, reply) -> text by path."""


@dataclass
class State:
    """Replies so far; `lost` seats have left the table for good (A-g6)."""

    table: SettingsTable
    round_one: dict[str, RoundOne] = field(default_factory=dict)
    round_two: dict[str, RoundTwo] = field(default_factory=dict)
    supplements: dict[str, Supplement] = field(default_factory=dict)
    round_three: dict[str, RoundThree] = field(default_factory=dict)
    ballots: dict[str, Ballot] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)

    @property
    def seats(self) -> list[Seat]:
        """The seats still at the table, in order."""
        return [seat for seat in self.table.seats if seat.slug not in self.lost]

    @property
    def dissenters(self) -> tuple[str, ...]:
        """Structured dissenters still at the table."""
        return tuple(slug for slug in self.table.overlays.dissenters if slug not in self.lost)

    def can_be_quorate(self) -> bool:
        """Whether enough seats are left for the ballot floor (A-g7)."""
        return len(self.seats) >= self.table.settings.ballot_floor

    def name_of(self, slug: str) -> str:
        """Role name of a slug."""
        return self.table.seat(slug).name

    def hold(self, turn: Turn, called: str, render: Render, limit_words: bool = False) -> Generator[Step, Any, Replies]:
        """Have a turn of voting seats answered, publish its files, and let lost seats leave (A-g6, A-213).

        In sequential mode the seats are asked one request at a time and each file is written before the next is
        asked (A-172, A-g18); what they are told is the same.

        Args:
            turn: asks of voting seats only.
            called: the turn's name in a sentence.
            render: files of one reply.
            limit_words: whether to record files with more words than asked for (A-g16).
        """
        each = turn.asks if self.table.settings.orchestration == "sequential" else None
        values: dict[str, Any] = {}
        lost: dict[str, str] = {}
        for part in [turn] if each is None else [replace(turn, asks=(ask,)) for ask in each]:
            replies = yield from hold(part)
            values |= replies.values_by_id
            lost |= replies.lost
            files = {name: text for slug, reply in replies.items() for name, text in render(slug, reply).items()}
            notices = self._word_notices(files) if limit_words else ()
            yield from publish(Publish(files=files, notices=(*self._leave(called, replies), *notices)))
        return Replies(values, lost)

    def _leave(self, called: str, replies: Replies) -> tuple[str, ...]:
        notices = []
        for slug, reason in replies.lost.items():
            self.lost[slug] = f"in {called}: {reason}"
            left = f"{len(self.seats)} seats go on and thresholds follow (A-g6)"
            notices.append(f"{self.name_of(slug)} leaves the table in {called}; {left}")
        return tuple(notices)

    def _word_notices(self, files: Mapping[str, str]) -> tuple[str, ...]:
        most = self.table.settings.words
        counts = {name: len(text.split()) for name, text in files.items()}
        return tuple(
            f"{name} has {count} words, more than the {most} asked for (A-g16)"
            for name, count in counts.items()
            if count > most
        )


def no_files(slug: str, reply: Reply) -> Mapping[str, str]:
    """A turn whose replies stand in no file of their own."""
    return {}
