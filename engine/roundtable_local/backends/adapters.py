"""LoRA adapters of seats: small sets of weights on top of one model, several in one batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roundtable_local.errors import ModelError

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM has kernels for."""


def adapter_options(folders: Sequence[str]) -> Mapping[str, Any]:
    """VLLM's options for these adapters.

    There is one slot more than adapters: with as many, vLLM gave a request without adapter the last one's weights.

    Raises:
        ModelError: a folder is no adapter, or its rank is too large.
    """
    rank = max(rank_of(Path(folder)) for folder in folders)
    fitting = next((each for each in _RANKS if each >= rank), None)
    if fitting is None:
        raise ModelError(f"an adapter has rank {rank}; at most {_RANKS[-1]} works", "use one of a lower rank")
    return {"max_loras": len(folders) + 1, "max_lora_rank": fitting}


def rank_of(folder: Path) -> int:
    """The rank of the adapter in a folder.

    Raises:
        ModelError: it is no adapter with safetensors weights.
    """
    fix = f"name a folder with {_CONFIG} and {_WEIGHTS}"
    if not (folder / _CONFIG).is_file() or not (folder / _WEIGHTS).is_file():
        raise ModelError(f"{folder} is not a LoRA adapter", fix)
    try:
        rank = json.loads((folder / _CONFIG).read_text("utf-8"))["r"]
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
            raise ValueError("r is not a rank")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{folder / _CONFIG} cannot be used: {error}", fix) from error
    return rank
