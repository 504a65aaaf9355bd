"""Rounds 1 and 2: theory alone (A-090 to A-113, A-170 to A-182, A-g10, A-g18, A-g21).

Every turn here is a theory turn, so codebase text cannot reach it (A-005, A-g19).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from math import ceil
from typing import Any

from roundtable_local.protocols.supermajority.contexts import brief, problem, round_one_blocks, round_two_blocks, task
from roundtable_local.protocols.supermajority.files import round_one_file, round_two_file
from roundtable_local.protocols.supermajority.replies import (
    Challenges,
    DissentingPosition,
    DissentingRoundTwo,
    Position,
    RoundOne,
    RoundTwo,
    Supplement,
)
from roundtable_local.protocols.supermajority.state import Render, State, no_files
from roundtable_local.seats import Seat
from roundtable_local.steps import Ask, Block, Keys, Narrowing, Publish, Step, Turn, Values, publish

RISK_SEATS = ("risk-analyst", "devils-advocate")
"""Who is asked to question a consensus (A-110), and whose replies the report's risks are drawn from (A-166)."""


def round_one(state: State) -> Generator[Step, Any, None]:
    """Round 1: every seat alone (A-090 to A-095)."""
    seats = state.seats
    asks = tuple(
        Ask(seat.slug, brief(state, seat), RoundOne, {"strongest_disagreement.role": Values(_others(seat, seats))})
        for seat in seats
    )
    rules = task("round1_task.j2", seats=len(seats), words=state.table.settings.words)
    turn = Turn("round1", (problem(state), rules), asks, theory=True)

    def files(slug: str, reply: RoundOne) -> Mapping[str, str]:
        return {f"round1/{slug}.md": round_one_file(state.table.seat(slug), reply, state.name_of)}

    replies = yield from state.hold(turn, "round 1", files, limit_words=True)
    state.round_one = replies.of(RoundOne)


def round_two(state: State) -> Generator[Step, Any, None]:
    """Round 2, then the check that somebody still disagrees."""
    if state.table.settings.orchestration == "agent-team":
        yield from _exchange(state)
    else:
        yield from _debate(state)
    if state.can_be_quorate():
        yield from _question_consensus(state)


def _debate(state: State) -> Generator[Step, Any, None]:
    """One call: round 1's strongest disagreements are the challenges to answer (A-g21)."""
    seats = state.seats
    asks = []
    for seat in seats:
        inbox = {
            slug: reply.strongest_disagreement.why
            for slug, reply in state.round_one.items()
            if reply.strongest_disagreement.role == seat.slug
        }
        narrow: dict[str, Narrowing] = {
            "challenges.*.to": Values(_others(seat, seats)),
            "responses": Keys(tuple(inbox)),
        }
        kind = DissentingRoundTwo if seat.slug in state.dissenters else RoundTwo
        asks.append(Ask(seat.slug, brief(state, seat, addressed=inbox), kind, narrow))
    turn = Turn("round2", _context(state, "round2_task.j2", words=state.table.settings.words), tuple(asks), theory=True)
    replies = yield from state.hold(turn, "round 2", _files(state), limit_words=True)
    state.round_two = replies.of(RoundTwo)


def _exchange(state: State) -> Generator[Step, Any, None]:
    """Two calls: challenges out, then to every seat its own inbox (A-180, A-g18). Nobody edits what is sent."""
    seats = state.seats
    asks = tuple(
        Ask(seat.slug, brief(state, seat), Challenges, {"challenges.*.to": Values(_others(seat, seats))})
        for seat in seats
    )
    turn = Turn("round2-challenges", _context(state, "challenges_task.j2"), asks, theory=True)
    replies = yield from state.hold(turn, "the exchange of challenges", no_files)
    sent = replies.of(Challenges)
    asks = tuple(_position_ask(state, seat, sent) for seat in state.seats)
    turn = Turn("round2", _context(state, "positions_task.j2", words=state.table.settings.words), asks, theory=True)

    write = _files(state)

    def files(slug: str, reply: Position) -> Mapping[str, str]:
        return write(slug, _joined(sent[slug], reply))

    replies = yield from state.hold(turn, "round 2", files, limit_words=True)
    state.round_two = {slug: _joined(sent[slug], position) for slug, position in replies.of(Position).items()}


def _position_ask(state: State, seat: Seat, sent: Mapping[str, Challenges]) -> Ask:
    inbox = {
        slug: " ".join(each.challenge for each in challenges.challenges if each.to == seat.slug)
        for slug, challenges in sent.items()
        if any(each.to == seat.slug for each in challenges.challenges)
    }
    issued = "\n".join(f"To {each.to}: {each.challenge}" for each in sent[seat.slug].challenges)
    own = [Block("CHALLENGES YOU SENT", issued, "replies")]
    kind = DissentingPosition if seat.slug in state.dissenters else Position
    return Ask(seat.slug, brief(state, seat, addressed=inbox, own=own), kind, {"responses": Keys(tuple(inbox))})


def _joined(sent: Challenges, position: Position) -> RoundTwo:
    kind = DissentingRoundTwo if isinstance(position, DissentingPosition) else RoundTwo
    return kind.model_validate(sent.model_dump() | position.model_dump())


def _question_consensus(state: State) -> Generator[Step, Any, None]:
    """Where nearly nobody names a major disagreement, two seats are asked for the flaw (A-110 to A-113, A-g10)."""
    if state.table.overlays.dissenters:
        skipped = "anti-groupthink check skipped: structured dissenters sit at the table (A-113)"
        yield from publish(Publish(notices=(skipped,)))
        return
    agreeing = sum(not reply.major_disagreements for reply in state.round_two.values())
    enough = ceil(state.table.settings.groupthink_share * len(state.round_two))
    asked = [state.table.seat(slug) for slug in RISK_SEATS if slug in state.round_two]
    if agreeing < enough or not asked:
        return
    asks = tuple(Ask(seat.slug, brief(state, seat), Supplement) for seat in asked)
    rules = task("supplement_task.j2", agreeing=enough)
    context = (problem(state), *round_one_blocks(state), *round_two_blocks(state), rules)
    fired = f"anti-groupthink override: {agreeing} of {len(state.round_two)} seats name no major disagreement (A-110)"
    yield from publish(Publish(notices=(fired,)))

    def files(slug: str, reply: Supplement) -> Mapping[str, str]:
        return {
            f"round2/{slug}.md": round_two_file(state.table.seat(slug), state.round_two[slug], state.name_of, reply)
        }

    replies = yield from state.hold(Turn("supplement", context, asks, theory=True), "the supplement", files)
    state.supplements = replies.of(Supplement)


def _context(state: State, template: str, **values: object) -> tuple[Block, ...]:
    return (problem(state), *round_one_blocks(state), task(template, **values))


def _files(state: State) -> Render:
    return lambda slug, reply: {f"round2/{slug}.md": round_two_file(state.table.seat(slug), reply, state.name_of)}


def _others(seat: Seat, seats: Iterable[Seat]) -> tuple[str, ...]:
    return tuple(other.slug for other in seats if other.slug != seat.slug)
