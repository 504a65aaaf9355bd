"""What a model is made of, read from config.json and safetensors headers: what it needs, and how it can be split."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roundtable_local.model import read_headers

_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}  # fmt: skip
_CACHE_BYTES = {"float32": 4}
"""Bytes of a cached number by dtype; two for all others."""
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_NOT_WEIGHTS = frozenset({"training_args.bin", "optimizer.pt", "scheduler.pt"})
_MOST_SPLITS = 16
"""Tensor-parallel sizes that are tried."""


@dataclass(frozen=True)
class Architecture:
    """One model.

    Args:
        name: of its class, as config.json says.
        kind: its model_type.
        dtype: of its weights.
        weight_bytes: of all weights.
        layers: decoder layers.
        heads: attention heads.
        kv_heads: key and value heads.
        head_size: numbers per head.
        cache_bytes: of the KV cache, per token; 0 where config.json does not tell.
        recurrent: whether some layers keep a state instead of a cache, so that prefixes may not be shared.
        sliding: whether some layers see a window of the context only.
        remote_code: whether the folder brings code of its own.
        pickles: weight files that could run code.
        adapters: folders of LoRA adapters in it.
    """

    name: str
    kind: str
    dtype: str
    weight_bytes: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    cache_bytes: int
    recurrent: bool
    sliding: bool
    remote_code: bool
    pickles: tuple[str, ...]
    adapters: tuple[str, ...]

    def splits(self) -> tuple[int, ...]:
        """Tensor-parallel sizes that divide its heads."""
        return tuple(
            size
            for size in range(1, _MOST_SPLITS + 1)
            if self.heads % size == 0 and (self.kv_heads % size == 0 or size % max(self.kv_heads, 1) == 0)
        )


def read_architecture(folder: Path) -> Architecture:
    """Read a model's folder.

    Raises:
        ModelError: a safetensors file cannot be read.
    """
    config = _config(folder)
    nested = config.get("text_config")
    text: dict[str, Any] = nested if isinstance(nested, dict) else config
    layers, heads = _size(text, "num_hidden_layers", "n_layer"), _size(text, "num_attention_heads", "n_head")
    kv_heads = _size(text, "num_key_value_heads") or heads
    head_size = _size(text, "head_dim") or (_size(text, "hidden_size", "n_embd") // heads if heads else 0)
    dtype = str(config.get("dtype") or config.get("torch_dtype") or text.get("dtype") or text.get("torch_dtype") or "")
    names = config.get("architectures")
    pickles = [
        path.name for pattern in _PICKLES for path in sorted(folder.glob(pattern)) if path.name not in _NOT_WEIGHTS
    ]
    layer_types = text.get("layer_types")
    kinds = {str(each) for each in layer_types} if isinstance(layer_types, list) else set()
    return Architecture(
        name=str(names[0]) if isinstance(names, list) and names else "",
        kind=str(config.get("model_type") or ""),
        dtype=dtype,
        weight_bytes=_weight_bytes(folder),
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        cache_bytes=2 * layers * kv_heads * head_size * _CACHE_BYTES.get(dtype, 2),
        recurrent=any("mamba" in key or "ssm" in key for key in text) or bool(kinds & {"linear_attention", "mamba"}),
        sliding=bool(text.get("sliding_window")) or "sliding_attention" in kinds,
        remote_code="auto_map" in config,
        pickles=tuple(pickles),
        adapters=tuple(sorted(path.parent.name for path in folder.glob("*/adapter_config.json"))),
    )


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def _size(config: Mapping[str, Any], *keys: str) -> int:
    sizes = (config.get(key) for key in keys)
    return next((size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and size > 0), 0)


def _weight_bytes(folder: Path) -> int:
    total = 0
    for header in read_headers(folder).values():
        for name, tensor in header.items():
            if name != "__metadata__":
                count = 1
                for size in tensor["shape"]:
                    count *= size
                total += count * _BYTES.get(str(tensor.get("dtype")), 2)
    return total
