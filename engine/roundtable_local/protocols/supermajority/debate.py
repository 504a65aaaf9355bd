"""The supermajority debate: theory, debate, synthesis, vote, report (A-090 to A-168). Sans-IO.

Contexts, each the beginning of the next where the rules allow it (P: the problem, r1*: all round 1 replies):

    round1     P
    round2     P, r1*
    synthesis  P, r1*, r2*            one turn per recommendation, one for the disagreements
    vote       P, SYNTHESIS
    report     P, SYNTHESIS, ballots, the Risk Analyst's and the Devil's Advocate's replies
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from roundtable_local.prompts import render
from roundtable_local.protocols import Protocol
from roundtable_local.protocols.supermajority.files import (
    FOLDERS,
    problem_file,
    round_one_file,
    round_two_file,
    synthesis_file,
    vote_file,
)
from roundtable_local.protocols.supermajority.merge import Merge, challenges_of, merge, points_of
from roundtable_local.protocols.supermajority.replies import (
    Ballot,
    Disagreements,
    Merged,
    RoundOne,
    RoundTwo,
    Summary,
    Vote,
)
from roundtable_local.protocols.supermajority.report import Record, report_file
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings
from roundtable_local.protocols.supermajority.tally import Result, tally, thresholds
from roundtable_local.seats import Seat, Table
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
    Replies,
    Step,
    Turn,
    Values,
    WorstCase,
    hold,
    publish,
)

ROOM = "supermajority"
RISK_SEATS = ("risk-analyst", "devils-advocate")
"""Whose replies the report's risk assessment is drawn from (A-166)."""

STANDARD_VOTES = (Vote.AGREE, Vote.DISAGREE, Vote.ABSTAIN)
"""What every seat may vote (A-142)."""

SettingsTable = Table[SupermajoritySettings]


@dataclass
class State:
    """How far the debate has come; `lost` seats have left the table for good (A-g6)."""

    table: SettingsTable
    round_one: dict[str, RoundOne] = field(default_factory=dict)
    round_two: dict[str, RoundTwo] = field(default_factory=dict)
    ballots: dict[str, Ballot] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)

    @property
    def seats(self) -> list[Seat]:
        """The seats still at the table, in order."""
        return [seat for seat in self.table.seats if seat.slug not in self.lost]

    @property
    def can_be_quorate(self) -> bool:
        """Whether enough seats are left for the ballot floor (A-g7)."""
        return len(self.seats) >= self.table.settings.ballot_floor

    def take_losses(self, turn: str, replies: Replies) -> tuple[str, ...]:
        """Let lost seats leave; returns a notice for each (A-g6, A-213)."""
        notices = []
        for slug, reason in replies.lost.items():
            self.lost[slug] = f"in {turn}: {reason}"
            name = self.table.seat(slug).name
            notices.append(
                f"{name} leaves the table in {turn}; {len(self.seats)} seats go on and thresholds follow (A-g6)"
            )
        return tuple(notices)


def debate(table: SettingsTable) -> Debate:
    """One debate, as steps."""
    state = State(table)
    yield from publish(Publish(files={"PROBLEM.md": problem_file(table.decision, table.date)}, folders=FOLDERS))
    yield from _round_one(state)
    if state.can_be_quorate:
        yield from _round_two(state)
    if not state.can_be_quorate:
        return (yield from _stop(state))
    merged = yield from _synthesis(state)
    yield from _vote(state, merged)
    return (yield from _report(state, merged))


def _round_one(state: State) -> Generator[Step, Any, None]:
    seats = state.seats
    asks = tuple(
        Ask(seat.slug, _brief(seat), RoundOne, {"strongest_disagreement.role": Values(_others(seat, seats))})
        for seat in seats
    )
    task = _task("round1_task.j2", seats=len(seats), words=state.table.settings.words)
    replies = yield from hold(Turn("round1", (_problem(state.table), task), asks, theory=True))
    state.round_one = replies.of(RoundOne)
    name_of = _namer(state.table)
    files = {
        f"round1/{slug}.md": round_one_file(state.table.seat(slug), reply, name_of)
        for slug, reply in state.round_one.items()
    }
    notices = state.take_losses("round 1", replies) + _word_notices(files, state.table.settings.words)
    yield from publish(Publish(files=files, notices=notices))


def _round_two(state: State) -> Generator[Step, Any, None]:
    seats = state.seats
    asks = []
    for seat in seats:
        inbox = {slug: reply.strongest_disagreement.why for slug, reply in state.round_one.items()
                 if reply.strongest_disagreement.role == seat.slug}  # fmt: skip
        narrow: dict[str, Narrowing] = {
            "challenges.*.to": Values(_others(seat, seats)),
            "responses": Keys(tuple(inbox)),
        }
        asks.append(Ask(seat.slug, _brief(seat, _addressed(state.table, inbox)), RoundTwo, narrow))
    context = (
        _problem(state.table),
        *_round_one_blocks(state),
        _task("round2_task.j2", words=state.table.settings.words),
    )
    replies = yield from hold(Turn("round2", context, tuple(asks), theory=True))
    state.round_two = replies.of(RoundTwo)
    name_of = _namer(state.table)
    files = {
        f"round2/{slug}.md": round_two_file(state.table.seat(slug), reply, name_of)
        for slug, reply in state.round_two.items()
    }
    notices = state.take_losses("round 2", replies) + _word_notices(files, state.table.settings.words)
    yield from publish(Publish(files=files, notices=notices))


def _synthesis(state: State) -> Generator[Step, Any, Merge]:
    """SYNTHESIS.md: the recommendations one turn each, then the disagreements that remain (A-120 to A-123).

    One turn each, because a grammar cannot forbid a later list to repeat what an earlier one holds: between
    turns the points taken leave the choice, so each point belongs to one recommendation by construction (A-g22).
    """
    limits = state.table.settings.recommendations
    task = _task("synthesis_task.j2", least=limits.least, most=limits.most)
    context = (_problem(state.table), *_round_one_blocks(state), *_round_two_blocks(state), task)
    written: list[Merged] = []
    free = list(points_of(state.round_two))
    while free and len(written) < limits.most and (not written or written[-1].another == "YES"):
        rid = f"R{len(written) + 1}"
        brief = render(f"{ROOM}/synthesis_brief.j2", written=written, rid=rid)
        narrow = _merging(state, free, len(written) + 1)
        ask = Ask(MODERATOR, brief, Merged, narrow, required=True, parts=limits.least)
        replies = yield from hold(Turn(f"synthesis-{rid}", context, (ask,), theory=True))
        written.append(replies.of(Merged)[MODERATOR])
        free = [point for point in free if point not in written[-1].points]
    brief = render(f"{ROOM}/disagreements_brief.j2", written=written)
    ask = Ask(MODERATOR, brief, Disagreements, required=True)
    replies = yield from hold(Turn("synthesis-disagreements", context, (ask,), theory=True))
    merged = merge(written, replies.of(Disagreements)[MODERATOR].key_disagreements, state.round_two)
    files = {"round2/SYNTHESIS.md": synthesis_file(merged, _namer(state.table))}
    yield from publish(Publish(files=files, notices=merged.notices))
    return merged


def _merging(state: State, free: list[str], number: int) -> dict[str, Narrowing]:
    """What recommendation `number` may hold: free points, enough of them left for those that must follow."""
    limits = state.table.settings.recommendations
    to_follow = max(0, limits.least - number)
    most_points = max(1, min(limits.points, len(free) - to_follow))
    another = ("YES",) if to_follow else ("NO",) if number == limits.most else ("YES", "NO")
    return {
        "points": Count(1, most_points),
        "points.*": Values(tuple(free)),
        "challenges.*": Values(tuple(challenges_of(state.round_two))),
        "another": Values(another),
    }


def _vote(state: State, merged: Merge) -> Generator[Step, Any, None]:
    narrow: dict[str, Narrowing] = {"votes": Keys(merged.ids), "votes.*.vote": Values(STANDARD_VOTES)}
    asks = tuple(Ask(seat.slug, _brief(seat), Ballot, narrow) for seat in state.seats)
    context = (_problem(state.table), _recommendations(merged), _task("vote_task.j2", values=STANDARD_VOTES))
    replies = yield from hold(Turn("vote", context, asks))
    state.ballots = replies.of(Ballot)
    files = {
        f"votes/{slug}.md": vote_file(state.table.seat(slug), ballot, merged.recommendations)
        for slug, ballot in state.ballots.items()
    }
    yield from publish(Publish(files=files, notices=state.take_losses("the vote", replies)))


def _report(state: State, merged: Merge) -> Generator[Step, Any, Outcome]:
    settings = state.table.settings
    counted = tally({slug: ballot.votes for slug, ballot in state.ballots.items()}, merged.ids, settings)
    record = Record(state.round_one, state.round_two, state.ballots, state.lost, merged, counted, None)
    if not counted.quorate:
        return (yield from _stop(state, record))
    ballots = Block("BALLOTS", render(f"{ROOM}/ballots.j2", ballots=state.ballots, tally=counted).text, "replies")
    replies_of_risk_seats = [
        block for slug in RISK_SEATS for block in (*_round_one_blocks(state, slug), *_round_two_blocks(state, slug))
    ]
    context = (
        _problem(state.table), _recommendations(merged), ballots, *replies_of_risk_seats, _task("report_task.j2"),
    )  # fmt: skip
    ask = Ask(MODERATOR, render(f"{ROOM}/moderator.j2"), Summary, required=True)
    replies = yield from hold(Turn("report", context, (ask,)))
    record = replace(record, summary=replies.of(Summary)[MODERATOR])
    yield from publish(Publish(files={"REPORT.md": report_file(state.table, record, counted.thresholds)}))
    passed, total = len(counted.having(Result.PASSED)), len(counted.counts)
    return Outcome(
        counted.verdict, needs_human=False, summary=f"{passed} of {total} recommendations passed: {counted.verdict}"
    )


def _stop(state: State, record: Record | None = None) -> Generator[Step, Any, Outcome]:
    """Too few seats or ballots: nothing is decided, and the report says so (A-g7)."""
    settings = state.table.settings
    if record is None:
        record = Record(state.round_one, state.round_two, {}, state.lost, None, None, None)
        bars = thresholds(len(state.seats), settings)
    else:
        bars = thresholds(len(state.ballots), settings)
    report = report_file(state.table, record, bars)
    summary = f"no decision: {bars.voters} seats are left and {settings.ballot_floor} ballots are needed (A-g7)"
    yield from publish(Publish(files={"REPORT.md": report}, notices=(summary,)))
    return Outcome("no-decision", needs_human=True, summary=summary)


def _problem(table: SettingsTable) -> Block:
    """The problem's body alone: date and topic are for people (A-g20)."""
    return Block("PROBLEM SPECIFICATION", table.decision.text, "decision")


def _task(template: str, **values: object) -> Block:
    """What every seat of the turn is told alike."""
    return Block("TASK", render(f"{ROOM}/{template}", **values).text, "instructions")


def _round_one_blocks(state: State, only: str = "") -> list[Block]:
    return [
        Block(f"ROUND 1, {slug}", render(f"{ROOM}/round1_reply.j2", reply=reply).text, "replies")
        for slug, reply in state.round_one.items()
        if only in {"", slug}
    ]


def _round_two_blocks(state: State, only: str = "") -> list[Block]:
    points, challenges = points_of(state.round_two).values(), challenges_of(state.round_two).values()
    return [
        Block(f"ROUND 2, {slug}", render(
            f"{ROOM}/round2_reply.j2", reply=reply, points=[each for each in points if each.seat == slug],
            challenges=[each for each in challenges if each.seat == slug],
        ).text, "replies")
        for slug, reply in state.round_two.items()
        if only in {"", slug}
    ]  # fmt: skip


def _recommendations(merged: Merge) -> Block:
    return Block("RECOMMENDATIONS", render(f"{ROOM}/recommendations.j2", merged=merged).text, "moderator")


def _brief(seat: Seat, addressed: Iterable[Mapping[str, str]] = ()) -> Any:
    return render(f"{ROOM}/seat.j2", seat=seat, addressed=list(addressed))


def _addressed(table: SettingsTable, inbox: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"slug": slug, "name": table.seat(slug).name, "text": text} for slug, text in inbox.items()]


def _others(seat: Seat, seats: Iterable[Seat]) -> tuple[str, ...]:
    return tuple(other.slug for other in seats if other.slug != seat.slug)


def _namer(table: SettingsTable) -> Any:
    return lambda slug: table.seat(slug).name


def _word_notices(files: Mapping[str, str], words: int) -> tuple[str, ...]:
    """Replies over the word limit are kept whole and recorded (A-g16)."""
    counts = {name: len(text.split()) for name, text in files.items()}
    return tuple(
        f"{name} has {count} words, more than the {words} asked for (A-g16)"
        for name, count in counts.items()
        if count > words
    )


def worst_cases(table: SettingsTable) -> tuple[WorstCase, ...]:
    """The branches to rehearse: all seats stay and every reply is as long as it can be."""
    return (WorstCase("all seats stay, as many recommendations as allowed", {"another": "YES"}),)


PROTOCOL = Protocol(ROOM, SupermajoritySettings, debate, worst_cases)
