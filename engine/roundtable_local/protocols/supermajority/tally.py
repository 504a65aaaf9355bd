"""Ballots in, tally out (rules A-146, A-150 to A-152, A-g3 to A-g8). Pure: no model, no file, no clock.

n is the number of valid ballots. ABSTAIN is not AGREE and does not shrink n; DISSENT counts as DISAGREE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil

from roundtable_local.protocols.supermajority.replies import BallotLine, Confidence, Vote
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings

_WEIGHT = {Confidence.HIGH: 3, Confidence.MEDIUM: 2, Confidence.LOW: 1}  # A-g8

Ballots = Mapping[str, Mapping[str, BallotLine]]
"""Valid ballots by seat: R id -> line."""


class Result(StrEnum):
    """A-150."""

    PASSED = "passed"
    CONTESTED = "contested"
    REJECTED = "rejected"


class Verdict(StrEnum):
    """Of the whole debate (A-202, A-g3)."""

    CONSENSUS = "consensus"
    SPLIT = "split"
    NO_DECISION = "no-decision"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How many AGREE of `voters` pass, and from how many on a recommendation is contested."""

    voters: int
    passed: int
    contested: int


@dataclass(frozen=True, slots=True)
class Count:
    """The votes on one recommendation. `confidence` is the average over AGREE ballots, None without any."""

    agree: int
    disagree: int
    dissent: int
    abstain: int
    confidence: Fraction | None
    result: Result


@dataclass(frozen=True)
class Tally:
    """All counts by R id. Without a quorum nothing is decided, whatever the counts."""

    thresholds: Thresholds
    quorate: bool
    counts: Mapping[str, Count]

    def having(self, result: Result) -> list[str]:
        """R ids with that result, in order; none where there is no quorum."""
        return [rid for rid, count in self.counts.items() if self.quorate and count.result is result]


def verdict(passed: int, contested: int) -> Verdict:
    """A-g3: no-decision = none passed; split = some passed and some contested; consensus = some passed, none contested."""
    if not passed:
        return Verdict.NO_DECISION
    return Verdict.SPLIT if contested else Verdict.CONSENSUS


def thresholds(voters: int, settings: SupermajoritySettings) -> Thresholds:
    """A-g4: passed from ceil(2n/3); A-g5: contested from ceil(2n/5)."""
    return Thresholds(voters, ceil(settings.pass_share * voters), ceil(settings.contested_share * voters))


def tally(ballots: Ballots, recommendations: tuple[str, ...], settings: SupermajoritySettings) -> Tally:
    """Count the ballots.

    Args:
        ballots: valid ballots only; each has a line for every recommendation.
        recommendations: R ids in order.
        settings: shares and the ballot floor (A-g7).
    """
    bars = thresholds(len(ballots), settings)
    counts = {rid: _count([ballot[rid] for ballot in ballots.values()], bars) for rid in recommendations}
    return Tally(bars, len(ballots) >= settings.ballot_floor, counts)


def _count(lines: list[BallotLine], bars: Thresholds) -> Count:
    agreeing = [line for line in lines if line.vote is Vote.AGREE]
    result = Result.REJECTED
    if agreeing and len(agreeing) >= bars.passed:
        result = Result.PASSED
    elif agreeing and len(agreeing) >= bars.contested:
        result = Result.CONTESTED
    return Count(
        agree=len(agreeing),
        disagree=sum(line.vote is Vote.DISAGREE for line in lines),
        dissent=sum(line.vote is Vote.DISSENT for line in lines),
        abstain=sum(line.vote is Vote.ABSTAIN for line in lines),
        confidence=Fraction(sum(_WEIGHT[line.confidence] for line in agreeing), len(agreeing)) if agreeing else None,
        result=result,
    )


def confidence_label(average: Fraction, settings: SupermajoritySettings) -> Confidence:
    """A-g8: the label of an average confidence (1 to 3)."""
    if average >= settings.high_confidence:
        return Confidence.HIGH
    return Confidence.MEDIUM if average >= settings.medium_confidence else Confidence.LOW
