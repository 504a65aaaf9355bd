"""The panel debate: a vote, at most one revision and a second vote, else the user decides (rules M-). Sans-IO.

Contexts, each the beginning of the next where the rules allow it (A: the artifact, C: the context):

    vote1           A, C
    vote1-arbiter   A, C, defense, critique
    revision        A, C, first vote's critiques and reasoning
    vote2           A revised, C                                  fresh: nothing of the first vote (M-g5)
    vote2-arbiter   A revised, C, defense, critique
    escalation      A as judged last, C, what speaks against it in each vote
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import asdict
from math import ceil
from typing import Any

from roundtable_local.protocols import Protocol
from roundtable_local.protocols.panel.contexts import (
    ROOM,
    against,
    arguments,
    brief,
    escalation_brief,
    revision_brief,
    shared,
)
from roundtable_local.protocols.panel.files import revised_file, vote_files
from roundtable_local.protocols.panel.intake import intake
from roundtable_local.protocols.panel.log import (
    concern_lines,
    concerns_heading,
    decisions_heading,
    log_file,
    must_log_concerns,
    user_line,
    vote_line,
)
from roundtable_local.protocols.panel.replies import Critique, Defense, Escalation, Judgement, Revision
from roundtable_local.protocols.panel.report import INVALID, choice_texts, report_file
from roundtable_local.protocols.panel.settings import Draft, PanelSettings
from roundtable_local.protocols.panel.state import Outputs, PanelTable, State, Vote, choice_ids
from roundtable_local.protocols.panel.tally import ARBITER, PROPONENT, SKEPTIC, Follows, count
from roundtable_local.steps import (
    MODERATOR,
    Ask,
    Debate,
    Entry,
    Length,
    Outcome,
    Publish,
    Question,
    Replies,
    ReplyT,
    Result,
    Step,
    Turn,
    WorstCase,
    consult,
    hold,
    publish,
)

QUESTION = "escalation"


def debate(table: PanelTable) -> Debate:
    """One panel, as steps."""
    state = State(table)
    yield from _vote(state, table.decision.text)
    if state.last.result.follows is Follows.REVISE:
        yield from _vote(state, (yield from _revise(state)))
    if state.last.result.follows is Follows.ESCALATE:
        return (yield from _escalate(state))
    yield from publish(Publish(files={"REPORT.md": report_file(state)}))
    return _outcome(state, "accept", f"{state.last.result.accepts}/3 accept: {state.last.outcome}")


def _vote(state: State, artifact: str) -> Generator[Step, Any, None]:
    """One vote: hear the seats, count, log (M-030, M-050)."""
    settings, number = state.table.settings, len(state.votes) + 1
    outputs = yield from _hear(state, number, artifact)
    result = count(outputs.verdicts, settings.quorum, last=number == settings.votes)
    vote = Vote(number, artifact, outputs, result)
    state.votes.append(vote)
    entries = _entries(state, vote)
    state.entries += entries
    lost = tuple(
        f"{state.table.seat(seat).name} gave no valid verdict in vote {number}: it counts as no accept of 3 (M-g6)"
        for seat in outputs.lost
    )
    notices = (*lost, *(line.removeprefix("- ") for line in entries[0].text.split("\n")))
    files = {**vote_files(vote), "panel-log.md": log_file(state.entries)}
    yield from publish(Publish(files, notices, entries))


def _hear(state: State, number: int, artifact: str) -> Generator[Step, Any, Outputs]:
    """Proponent and Skeptic in one call, then the Arbiter with both outputs (M-010, M-011)."""
    table, context = state.table, shared(state, artifact)
    asks = (Ask(PROPONENT, brief(table, PROPONENT), Defense), Ask(SKEPTIC, brief(table, SKEPTIC), Critique))
    first = yield from hold(Turn(f"vote{number}", context, asks))
    defense, critique = _reply(first, PROPONENT, Defense), _reply(first, SKEPTIC, Critique)
    arbiter = Ask(ARBITER, brief(table, ARBITER), Judgement)
    second = yield from hold(Turn(f"vote{number}-arbiter", (*context, *arguments(defense, critique)), (arbiter,)))
    return Outputs(defense, critique, _reply(second, ARBITER, Judgement), {**first.lost, **second.lost})


def _reply(replies: Replies, seat: str, kind: type[ReplyT]) -> ReplyT | None:
    """One seat's reply; None where it was lost."""
    only = {seat: replies[seat]} if seat in replies else {}
    return Replies(only).of(kind).get(seat)


def _entries(state: State, vote: Vote) -> tuple[Entry, ...]:
    """A vote's line, and the concerns that it went ahead against (M-032, M-050)."""
    concerns, date = vote.outputs.concerns, state.table.date
    line = vote_line(vote.result, state.decision, vote.outcome, concerns, vote.split_on)
    entries = [Entry(f"vote{vote.number}", decisions_heading(date), line)]
    lines = concern_lines(state.decision, concerns) if must_log_concerns(vote.result) else []
    if lines:
        entries.append(Entry(f"vote{vote.number}-concerns", concerns_heading(date), "\n".join(lines)))
    return tuple(entries)


def _revise(state: State) -> Generator[Step, Any, str]:
    """The moderator, not a panel, writes a revised draft (M-034)."""
    vote = state.last
    room = _draft_length(vote.artifact, state.table.settings.draft)
    ask = Ask(MODERATOR, revision_brief(state.table), Revision, {"artifact": room}, required=True)
    context = (*shared(state, vote.artifact), against(vote))
    replies = yield from hold(Turn("revision", context, (ask,)))
    state.revision = replies.of(Revision)[MODERATOR]
    yield from publish(Publish(files={"revised.md": revised_file(state.revision.artifact)}))
    return state.revision.artifact


def _draft_length(artifact: str, draft: Draft) -> Length:
    """Some more than the original where the window allows it, and as long as the original in any window."""
    most = max(draft.minimum, ceil(draft.factor * len(artifact)))
    return Length(min(draft.maximum, most), least=len(artifact))


def _escalate(state: State) -> Generator[Step, Any, Outcome]:
    """One question to the user, from what stands against the artifact in all votes (M-036, M-040, M-g1)."""
    ask = Ask(MODERATOR, escalation_brief(state), Escalation, required=True)
    context = (*shared(state, state.last.artifact), *(against(vote) for vote in state.votes))
    replies = yield from hold(Turn("escalation", context, (ask,)))
    state.escalation = replies.of(Escalation)[MODERATOR]
    yield from publish(Publish(files={"REPORT.md": report_file(state)}))
    if state.table.settings.escalation == "return":
        return _outcome(state, "escalated", f"escalated to the user: {state.escalation.question}")
    return (yield from _directed(state, state.escalation))


def _directed(state: State, escalation: Escalation) -> Generator[Step, Any, Outcome]:
    """The user's answer holds as if the panel had accepted that path (M-041)."""
    parts = (escalation.question, *choice_texts(escalation))
    state.answer = yield from consult(Question(QUESTION, parts, choices=choice_ids(escalation)))
    entry = Entry("user-directed", decisions_heading(state.table.date), user_line(state.decision, state.chosen))
    state.entries.append(entry)
    files = {"panel-log.md": log_file(state.entries), "REPORT.md": report_file(state)}
    yield from publish(Publish(files, (entry.text.removeprefix("- "),), (entry,)))
    return _outcome(state, "accept", f"user-directed: {state.chosen}")


def _outcome(state: State, verdict: str, summary: str) -> Outcome:
    escalated = verdict == "escalated"
    results = (Result("", "REPORT.md"), *([Result("revised artifact", "revised.md")] if state.revision else []))
    return Outcome(verdict, needs_human=escalated, summary=summary, results=results, data=_data(state, verdict))


def _data(state: State, verdict: str) -> Mapping[str, Any]:
    """The result for programs."""
    votes = [
        {seat: verdict.value if verdict else INVALID for seat, verdict in vote.outputs.verdicts.items()}
        for vote in state.votes
    ]
    return {
        "verdict": verdict,
        "accepts": state.last.result.accepts,
        "quorum": state.table.settings.quorum,
        "votes": votes,
        "outcome": state.chosen or state.last.outcome,
        "concerns": [each.model_dump(mode="json") for each in state.last.outputs.concerns],
        "log": state.lines,
        "question": _question(state),
        "answer": asdict(state.answer) if state.answer else None,
    }


def _question(state: State) -> Mapping[str, Any] | None:
    if state.escalation is None:
        return None
    named = zip(choice_ids(state.escalation), state.escalation.choices, strict=True)
    choices = [{"id": name, **choice.model_dump(mode="json")} for name, choice in named]
    return {"question": state.escalation.question, "choices": choices}


def worst_cases(table: PanelTable) -> tuple[WorstCase, ...]:
    """The one branch that holds every turn: no vote reaches the quorum, and every concern counts."""
    return (WorstCase("no quorum", {"verdict": "revise", "concerns.*.severity": "medium"}),)


PROTOCOL = Protocol(
    ROOM,
    PanelSettings,
    debate,
    worst_cases,
    intake=intake,
    whole=True,
    takes=frozenset({"context", "goal or proposal", "language", "log"}),
)
