"""What the replies of all protocols share: their base type, and prose bounded in characters."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


NotBlank = AfterValidator(_not_blank)
_LEAST = 8
"""A shorter text is no sentence: mostly blanks or a lone number."""

Title = Annotated[str, Field(min_length=3, max_length=80), NotBlank]
Sentence = Annotated[str, Field(min_length=_LEAST, max_length=200), NotBlank]
Argument = Annotated[str, Field(min_length=_LEAST, max_length=300), NotBlank]
Description = Annotated[str, Field(min_length=_LEAST, max_length=600), NotBlank]
Paragraph = Annotated[str, Field(min_length=_LEAST, max_length=700), NotBlank]


class Reply(BaseModel):
    """Base of all replies: nothing beyond the grammar, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
