"""Who sits at the table: seats and the rosters they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel

from roundtable_local.decision import Decision
from roundtable_local.settings import Strict

SettingsT = TypeVar("SettingsT", bound=BaseModel)


class Seat(Strict):
    """One voting seat: the role is its analytical lens."""

    slug: str
    name: str
    perspective: str
    duty: str


class Roster(Strict):
    """configs/rosters/*.yaml: the seats of a protocol, in their order."""

    seats: tuple[Seat, ...]


@dataclass(frozen=True)
class Table(Generic[SettingsT]):
    """All that a protocol is given.

    Args:
        seats: the voting seats in roster order.
        decision: what is to be decided.
        settings: the protocol's settings.
        date: ISO date of the run, taken once.
        answers: answers given beforehand, by question name.
        caveats: sentences every report must carry, for example about the model's size.
    """

    seats: tuple[Seat, ...]
    decision: Decision
    settings: SettingsT
    date: str
    answers: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()

    def seat(self, slug: str) -> Seat:
        """The seat of that slug; KeyError where there is none."""
        for seat in self.seats:
            if seat.slug == slug:
                return seat
        raise KeyError(slug)
