"""What souls and the moderator reply in each round (O-039 to O-043); their JSON schemas are the grammars.

Reasons stand before the choices they justify. Options, seats and axes are plain strings, narrowed in each ask.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from roundtable_local.protocols.replies import Argument, Description, MaybeLine, OneLine, Reply, Sentence, Title

Confidence = Literal[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
"""The scale of O-043; 5 may be said before the vote (O-044)."""

FinalConfidence = Literal[1, 2, 3, 4, 6, 7, 8, 9, 10]
"""Without 5, which cannot be voted (O-035, O-042)."""

SelfUpdate = Annotated[str, Field(min_length=2, max_length=250), OneLine]
Rationale = Annotated[str, Field(min_length=8, max_length=140), OneLine]
Axis = Annotated[str, Field(min_length=8, max_length=120), OneLine]


class Proposal(Reply):
    """Options that the moderator proposes where none were given (O-002)."""

    why_these: Argument
    options: list[Title] = Field(min_length=2, max_length=4)


class Opening(Reply):
    """Round 1 (O-039)."""

    reasoning: Description
    what_would_change_your_mind: Sentence
    position: str
    confidence_now: Confidence


class Challenge(Reply):
    """A challenge to one other soul, by name (O-033, O-040)."""

    target: str
    critique: Argument


class Deepening(Reply):
    """Round 2 (O-040); `self_update` says what changed, or exactly "no change"."""

    challenge: Challenge
    self_update: SelfUpdate
    reasoning: Description
    position: str
    confidence_now: Confidence


class Axes(Reply):
    """What the table is divided on, one line each; extracted by the moderator (O-034)."""

    axes: list[Axis] = Field(min_length=2, max_length=4)


class Convergence(Reply):
    """Round 3 (O-041)."""

    axis_that_decides_my_vote: str
    coalition_with: list[str] = Field(max_length=7)
    flip_condition: Sentence
    position: str
    confidence_now: Confidence


class Voting(Reply):
    """Round 4, binding (O-042); `dissent_note` is empty where the soul votes with the emerging majority."""

    one_line_rationale: Rationale
    dissent_note: Annotated[str, Field(max_length=300), MaybeLine]
    final_vote: str
    final_confidence: FinalConfidence


Position = Opening | Deepening | Convergence
"""A round's reply before the vote."""
