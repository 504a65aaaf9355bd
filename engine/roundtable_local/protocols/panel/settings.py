"""Settings of the panel protocol; values stand in configs/protocols/panel.yaml."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from roundtable_local.protocols.panel.replies import LONGEST_DRAFT
from roundtable_local.settings import Strict

Quorum = Literal["2/3", "3/3"]
"""How many of three must accept; 1/3 would contradict M-033, so it is an error (M-g3)."""


class Draft(Strict):
    """How long a revised artifact may be, in characters (M-034)."""

    factor: float = Field(ge=1, le=2)
    minimum: int = Field(ge=100)
    maximum: int = Field(le=LONGEST_DRAFT)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError("minimum is larger than maximum")
        return self


class PanelSettings(Strict):
    """All numbers and choices of the protocol."""

    quorum: Quorum
    votes: Literal[1, 2]
    escalation: Literal["ask", "return"]
    focus: Literal["auto", "approach", "success-criteria"]
    proposal_tokens: int = Field(gt=0)
    completion_words: tuple[str, ...]
    draft: Draft
