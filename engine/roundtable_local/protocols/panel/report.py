"""REPORT.md: what was decided, by which votes, over which concerns, and what the user was asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from roundtable_local.protocols.panel.files import NO_CONCERNS, concern_text
from roundtable_local.protocols.panel.replies import Escalation
from roundtable_local.protocols.panel.state import State, Vote, choice_ids
from roundtable_local.protocols.panel.tally import SEATS, Follows
from roundtable_local.report.markdown import bullets, document, inline, numbered, table
from roundtable_local.steps import Answer

INVALID = "invalid"
ACCEPTED, DIRECTED, WAITING, RETURNED = "accept", "accept (user-directed)", "waiting for the user", "escalated"
_FOLLOWS = {Follows.PROCEED: "goes ahead", Follows.REVISE: "revision", Follows.ESCALATE: "the user decides"}


def report_file(state: State) -> str:
    """The whole report, also before the user has answered."""
    return document(
        _head(state),
        *_notices(state),
        "## Decision",
        _decision(state),
        "## Votes",
        table(
            ("Vote", *(state.table.seat(seat).name for seat in SEATS), "Accepts", "Panel", "Then"), _rows(state.votes)
        ),
        *(part for vote in state.votes for part in _reasons(state, vote)),
        "## Concerns",
        *(part for vote in state.votes for part in _concerns(vote)),
        *_revision(state),
        *_escalation(state),
        "## Log",
        "\n".join(state.lines),
    )


def standing(state: State) -> str:
    """How the decision stands, in two words."""
    if state.last.result.follows is Follows.PROCEED:
        return ACCEPTED
    if state.table.settings.escalation == "return":
        return RETURNED
    return DIRECTED if state.answer else WAITING


def _head(state: State) -> str:
    return document(
        f"# Panel Report: {inline(state.decision)}",
        f"**Date:** {state.table.date}\n"
        f"**Quorum:** {state.table.settings.quorum}\n"
        f"**Votes held:** {len(state.votes)}\n"
        f"**Verdict:** {standing(state)}",
    )


def _notices(state: State) -> list[str]:
    """What a reader must know before the first number: caveats, lost seats, an open question."""
    lines = [f"> **Caveat:** {caveat}" for caveat in state.table.caveats]
    lines += [
        f"> **Seat lost:** {state.table.seat(seat).name} in vote {vote.number}, {inline(reason)}. It counts as no accept "
        "out of three (M-g6)."
        for vote in state.votes
        for seat, reason in vote.outputs.lost.items()
    ]
    if standing(state) == WAITING:
        lines.append("> **Waiting:** the user's answer to the question below (`escalation`) decides.")
    if standing(state) == RETURNED:
        lines.append(
            "> **No decision:** the question below goes back to whoever called the panel. A human must decide."
        )
    return ["\n>\n".join(lines)] if lines else []


def _decision(state: State) -> str:
    if standing(state) == ACCEPTED:
        artifact = "as revised (`revised.md`)" if state.revision else "as it was put to the panel"
        return f"{inline(state.last.outcome)}\n\nAccepted {artifact}."
    if standing(state) == DIRECTED:
        return f"{inline(state.chosen)}\n\nThe user chose this path; it holds as if the panel had accepted it."
    return "Not decided: the panel did not reach its quorum."


def _rows(votes: Sequence[Vote]) -> list[tuple[str, ...]]:
    return [
        (
            str(vote.number),
            *(verdict or INVALID for verdict in vote.outputs.verdicts.values()),
            f"{vote.result.accepts}/3",
            vote.result.verdict,
            _FOLLOWS[vote.result.follows],
        )
        for vote in votes
    ]


def _reasons(state: State, vote: Vote) -> tuple[str, str]:
    said = []
    for seat in SEATS:
        output = vote.outputs.of(seat)
        said.append(
            f"{state.table.seat(seat).name}: {output.verdict}: {output.reason}" if output else _lost(state, seat)
        )
    return f"### Reasons, vote {vote.number}", bullets(said)


def _lost(state: State, seat: str) -> str:
    return f"{state.table.seat(seat).name}: {INVALID}"


def _concerns(vote: Vote) -> tuple[str, ...]:
    found = [concern_text(each) for each in vote.outputs.concerns]
    lost = "" if vote.outputs.critique else "The Skeptic gave no valid reply."
    return f"### Vote {vote.number}", numbered(found) or lost or NO_CONCERNS


def _revision(state: State) -> tuple[str, ...]:
    if state.revision is None:
        return ()
    return "## Revision", "The moderator revised the artifact (`revised.md`):", bullets(state.revision.changes)


def _escalation(state: State) -> tuple[str, ...]:
    if state.escalation is None:
        return ()
    answer = _answer(state, state.answer) if state.answer else "Not answered yet."
    return "## Escalation", inline(state.escalation.question), bullets(choice_texts(state.escalation)), answer


def choice_texts(escalation: Escalation) -> tuple[str, ...]:
    """The ways to go on, one line each, with what the user answers to take them (M-040)."""
    named = zip(choice_ids(escalation), escalation.choices, strict=True)
    return tuple(f"{name}) {choice.label}: {choice.consequence}" for name, choice in named)


def _answer(state: State, answer: Answer) -> str:
    signed = f", by {inline(answer.by)}" if answer.by.strip() else ""
    because = f": {inline(answer.why)}" if answer.why.strip() else ""
    return f"**Answer:** {answer.value}) {inline(state.chosen)}{signed}{because}"
