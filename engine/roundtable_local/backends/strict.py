"""Strict repeatability in vLLM: a reply that depends on neither its batch nor the cache, as far as the hardware goes.

On a CPU float32 gives it, with the cache on. On a GPU vLLM's batch-invariant kernels give it where they exist; the prefix
cache is off then, because a warm cache and a cold one can differ in the last bits. What is in force is recorded; nothing
claims more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roundtable_local.errors import UsageError

_SWITCH = "VLLM_BATCH_INVARIANT"
_LEAST_CAPABILITY = (9, 0)
"""GPUs that vLLM's batch-invariant kernels are made for."""


@dataclass(frozen=True)
class Strict:
    """Engine options for it, and what is in force, for the record."""

    options: Mapping[str, Any]
    in_force: Mapping[str, Any]


def strict_options(options: Mapping[str, Any]) -> Strict:
    """What to set for strict repeatability; call before vLLM is imported.

    Raises:
        UsageError: the engine would run in processes of its own.
    """
    if options.get("tensor_parallel_size", 1) * options.get("pipeline_parallel_size", 1) > 1:
        raise UsageError(
            "--deterministic runs the engine in process, on one device; the profile asks for several",
            "leave out --deterministic, or set tensor_parallel_size and pipeline_parallel_size to 1",
        )
    capability = _capability()
    if capability is None:
        found = {"device": "cpu", "dtype": "float32", "batch_invariant_kernels": False, "prefix_cache": True}
        return Strict({"dtype": "float32"}, found | {"holds": True})
    able = capability >= _LEAST_CAPABILITY
    if able:
        os.environ[_SWITCH] = "1"
    found = {
        "device": f"cuda {capability[0]}.{capability[1]}",
        "dtype": str(options.get("dtype", "auto")),
        "batch_invariant_kernels": able,
        "prefix_cache": False,
    }
    return Strict({"enable_prefix_caching": False}, found | {"holds": able})


def _capability() -> tuple[int, int] | None:
    """Compute capability of the first GPU; None without one."""
    import torch

    return torch.cuda.get_device_capability(0) if torch.cuda.is_available() else None
