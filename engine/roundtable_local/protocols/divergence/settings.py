"""Settings of the divergence protocol; values stand in configs/protocols/divergence.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from roundtable_local.settings import Strict

_HARD_CAP = 2


class Claims(Strict):
    """How many claims a persona makes in phase 0."""

    least: int = Field(ge=1, le=5)
    most: int = Field(ge=1, le=5)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.least > self.most:
            raise ValueError("least is larger than most")
        return self


class Headings(Strict):
    """The report's headings in one language (R-057), and the few words that code writes below them."""

    title: str
    summary: str
    panel: str
    agreements: str
    disputes: str
    minority: str
    dissent: str
    actions: str
    limits: str
    none: str
    because: str
    supports: str
    opposes: str
    apart: str
    fails: str
    void: str
    withdrawn: str
    weak: str


class DivergenceSettings(Strict):
    """All numbers and fixed words of the protocol."""

    max_rounds: int
    devil_advocate: Literal["required"]
    minority_protection: Literal["strict"]
    least_personas: int = Field(ge=3)
    most_personas: int = Field(le=5)
    grounds: int = Field(ge=1, le=4)
    failure_scenarios: int = Field(ge=1, le=3)
    claims: Claims
    new_claims: int = Field(ge=0, le=2)
    marker: str
    headings: Mapping[str, Headings]

    @field_validator("max_rounds")
    @classmethod
    def _hard_cap(cls, rounds: int) -> int:
        if rounds != _HARD_CAP:
            raise ValueError(f"there are exactly {_HARD_CAP} rounds, a hard cap that cannot be changed (R-031)")
        return rounds

    def headings_for(self, language: str) -> Headings:
        """Korean headings for a Korean debate, English ones for every other."""
        return self.headings.get(language, self.headings["English"])
