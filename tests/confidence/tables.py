"""Tables, settings and replies for tests of the confidence protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roundtable_local.config import engine_settings, read_yaml
from roundtable_local.decision import parse_decision
from roundtable_local.protocols.confidence.debate import debate
from roundtable_local.protocols.confidence.settings import ConfidenceSettings
from roundtable_local.seats import Fact, Seat, Table
from roundtable_local.shipped import shipped
from roundtable_local.steps import Answer, Replies, Turn
from tests.halls import Hall

NAMES = ("brand", "editor", "engineer", "facilitator", "finance")
OPTIONS = ("adopt-as-is", "adopt-modified", "reject")
DECISION = "# Should we adopt the pattern?\n\nThe other product line has it."


def settings(**changes: Any) -> ConfidenceSettings:
    """The shipped settings, changed."""
    return ConfidenceSettings.model_validate(
        read_yaml(shipped("configs") / "protocols" / "confidence.yaml") | {"options": OPTIONS} | changes
    )


RULES = settings()


def table(
    names: tuple[str, ...] = NAMES, *, text: str = DECISION, facts: tuple[Fact, ...] = (), **changes: Any
) -> Table[ConfidenceSettings]:
    """Seats around a decision."""
    seats = tuple(
        Seat(slug=name, name=name.title(), soul=f"The soul of {name}.", source=f"souls/{name}.md") for name in names
    )
    decision = parse_decision(text, "decision.md", engine_settings().slug)
    return Table(seats, decision, settings(**changes), "2026-05-16", facts=facts)


class Script:
    """Answers every turn by hand-written replies.

    Args:
        positions: (option, confidence) by seat; the same in every round.
        later: (option, confidence) by seat from round 2 on.
        update: what every seat says of round 2.
        finals: (option, confidence, dissent note) by seat; the last position at 6 where missing.
        losing: per turn, the seats whose replies are lost.
    """

    def __init__(
        self,
        positions: Mapping[str, tuple[str, int]] | None = None,
        *,
        later: Mapping[str, tuple[str, int]] | None = None,
        update: str = "the engineer's point moved me",
        finals: Mapping[str, tuple[str, int, str]] | None = None,
        losing: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.positions = positions or {}
        self.later = later or {}
        self.update = update
        self.finals = finals or {}
        self.losing = losing or {}
        self.asked: list[tuple[str, list[str]]] = []

    def __call__(self, turn: Turn) -> Replies:
        self.asked.append((turn.name, [ask.id for ask in turn.asks]))
        lost = dict.fromkeys(self.losing.get(turn.name, []), "the reply was empty")
        values = {}
        for ask in turn.asks:
            if ask.id not in lost:
                narrow = {path: getattr(rule, "allowed", ()) for path, rule in ask.narrow.items()}
                values[ask.id] = ask.reply.model_validate(self.value(turn.name, ask.id, narrow))
        return Replies(values, lost)

    def stance(self, slug: str, number: int) -> tuple[str, int]:
        """Position and confidence of a seat in a round."""
        default = self.positions.get(slug, ("adopt-modified" if slug != "finance" else "reject", 6))
        return self.later.get(slug, default) if number > 1 else default

    def value(self, turn: str, slug: str, narrow: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        """The reply of one seat."""
        if turn == "options":
            return {"why_these": "They are what can be done.", "options": ["take it", "leave it"]}
        if turn == "axes":
            return {"axes": ["speed against care", "cost against voice"]}
        number = int(turn.removeprefix("round")[0])
        position, confidence = self.stance(slug, number)
        said = {"position": position, "confidence_now": confidence}
        if number == 1:
            return said | {"reasoning": f"{slug} reasons at first", "what_would_change_your_mind": f"{slug} might move"}
        if number == 2:
            challenge = {"target": narrow["challenge.target"][0], "critique": f"{slug} objects"}
            return said | {"challenge": challenge, "self_update": self.update, "reasoning": f"{slug} reasons again"}
        if number == 3:
            axis, others = narrow["axis_that_decides_my_vote"][0], list(narrow["coalition_with.*"][:2])
            return said | {
                "axis_that_decides_my_vote": axis,
                "coalition_with": others,
                "flip_condition": f"{slug} flips",
            }
        vote, final, note = self.finals.get(slug, (position, 6, ""))
        rationale = f"{slug} votes in one line"
        return {"one_line_rationale": rationale, "dissent_note": note, "final_vote": vote, "final_confidence": final}


def sit(
    script: Script | None = None,
    seated: Table[ConfidenceSettings] | None = None,
    answers: Mapping[str, Answer] | None = None,
) -> Hall:
    """A debate, driven to its outcome or to the question that nobody answers."""
    return Hall(debate(seated or table()), script or Script(), answers)


def named(seated: Table[ConfidenceSettings], **changes: Any) -> Table[ConfidenceSettings]:
    """The table with changes."""
    return replace(seated, **changes)
