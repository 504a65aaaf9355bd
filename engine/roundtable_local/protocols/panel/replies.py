"""What the three seats and the moderator reply, as types; their JSON schemas are the grammars.

The order of fields is the order of writing: reasons stand before the verdict they justify. Bounds are in characters
and shrink with the window. All texts but the revised artifact are one line, so none can pass for a block of a prompt.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from roundtable_local.protocols.replies import LEAST, Argument, OneLine, Reply, Sentence

LONGEST_DRAFT = 12_000
"""Characters of a revised artifact at most: longer bounds make grammars slow. The configured maximum is no larger."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def _document(text: str) -> str:
    """Line ends as in all texts here, and no control or direction characters."""
    plain = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    if not plain.strip():
        raise ValueError("must not be blank")
    return plain


Label = Annotated[str, Field(min_length=3, max_length=60), OneLine]
Short = Annotated[str, Field(min_length=3, max_length=80), OneLine]
Document = Annotated[str, Field(min_length=LEAST, max_length=LONGEST_DRAFT), AfterValidator(_document)]


class Verdict(StrEnum):
    """M-001, M-023."""

    ACCEPT = "accept"
    REVISE = "revise"
    REJECT = "reject"


class Severity(StrEnum):
    """M-021."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Point(Reply):
    """An argument for the artifact, with what in the artifact or the context bears it out (M-020)."""

    point: Argument
    evidence: Sentence


class Defense(Reply):
    """The Proponent (M-020, M-023); `outcome` is for the log's line (M-g7)."""

    points: list[Point] = Field(min_length=1, max_length=5)
    outcome: Short
    reason: Sentence
    verdict: Verdict


class Concern(Reply):
    """One critique: the part it is about, what is wrong, how much it weighs, a title for the log (M-021, M-g7)."""

    part: Short
    concern: Argument
    severity: Severity
    title: Label


class Critique(Reply):
    """The Skeptic (M-021, M-023)."""

    concerns: list[Concern] = Field(max_length=8)
    outcome: Short
    reason: Sentence
    verdict: Verdict


class Judgement(Reply):
    """The Arbiter (M-022, M-023): which arguments of the two others carry weight."""

    load_bearing: list[Argument] = Field(min_length=1, max_length=5)
    outcome: Short
    reason: Sentence
    verdict: Verdict


Output = Defense | Critique | Judgement


class Revision(Reply):
    """The moderator's revised draft (M-034): what was changed for which critique, then the whole text."""

    changes: list[Sentence] = Field(min_length=1, max_length=8)
    artifact: Document


class Choice(Reply):
    """A way to go on, and what follows from it."""

    label: Label
    consequence: Sentence


class Escalation(Reply):
    """The moderator's one question to the user, with the ways to choose from (M-040)."""

    question: Argument
    choices: list[Choice] = Field(min_length=2, max_length=4)
