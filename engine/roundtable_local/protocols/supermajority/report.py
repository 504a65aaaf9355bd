"""REPORT.md (A-160 to A-168, A-g15, A-g25): every section, whatever happened. Pure.

The moderator's words are the executive summary, the risks and the research gaps; all else is counted and
quoted by code. An empty section says so in one fixed sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from roundtable_local.codebase import Passage
from roundtable_local.protocols.supermajority.files import dissent
from roundtable_local.protocols.supermajority.merge import Merge, Recommendation
from roundtable_local.protocols.supermajority.replies import BallotLine, Opposing, Status, Summary, Vote
from roundtable_local.protocols.supermajority.state import SettingsTable, State
from roundtable_local.protocols.supermajority.tally import (
    Count,
    Result,
    Tally,
    Thresholds,
    Verdict,
    confidence_label,
    verdict,
)
from roundtable_local.protocols.supermajority.vote import Lightning, Proposal
from roundtable_local.report.markdown import bullets, document, inline
from roundtable_local.seats import Seat

_Renderer = Callable[[Recommendation, Count], str]

EMPTY = "Nothing to report in this section."
_ROUNDS = 2  # A-g15: without a reality check; the vote is not a round
_STATUS = {Status.EXISTS: "exists", Status.PARTIAL: "partial", Status.NOT_ATTEMPTED: "not attempted"}
_OFFLINE = (
    "The seats had no web search and no other source than the problem statement: they argued from what the model knows. "
    "Claims that a decision rests on need checking against the sources (A-g17)."
)


@dataclass(frozen=True)
class Record:
    """All that a finished, or stopped, debate left behind; None and empty where it stopped before.

    Args:
        state: replies, ballots, lost seats.
        merged: what was voted on.
        passages: the code shown in round 3; empty without one.
        tally: of the vote.
        lightning: compromises and the re-vote on them.
        summary: the moderator's part of the report.
    """

    state: State
    merged: Merge | None = None
    passages: tuple[Passage, ...] = ()
    tally: Tally | None = None
    lightning: Lightning | None = None
    summary: Summary | None = None

    @property
    def total(self) -> int:
        """Recommendations and compromises voted on."""
        return (len(self.tally.counts) if self.tally else 0) + (len(self.lightning.proposals) if self.lightning else 0)

    @property
    def passed(self) -> int:
        """Recommendations and compromises that passed (A-g11)."""
        tallies = [self.tally, self.lightning.tally if self.lightning else None]
        return sum(len(each.having(Result.PASSED)) for each in tallies if each)

    @property
    def verdict(self) -> Verdict:
        """A-g3; a contested recommendation whose compromise passed does not make it a split."""
        settled = {each.origin for each in self._proposals(Result.PASSED)}
        open_ones = [rid for rid in (self.tally.having(Result.CONTESTED) if self.tally else []) if rid not in settled]
        return verdict(self.passed, len(open_ones))

    def _proposals(self, result: Result) -> list[Proposal]:
        if self.lightning is None:
            return []
        having = self.lightning.tally.having(result)
        return [each for each in self.lightning.proposals if each.id in having]


def report_file(record: Record, bars: Thresholds) -> str:
    """The whole report.

    Args:
        record: what happened.
        bars: thresholds at the number of ballots, shown in the headings (A-g15).
    """
    return _Report(record.state.table, record, bars).render()


@dataclass(frozen=True)
class _Report:
    table: SettingsTable
    record: Record
    bars: Thresholds

    def render(self) -> str:
        n = self.bars.voters
        return document(
            self._head(),
            *self._notices(),
            "## Executive Summary",
            self._moderator("executive_summary", "\n\n"),
            f"## Consensus Recommendations (Supermajority: {self.bars.passed}/{n}+)",
            *(self._each(Result.PASSED, self._consensus)),
            f"## Contested Recommendations ({_span(self.bars.contested, self.bars.passed - 1)}/{n})",
            *(self._each(Result.CONTESTED, self._contested)),
            f"## Rejected Recommendations ({_span(0, self.bars.contested - 1)}/{n})",
            *(self._each(Result.REJECTED, self._rejected)),
            *self._lightning(),
            "## Dissenting Views",
            *self._dissent(),
            "## Risk Assessment",
            self._moderator("risks", "\n"),
            "## Research Gaps",
            self._moderator("research_gaps", "\n", _OFFLINE),
            "## Individual Agent Summaries",
            *(self._seat(seat) for seat in self.table.seats),
        )

    def _head(self) -> str:
        rounds = _ROUNDS + bool(self.record.state.round_three)
        return document(
            f"# Roundtable Report: {inline(self.table.decision.topic)}",
            f"**Date:** {self.table.date}\n"
            f"**Agents:** {len(self.table.seats) - len(self.record.state.lost)}/{len(self.table.seats)}\n"
            f"**Rounds:** {rounds}\n"
            f"**Recommendations passed:** {self.record.passed}/{self.record.total}",
        )

    def _notices(self) -> list[str]:
        """What a reader must know before the first number: caveats, lost seats, no quorum."""
        lines = [f"> **Caveat:** {caveat}" for caveat in self.table.caveats]
        lines += [
            f"> **Seat lost:** {self._name(slug)}, {inline(reason)}. Thresholds count the seats that voted."
            for slug, reason in self.record.state.lost.items()
        ]
        if self.record.tally is None or not self.record.tally.quorate:
            lines.append(
                f"> **No decision:** {len(self.record.state.ballots)} valid ballots; at least "
                f"{self.table.settings.ballot_floor} are needed (A-g7). A human must decide."
            )
        return ["\n>\n".join(lines)] if lines else []

    def _moderator(self, section: str, joint: str, always: str = "") -> str:
        lines: list[str] = list(getattr(self.record.summary, section)) if self.record.summary else []
        if section != "executive_summary":
            return bullets([*lines, always] if always else lines) or EMPTY
        return joint.join(inline(line) for line in lines) or EMPTY

    def _each(self, result: Result, render: _Renderer) -> list[str]:
        tally, merged = self.record.tally, self.record.merged
        if tally is None or merged is None:
            return [EMPTY]
        having = set(tally.having(result))
        listed = [render(each, tally.counts[each.id]) for each in merged.recommendations if each.id in having]
        return listed or [EMPTY]

    def _consensus(self, each: Recommendation, count: Count) -> str:
        agreeing = [
            f"{self._name(slug)}: {line.rationale}" for slug, line in self._lines(each.id) if line.vote is Vote.AGREE
        ]
        return document(
            self._title(each),
            self._votes(count, with_confidence=True),
            "**Evidence:**",
            bullets([f"{self._name(point.seat)} (point): {point.text}" for point in each.points] + agreeing),
            self._status(each.id),
            inline(each.description),
        )

    def _contested(self, each: Recommendation, count: Count) -> str:
        return document(
            self._title(each),
            self._votes(count),
            "**For:**",
            self._arguments(each.id, {Vote.AGREE}),
            "**Against:**",
            self._arguments(each.id, {Vote.DISAGREE, Vote.DISSENT}),
            inline(each.description),
            f"No consensus: {count.agree} of {self.bars.voters} agreed and {self.bars.passed} were needed; "
            f"{self._split(count)}.",
        )

    def _rejected(self, each: Recommendation, count: Count) -> str:
        reasons = self._arguments(each.id, {Vote.DISAGREE, Vote.DISSENT}, limit=1)
        line = f"- {each.id}: {inline(each.title)}: {count.agree} of {self.bars.voters} agreed; {self._split(count)}."
        return line + ("\n" + "\n".join("  " + reason for reason in reasons.splitlines()) if reasons != EMPTY else "")

    def _status(self, rid: str) -> str:
        """Implementation status with the evidence cited for it, only after a round 3 (A-162)."""
        stances = [reply.stances[rid] for reply in self.record.state.round_three.values()]
        if not stances:
            return ""
        counts = Counter(stance.status for stance in stances)
        said = ", ".join(
            f"{_STATUS[status]} ({counts[status]} of {len(stances)})" for status in Status if counts[status]
        )
        cited = {passage.id: passage.citation for passage in self.record.passages}
        places = dict.fromkeys(cited[each] for stance in stances for each in stance.evidence)
        return f"**Implementation status:** {said}" + (f"; evidence: {inline(', '.join(places))}" if places else "")

    def _lightning(self) -> list[str]:
        """Compromises and their re-vote, with its own number of voters (A-153, A-g6, A-g11); no section without one."""
        extra = self.record.lightning
        if extra is None:
            return []
        bars = extra.tally.thresholds
        parts = [f"## Lightning Round (Supermajority: {bars.passed}/{bars.voters}+)"]
        if not extra.tally.quorate:
            parts.append(
                f"Only {bars.voters} valid ballots were cast on the compromises: none of them is decided (A-g7)."
            )
        for each in extra.proposals:
            count = extra.tally.counts[each.id]
            result = count.result if extra.tally.quorate else "undecided"
            parts += [
                f"### {each.id}: {inline(each.title)}",
                f"**Votes:** {count.agree}/{bars.voters} AGREE | {result} | compromise on {each.origin} "
                f"by the {self._name(each.author)}",
                inline(each.description),
            ]
        return parts

    def _dissent(self) -> list[str]:
        """Full text of votes against what passed (A-165)."""
        voted = [(self.record.tally, self.record.state.ballots)]
        if self.record.lightning:
            voted.append((self.record.lightning.tally, dict(self.record.lightning.ballots)))
        views = []
        for counted, ballots in voted:
            for rid in counted.having(Result.PASSED) if counted else []:
                for slug, ballot in ballots.items():
                    line = ballot.votes[rid]
                    if isinstance(line, Opposing):
                        tag = "[STRUCTURED DISSENT] " if line.vote is Vote.DISSENT else ""
                        views.append(document(f"### {tag}{self._name(slug)} on {rid}", dissent(line)))
        return views or [EMPTY]

    def _seat(self, seat: Seat) -> str:
        """A-168: key positions across the rounds and the final votes."""
        slug = seat.slug
        lines = []
        persona = self.table.overlays.personas.get(slug)
        if reply := self.record.state.round_one.get(slug):
            lines.append(f"Round 1: {reply.key_findings[0].finding}")
        if second := self.record.state.round_two.get(slug):
            lines.append(f"Round 2: {second.changed_since_round_1}")
            lines.append(f"Final position: {second.updated_recommendations[0]}")
        if third := self.record.state.round_three.get(slug):
            stances = ", ".join(f"{rid} {stance.stance}" for rid, stance in third.stances.items())
            lines.append(f"Round 3: {third.observations[0].observation} Stances: {stances}")
        if ballot := self.record.state.ballots.get(slug):
            lines.append(
                "Votes: " + ", ".join(f"{rid} {line.vote} ({line.confidence})" for rid, line in ballot.votes.items())
            )
        if slug in self.record.state.lost:
            lines.append(f"Left the table: {self.record.state.lost[slug]}")
        voice = f"**Persona:** {inline(persona.name)}\n\n" if persona else ""
        return f"<details>\n<summary>{inline(seat.name)}</summary>\n\n{voice}{bullets(lines) or EMPTY}\n\n</details>"

    def _title(self, each: Recommendation) -> str:
        return f"### {each.id}: {inline(each.title)}"

    def _votes(self, count: Count, *, with_confidence: bool = False) -> str:
        line = f"**Votes:** {count.agree}/{self.bars.voters} AGREE"
        if with_confidence and count.confidence is not None:
            label = confidence_label(count.confidence, self.table.settings)
            line += f" | Confidence: {label} ({float(count.confidence):.2f})"
        return line

    def _split(self, count: Count) -> str:
        against = f"{count.disagree + count.dissent} against"
        return f"{against}, {count.abstain} abstained" if count.abstain else against

    def _arguments(self, rid: str, votes: set[Vote], limit: int | None = None) -> str:
        said = [f"{self._name(slug)}: {line.rationale}" for slug, line in self._lines(rid) if line.vote in votes]
        return bullets(said[:limit]) or EMPTY

    def _lines(self, rid: str) -> list[tuple[str, BallotLine]]:
        return [(slug, ballot.votes[rid]) for slug, ballot in self.record.state.ballots.items()]

    def _name(self, slug: str) -> str:
        return self.table.seat(slug).name


def _span(low: int, high: int) -> str:
    return f"{low}-{high}" if high > low else str(low)
