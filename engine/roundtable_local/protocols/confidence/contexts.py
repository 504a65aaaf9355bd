"""What souls are shown: every context begins with the question, the facts and the options (O-g4, O-g6).

    options   Q, facts
    round1    Q, facts, options
    round2    ... r1*
    axes      ... r1*, r2*
    round3    ... r1*, r2*, axes
    round4    ... r1*, r2*, axes, r3*       without what was skipped

A soul is told to its own seat alone, in the brief, after all that the seats share.
"""

from __future__ import annotations

from roundtable_local.prompts import render
from roundtable_local.protocols.confidence.sitting import Sitting
from roundtable_local.seats import Seat
from roundtable_local.steps import Block, Prompt

ROOM = "confidence"

_REPLIES = {1: "round1_reply.j2", 2: "round2_reply.j2", 3: "round3_reply.j2"}

AXES_BEFORE = 3
"""The round that is held along the axes of disagreement (O-034)."""


def material(sitting: Sitting) -> tuple[Block, ...]:
    """Question and facts (O-024, O-032)."""
    question = Block("QUESTION", sitting.table.decision.text, "decision")
    facts = [Block(f"FACT, {fact.title}", fact.text, "facts") for fact in sitting.table.facts]
    return (question, *facts)


def heard(sitting: Sitting) -> tuple[Block, ...]:
    """Question, facts, options, and the transcript so far (O-031 to O-035)."""
    blocks = [*material(sitting), Block("OPTIONS", "\n".join(f"- {each}" for each in sitting.options), "decision")]
    for number in range(1, AXES_BEFORE):
        blocks += _round(sitting, number)
    blocks += [axes(sitting)] if sitting.axes else []
    return (*blocks, *_round(sitting, AXES_BEFORE))


def _round(sitting: Sitting, number: int) -> list[Block]:
    return [
        Block(f"ROUND {number}, {slug}", render(f"{ROOM}/{_REPLIES[number]}", reply=reply).text, "replies")
        for slug, reply in sitting.rounds.get(number, {}).items()
    ]


def axes(sitting: Sitting) -> Block:
    """What the table is divided on (O-034)."""
    return Block("AXES OF DISAGREEMENT", "\n".join(f"- {each}" for each in sitting.axes), "moderator")


def task(sitting: Sitting, template: str, **values: object) -> Block:
    """What every seat of a turn is told alike."""
    text = render(f"{ROOM}/{template}", language=sitting.table.language, **values).text
    return Block("TASK", text, "instructions")


def soul(seat: Seat) -> Prompt:
    """One seat's soul, whole (O-031)."""
    return render(f"{ROOM}/seat.j2", seat=seat)


def convener() -> Prompt:
    """What the moderator is told."""
    return render(f"{ROOM}/moderator.j2")
