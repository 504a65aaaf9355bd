"""What personas are shown; each context begins with the one before (R-010, R-013, R-017).

    phase0   problem, facts                          nobody sees another
    round1   ... every phase 0 analysis, the claims
    round2   ... every round 1 reply, the claims added
    report   ... every round 2 reply, what became of the claims

No number of supporters, no share and no verdict on a claim stands in what a persona reads (R-054, R-g6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from roundtable_local.prompts import render
from roundtable_local.protocols.divergence.state import State
from roundtable_local.protocols.divergence.tally import Stated
from roundtable_local.seats import Seat
from roundtable_local.steps import Block, Prompt

ROOM = "divergence"


def problem(state: State) -> tuple[Block, ...]:
    """The problem and the facts gathered for it."""
    facts = [Block(f"FACT, {fact.title}", fact.text, "facts") for fact in state.table.facts]
    return (Block("PROBLEM", state.table.decision.text, "decision"), *facts)


def revealed(state: State) -> tuple[Block, ...]:
    """With every phase 0 analysis (R-013)."""
    return (*problem(state), *_replies(state, "PHASE 0", "phase0_reply.j2", state.phase0, "C"))


def discussed(state: State) -> tuple[Block, ...]:
    """With every round 1 reply."""
    return (*revealed(state), *_replies(state, "ROUND 1", "round1_reply.j2", state.round1, "N"))


def concluded(state: State) -> tuple[Block, ...]:
    """With every round 2 reply."""
    return (*discussed(state), *_replies(state, "ROUND 2", "round2_reply.j2", state.round2, ""))


def outcomes(state: State) -> Block:
    """What became of each claim, by category and without numbers (R-054)."""
    return Block("CLAIMS", render(f"{ROOM}/outcomes.j2", settled=state.settled()).text, "moderator")


def task(state: State, template: str, **values: object) -> Block:
    """What every seat of a turn is told alike."""
    text = render(f"{ROOM}/{template}", language=state.table.language, **values).text
    return Block("TASK", text, "instructions")


def brief(seat: Seat) -> Prompt:
    """What one persona alone is told."""
    return render(f"{ROOM}/seat.j2", seat=seat)


def again(seat: Seat) -> Prompt:
    """The one re-instruction of the devil's advocate (R-056)."""
    return render(f"{ROOM}/devil_again.j2", seat=seat)


def moderator() -> Prompt:
    """What the moderator is told."""
    return render(f"{ROOM}/moderator.j2")


def _replies(state: State, title: str, template: str, replies: Mapping[str, BaseModel], letter: str) -> Sequence[Block]:
    claims: dict[str, list[Stated]] = {slug: [] for slug in replies}
    for claim in state.claims if letter else []:
        if claim.author in claims and claim.id.rsplit(".", 1)[1].startswith(letter):
            claims[claim.author].append(claim)
    return [
        Block(
            f"{title}, {slug}",
            render(f"{ROOM}/{template}", reply=reply, claims=claims[slug]).text,
            "replies",
        )
        for slug, reply in replies.items()
    ]
