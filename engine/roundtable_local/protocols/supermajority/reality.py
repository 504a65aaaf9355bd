"""Round 3, the reality check (A-130 to A-137): the first turn that may see code.

Evidence is an id of a passage that was shown, narrowed by the grammar, so a citation cannot be invented.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from roundtable_local.codebase import Codebase, Passage, context_file, overview, passages_text
from roundtable_local.protocols.supermajority.contexts import brief, problem, recommendations, round_two_blocks, task
from roundtable_local.protocols.supermajority.files import round_three_file
from roundtable_local.protocols.supermajority.merge import Merge
from roundtable_local.protocols.supermajority.replies import DissentingRoundThree, RoundThree
from roundtable_local.protocols.supermajority.state import State
from roundtable_local.steps import Ask, Block, Keys, Narrowing, Publish, Step, Turn, Values, publish


def reality_check(state: State, merged: Merge) -> Generator[Step, Any, tuple[Passage, ...]]:
    """Hold round 3 where there is code; returns the passages shown, none where it was skipped."""
    codebase = state.table.codebase
    if codebase is None:
        return ()
    queries = [f"{each.title} {each.description}" for each in merged.recommendations]
    passages = _passages(codebase, queries, state.table.settings.codebase_tokens) if codebase.brownfield else ()
    if not passages:
        skipped = f"no round 3: {codebase.name} holds no source code, only configuration or nothing (A-130, A-137)"
        yield from publish(Publish(notices=(*codebase.notices, skipped)))
        return ()
    yield from publish(
        Publish(files={"CODEBASE_CONTEXT.md": context_file(codebase, passages)}, notices=codebase.notices)
    )
    code = Block("CODEBASE", f"{overview(codebase)}\n\n{passages_text(passages)}", "codebase")
    rules = task("round3_task.j2", words=state.table.settings.words)
    turn = Turn("round3", (problem(state), recommendations(state, merged), code, rules), _asks(state, merged, passages))
    cited = {passage.id: passage.citation for passage in passages}

    def files(slug: str, reply: RoundThree) -> Mapping[str, str]:
        return {f"round3/{slug}.md": round_three_file(state.table.seat(slug), reply, merged, cited)}

    replies = yield from state.hold(turn, "round 3", files, limit_words=True)
    state.round_three = replies.of(RoundThree)
    return passages


def _passages(codebase: Codebase, queries: Sequence[str], budget: int) -> tuple[Passage, ...]:
    """The passages that say most about the recommendations; where no word matches, about the code's own outline."""
    return codebase.select(queries, budget) or codebase.select([codebase.outline], budget)


def _asks(state: State, merged: Merge, passages: tuple[Passage, ...]) -> tuple[Ask, ...]:
    ids = Values(tuple(passage.id for passage in passages))
    narrow: dict[str, Narrowing] = {
        "observations.*.evidence": ids,
        "stances": Keys(merged.ids),
        "stances.*.evidence.*": ids,
    }
    return tuple(
        Ask(
            seat.slug,
            brief(state, seat, own=round_two_blocks(state, seat.slug)),
            DissentingRoundThree if seat.slug in state.dissenters else RoundThree,
            narrow,
        )
        for seat in state.seats
    )
