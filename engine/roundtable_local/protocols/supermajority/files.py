"""The run directory's files up to the vote, rendered by code from replies (A-020 to A-026, A-095, A-104, A-121, A-144).

Headings are exactly those of the rules. Pure: the same replies always give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from roundtable_local.decision import Decision
from roundtable_local.protocols.supermajority.merge import Merge, Recommendation
from roundtable_local.protocols.supermajority.replies import (
    Ballot,
    BallotLine,
    Dismiss,
    Keep,
    Modify,
    Opposing,
    RoundOne,
    RoundThree,
    RoundTwo,
    Stance,
    Supplement,
    assumption_of,
)
from roundtable_local.report.markdown import bullets, document, inline, numbered, table
from roundtable_local.seats import Seat

FOLDERS = ("round1", "round2", "round3", "votes")
"""All made up front, even where round 3 stays empty (A-025)."""

NameOf = Callable[[str], str]
"""Role name of a slug."""


def problem_file(decision: Decision, date: str) -> str:
    """PROBLEM.md (A-192, A-g24). The problem's text is the user's own and stands as it is."""
    return document(
        "# Roundtable Problem Statement",
        f"**Topic:** {inline(decision.topic)}\n**Date:** {date}\n**Initiated by:** User via roundtable-local run",
        "## Problem Specification",
        decision.text,
    )


def round_one_file(seat: Seat, reply: RoundOne, name_of: NameOf) -> str:
    """round1/{slug}.md (A-094, A-095)."""
    disagreement = reply.strongest_disagreement
    return document(
        f"## {seat.name} -- Round 1",
        "### Key Findings",
        numbered(f"{each.finding} (Evidence: {each.evidence})" for each in reply.key_findings),
        "### Recommendations",
        numbered(reply.recommendations),
        "### Concerns",
        bullets(reply.concerns),
        "### Strongest Disagreement",
        inline(f"{name_of(disagreement.role)}: {disagreement.why}"),
    )


def round_two_file(seat: Seat, reply: RoundTwo, name_of: NameOf, supplement: Supplement | None = None) -> str:
    """round2/{slug}.md (A-103 to A-105); a supplementary challenge is appended (A-112)."""
    responses = [f"From {name_of(slug)}: {text}" for slug, text in reply.responses.items()]
    parts = [
        f"## {seat.name} -- Round 2",
        "### Challenges Issued",
        bullets(f"To {name_of(each.to)}: {each.challenge}" for each in reply.challenges),
        "### Responses to Challenges",
        bullets(responses or ["No challenge was addressed to this seat."]),
        "### Changed Since Round 1",
        inline(reply.changed_since_round_1),
        "### Updated Recommendations",
        numbered(reply.updated_recommendations),
        *_assumption(reply),
    ]
    if supplement:
        challenge = (supplement.flaw, supplement.missed, supplement.wrong_assumption)
        parts += ["### Supplementary Challenge", *(inline(each) for each in challenge)]
    return document(*parts)


def _assumption(reply: RoundTwo | RoundThree) -> tuple[str, ...]:
    """The heading that dissenters alone have (A-079)."""
    said = assumption_of(reply)
    return ("### Unstated Assumption", inline(said)) if said else ()


def synthesis_file(merged: Merge, name_of: NameOf, dissents: Sequence[Mapping[str, Any]] = ()) -> str:
    """round2/SYNTHESIS.md (A-121, A-122): the numbered recommendations are exactly what is voted on (A-123)."""
    parts = [
        "# Round 2 Synthesis",
        "**Orchestrator summary of positions after theory debate.**",
        "## Numbered Recommendations for Vote",
    ]
    for each in merged.recommendations:
        parts += [f"### {each.id}: {inline(each.title)}", inline(each.description), support_lines(each, name_of)]
    parts += ["## Key Disagreements Remaining", bullets(merged.key_disagreements)]
    if dissents:
        parts.append("## Structured Dissent")
    for dissent_of in dissents:
        parts += [
            f"### {name_of(dissent_of['slug'])} (dissenter)",
            f"- **Unstated assumption named:** {inline(dissent_of['assumption'])}\n"
            f"- **Recommendations opposed:** {', '.join(dissent_of['opposed']) or 'none'}",
        ]
    if merged.unmerged:
        parts += [
            "## Points Merged Into No Recommendation",
            bullets(f"{name_of(point.seat)}: {point.text}" for point in merged.unmerged),
        ]
    return document(*parts)


def round_three_file(seat: Seat, reply: RoundThree, merged: Merge, cited: Mapping[str, str]) -> str:
    """round3/{slug}.md (A-134 to A-136); `cited` resolves evidence ids to path:lines."""
    titles = {each.id: each.title for each in merged.recommendations}

    def listed(kind: type[Stance]) -> str:
        lines = [
            f"{rid}: {titles[rid]} -- {_stance(stance)}{_cited(stance.evidence, cited)}"
            for rid, stance in reply.stances.items()
            if isinstance(stance, kind)
        ]
        return bullets(lines or ["None."])

    return document(
        f"## {seat.name} -- Round 3 (Reality Check)",
        "### Codebase Observations",
        bullets(f"{each.observation}{_cited([each.evidence], cited)}" for each in reply.observations),
        "### Recommendations to KEEP (theory confirmed by reality)",
        listed(Keep),
        "### Recommendations to MODIFY (theory needs adjustment)",
        listed(Modify),
        "### Recommendations to CHALLENGE (evidence against theory)",
        listed(Dismiss),
        *_assumption(reply),
    )


def _stance(stance: Stance) -> str:
    if isinstance(stance, Modify):
        return f"{stance.reason} -- {stance.modification}"
    if isinstance(stance, Keep) and stance.retry.strip():
        return f"{stance.reason} -- recommend retry with {stance.retry}"
    return stance.reason


def _cited(evidence: Sequence[str], cited: Mapping[str, str]) -> str:
    places = ", ".join(cited[each] for each in dict.fromkeys(evidence))
    return f" ({places})" if places else ""


def support_lines(each: Recommendation, name_of: NameOf) -> str:
    """Who supports and who opposes, counted from ids (A-g22)."""
    rows = [("Supported by", each.supporters), ("Opposed by", each.opponents)]
    if each.mixed:
        rows.append(("Both supported and challenged by", each.mixed))
    return "\n".join(f"- {label} ({len(slugs)}): {names(slugs, name_of)}" for label, slugs in rows)


def vote_file(seat: Seat, ballot: Ballot, recommendations: Iterable[Recommendation]) -> str:
    """votes/{slug}.md (A-144): the table, then the full reasoning of every opposing vote."""
    listed = [(each, ballot.votes[each.id]) for each in recommendations]
    rows = [(f"{each.id}: {each.title}", line.vote, line.confidence, line.rationale) for each, line in listed]
    against = [f"**{each.id}:** {dissent(line)}" for each, line in listed if isinstance(line, Opposing)]
    parts = [f"## {seat.name} -- Final Votes", table(("Recommendation", "Vote", "Confidence", "Rationale"), rows)]
    if against:
        parts += ["### Dissenting View", *against]
    return document(*parts)


def dissent(line: BallotLine) -> str:
    """The reasoning of an opposing vote, verbatim (A-145)."""
    return inline(line.dissent)


def names(slugs: Iterable[str], name_of: NameOf) -> str:
    """Role names as a list in a sentence."""
    return ", ".join(name_of(slug) for slug in slugs) or "none"
