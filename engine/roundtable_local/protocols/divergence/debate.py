"""The divergence debate: alone, discussion, last round, report (rules R-). Sans-IO.

Both rounds are always held: there is no early stop and no third round (R-017, R-g4, R-055).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from pydantic import BaseModel

from roundtable_local.protocols import Protocol
from roundtable_local.protocols.divergence.contexts import (
    ROOM,
    again,
    brief,
    concluded,
    discussed,
    moderator,
    outcomes,
    problem,
    revealed,
    task,
)
from roundtable_local.protocols.divergence.files import outcomes_file, phase_file
from roundtable_local.protocols.divergence.replies import (
    Analysis,
    Closing,
    DevilAnalysis,
    DevilDiscussion,
    Discussion,
    FinalDissent,
    Scenario,
    Synthesis,
)
from roundtable_local.protocols.divergence.report import report_file
from roundtable_local.protocols.divergence.settings import DivergenceSettings
from roundtable_local.protocols.divergence.state import SettingsTable, State
from roundtable_local.protocols.divergence.tally import Category, words
from roundtable_local.seats import Seat
from roundtable_local.steps import (
    MODERATOR,
    Ask,
    Block,
    Count,
    Debate,
    Keys,
    Narrowing,
    Outcome,
    Publish,
    Refused,
    Replies,
    Step,
    Turn,
    WorstCase,
    hold,
    publish,
)

Narrow = Callable[[Seat], Mapping[str, Narrowing]]


def debate(table: SettingsTable) -> Debate:
    """One debate, as steps."""
    state = State(table)
    yield from _phase_zero(state)
    if state.is_quorate():
        yield from _round_one(state)
    if state.is_quorate():
        yield from _round_two(state)
    yield from publish(Publish(files={"outcomes.json": outcomes_file(state)}))
    if not state.is_quorate():
        return (yield from _stop(state))
    yield from _report(state)
    counts = _counts(state)
    verdict = _verdict(counts)
    said = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    return Outcome(verdict, needs_human=False, summary=f"{verdict}: {said} of {len(state.claims)} claims", data=counts)


def _phase_zero(state: State) -> Generator[Step, Any, None]:
    """Every persona alone (R-010, R-011)."""
    settings = state.table.settings
    bounds = Count(settings.claims.least, settings.claims.most)
    rules = task(state, "phase0_task.j2", least=settings.claims.least, most=settings.claims.most)
    turn = _turn(state, "phase0", (*problem(state), rules), (Analysis, DevilAnalysis), lambda seat: {"claims": bounds})
    yield from _held(state, turn, state.phase0)


def _round_one(state: State) -> Generator[Step, Any, None]:
    """Everything is revealed; claims may be added for the last time (R-013, R-g3)."""
    settings = state.table.settings
    rules = task(state, "round1_task.j2", grounds=settings.grounds, new_claims=settings.new_claims)

    def narrow(seat: Seat) -> Mapping[str, Narrowing]:
        return _stances(state, seat) | {"new_claims": Count(0, settings.new_claims)}

    turn = _turn(state, "round1", (*revealed(state), rules), (Discussion, DevilDiscussion), narrow)
    yield from _held(state, turn, state.round1)


def _round_two(state: State) -> Generator[Step, Any, None]:
    """The last round, whatever comes of it (R-017)."""
    rules = task(state, "round2_task.j2", grounds=state.table.settings.grounds)
    context = (*discussed(state), rules)
    turn = _turn(state, "round2", context, (Closing, FinalDissent), lambda seat: _stances(state, seat))
    yield from _held(state, turn, state.round2)


def _stances(state: State, seat: Seat) -> dict[str, Narrowing]:
    """A stance on every claim of others and on every own one; ids cannot be invented (R-g3)."""
    own = {"own": Keys(state.own(seat))}
    if seat.devils_advocate:
        return {"objections": Keys(state.others(seat)), **own}
    most_grounds = Count(1, state.table.settings.grounds)
    return {"stances": Keys(state.others(seat)), "stances.*.grounds": most_grounds, **own}


def _turn(
    state: State,
    name: str,
    context: tuple[Block, ...],
    kinds: tuple[type[BaseModel], type[BaseModel]],
    narrow: Narrow,
) -> Turn:
    """All personas in one call; the devil's advocate has a reply type of its own and cannot be missing (R-015, R-031)."""
    asks = tuple(
        Ask(seat.slug, brief(seat), kinds[seat.devils_advocate], narrow(seat), required=seat.devils_advocate)
        for seat in state.seats
    )
    return Turn(name, context, asks, theory=True)


def _held(state: State, turn: Turn, kept: dict[str, Any]) -> Generator[Step, Any, None]:
    """Hold a turn, have the devil's advocate concrete, and write one file per persona (R-011, R-g7)."""
    before = {words(each.scenario) for phase in state.scenarios() for each in phase}
    replies = yield from hold(turn)
    notices = state.leave(turn.name, replies)
    kept.update(replies.values_by_id)
    if not _is_concrete(state, before):
        kept.update((yield from _repeat(state, turn)).values_by_id)
        if not _is_concrete(state, before):
            state.weak.append(turn.name)
            notices += (f"{state.devil.name} names no new concrete failure scenario in {turn.name} (R-056)",)
    notices += _void(state, turn, replies)
    files = {f"{turn.name}/{slug}.md": phase_file(state, turn.name, slug, reply) for slug, reply in kept.items()}
    yield from publish(Publish(files=files, notices=notices))


def _repeat(state: State, turn: Turn) -> Generator[Step, Any, Replies]:
    """The devil's advocate is told once more what is asked of it (R-056, R-g5)."""
    (ask,) = (ask for ask in turn.asks if ask.seat == state.devil.slug)
    repeated = Ask(ask.seat, again(state.devil), ask.reply, ask.narrow, required=True)
    return (yield from hold(Turn(f"{turn.name}-devil", turn.context, (repeated,), theory=True)))


def _is_concrete(state: State, before: set[str]) -> bool:
    """Whether enough failure scenarios were named that are new and say what follows (R-056)."""
    new = {words(each.scenario) for each in state.scenarios()[-1] if _is_whole(each)} - before
    return len(new) >= state.table.settings.failure_scenarios


def _is_whole(each: Scenario) -> bool:
    """Whether a scenario says something, and its consequence something else."""
    return bool(words(each.scenario)) and words(each.consequence) not in {"", words(each.scenario)}


def _void(state: State, turn: Turn, replies: Replies) -> tuple[str, ...]:
    """A notice for every rejection of the turn that is void, even where its persona changes its mind later (R-014)."""
    why = f"in {turn.name} is void: fewer than {state.table.settings.grounds} distinct grounds (R-014)"
    return tuple(
        f"{state.name_of(slug)}'s rejection of {each.claim} {why}"
        for slug, reply in replies.items()
        for each in state.rejections(slug, reply)
        if each.void
    )


def _report(state: State) -> Generator[Step, Any, None]:
    """The moderator sums up; what is open stays open (R-019, R-057)."""
    unsettled = [each.claim.id for each in state.settled() if each.category in {Category.OPEN, Category.MINORITY}]
    narrow: dict[str, Narrowing] = {"disputes": Keys(tuple(unsettled))}
    ask = Ask(MODERATOR, moderator(), Synthesis, narrow, required=True)
    turn = Turn("report", (*concluded(state), outcomes(state), task(state, "report_task.j2")), (ask,), theory=True)
    replies = yield from hold(turn)
    state.synthesis = replies.of(Synthesis)[MODERATOR]
    yield from publish(Publish(files={"REPORT.md": report_file(state)}))


def _stop(state: State) -> Generator[Step, Any, Outcome]:
    least = state.table.settings.least_personas
    summary = f"stopped: {len(state.seats)} personas are left and {least} are needed (R-031)"
    yield from publish(Publish(files={"REPORT.md": report_file(state)}, notices=(summary,)))
    return Outcome("stopped", needs_human=True, summary=summary, data=_counts(state))


def _counts(state: State) -> dict[str, int]:
    """How many claims there are of each category (R-g3)."""
    return {category.value: len(state.of(category)) for category in Category}


def _verdict(counts: Mapping[str, int]) -> str:
    agreed = counts[Category.CONSENSUS]
    apart = counts[Category.OPEN] + counts[Category.MINORITY]
    return "partial" if agreed and apart else "consensus" if agreed else "divergent"


def intake(table: SettingsTable, count: Callable[[str], int]) -> tuple[SettingsTable, tuple[str, ...]]:
    """Three to five personas, exactly one of them the devil's advocate (R-010, R-031, R-g4)."""
    settings = table.settings
    if not settings.least_personas <= len(table.seats) <= settings.most_personas:
        raise Refused(
            f"{settings.least_personas} to {settings.most_personas} personas are needed, not {len(table.seats)} (R-031)",
            "name that many with --seats, the devil's advocate among them",
        )
    devils = [seat.name for seat in table.seats if seat.devils_advocate]
    if len(devils) != 1:
        raise Refused(
            f"exactly one persona must be the devil's advocate, not {len(devils)} (R-031)",
            "put `devils_advocate: true` into the front matter of one persona file",
        )
    return table, ()


def worst_cases(table: SettingsTable) -> tuple[WorstCase, ...]:
    """Every claim rejected at length, every turn held, the devil's advocate asked again."""
    prefer = {"stances.*.stance": "REJECT", "own.*.stance": "WITHDRAW"}
    return (WorstCase("all rejected", prefer),)


def fallback(table: SettingsTable, reason: str) -> tuple[DivergenceSettings, str] | None:
    """One claim fewer per persona where the debate does not fit the window; every claim is answered by all."""
    claims = table.settings.claims
    if claims.most == claims.least:
        return None
    fewer = claims.model_copy(update={"most": claims.most - 1})
    warning = f"personas state at most {fewer.most} claims in phase 0, not {claims.most}: {reason}"
    return table.settings.model_copy(update={"claims": fewer}), warning


PROTOCOL = Protocol(
    ROOM,
    DivergenceSettings,
    debate,
    worst_cases,
    fallback=fallback,
    intake=intake,
    takes=frozenset({"seats", "context", "language"}),
)
