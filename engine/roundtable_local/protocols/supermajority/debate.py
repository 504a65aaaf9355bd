"""The supermajority debate: theory, debate, synthesis, reality check, vote, report (rules A-). Sans-IO.

Contexts, each the beginning of the next where the rules allow it (P: the problem, r1*: all round 1 replies):

    round1       P
    round2       P, r1*
    supplement   P, r1*, r2*                only where nobody disagrees
    synthesis    P, r1*, r2*, supplements   one turn per recommendation, one for the disagreements
    round3       P, SYNTHESIS, CODE         only with a codebase
    vote         P, SYNTHESIS
    report       P, SYNTHESIS, ballots, the Risk Analyst's and the Devil's Advocate's replies

The lightning round (compromise, revote) stands between vote and report: P, SYNTHESIS, compromises.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from roundtable_local.prompts import render
from roundtable_local.protocols import Protocol
from roundtable_local.protocols.supermajority.contexts import (
    ROOM,
    problem,
    recommendations,
    round_one_blocks,
    round_two_blocks,
    task,
)
from roundtable_local.protocols.supermajority.files import FOLDERS, problem_file
from roundtable_local.protocols.supermajority.merge import Merge
from roundtable_local.protocols.supermajority.reality import reality_check
from roundtable_local.protocols.supermajority.replies import Summary
from roundtable_local.protocols.supermajority.report import Record, report_file
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings
from roundtable_local.protocols.supermajority.state import SettingsTable, State
from roundtable_local.protocols.supermajority.synthesis import synthesis
from roundtable_local.protocols.supermajority.tally import Tally, thresholds
from roundtable_local.protocols.supermajority.theory import RISK_SEATS, round_one, round_two
from roundtable_local.protocols.supermajority.vote import Lightning, lightning, vote
from roundtable_local.steps import (
    MODERATOR,
    Ask,
    Block,
    Debate,
    Outcome,
    Publish,
    Step,
    Turn,
    WorstCase,
    hold,
    publish,
)


def debate(table: SettingsTable) -> Debate:
    """One debate, as steps."""
    state, settings = State(table), table.settings
    mode = f"[APT] Roundtable orchestration: {settings.orchestration}"
    problem_md = {"PROBLEM.md": problem_file(table.decision, table.date)}
    yield from publish(Publish(files=problem_md, folders=FOLDERS, notices=(mode,)))
    yield from round_one(state)
    if state.can_be_quorate():
        yield from round_two(state)
    if not state.can_be_quorate():
        return (yield from _stop(state, Record(state)))
    merged = yield from synthesis(state)
    passages = yield from reality_check(state, merged)
    if not state.can_be_quorate():
        return (yield from _stop(state, Record(state, merged, passages)))
    counted = yield from vote(state, merged)
    if not counted.quorate:
        return (yield from _stop(state, Record(state, merged, passages, counted)))
    extra = yield from lightning(state, merged, counted)
    summary = yield from _summary(state, merged, counted, extra)
    record = Record(state, merged, passages, counted, extra, summary)
    yield from publish(Publish(files={"REPORT.md": report_file(record, counted.thresholds)}))
    said = f"{record.passed} of {record.total} recommendations passed: {record.verdict}"
    return Outcome(record.verdict, needs_human=False, summary=said)


def _summary(state: State, merged: Merge, counted: Tally, extra: Lightning | None) -> Generator[Step, Any, Summary]:
    """The moderator's part of the report (A-161, A-166, A-167, A-g25)."""
    values = {"ballots": state.ballots, "tally": counted, "lightning": extra}
    ballots = Block("BALLOTS", render(f"{ROOM}/ballots.j2", **values).text, "replies")
    risks = [block for slug in RISK_SEATS for block in (*round_one_blocks(state, slug), *round_two_blocks(state, slug))]
    context = (problem(state), recommendations(state, merged), ballots, *risks, task("report_task.j2"))
    ask = Ask(MODERATOR, render(f"{ROOM}/moderator.j2"), Summary, required=True)
    replies = yield from hold(Turn("report", context, (ask,)))
    return replies.of(Summary)[MODERATOR]


def _stop(state: State, record: Record) -> Generator[Step, Any, Outcome]:
    """Too few seats or ballots: nothing is decided, and the report says so (A-g7)."""
    settings = state.table.settings
    bars = thresholds(len(state.ballots) if record.tally else len(state.seats), settings)
    summary = f"no decision: {bars.voters} seats are left and {settings.ballot_floor} ballots are needed (A-g7)"
    yield from publish(Publish(files={"REPORT.md": report_file(record, bars)}, notices=(summary,)))
    return Outcome("no-decision", needs_human=True, summary=summary)


def worst_cases(table: SettingsTable) -> tuple[WorstCase, ...]:
    """The branches to rehearse: all recommendations written and contested; and nobody disagrees in round 2."""
    half = [seat.slug for seat in table.seats][: len(table.seats) // 2]
    contested = {slug: {"votes.*.vote": "AGREE"} for slug in half}
    prefer = {"another": "YES", "votes.*.vote": "DISAGREE", "stances.*.stance": "CHALLENGE"}
    # which passages the recommendations call for is not known yet: room for all that may be shown is set aside
    reserve = {"round3": table.settings.codebase_tokens if table.codebase else 0}
    cases = (WorstCase("all contested", prefer, contested, reserve=reserve),)
    if table.overlays.dissenters:
        return cases
    return (*cases, WorstCase("no disagreement", prefer, contested, ("major_disagreements",), reserve))


def fallback(table: SettingsTable, reason: str) -> tuple[SupermajoritySettings, str] | None:
    """agent-team where its two calls do not fit the window: one call, and the warning of A-171."""
    if table.settings.orchestration != "agent-team":
        return None
    warning = (
        "[APT] Warning: debate_mode requested 'agent-team' but host does not support it — using 'sub-agents'. "
        f"The exchange does not fit: {reason}"
    )
    return table.settings.model_copy(update={"orchestration": "sub-agents"}), warning


PROTOCOL = Protocol(
    ROOM,
    SupermajoritySettings,
    debate,
    worst_cases,
    most_dissenters=lambda settings: settings.dissenters,
    fallback=fallback,
    takes=frozenset({"codebase"}),
)
