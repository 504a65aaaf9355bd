"""What personas and the moderator reply; their JSON schemas are the grammars.

Reasons stand before the choices they justify. Claim ids are plain strings here and narrowed to what exists. The devil's
advocate has types of its own, in which agreement cannot be expressed (R-015, R-g5).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from roundtable_local.protocols.replies import Argument, Paragraph, Reply, Sentence


class Kind(StrEnum):
    """What a ground for a rejection can rest on; the majority is none of them (R-g2)."""

    EVIDENCE = "evidence"
    FEASIBILITY = "feasibility"
    COST = "cost"
    RISK = "risk"
    SCOPE = "scope"
    CONTRADICTION = "contradiction"
    PRECEDENT = "precedent"


class Claim(Reply):
    """Something a persona holds, with what it rests on."""

    because: Sentence
    claim: Sentence


class Scenario(Reply):
    """One concrete way in which it goes wrong (R-056)."""

    scenario: Argument
    consequence: Sentence


class Analysis(Reply):
    """Phase 0: an independent analysis (R-010)."""

    analysis: Paragraph
    claims: list[Claim] = Field(min_length=1, max_length=5)


class DevilAnalysis(Reply):
    """Phase 0 of the devil's advocate."""

    analysis: Paragraph
    failure_scenarios: list[Scenario] = Field(max_length=3)
    claims: list[Claim] = Field(min_length=1, max_length=5)


class Ground(Reply):
    """A ground for rejecting a claim (R-014)."""

    text: Sentence
    kind: Kind


class Support(Reply):
    """The persona holds the claim too."""

    reason: Sentence
    stance: Literal["SUPPORT"]


class Open(Reply):
    """The persona neither holds nor rejects the claim."""

    reason: Sentence
    stance: Literal["OPEN"]


class Rejection(Reply):
    """A rejection with its grounds; with too few distinct ones it is void (R-014, R-g2)."""

    grounds: list[Ground] = Field(min_length=1, max_length=4)
    stance: Literal["REJECT"]


Stance = Support | Open | Rejection


class Own(Reply):
    """What becomes of one's own claim."""

    reason: Sentence
    stance: Literal["HOLD", "WITHDRAW"]


class Closing(Reply):
    """Round 2, the last (R-017): a stance on every claim of others, and on one's own."""

    reflection: Argument
    stances: dict[str, Stance]
    own: dict[str, Own]


class Discussion(Closing):
    """Round 1 (R-013); the only round in which claims may be added (R-g3)."""

    new_claims: list[Claim] = Field(max_length=2)


class DevilDiscussion(Reply):
    """Round 1 of the devil's advocate: an objection to every claim of others."""

    failure_scenarios: list[Scenario] = Field(max_length=3)
    objections: dict[str, Argument]
    own: dict[str, Own]
    new_claims: list[Claim] = Field(max_length=2)


class FinalDissent(Reply):
    """Round 2 of the devil's advocate: the final dissent, a track of its own (R-018)."""

    failure_scenarios: list[Scenario] = Field(max_length=3)
    objections: dict[str, Argument]
    own: dict[str, Own]
    final_dissent: Paragraph


class Synthesis(Reply):
    """The moderator's part of the report (R-019, R-057): why each open claim is open, and what follows."""

    executive_summary: list[Paragraph] = Field(min_length=1, max_length=3)
    disputes: dict[str, Argument]
    recommended_actions: list[Sentence] = Field(min_length=1, max_length=5)
    limits: list[Sentence] = Field(min_length=1, max_length=3)


Opening = Analysis | DevilAnalysis
First = Discussion | DevilDiscussion
Last = Closing | FinalDissent
