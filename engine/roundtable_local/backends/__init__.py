"""Engines behind one small protocol (`base.Backend`); each imports its heavy packages only when it is made."""

from __future__ import annotations

from pathlib import Path

from roundtable_local.backends.base import Backend
from roundtable_local.errors import UsageError
from roundtable_local.settings import ModelProfile

NAMES = ("vllm", "transformers", "scripted")


def make_backend(name: str, profile: ModelProfile, window: int, replies: Path | None) -> Backend:
    """Start an engine.

    Args:
        name: one of NAMES.
        profile: model folder and engine options.
        window: tokens of prompt and reply together.
        replies: scripted replies; only for `scripted`.

    Raises:
        UsageError: unknown name, or replies for a real engine.
        BackendError: the engine is not installed or does not start.
    """
    check_name(name)
    if name == "scripted":
        from roundtable_local.backends.scripted import ScriptedBackend  # noqa: PLC0415

        return ScriptedBackend.from_file(replies) if replies else ScriptedBackend()
    if replies is not None:
        raise UsageError("--replies is for --backend scripted only", "leave one of them out")
    if name == "transformers":
        from roundtable_local.backends.transformers_local import TransformersBackend  # noqa: PLC0415

        return TransformersBackend(profile, window)
    from roundtable_local.backends.vllm_offline import VllmBackend  # noqa: PLC0415

    return VllmBackend(profile, window)


def check_name(name: str) -> None:
    """Raises UsageError where there is no such backend."""
    if name not in NAMES:
        raise UsageError(f"there is no backend {name!r}", f"choose one of: {', '.join(NAMES)}")
