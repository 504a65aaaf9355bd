"""Settings of the confidence protocol; values stand in configs/protocols/confidence.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from roundtable_local.decision import whole_text
from roundtable_local.settings import Share, Strict

Aggregator = Literal["weighted", "majority", "unanimity-or-escalate"]
AGGREGATORS: tuple[Aggregator, ...] = ("weighted", "majority", "unanimity-or-escalate")


def _listed(value: object) -> object:
    """`a,b,c` as given on the command line, or a list."""
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


class ConfidenceSettings(Strict):
    """Options, aggregator and all thresholds of the protocol."""

    options: Annotated[tuple[str, ...], BeforeValidator(_listed)]
    aggregator: Aggregator
    values_keywords: tuple[str, ...]
    least_seats: int = Field(ge=3)
    most_seats: int = Field(ge=3)
    least_options: int = Field(ge=2)
    most_options: int = Field(ge=2)
    least_axes: int = Field(ge=1)
    most_axes: int = Field(ge=1, le=6)
    early_stop: int = Field(ge=1, le=10)
    expert: int = Field(ge=1, le=10)
    doubtful: int = Field(ge=1, le=10)
    forbidden: int = Field(ge=1, le=10)
    certain: int = Field(ge=1, le=10)
    unanimous: int = Field(ge=1, le=10)
    share: Share

    @field_validator("options")
    @classmethod
    def _one_line_each(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(" ".join(whole_text(option).split()) for option in options)

    def problem_of(self, options: tuple[str, ...]) -> str:
        """What is wrong with a choice of options (O-001); empty where nothing is."""
        if not self.least_options <= len(options) <= self.most_options:
            return f"{self.least_options} to {self.most_options} options are needed, not {len(options)} (O-001)"
        if not all(options) or len(set(options)) != len(options):
            return "the options must be distinct and none may be blank"
        return ""
