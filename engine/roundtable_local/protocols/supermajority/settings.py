"""Settings of the supermajority protocol; values stand in configs/protocols/supermajority.yaml."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from roundtable_local.settings import Share, Strict


class Recommendations(Strict):
    """How many recommendations the moderator may put to the vote, and how many points one may merge (A-g22)."""

    least: int = Field(ge=1)
    most: int = Field(ge=1, le=9)
    points: int = Field(ge=1, le=10)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.least > self.most:
            raise ValueError("least is larger than most")
        return self


class SupermajoritySettings(Strict):
    """All thresholds of the protocol."""

    pass_share: Share
    contested_share: Share
    ballot_floor: int = Field(ge=1)
    orchestration: Literal["sub-agents", "sequential", "agent-team"]
    dissenters: int = Field(ge=0, le=10)
    groupthink_share: Share
    lightning_below: int = Field(ge=0)
    codebase_tokens: int = Field(ge=200)
    words: int = Field(gt=0)
    recommendations: Recommendations
    high_confidence: float = Field(ge=1, le=3)
    medium_confidence: float = Field(ge=1, le=3)
