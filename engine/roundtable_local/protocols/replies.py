"""What the replies of all protocols share: their base type, and prose bounded in characters.

All prose is one line, whatever the model wrote, so that no reply can pass for a block of a later prompt.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ValueError("must not be blank")
    return line


def _squeezed(text: str) -> str:
    return " ".join(text.split())


OneLine = AfterValidator(_one_line)
MaybeLine = AfterValidator(_squeezed)
"""One line that may be empty."""
LEAST = 8
"""A shorter text is no sentence: mostly blanks or a lone number."""

Title = Annotated[str, Field(min_length=3, max_length=80), OneLine]
Sentence = Annotated[str, Field(min_length=LEAST, max_length=200), OneLine]
Argument = Annotated[str, Field(min_length=LEAST, max_length=300), OneLine]
Description = Annotated[str, Field(min_length=LEAST, max_length=600), OneLine]
Paragraph = Annotated[str, Field(min_length=LEAST, max_length=700), OneLine]


class Reply(BaseModel):
    """Base of all replies: nothing beyond the grammar, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
