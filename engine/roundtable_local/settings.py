"""Settings of the engine itself, frozen and strict; their values stand in configs/, with the rule ids."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer


class Strict(BaseModel):
    """Base of all settings: unknown keys are errors and nothing changes after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, protected_namespaces=())


def _fraction(value: object) -> Fraction:
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"{value!r} is not a fraction such as 2/3") from error


Share = Annotated[Fraction, BeforeValidator(_fraction), PlainSerializer(str), Field(gt=0, le=1)]
"""A share of a whole, written as a fraction: 2/3."""


class SlugSettings(Strict):
    """How a topic becomes a folder name (A-190, A-g12, A-g24)."""

    max_characters: int = Field(gt=8)
    max_bytes: int = Field(gt=24)
    hash_characters: int = Field(ge=4, le=16)
    stopwords: frozenset[str]
    replace: Mapping[str, str]


class BudgetSettings(Strict):
    """Lower limits of replies when caps shrink to fit the window."""

    seat_floor_tokens: int = Field(gt=0)
    moderator_floor_tokens: int = Field(gt=0)
    min_field_characters: int = Field(gt=0)
    slack_tokens: int = Field(ge=0)


class EngineSettings(Strict):
    """configs/engine.yaml."""

    slug: SlugSettings
    budget: BudgetSettings
    attempts: int = Field(ge=1, le=2)
    small_model_parameters: int = Field(gt=0)
    reasoning_tags: tuple[tuple[str, str], ...]
    answer_openings: Mapping[str, str]


class SamplingSettings(Strict):
    """Sampling of every reply; all values are sent, none comes from the model's own configuration."""

    temperature: float = Field(ge=0, le=2)
    top_p: float = Field(gt=0, le=1)
    top_k: int = Field(ge=0)
    presence_penalty: float = Field(ge=-2, le=2)
    frequency_penalty: float = Field(ge=-2, le=2)
    repetition_penalty: float = Field(gt=0, le=2)


class ReasoningSettings(Strict):
    """How a reasoning model marks its thoughts.

    Args:
        start: opening tag.
        end: closing tag.
        budget: tokens of thought before each answer, at most.
        padding: what stands between the tags and their text; "" for models that write in channels.
    """

    start: str = Field(min_length=1)
    end: str = Field(min_length=1)
    budget: int = Field(ge=16)
    padding: str = "\n"


class ModelProfile(Strict):
    """configs/models/*.yaml: one local model and how to run it.

    Args:
        path: the model's folder; "~" and "{cache}" (our cache folder) are expanded, a relative path is
            relative to the profile's own folder.
        backend: the engine to use unless the command line names another.
        window: tokens of prompt and reply together; never more than the model's own window.
        tokens_per_character: upper estimate for replies, turns bounds in characters into caps in tokens.
        sampling: sampling values.
        engine: options of the engine; for vLLM arguments of `LLM`, passed on as they are, for transformers `dtype`
            and `shared_prefix`.
        environment: environment variables that the engine needs, set only where not set already.
        chat_template: a template file in place of the model's own; a relative path is relative to the profile's folder.
        template_variables: what the chat template is given; enable_thinking follows from `reasoning` unless set.
        reasoning: for models that think before they answer; without it they are told not to.
        verified: whether somebody has run this profile.
    """

    path: str
    backend: Literal["vllm", "transformers", "scripted"]
    window: int = Field(ge=1024)
    tokens_per_character: float = Field(gt=0, le=4)
    sampling: SamplingSettings
    engine: Mapping[str, Any] = Field(default_factory=dict)
    environment: Mapping[str, str] = Field(default_factory=dict)
    chat_template: str | None = None
    template_variables: Mapping[str, Any] = Field(default_factory=dict)
    reasoning: ReasoningSettings | None = None
    verified: bool = False
    notes: str = ""
