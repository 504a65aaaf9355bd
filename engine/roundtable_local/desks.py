"""The models that seats run on: what each brings to the seats that name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from roundtable_local.backends.base import Sampling
from roundtable_local.budget import Budget
from roundtable_local.model import ModelFolder
from roundtable_local.reasoning import Thinking
from roundtable_local.settings import ModelProfile


@dataclass(frozen=True)
class Desk:
    """One model, ready to be asked.

    Args:
        model: as a seat names it; "" for the run's own model.
        profile: its profile.
        folder: what its folder says.
        budget: turns asks into grammars and caps, with its tokenizer and window.
        thinking: how its seats think, if they do.
    """

    model: str
    profile: ModelProfile
    folder: ModelFolder
    budget: Budget
    thinking: Thinking | None = None

    @property
    def sampling(self) -> Sampling:
        """Sampling values for the engine."""
        return Sampling(**self.profile.sampling.model_dump())

    def shrunk(self, shrink: float) -> Desk:
        """With replies of this share of their full length."""
        return replace(self, budget=replace(self.budget, shrink=shrink))


@dataclass(frozen=True)
class Desks:
    """The run's own model, and those of seats that name another.

    Args:
        own: the run's own model.
        others: by the name that seats give.
        seats: which of the others a seat runs on, by slug.
        adapters: the LoRA adapter of a seat, by slug.
    """

    own: Desk
    others: Mapping[str, Desk]
    seats: Mapping[str, str]
    adapters: Mapping[str, str]

    def of(self, seat: str) -> Desk:
        """The model that a seat runs on; the moderator's is the run's own."""
        return self.others[self.seats[seat]] if seat in self.seats else self.own

    @property
    def all(self) -> tuple[Desk, ...]:
        """Every model, the run's own first."""
        return (self.own, *self.others.values())

    def shrunk(self, shrink: float) -> Desks:
        """With all replies of this share of their full length."""
        others = {name: desk.shrunk(shrink) for name, desk in self.others.items()}
        return replace(self, own=self.own.shrunk(shrink), others=others)
