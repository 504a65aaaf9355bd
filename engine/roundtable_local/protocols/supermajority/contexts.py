"""What seats are shown: blocks of the shared context, and briefs of single seats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roundtable_local.prompts import render
from roundtable_local.protocols.supermajority.merge import Merge, challenges_of, points_of, supplement_id
from roundtable_local.protocols.supermajority.replies import assumption_of
from roundtable_local.protocols.supermajority.state import State
from roundtable_local.seats import Seat
from roundtable_local.steps import Block, Prompt

ROOM = "supermajority"


def problem(state: State) -> Block:
    """The problem's body alone: date and topic are for people (A-g20)."""
    return Block("PROBLEM SPECIFICATION", state.table.decision.text, "decision")


def task(template: str, **values: object) -> Block:
    """What every seat of the turn is told alike."""
    return Block("TASK", render(f"{ROOM}/{template}", **values).text, "instructions")


def round_one_blocks(state: State, only: str = "") -> list[Block]:
    """Every round 1 reply, or one seat's."""
    return [
        Block(f"ROUND 1, {slug}", render(f"{ROOM}/round1_reply.j2", reply=reply).text, "replies")
        for slug, reply in state.round_one.items()
        if only in {"", slug}
    ]


def round_two_blocks(state: State, only: str = "") -> list[Block]:
    """Every round 2 reply, or one seat's, with the ids of its points and challenges (A-g22)."""
    points, challenges = points_of(state.round_two).values(), challenges_of(state.round_two).values()
    blocks = []
    for slug, reply in state.round_two.items():
        if only in {"", slug}:
            values = {
                "reply": reply,
                "points": [each for each in points if each.seat == slug],
                "challenges": [each for each in challenges if each.seat == slug],
                "assumption": assumption_of(reply),
            }
            blocks.append(Block(f"ROUND 2, {slug}", render(f"{ROOM}/round2_reply.j2", **values).text, "replies"))
    return blocks


def supplement_blocks(state: State) -> list[Block]:
    """Supplementary challenges, after all of round 2 so that its cached context stays a prefix (A-112)."""
    return [
        Block(
            f"SUPPLEMENT, {slug}", render(f"{ROOM}/supplement.j2", id=supplement_id(slug), reply=reply).text, "replies"
        )
        for slug, reply in state.supplements.items()
    ]


def recommendations(state: State, merged: Merge) -> Block:
    """SYNTHESIS as the seats read it: what is voted on, and the structured dissent (A-122, A-140)."""
    dissents = structured_dissent(state, merged)
    text = render(f"{ROOM}/recommendations.j2", merged=merged, dissents=dissents).text
    return Block("RECOMMENDATIONS", text, "moderator")


def structured_dissent(state: State, merged: Merge) -> list[dict[str, object]]:
    """Per dissenter the assumption, verbatim, and the recommendations that its challenges stand against (A-122, A-g22)."""
    return [
        {
            "slug": slug,
            "assumption": assumption_of(state.round_two[slug]),
            "opposed": [each.id for each in merged.recommendations if any(c.seat == slug for c in each.challenges)],
        }
        for slug in state.table.overlays.dissenters
        if slug in state.round_two
    ]


def brief(
    state: State,
    seat: Seat,
    *,
    addressed: Mapping[str, str] | None = None,
    own: Iterable[Block] = (),
) -> Prompt:
    """What one seat alone is told: role, persona, dissent, in this order (A-077), then what is addressed to it.

    Args:
        state: for names and overlays.
        seat: who is told.
        addressed: challenges to the seat, text by the challenger's slug (A-g21).
        own: the seat's own earlier replies, where the rules give it only those (A-132, A-140).
    """
    overlays = state.table.overlays
    inbox = [{"slug": slug, "name": state.name_of(slug), "text": text} for slug, text in (addressed or {}).items()]
    return render(
        f"{ROOM}/seat.j2",
        seat=seat,
        persona=overlays.personas.get(seat.slug),
        dissents=seat.slug in overlays.dissenters,
        own=list(own),
        addressed=inbox,
    )
