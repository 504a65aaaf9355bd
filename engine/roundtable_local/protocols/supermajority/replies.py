"""What the seats and the moderator reply, as types; their JSON schemas are the grammars.

The order of fields is the order of writing: reasons stand before the choices they justify. Bounds are in
characters; they keep a reply near the word limit (A-094, A-103) and shrink with the window. Slugs and ids
are plain strings here and narrowed to what exists in each ask.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from roundtable_local.protocols.replies import Argument, Description, MaybeLine, Paragraph, Reply, Sentence, Title


class Vote(StrEnum):
    """A-142. DISSENT stands in the grammar of dissenters' ballots only."""

    AGREE = "AGREE"
    DISAGREE = "DISAGREE"
    DISSENT = "DISSENT"
    ABSTAIN = "ABSTAIN"


class Confidence(StrEnum):
    """A-143."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Finding(Reply):
    """A finding with the evidence for it (A-095)."""

    finding: Sentence
    evidence: Sentence


class Disagreement(Reply):
    """The role a seat most disagrees with; round 2 routes it there as a challenge (A-095, A-g21)."""

    role: str
    why: Argument


class RoundOne(Reply):
    """Round 1 (A-095): three findings, five recommendations, two concerns, the strongest disagreement."""

    key_findings: list[Finding] = Field(min_length=3, max_length=3)
    concerns: list[Sentence] = Field(min_length=2, max_length=2)
    recommendations: list[Sentence] = Field(min_length=5, max_length=5)
    strongest_disagreement: Disagreement


class Challenge(Reply):
    """A challenge addressed to one other seat (A-102)."""

    to: str
    challenge: Argument


class RoundTwo(Reply):
    """Round 2 (A-104): challenges, an answer to each challenger, what changed, three updated recommendations.

    `major_disagreements` is what the anti-groupthink check counts (A-g10); it stands in no file.
    """

    challenges: list[Challenge] = Field(min_length=2, max_length=3)
    responses: dict[str, Argument]
    changed_since_round_1: Argument
    major_disagreements: list[Sentence] = Field(max_length=3)
    updated_recommendations: list[Sentence] = Field(min_length=3, max_length=3)


class DissentingRoundTwo(RoundTwo):
    """Round 2 of a structured dissenter (A-079, A-105)."""

    unstated_assumption: Argument


class Challenges(Reply):
    """First call of round 2 as an exchange: challenges only (A-180, A-g18)."""

    challenges: list[Challenge] = Field(min_length=2, max_length=3)


class Position(Reply):
    """Second call of round 2 as an exchange: answers to one's own inbox, then the final position (A-180, A-g18)."""

    responses: dict[str, Argument]
    changed_since_round_1: Argument
    major_disagreements: list[Sentence] = Field(max_length=3)
    updated_recommendations: list[Sentence] = Field(min_length=3, max_length=3)


class DissentingPosition(Position):
    """The final position of a structured dissenter (A-079, A-105)."""

    unstated_assumption: Argument


class Supplement(Reply):
    """A supplementary challenge to a consensus that nobody questions (A-111, A-112)."""

    flaw: Argument
    missed: Argument
    wrong_assumption: Argument


class Merged(Reply):
    """One recommendation for the vote: the points merged into it and the challenges against it (A-121, A-g22).

    The moderator writes them one turn at a time, so that `points` is narrowed to those that no earlier
    recommendation took: a repeat, or a recommendation without points, cannot be generated.
    """

    points: list[str] = Field(min_length=1, max_length=10)
    challenges: list[str] = Field(max_length=6)
    title: Title
    description: Description
    another: Literal["YES", "NO"]


class Disagreements(Reply):
    """What remains disputed before the vote (A-121)."""

    key_disagreements: list[Argument] = Field(min_length=1, max_length=4)


class Status(StrEnum):
    """How far a recommendation stands in the code (A-162)."""

    EXISTS = "EXISTS"
    PARTIAL = "PARTIAL"
    NOT_ATTEMPTED = "NOT_ATTEMPTED"


class Observation(Reply):
    """Something seen in the code, with the id of the passage that shows it (A-135)."""

    observation: Sentence
    evidence: str


class Keep(Reply):
    """Theory holds; `retry` is the specific fix that a new attempt needs, empty where nothing was tried (A-133, A-135)."""

    reason: Sentence
    evidence: list[str] = Field(max_length=2)
    stance: Literal["KEEP"]
    status: Status
    retry: Annotated[str, Field(max_length=200), MaybeLine]


class Modify(Reply):
    """The code reveals something that changes the recommendation (A-135)."""

    reason: Sentence
    evidence: list[str] = Field(min_length=1, max_length=2)
    stance: Literal["MODIFY"]
    status: Status
    modification: Sentence


class Dismiss(Reply):
    """Specific evidence in the code against the approach itself; without a passage it cannot be given (A-008, A-133, A-135)."""

    reason: Sentence
    evidence: list[str] = Field(min_length=1, max_length=2)
    stance: Literal["CHALLENGE"]
    status: Status


Stance = Keep | Modify | Dismiss


class RoundThree(Reply):
    """Round 3, the reality check (A-135): one stance on every recommendation, by R id."""

    observations: list[Observation] = Field(min_length=1, max_length=3)
    stances: dict[str, Stance]


class DissentingRoundThree(RoundThree):
    """Round 3 of a structured dissenter (A-079, A-136)."""

    unstated_assumption: Argument


class Concurring(Reply):
    """A ballot's line without opposition: there is no dissent to write (A-g25)."""

    rationale: Sentence
    vote: Literal[Vote.AGREE, Vote.ABSTAIN]
    confidence: Confidence
    dissent: Literal[""]


class Opposing(Reply):
    """A ballot's line with opposition and its full reasoning, kept verbatim in the report (A-144, A-145, A-g25)."""

    rationale: Sentence
    vote: Literal[Vote.DISAGREE, Vote.DISSENT]
    confidence: Confidence
    dissent: Argument


BallotLine = Concurring | Opposing


class Ballot(Reply):
    """One vote on every numbered recommendation (A-141), by R id."""

    votes: dict[str, BallotLine]


class Compromise(Reply):
    """A compromise on one contested recommendation (A-153)."""

    description: Description
    title: Title


class Compromises(Reply):
    """Compromises by the R id of the contested recommendation (A-153, A-g11)."""

    compromises: dict[str, Compromise]


class Summary(Reply):
    """The moderator's part of the report (A-161, A-166, A-167); everything else in it is rendered by code."""

    executive_summary: list[Paragraph] = Field(min_length=3, max_length=5)
    risks: list[Argument] = Field(min_length=1, max_length=6)
    research_gaps: list[Argument] = Field(min_length=1, max_length=5)


def assumption_of(reply: Reply) -> str:
    """The unstated assumption that a structured dissenter named; empty for other seats (A-079)."""
    return str(getattr(reply, "unstated_assumption", ""))
