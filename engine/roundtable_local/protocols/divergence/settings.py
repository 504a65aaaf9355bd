"""Settings of the divergence protocol; values stand in configs/protocols/divergence.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from roundtable_local.settings import Strict

_HARD_CAP = 2
_GROUNDS = 3
_MARKER = "합의 없음 — 사용자 결정 필요"


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
    """The report's headings in one language (R-057), and the few words that code writes beside them."""

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
    undecided: str
    apart: str
    fails: str
    void: str
    withdrawn: str
    weak: str
    caveat: str
    lost: str
    stopped: str
    left: str
    needed: str
    devil: str
    soul: str


class DivergenceSettings(Strict):
    """All numbers and fixed words of the protocol; what the rules fix can be read here and not be changed."""

    max_rounds: int
    devil_advocate: Literal["required"]
    minority_protection: Literal["strict"]
    least_personas: int = Field(ge=3)
    most_personas: int = Field(le=5)
    grounds: int = Field(le=4)
    failure_scenarios: int = Field(ge=1, le=3)
    claims: Claims
    new_claims: int = Field(ge=0, le=2)
    marker: str
    headings: Mapping[str, Headings]

    @model_validator(mode="after")
    def _fixed(self) -> Self:
        if self.max_rounds != _HARD_CAP:
            raise ValueError(f"max_rounds: {_HARD_CAP} is a hard cap that cannot be changed (R-031)")
        if self.grounds < _GROUNDS:
            raise ValueError(f"grounds: a rejection needs at least {_GROUNDS} (R-014)")
        if self.marker != _MARKER:
            raise ValueError(f"marker: it is {_MARKER!r} in every language (R-019)")
        if self.least_personas > self.most_personas:
            raise ValueError("least_personas is larger than most_personas")
        return self

    def headings_for(self, language: str) -> Headings:
        """Korean headings for a Korean debate, English ones for every other."""
        return self.headings.get(language, self.headings["English"])
