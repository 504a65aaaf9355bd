"""What the runner asks of an engine: token ids and a schema in, generations out, in order.

An engine never sees text, seats or protocols. However it is driven inside, one `generate` is one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, Protocol

FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Every sampling value, set by us so that none comes from the model's own generation config."""

    temperature: float
    top_p: float
    top_k: int
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float


@dataclass(frozen=True, slots=True)
class Use:
    """How a run wants its engine, beyond the model profile.

    Args:
        deterministic: the same replies whoever else is in the batch and whatever is in the cache, where the hardware can.
        trust_remote_code: whether code in the model's folder may run.
        adapters: folders of the LoRA adapters that seats may name.
    """

    deterministic: bool = False
    trust_remote_code: bool = False
    adapters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One seat's prompt.

    Args:
        label: "turn/ask/attempt", for messages and for scripted replies; engines ignore it.
        prompt_ids: token ids of the whole prompt.
        max_tokens: cap of the reply, in tokens.
        sampling: all sampling values.
        seed: seed of this request alone, 0 <= seed < 2**63.
        schema: JSON schema that the reply is decoded under, as JSON text; None for free text.
        stop: texts that end the reply and stay at its end; only for free text.
        adapter: folder of the LoRA adapter to use; None for the bare model.
        model: name of the seat's model where it is not the run's own; only a fleet of engines looks at it.
    """

    label: str
    prompt_ids: Sequence[int]
    max_tokens: int
    sampling: Sampling
    seed: int
    schema: str | None = None
    stop: tuple[str, ...] = ()
    adapter: str | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """One reply as the engine gave it. `cached_tokens` is None where the engine does not tell."""

    text: str
    token_ids: Sequence[int] = field(repr=False)
    finish_reason: FinishReason
    cached_tokens: int | None = None


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed, without importing them."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def first_line(error: Exception) -> str:
    """What an engine's error says, in one line; its type where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


OnDone = Callable[[int, Generation], None]
Stop = Callable[[], bool]


class Backend(Protocol):
    """An engine that holds one model."""

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        """Generate one reply per request, as one batch, in request order.

        Args:
            requests: at least one.
            on_done: called with (index, generation) as each reply finishes.
            stop: asked between steps; when true, unfinished requests are dropped from the engine and
                come back with finish reason "abort".

        Raises:
            BackendError: the engine failed or died.
        """
        ...

    def describe(self) -> Mapping[str, Any]:
        """Name, versions and options in force, for the run record."""
        ...

    def close(self) -> None:
        """Free the model's memory; nothing can be generated afterwards."""
        ...
