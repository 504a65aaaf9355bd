"""SYNTHESIS.md (A-120 to A-123, A-g22): the moderator merges the seats' points into what is voted on.

The recommendations are written one turn each, because a grammar cannot forbid a later list to repeat what an
earlier one holds: between turns the points taken leave the choice (docs/decisions/0001).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from roundtable_local.prompts import render
from roundtable_local.protocols.supermajority.contexts import (
    ROOM,
    problem,
    round_one_blocks,
    round_two_blocks,
    structured_dissent,
    supplement_blocks,
    task,
)
from roundtable_local.protocols.supermajority.files import synthesis_file
from roundtable_local.protocols.supermajority.merge import Merge, challenges_of, merge, points_of
from roundtable_local.protocols.supermajority.replies import Disagreements, Merged
from roundtable_local.protocols.supermajority.state import State
from roundtable_local.steps import MODERATOR, Ask, Count, Narrowing, Publish, Step, Turn, Values, hold, publish


def synthesis(state: State) -> Generator[Step, Any, Merge]:
    """Recommendations, remaining disagreements, and the file."""
    limits = state.table.settings.recommendations
    rules = task("synthesis_task.j2", least=limits.least, most=limits.most)
    replies = (*round_one_blocks(state), *round_two_blocks(state), *supplement_blocks(state))
    context = (problem(state), *replies, rules)
    written: list[Merged] = []
    free = list(points_of(state.round_two))
    while free and len(written) < limits.most and (not written or written[-1].another == "YES"):
        rid = f"R{len(written) + 1}"
        brief = render(f"{ROOM}/synthesis_brief.j2", written=written, rid=rid)
        narrow = _narrow(state, free, len(written) + 1)
        ask = Ask(MODERATOR, brief, Merged, narrow, required=True, parts=limits.least)
        answer = yield from hold(Turn(f"synthesis-{rid}", context, (ask,), theory=True))
        written.append(answer.of(Merged)[MODERATOR])
        free = [point for point in free if point not in written[-1].points]
    brief = render(f"{ROOM}/disagreements_brief.j2", written=written)
    ask = Ask(MODERATOR, brief, Disagreements, required=True)
    answer = yield from hold(Turn("synthesis-disagreements", context, (ask,), theory=True))
    disagreements = answer.of(Disagreements)[MODERATOR].key_disagreements
    merged = merge(written, disagreements, state.round_two, state.supplements)
    text = synthesis_file(merged, state.name_of, structured_dissent(state, merged))
    yield from publish(Publish(files={"round2/SYNTHESIS.md": text}, notices=merged.notices))
    return merged


def _narrow(state: State, free: list[str], number: int) -> dict[str, Narrowing]:
    """What recommendation `number` may hold: free points, enough of them left for those that must follow."""
    limits = state.table.settings.recommendations
    to_follow = max(0, limits.least - number)
    most_points = max(1, min(limits.points, len(free) - to_follow))
    another = ("YES",) if to_follow else ("NO",) if number == limits.most else ("YES", "NO")
    return {
        "points": Count(1, most_points),
        "points.*": Values(tuple(free)),
        "challenges.*": Values(tuple(challenges_of(state.round_two, state.supplements))),
        "another": Values(another),
    }
