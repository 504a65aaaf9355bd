"""Attention over one copy of a shared prefix, for transformers: what all rows begin with is computed and kept once.

Every row attends to the prefix (one copy, no matter how many rows) and to its own suffix; the two results are merged by
their log-sum-exp, which gives exactly the attention over both. Plugged in through transformers' public
`AttentionInterface`; a model that asks for sliding windows or other layers must not use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

NAME = "roundtable_shared_prefix"
_ROWS = 4096
"""Query rows whose scores against the prefix are held at once: bounds memory, changes no result."""


@dataclass
class Layout:
    """What the attention must know beyond what the model passes on.

    Args:
        prefix: cache of the shared prefix, one row; None while the prefix itself is computed.
        pads: per row, how many positions of padding its suffix begins with; None without padding.
    """

    prefix: Any = None
    pads: Any = None


_active: list[Layout] = []


@contextmanager
def laid_out(layout: Layout) -> Iterator[None]:
    """Use a layout for the forward passes inside."""
    _active.append(layout)
    try:
        yield
    finally:
        _active.pop()


def register() -> None:
    """Make the attention known to transformers; masks are made here, so the model's own are not built."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, _no_mask)


def _no_mask(*args: Any, **options: Any) -> None:
    return None


def _attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Any, None]:
    """Attention of queries [rows, heads, length, size] over suffix keys and the shared prefix.

    Returns:
        [rows, length, heads, size], as transformers expects it, and no weights.
    """
    import torch

    rows, heads, length, size = query.shape
    groups = heads // key.shape[1]
    scale = scaling if scaling is not None else size**-0.5
    layout = _active[-1]
    grouped = query.float().view(rows, key.shape[1], groups, length, size) * scale
    own, own_weight = _over_suffix(torch, grouped, key.float(), value.float(), layout.pads)
    if layout.prefix is not None:
        layer = layout.prefix.layers[module.layer_idx]
        shared, shared_weight = _over_prefix(torch, grouped, layer.keys[0].float(), layer.values[0].float())
        share = torch.sigmoid(shared_weight - own_weight).unsqueeze(-1)
        own = share * shared + (1 - share) * own
    merged = own.reshape(rows, heads, length, size).to(query.dtype)
    return merged.transpose(1, 2).contiguous(), None


def _over_suffix(torch: Any, query: Any, key: Any, value: Any, pads: Any) -> tuple[Any, Any]:
    """Causal attention over a row's own keys [rows, kv heads, keys, size], padding left out; with its log-sum-exp."""
    rows, keys, length = key.shape[0], key.shape[2], query.shape[3]
    at = torch.arange(keys, device=key.device)
    now = torch.arange(keys - length, keys, device=key.device)
    hidden = (at[None, :] > now[:, None])[None]  # [1, length, keys]
    if pads is not None:
        hidden = hidden | (at[None, None, :] < pads[:, None, None])
    scores = torch.einsum("rkgqd,rkcd->rkgqc", query, key)
    scores = scores.masked_fill(hidden[:, None, None].expand(rows, 1, 1, length, keys), float("-inf"))
    weight = scores.logsumexp(-1)
    spread = (scores - weight.clamp_min(torch.finfo(weight.dtype).min).unsqueeze(-1)).exp()
    return torch.einsum("rkgqc,rkcd->rkgqd", spread, value), weight


def _over_prefix(torch: Any, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Attention of all rows over one copy of the prefix [kv heads, keys, size]; with its log-sum-exp."""
    rows, kv_heads, groups, length, size = query.shape
    flat = query.permute(1, 0, 2, 3, 4).reshape(kv_heads, rows * groups * length, size)
    outputs, weights = [], []
    for part in flat.split(_ROWS, dim=1):
        scores = part @ key.transpose(-1, -2)
        weight = scores.logsumexp(-1)
        outputs.append((scores - weight.unsqueeze(-1)).exp() @ value)
        weights.append(weight)
    shape = (kv_heads, rows, groups, length)
    out = torch.cat(outputs, dim=1).view(*shape, size).permute(1, 0, 2, 3, 4)
    return out, torch.cat(weights, dim=1).view(shape).permute(1, 0, 2, 3)
