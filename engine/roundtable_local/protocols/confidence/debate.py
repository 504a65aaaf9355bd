"""The confidence debate: options, four rounds at most, an inspector between them, a vote (rules O-). Sans-IO.

What each turn is shown stands in `contexts`; state and minute are flushed after every round (O-026).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from roundtable_local.protocols import Protocol
from roundtable_local.protocols.confidence.contexts import ROOM, convener, heard, material, soul, task
from roundtable_local.protocols.confidence.minute import (
    deadlock,
    decided_by_human,
    decision_line,
    decision_path,
    files,
    minute_path,
)
from roundtable_local.protocols.confidence.replies import (
    Axes,
    Convergence,
    Deepening,
    Opening,
    Position,
    Proposal,
    Voting,
)
from roundtable_local.protocols.confidence.settings import ConfidenceSettings
from roundtable_local.protocols.confidence.sitting import SettingsTable, Sitting
from roundtable_local.protocols.confidence.tally import Signal, inspect, vote
from roundtable_local.report.markdown import one_line
from roundtable_local.seats import Seat
from roundtable_local.steps import (
    MODERATOR,
    Ask,
    Count,
    Debate,
    Narrowing,
    Outcome,
    Publish,
    Question,
    Refused,
    Result,
    Step,
    Turn,
    Values,
    WorstCase,
    consult,
    hold,
    publish,
)

_YES, _NO = "yes", "no"
_TASKS = {1: "round1_task.j2", 2: "round2_task.j2", 3: "round3_task.j2"}
_VOTES_ASKED = 2  # O-g2: named seats are asked once more, then their seats are empty


def debate(table: SettingsTable) -> Debate:
    """One debate, as steps."""
    sitting = Sitting(table, table.settings.options)
    yield from _flush(sitting)
    if not sitting.options:
        agreed = yield from _settle_options(sitting)
        if not agreed:
            said = "not convened: no options were agreed on; run again with --options"
            return Outcome("not convened", needs_human=True, summary=said, results=(_minute(sitting),))
    yield from _rounds(sitting)
    if sitting.is_quorate():
        yield from _vote(sitting)
    if not sitting.is_quorate():
        return (yield from _no_quorum(sitting))
    return (yield from _hand_back(sitting))


def _flush(sitting: Sitting, *notices: str) -> Generator[Step, Any, None]:
    yield from publish(Publish(files=files(sitting), notices=notices))


# --- convening


def _settle_options(sitting: Sitting) -> Generator[Step, Any, bool]:
    """The moderator proposes options, a human says yes or names others (O-002)."""
    settings = sitting.table.settings
    bounds = {"least": settings.least_options, "most": settings.most_options}
    narrow: dict[str, Narrowing] = {"options": Count(settings.least_options, settings.most_options)}
    ask = Ask(MODERATOR, convener(), Proposal, narrow, required=True)
    replies = yield from hold(Turn("options", (*material(sitting), task(sitting, "options_task.j2", **bounds)), (ask,)))
    proposal = replies.of(Proposal)[MODERATOR]
    proposed = _distinct(proposal.options)
    parts = (
        f"The convener proposes {len(proposed)} options: {', '.join(proposed)}.",
        f"Why these: {one_line(proposal.why_these)}",
        "yes takes them, no ends the sitting, and a list (a,b,c) takes yours instead.",
    )
    answer = yield from consult(Question("options", parts, consent=True, check=lambda text: _problem(settings, text)))
    said = answer.value.strip()
    if said.lower() == _NO:
        return False
    sitting.options = _listed(said) if said and said.lower() != _YES else proposed
    sitting.notes.append(f"The options were {'proposed and confirmed' if sitting.options == proposed else 'given'}.")
    yield from _flush(sitting, f"options: {', '.join(sitting.options)} (O-002)")
    return True


def _problem(settings: ConfidenceSettings, text: str) -> str:
    return "" if text.strip().lower() in {_YES, _NO} else settings.problem_of(_listed(text))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(one_line(each) for each in text.split(","))


def _distinct(options: list[str]) -> tuple[str, ...]:
    """One line each; what repeats gets a number, so that a human sees it and nothing is dropped."""
    found: list[str] = []
    for option in map(one_line, options):
        number, plain = 1, option.replace(",", ";")
        name = plain
        while name in found:
            number += 1
            name = f"{plain} ({number})"
        found.append(name)
    return tuple(found)


# --- rounds


def _rounds(sitting: Sitting) -> Generator[Step, Any, None]:
    """Rounds 1 to 3, shortened where the inspector says so (O-030 to O-038, O-050)."""
    yield from _round(sitting, 1, Opening)
    if not sitting.is_quorate():
        return
    yield from _round(sitting, 2, Deepening)
    if not sitting.is_quorate():
        return
    signal = yield from _inspect(sitting, 2)
    if signal is Signal.EARLY_STOP:
        return
    if signal is Signal.SKIP_ROUND_3 and (yield from _nothing_new(sitting)):
        return
    if signal is Signal.EXPERT_DEFERENCE and (yield from _short_circuit(sitting)):
        return
    yield from _axes(sitting)
    yield from _round(sitting, 3, Convergence)
    if sitting.is_quorate():
        yield from _inspect(sitting, 3)  # O-038; the vote is next anyway (O-g3)


def _round(sitting: Sitting, number: int, kind: type[Position]) -> Generator[Step, Any, None]:
    """One round: every soul in one call (O-030); state and minute are flushed after it (O-026)."""
    asks = tuple(Ask(seat.slug, soul(seat), kind, _narrow(sitting, seat, kind)) for seat in sitting.seats)
    context = (*heard(sitting), task(sitting, _TASKS[number], vote=False))
    replies = yield from hold(Turn(f"round{number}", context, asks))
    notices = sitting.leave(f"round {number}", replies)
    sitting.rounds[number] = dict(replies.of(kind))
    yield from _flush(sitting, *notices)


def _narrow(sitting: Sitting, seat: Seat, kind: type[Position]) -> dict[str, Narrowing]:
    """Options, other seats and axes become the only values that can be written (O-033, O-039 to O-041)."""
    others = Values(sitting.others(seat))
    narrow: dict[str, Narrowing] = {"position": Values(sitting.options)}
    if kind is Deepening:
        narrow["challenge.target"] = others
    if kind is Convergence:
        narrow |= {
            "axis_that_decides_my_vote": Values(sitting.axes),
            "coalition_with": Count(0, len(others.allowed)),
            "coalition_with.*": others,
        }
    return narrow


def _axes(sitting: Sitting) -> Generator[Step, Any, None]:
    settings = sitting.table.settings
    bounds = {"least": settings.least_axes, "most": settings.most_axes}
    narrow: dict[str, Narrowing] = {"axes": Count(settings.least_axes, settings.most_axes)}
    ask = Ask(MODERATOR, convener(), Axes, narrow, required=True)
    replies = yield from hold(Turn("axes", (*heard(sitting), task(sitting, "axes_task.j2", **bounds)), (ask,)))
    sitting.axes = _distinct(replies.of(Axes)[MODERATOR].axes)


def _inspect(sitting: Sitting, number: int) -> Generator[Step, Any, Signal]:
    """The inspector decides by rule, never by eye (O-038)."""
    said = inspect(sitting.state(), sitting.table.settings)
    sitting.inspections[number] = said
    yield from _flush(sitting, said.line)
    return said.signal


def _nothing_new(sitting: Sitting) -> Generator[Step, Any, bool]:
    """Whether round 3 may be skipped: nobody moved, and no new evidence can have come up (O-050, O-g3)."""
    parts = ("Nobody moved in round 2.", "Has new evidence arrived that calls for round 3?")
    answer = yield from consult(Question("new-evidence", parts, default=_NO, choices=(_NO, _YES)))
    skip = answer.value == _NO
    sitting.notes.append(
        "Round 3 was skipped: nobody moved in round 2 and no new evidence arrived."
        if skip
        else "Round 3 was held although nobody moved in round 2: new evidence was reported."
    )
    yield from _flush(sitting, sitting.notes[-1])
    return skip


def _short_circuit(sitting: Sitting) -> Generator[Step, Any, bool]:
    """Whether to go straight to the vote where one soul alone is certain; the vote still binds (O-050, O-g3)."""
    parts = (sitting.inspections[2].line, "continue holds round 3; vote goes straight to the binding vote.")
    answer = yield from consult(Question("expert", parts, default="continue", choices=("continue", "vote")))
    taken = answer.value == "vote"
    sitting.notes.append(f"After the expert's certainty in round 2 the answer was: {answer.value}.")
    yield from _flush(sitting, sitting.notes[-1])
    return taken


# --- vote and hand-back


def _vote(sitting: Sitting) -> Generator[Step, Any, None]:
    """Round 4; only seats whose ballots cannot be counted are asked again, once (O-035, O-060, O-g2)."""
    context = (*heard(sitting), task(sitting, "round4_task.j2", vote=True))
    narrow: dict[str, Narrowing] = {"final_vote": Values(sitting.options)}
    asked = sitting.seats
    for attempt in range(1, _VOTES_ASKED + 1):
        asks = tuple(Ask(seat.slug, soul(seat), Voting, narrow) for seat in asked)
        replies = yield from hold(Turn("round4" if attempt == 1 else "round4-again", context, asks))
        notices = sitting.leave("the vote", replies)
        sitting.finals |= replies.of(Voting)
        if not sitting.is_quorate():
            yield from _flush(sitting, *notices)
            return
        sitting.vote = vote(sitting.state(), sitting.table.settings)
        yield from _flush(sitting, *notices, *([sitting.vote.block] if sitting.vote.problems else []))
        named = {name for name, _ in sitting.vote.problems}
        asked = [seat for seat in sitting.seats if seat.name in named]
        if not asked:
            return
    for name, problem in sitting.vote.problems if sitting.vote else ():
        (slug,) = (seat.slug for seat in sitting.table.seats if seat.name == name)
        sitting.emptied[slug] = f"in the vote: {problem}"
    sitting.vote = vote(sitting.state(), sitting.table.settings) if sitting.is_quorate() else None
    yield from _flush(sitting)


def _no_quorum(sitting: Sitting) -> Generator[Step, Any, Outcome]:
    """Fewer than three seats: nothing is decided (O-020, O-g1)."""
    least = sitting.table.settings.least_seats
    summary = f"no decision: {len(sitting.seats)} seats are left and {least} are needed (O-020)"
    sitting.vote = None
    sitting.notes.append(summary)
    yield from _flush(sitting, summary)
    yield from publish(Publish(files={decision_path(sitting): decision_line(sitting)}))
    return Outcome("no quorum", needs_human=True, failed=True, summary=summary, results=_results(sitting))


def _hand_back(sitting: Sitting) -> Generator[Step, Any, Outcome]:
    """The decision line; a deadlock waits for a human, never an automatic pick (O-060, O-064, O-080 to O-084)."""
    counted = sitting.vote
    if counted is None:
        raise ValueError("a quorate sitting has voted")
    yield from publish(Publish(files={decision_path(sitting): decision_line(sitting)}, notices=(counted.block,)))
    if not counted.decided:
        home = f"{sitting.table.place.home}/" if sitting.table.place.home else ""
        parts = (*deadlock(sitting), "The human decides.", f"The minute so far: {home}{minute_path(sitting)}")
        sitting.answer = yield from consult(Question("deadlock", parts, choices=sitting.options, signed=True))
        yield from _flush(sitting, decided_by_human(sitting.answer))
        yield from publish(Publish(files={decision_path(sitting): decision_line(sitting)}))
    chosen = sitting.answer.value if sitting.answer else counted.winner or ""
    by = f", decided by {sitting.answer.by} after a deadlock" if sitting.answer else ""
    data = {
        "decision": chosen,
        "aggregator": counted.aggregator,
        "sums": dict(counted.sums or {}),
        "escalated": not counted.decided,
        "reasons": list(counted.reasons),
        "decided_by": sitting.answer.by if sitting.answer else "",
    }
    return Outcome(chosen, needs_human=False, summary=f"{chosen}{by}", results=_results(sitting), data=data)


def _minute(sitting: Sitting) -> Result:
    return Result("🪑 Minute", minute_path(sitting))


def _results(sitting: Sitting) -> tuple[Result, ...]:
    """The two closing lines (O-082)."""
    return (_minute(sitting), Result("📥 Decision", decision_path(sitting)))


# --- what the engine asks of the room


def intake(table: SettingsTable, count: Callable[[str], int]) -> tuple[SettingsTable, tuple[str, ...]]:
    """Refuse what the commands on state files let pass: the number of seats and options (O-001, O-020, O-074)."""
    settings = table.settings
    if not settings.least_seats <= len(table.seats) <= settings.most_seats:
        raise Refused(
            f"{settings.least_seats} to {settings.most_seats} seats are needed, not {len(table.seats)} (O-020)",
            "name files or folders with --seats a.md,b.md,c.md or people with --person",
        )
    if settings.options and (problem := settings.problem_of(settings.options)):
        raise Refused(problem, "for example --options adopt,adopt-modified,reject")
    return table, ()


def gate(table: SettingsTable) -> tuple[Question, ...]:
    """What must hold before a table is convened; a question that begins with "should" is not consent (O-001, O-003)."""
    given = table.settings.options
    options = f"the options are {', '.join(given)}" if given else "the convener will propose two to four options"
    asked = {
        "decision": "Is this a decision, so that something will be done differently depending on the answer?",
        "canonical": f"Can it be put as two to four options ({options})?",
        "stakes": "Is being wrong expensive or hard to reverse?",
    }
    return tuple(Question(name, (text,), choices=(_YES, _NO), consent=True) for name, text in asked.items())


def announce(table: SettingsTable) -> tuple[str, ...]:
    """Roster with each soul's source, question, options, aggregator (O-023)."""
    settings = table.settings
    seats = [f"seat {seat.name}: soul read from {seat.source}" for seat in table.seats]
    facts = ", ".join(fact.title for fact in table.facts) or "none beyond the question"
    options = ", ".join(settings.options) or "to be proposed"
    return (
        *seats,
        f"question: {table.decision.topic}",
        f"facts: {facts}",
        f"options: {options}; aggregator: {settings.aggregator}",
    )


def worst_cases(table: SettingsTable) -> tuple[WorstCase, ...]:
    """All four rounds. Nobody is certain enough to stop early, so confidences are written shorter than they may be."""
    prefer = {"confidence_now": "7"}
    turns = ("options", "round1", "round2", "axes", "round3", "round4")
    reserve = dict.fromkeys(turns, 3 * len(table.seats))
    return (WorstCase("four rounds", prefer, reserve=reserve),)


PROTOCOL = Protocol(
    ROOM,
    ConfidenceSettings,
    debate,
    worst_cases,
    intake=intake,
    gate=gate,
    announce=announce,
    mirrored=("lab", "inbox"),
    takes=frozenset({"seats", "context", "language", "oracle-root"}),
)
