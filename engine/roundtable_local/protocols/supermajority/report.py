"""REPORT.md (A-160 to A-168, A-g15, A-g25): every section, whatever happened. Pure.

The moderator's words are the executive summary, the risks and the research gaps; all else is counted and
quoted by code. An empty section says so in one fixed sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from roundtable_local.protocols.supermajority.files import dissent
from roundtable_local.protocols.supermajority.merge import Merge, Recommendation
from roundtable_local.protocols.supermajority.replies import (
    Ballot,
    BallotLine,
    Opposing,
    RoundOne,
    RoundTwo,
    Summary,
    Vote,
)
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings
from roundtable_local.protocols.supermajority.tally import Count, Result, Tally, Thresholds, confidence_label
from roundtable_local.report.markdown import bullets, document, inline
from roundtable_local.seats import Seat, Table

_Renderer = Callable[[Recommendation, Count], str]

EMPTY = "Nothing to report in this section."
_ROUNDS = 2  # A-g15: greenfield; the vote is not a round
_OFFLINE = (
    "The seats had no web search and no other source than the problem statement: they argued from what the model knows. "
    "Claims that a decision rests on need checking against the sources (A-g17)."
)


@dataclass(frozen=True)
class Record:
    """All that a finished, or stopped, debate left behind.

    Args:
        lost: per lost seat, the turn and the reason.
        merged, tally, summary: None where the debate stopped before.
    """

    round_one: Mapping[str, RoundOne]
    round_two: Mapping[str, RoundTwo]
    ballots: Mapping[str, Ballot]
    lost: Mapping[str, str]
    merged: Merge | None
    tally: Tally | None
    summary: Summary | None


def report_file(table: Table[SupermajoritySettings], record: Record, bars: Thresholds) -> str:
    """The whole report.

    Args:
        table: seats, decision, date, caveats, settings.
        record: what happened.
        bars: thresholds at the number of ballots, shown in the headings (A-g15).
    """
    return _Report(table, record, bars).render()


@dataclass(frozen=True)
class _Report:
    table: Table[SupermajoritySettings]
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
        tally = self.record.tally
        passed, total = (len(tally.having(Result.PASSED)), len(tally.counts)) if tally else (0, 0)
        return document(
            f"# Roundtable Report: {inline(self.table.decision.topic)}",
            f"**Date:** {self.table.date}\n"
            f"**Agents:** {len(self.table.seats) - len(self.record.lost)}/{len(self.table.seats)}\n"
            f"**Rounds:** {_ROUNDS}\n"
            f"**Recommendations passed:** {passed}/{total}",
        )

    def _notices(self) -> list[str]:
        """What a reader must know before the first number: caveats, lost seats, no quorum."""
        lines = [f"> **Caveat:** {caveat}" for caveat in self.table.caveats]
        lines += [
            f"> **Seat lost:** {self._name(slug)}, {inline(reason)}. Thresholds count the seats that voted."
            for slug, reason in self.record.lost.items()
        ]
        if self.record.tally is None or not self.record.tally.quorate:
            lines.append(
                f"> **No decision:** {len(self.record.ballots)} valid ballots; at least "
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

    def _dissent(self) -> list[str]:
        """Full text of votes against passed recommendations (A-165)."""
        if self.record.tally is None:
            return [EMPTY]
        views = []
        for rid in self.record.tally.having(Result.PASSED):
            for slug, line in self._lines(rid):
                if isinstance(line, Opposing):
                    tag = "[STRUCTURED DISSENT] " if line.vote is Vote.DISSENT else ""
                    views.append(document(f"### {tag}{self._name(slug)} on {rid}", dissent(line)))
        return views or [EMPTY]

    def _seat(self, seat: Seat) -> str:
        """A-168: key positions across the rounds and the final votes."""
        slug = seat.slug
        lines = []
        if reply := self.record.round_one.get(slug):
            lines.append(f"Round 1: {reply.key_findings[0].finding}")
        if second := self.record.round_two.get(slug):
            lines.append(f"Round 2: {second.changed_since_round_1}")
            lines.append(f"Final position: {second.updated_recommendations[0]}")
        if ballot := self.record.ballots.get(slug):
            lines.append(
                "Votes: " + ", ".join(f"{rid} {line.vote} ({line.confidence})" for rid, line in ballot.votes.items())
            )
        if slug in self.record.lost:
            lines.append(f"Left the table: {self.record.lost[slug]}")
        return f"<details>\n<summary>{inline(seat.name)}</summary>\n\n{bullets(lines) or EMPTY}\n\n</details>"

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
        return [(slug, ballot.votes[rid]) for slug, ballot in self.record.ballots.items()]

    def _name(self, slug: str) -> str:
        return self.table.seat(slug).name


def _span(low: int, high: int) -> str:
    return f"{low}-{high}" if high > low else str(low)
