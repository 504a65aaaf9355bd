"""How far a divergence debate has come: claims, stances, who left, what was noted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pydantic import BaseModel

from roundtable_local.protocols.divergence.replies import (
    Claim,
    Closing,
    DevilAnalysis,
    DevilDiscussion,
    FinalDissent,
    First,
    Last,
    Opening,
    Rejection,
    Scenario,
    Support,
    Synthesis,
)
from roundtable_local.protocols.divergence.settings import DivergenceSettings
from roundtable_local.protocols.divergence.tally import Category, Rejected, Settled, Stated, is_void, settle
from roundtable_local.seats import Seat, Table
from roundtable_local.steps import Replies

SettingsTable = Table[DivergenceSettings]
DEVIL = DevilAnalysis | DevilDiscussion | FinalDissent
"""The devil's advocate's own reply types."""


@dataclass
class State:
    """One debate so far; `lost` personas have left the table for good, and what they said last stands."""

    table: SettingsTable
    phase0: dict[str, Opening] = field(default_factory=dict)
    round1: dict[str, First] = field(default_factory=dict)
    round2: dict[str, Last] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    weak: list[str] = field(default_factory=list)
    synthesis: Synthesis | None = None

    @property
    def seats(self) -> list[Seat]:
        """The personas still at the table, in order."""
        return [seat for seat in self.table.seats if seat.slug not in self.lost]

    @property
    def devil(self) -> Seat:
        """The devil's advocate."""
        (seat,) = (seat for seat in self.table.seats if seat.devils_advocate)
        return seat

    def is_quorate(self) -> bool:
        """Whether enough personas are left (R-031)."""
        return len(self.seats) >= self.table.settings.least_personas

    def name_of(self, slug: str) -> str:
        """A persona's name."""
        return self.table.seat(slug).name

    def leave(self, called: str, replies: Replies) -> tuple[str, ...]:
        """Lost personas leave the table; returns a notice for each."""
        for slug, reason in replies.lost.items():
            self.lost[slug] = f"in {called}: {reason}"
        return tuple(f"{self.name_of(slug)} leaves the table in {called}" for slug in replies.lost)

    @property
    def claims(self) -> list[Stated]:
        """All claims in the order they were stated, with ids (R-g3)."""
        first = [claim for slug, reply in self.phase0.items() for claim in _numbered(slug, "C", reply.claims)]
        added = [claim for slug, reply in self.round1.items() for claim in _numbered(slug, "N", reply.new_claims)]
        return [*first, *added]

    def own(self, seat: Seat) -> tuple[str, ...]:
        """Ids of a persona's own claims."""
        return tuple(claim.id for claim in self.claims if claim.author == seat.slug)

    def others(self, seat: Seat) -> tuple[str, ...]:
        """Ids of all other claims."""
        return tuple(claim.id for claim in self.claims if claim.author != seat.slug)

    def latest(self, slug: str) -> First | Last | None:
        """What a persona said last of the claims."""
        return self.round2.get(slug) or self.round1.get(slug)

    def settled(self) -> tuple[Settled, ...]:
        """Every claim with its category, after the last round; where too few are left, nothing is agreed (R-031)."""
        roster = [seat.slug for seat in self.table.seats]
        spoke = [seat for seat in self.table.seats if not seat.devils_advocate and self.latest(seat.slug) is not None]
        agreeing = [seat.slug for seat in spoke if self.is_quorate()]  # what one who left said last stands
        holding = {slug: set(self._held(slug)) for slug in roster}
        rejections = [each for slug in roster for each in self.rejections(slug, self.latest(slug))]
        return settle(self.claims, holding, rejections, roster, agreeing)

    def rejections(self, slug: str, said: BaseModel | None) -> Iterator[Rejected]:
        """The rejections in a persona's reply, judged by their grounds (R-014, R-g2)."""
        for claim, stance in said.stances.items() if isinstance(said, Closing) else ():
            if isinstance(stance, Rejection):
                void = is_void(stance.grounds, self.table.settings.grounds)
                yield Rejected(claim, slug, tuple(stance.grounds), void)

    def of(self, category: Category) -> list[Settled]:
        """The claims of one category."""
        return [each for each in self.settled() if each.category is category]

    def scenarios(self) -> list[list[Scenario]]:
        """The failure scenarios that the devil's advocate named, phase by phase."""
        phases = (self.phase0, self.round1, self.round2)
        said = [replies[self.devil.slug] for replies in phases if self.devil.slug in replies]
        return [list(each.failure_scenarios) for each in said if isinstance(each, DEVIL)]

    def _held(self, slug: str) -> Iterator[str]:
        said = self.latest(slug)
        own = said.own if said else {}
        for claim in self.claims:
            if claim.author == slug and (claim.id not in own or own[claim.id].stance == "HOLD"):
                yield claim.id
        if isinstance(said, Closing):
            yield from (claim for claim, stance in said.stances.items() if isinstance(stance, Support))


def _numbered(slug: str, letter: str, claims: Iterable[Claim]) -> list[Stated]:
    return [
        Stated(f"{slug}.{letter}{number}", slug, claim.because, claim.claim) for number, claim in enumerate(claims, 1)
    ]
