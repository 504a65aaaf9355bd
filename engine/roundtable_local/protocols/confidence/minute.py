"""The minute and the decision line (O-023, O-026, O-080 to O-084). Pure: the same sitting gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roundtable_local.protocols.confidence.contexts import AXES_BEFORE
from roundtable_local.protocols.confidence.replies import Deepening, Opening, Position
from roundtable_local.protocols.confidence.sitting import Sitting
from roundtable_local.report.markdown import bullets, document, inline, quoted, table
from roundtable_local.steps import Answer

TITLES = {1: "Round 1: Open", 2: "Round 2: Deepen", 3: "Round 3: Converge"}

_LENSES = (
    "Every seat was a lens, worn by one model: a seat is not the view of the person or team it is named after. "
    "For a real view, ask them."
)
_ADVICE = "A decision is advice: a human ships, merges and signs."


def minute_path(sitting: Sitting) -> str:
    """The minute (O-012)."""
    return f"lab/round-table/{sitting.name}.md"


def state_path(sitting: Sitting) -> str:
    """The state (O-012)."""
    return f"lab/round-table/{sitting.name}.json"


def decision_path(sitting: Sitting) -> str:
    """The decision line (O-012)."""
    return f"inbox/decisions/{sitting.name}.md"


def files(sitting: Sitting) -> Mapping[str, str]:
    """Minute and state, flushed after every round (O-026)."""
    return {minute_path(sitting): minute(sitting), state_path(sitting): sitting.state_text()}


def minute(sitting: Sitting) -> str:
    """The whole minute, as far as the sitting has come."""
    return document(*_head(sitting), *_rounds(sitting), *_vote(sitting), *_end(sitting))


def decision_line(sitting: Sitting) -> str:
    """One line: the decision and where its minute lies (O-081)."""
    where = "/".join(part for part in (sitting.table.place.home, minute_path(sitting)) if part)
    return f"{_decision(sitting)} — {where}\n"


def decided_by_human(answer: Answer) -> str:
    """A human's decision in words."""
    why = f": {inline(answer.why)}" if answer.why.strip() else ""
    return f"{inline(answer.value)} (decided by {inline(answer.by)} after a deadlock{why})"


def deadlock(sitting: Sitting) -> tuple[str, ...]:
    """The deadlock in plain words: who stands where, and why that decides nothing (O-060)."""
    vote = sitting.vote
    if vote is None:
        return ()
    sides = []
    for option in sitting.options:
        voters = [f"{each.name} ({each.confidence})" for each in vote.ballots if each.vote == option]
        if voters:
            sides.append(f"{option} has {', '.join(voters)}")
    reasons = [f"It decides nothing because: {'; '.join(vote.reasons)}."]
    return ("The table is deadlocked: " + "; ".join(sides) + ".", *reasons)


def _decision(sitting: Sitting) -> str:
    if sitting.answer is not None:
        return decided_by_human(sitting.answer)
    vote = sitting.vote
    if vote is None or vote.problems:
        return "no decision: too few seats are left"
    if vote.winner is None or not vote.decided:
        return "ESCALATE: a human decides"
    return f"{inline(vote.winner)} ({vote.aggregator})"


def _head(sitting: Sitting) -> list[str]:
    seated = sitting.table
    options = " · ".join(inline(option) for option in sitting.options) or "not settled yet"
    lines = [
        f"**Date:** {seated.date}",
        f"**Options:** {options}",
        f"**Aggregator:** {seated.settings.aggregator}",
        f"**Facts:** {', '.join(inline(fact.title) for fact in seated.facts) or 'none beyond the question'}",
    ]
    roster = table(("Seat", "Soul read from"), [(seat.name, seat.source) for seat in seated.seats])
    notices = [f"> **Caveat:** {caveat}" for caveat in seated.caveats]
    notices += [
        f"> **Empty seat:** {inline(sitting.name_of(slug))}, {inline(reason)}"
        for slug, reason in sitting.emptied.items()
    ]
    notices += [f"> **Note:** {inline(note)}" for note in sitting.notes]
    return [
        f"# Round Table: {inline(seated.decision.topic)}",
        "\n".join(lines),
        "\n>\n".join(notices),
        "## Roster",
        roster,
        "## Question",
        quoted(seated.decision.text),
    ]


def _rounds(sitting: Sitting) -> Iterable[str]:
    for number, replies in sitting.rounds.items():
        if number == AXES_BEFORE:
            yield from ("## Axes of Disagreement", bullets(sitting.axes))
        yield f"## {TITLES[number]}"
        for slug, reply in replies.items():
            heading = f"### {inline(sitting.name_of(slug))}: {inline(reply.position)} ({reply.confidence_now})"
            yield from (heading, *_reply(sitting, reply))
        if (said := sitting.inspections.get(number)) is not None:
            yield from (f"**Inspector after round {number}:**", _verbatim(said.line))


def _reply(sitting: Sitting, reply: Position) -> list[str]:
    if isinstance(reply, Opening):
        return [inline(reply.reasoning), bullets([f"Would change its mind: {reply.what_would_change_your_mind}"])]
    if isinstance(reply, Deepening):
        challenge = f"Challenges {sitting.name_of(reply.challenge.target)}: {reply.challenge.critique}"
        return [inline(reply.reasoning), bullets([challenge, f"Self-update: {reply.self_update}"])]
    coalition = ", ".join(sitting.name_of(slug) for slug in dict.fromkeys(reply.coalition_with)) or "nobody"
    return [
        bullets(
            [
                f"Axis that decides: {reply.axis_that_decides_my_vote}",
                f"In coalition with: {coalition}",
                f"Would flip if: {reply.flip_condition}",
            ]
        )
    ]


def _vote(sitting: Sitting) -> list[str]:
    vote = sitting.vote
    if vote is None:
        return []
    rows = [(each.name, each.vote, str(each.confidence), each.rationale) for each in vote.ballots]
    parts = ["## Round 4: Vote", table(("Soul", "Vote", "Confidence", "Rationale"), rows)] if rows else []
    notes = [f"Dissent note of the {each.name} lens: {each.dissent}" for each in vote.ballots if each.dissent]
    lenses = [f"The {each.name} lens voted {each.vote} ({each.confidence})." for each in vote.ballots]
    return [*parts, bullets([*lenses, *notes]), "## Decision", _verbatim(vote.block)]


def _end(sitting: Sitting) -> list[str]:
    parts: list[str] = []
    if sitting.vote is not None and sitting.vote.reasons:
        parts += ["## Deadlock", *(inline(line) for line in deadlock(sitting))]
    if sitting.answer is not None:
        parts += ["## The Human's Decision", decided_by_human(sitting.answer)]
    if sitting.vote is not None:
        parts += ["## How to Read This", _LENSES, _ADVICE]
    return parts


def _verbatim(text: str) -> str:
    """A block that no line of model text can close: each line of it is one line, so a longer fence is enough."""
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"
