"""What a model is made of, read from config.json and safetensors headers: what it needs, and how it can be split."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roundtable_local.model import (
    REFUSED_WEIGHTS,
    Header,
    count_parameters,
    own_window,
    read_config,
    read_headers,
    text_part,
)

_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "I64": 64,
         "U64": 64, "I32": 32, "U32": 32, "I16": 16, "U16": 16, "I8": 8, "U8": 8, "BOOL": 8}  # fmt: skip
_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_NOT_WEIGHTS = frozenset({"training_args.bin", "optimizer.pt", "scheduler.pt"})
_STATES = frozenset({"linear_attention", "mamba", "mamba2", "recurrent", "conv", "M"})
"""Kinds of layers, in config.json's lists of them, that keep a state of fixed size instead of keys and values."""
_BOTH = frozenset({"hybrid", "hybrid_sliding"})
"""Kinds that keep both."""
_NEITHER = frozenset({"moe", "mlp", "dense", "sparse", "-", "E"})
"""Kinds that keep nothing."""
_SLIDING = frozenset({"sliding_attention", "chunked_attention", "hybrid_sliding"})
_STATE_WORDS = ("mamba", "rwkv", "ssm")
"""Signs of such layers in a model's kind, or in the keys of its config.json."""


@dataclass(frozen=True)
class Architecture:
    """One model.

    Args:
        name: of its class, as config.json says.
        kind: its model_type.
        parameters: number of weights as they are stored; None without any.
        dtype: of its weights, as config.json says, else of most of them.
        quantised: how they are packed; "" where they are not.
        weight_bytes: of all weights.
        window: its own context window in tokens; None where config.json does not say.
        layers: decoder layers.
        cached_layers: those of them that keep keys and values.
        heads: attention heads.
        kv_heads: key and value heads.
        head_size: numbers per head.
        latent_size: numbers per token and layer where keys and values are kept compressed (MLA); else 0.
        recurrent: whether some layers keep a state instead of a cache, so that prefixes may not be shared.
        sliding: whether some layers see a window of the context only.
        remote_code: whether the folder brings code of its own.
        refused: weight files in forms that are never loaded.
        adapters: folders of LoRA adapters in it, relative; "." where it is one itself.
    """

    name: str
    kind: str
    parameters: int | None
    dtype: str
    quantised: str
    weight_bytes: int
    window: int | None
    layers: int
    cached_layers: int
    heads: int
    kv_heads: int
    head_size: int
    latent_size: int
    recurrent: bool
    sliding: bool
    remote_code: bool
    refused: tuple[str, ...]
    adapters: tuple[str, ...]

    def splits(self, most: int) -> tuple[int, ...]:
        """Tensor-parallel sizes up to `most` that divide its heads; none where config.json does not tell the heads."""
        return tuple(
            size for size in range(1, most + 1) if self.heads and self.heads % size == 0 and self._shares(size)
        )

    def _shares(self, size: int) -> bool:
        """Whether every part gets as many key and value heads as the others, or all share copies of one."""
        return self.latent_size > 0 or self.kv_heads % size == 0 or size % self.kv_heads == 0

    def cache_numbers(self, splits: int = 1) -> int:
        """Numbers that one of `splits` parts keeps for each token; 0 where config.json does not tell."""
        per_layer = self.latent_size or 2 * math.ceil(self.kv_heads / splits) * self.head_size
        return self.cached_layers * per_layer


def read_architecture(folder: Path, *, weights: bool = False) -> Architecture:
    """Read a model's folder.

    Args:
        folder: the model's folder.
        weights: whether the engine will need config.json and weights.

    Raises:
        ModelError: config.json or a safetensors file cannot be read, or is missing.
    """
    config = read_config(folder, needed=weights)
    headers = read_headers(folder, needed=weights)
    text = text_part(config)
    layers, heads = _size(text, "num_hidden_layers", "n_layer"), _size(text, "num_attention_heads", "n_head")
    kinds = _layer_kinds(text)
    kind = str(config.get("model_type") or "")
    names = config.get("architectures")
    return Architecture(
        name=str(names[0]) if isinstance(names, list) and names else "",
        kind=kind,
        parameters=count_parameters(headers),
        dtype=_dtype(config, text, headers),
        quantised=_quantised(config, text),
        weight_bytes=_weight_bytes(headers),
        window=own_window(config),
        layers=layers,
        cached_layers=sum(each not in _STATES | _NEITHER for each in kinds) if kinds else layers,
        heads=heads,
        kv_heads=_size(text, "num_key_value_heads") or (1 if text.get("multi_query") is True else heads),
        head_size=_size(text, "head_dim") or (_size(text, "hidden_size", "n_embd") // heads if heads else 0),
        latent_size=_size(text, "kv_lora_rank") and _size(text, "kv_lora_rank") + _size(text, "qk_rope_head_dim"),
        recurrent=not (_STATES | _BOTH).isdisjoint(kinds)
        or any(w in key for key in (kind, *text) for w in _STATE_WORDS),
        sliding=not _SLIDING.isdisjoint(kinds)
        or (not kinds and bool(text.get("sliding_window")) and text.get("use_sliding_window") is not False),
        remote_code="auto_map" in config,
        refused=_refused(folder),
        adapters=tuple(sorted(_relative(path.parent, folder) for path in folder.rglob("adapter_config.json"))),
    )


def _layer_kinds(text: Mapping[str, Any]) -> list[str]:
    for key in ("layer_types", "layers_block_type"):
        if isinstance(text.get(key), list):
            return [str(each) for each in text[key]]
    pattern = text.get("hybrid_override_pattern")  # a letter per layer, "*" for attention
    return list(pattern) if isinstance(pattern, str) else []


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any], headers: Mapping[str, Header]) -> str:
    said = (part.get(key) for part in (config, text) for key in ("dtype", "torch_dtype"))
    if name := next((str(each) for each in said if isinstance(each, str) and each), ""):
        return name
    stored: Counter[str] = Counter()
    for header in headers.values():
        for tensor in header.values():
            stored[str(tensor.get("dtype"))] += math.prod(tensor["shape"])
    most = stored.most_common(1)
    return _NAMES.get(most[0][0], most[0][0]) if most else ""


def _quantised(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    packing = config.get("quantization_config") or text.get("quantization_config")
    if not isinstance(packing, dict):
        return ""
    return str(packing.get("quant_method") or packing.get("quant_algo") or "quantised")


def _size(config: Mapping[str, Any], *keys: str) -> int:
    sizes = (config.get(key) for key in keys)
    return next((size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and size > 0), 0)


def _refused(folder: Path) -> tuple[str, ...]:
    names = (path.name for pattern in REFUSED_WEIGHTS for path in folder.glob(pattern))
    return tuple(sorted(name for name in names if name not in _NOT_WEIGHTS))


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _weight_bytes(headers: Mapping[str, Header]) -> int:
    bits = sum(
        math.prod(tensor["shape"]) * _BITS.get(str(tensor.get("dtype")), 16)
        for header in headers.values()
        for tensor in header.values()
    )
    return bits // 8
