"""One copy of the seats' shared context for a whole batch, on transformers' own models.

The prompts of a turn begin alike and end differently. Keys and values of the common beginning (the prefix) are
computed once, kept over calls by their token ids, and never repeated per row. Attention over prefix and suffix is
two attentions, mixed by the log-sum-exp of their scores:

    out = w * attention(query, prefix) + (1 - w) * attention(query, suffix),  w = sigmoid(lse(prefix) - lse(suffix))

The first folds all rows into one matrix of queries, the second is a small padded batch. A model reaches this through
transformers' attention interface. Where its attention is more than that, `refusal` says why, and `PlainBatch` does the
same work with everything repeated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Tensor = Any
Model = Any
Stop = Callable[[], bool]

ATTENTION = "roundtable_shared_prefix"
"""Name in transformers' attention interface."""

_CHUNK = 512
"""Tokens of one forward pass while prompts are read: bounds its memory and the wait until a stop is heard."""

_SCORES = 2**25
"""Attention scores against the prefix that are held at once (float32, 128 MiB)."""

_MORE_THAN_SOFTMAX = ("sliding_window", "softcap", "s_aux", "position_bias")
"""Options of the attention interface that change scores in ways which are not done here."""

_ROPE_BY_LENGTH = {"dynamic", "longrope"}
"""Position encodings that change with the length of the prompt, so that a kept prefix would not be the same."""

_PROBE_PREFIX = 16
_PROBE_SUFFIXES = (8, 5)
_TOLERANCE = {"float32": 1e-3, "float64": 1e-3}
_TOLERANCE_OF_HALVES = 0.1
"""Largest relative difference of logits by which the probe takes two attentions for the same."""


class UnsupportedAttention(ValueError):
    """The model's attention is more than softmax over all that came before."""


@dataclass(frozen=True)
class Prefix:
    """Keys and values of a prompt's beginning.

    Args:
        ids: its token ids.
        layers: per layer, keys and values: [1, key/value heads, len(ids), size].
    """

    ids: tuple[int, ...] = ()
    layers: tuple[tuple[Tensor, Tensor], ...] = ()

    def common(self, ids: Sequence[int]) -> int:
        """Number of first tokens that these ids share with it."""
        return _common(self.ids, ids)

    def cut(self, length: int) -> Prefix:
        """Its first tokens."""
        if length == 0:
            return Prefix()
        layers = tuple((keys[:, :, :length], values[:, :, :length]) for keys, values in self.layers)
        return Prefix(self.ids[:length], layers)


def shared_length(prompts: Sequence[Sequence[int]]) -> int:
    """Number of first tokens that all prompts share, leaving each at least one of its own to compute."""
    return min(*(_common(prompts[0], prompt) for prompt in prompts), *(len(prompt) - 1 for prompt in prompts))


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (left, right) in pairs if left != right), min(len(one), len(other)))


# --- attention


def register() -> None:
    """Make `attend` known to transformers; models take it up by `set_attn_implementation(ATTENTION)`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ATTENTION, attend)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    shared_prefix: Sequence[tuple[Tensor, Tensor]] | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers' interface has it; without a prefix it is the stock one.

    Args:
        module: the model's attention layer.
        query: [rows, heads, queries, size].
        key: of the suffixes, [rows, key/value heads, suffix, size].
        value: as `key`.
        attention_mask: True where a query may look; with a prefix [rows, 1, queries, suffix].
        scaling: factor of the scores.
        shared_prefix: `Prefix.layers`; every query sees all of it.
        options: whatever else the model says.

    Raises:
        UnsupportedAttention: the model wants more than this.
    """
    if shared_prefix is None:
        from transformers import AttentionInterface

        stock = AttentionInterface()["sdpa"]
        attended: tuple[Tensor, None] = stock(module, query, key, value, attention_mask, scaling=scaling, **options)
        return attended
    if beyond := [name for name in _MORE_THAN_SOFTMAX if options.get(name) is not None]:
        raise UnsupportedAttention(f"its attention has {beyond[0]}")
    heads, size = key.shape[1], query.shape[-1]
    scaled = query.float() * (size**-0.5 if scaling is None else scaling)
    grouped = scaled.unflatten(1, (heads, -1))  # [rows, key/value heads, queries' heads of each, queries, size]
    of_prefix, prefix_weight = _over_prefix(grouped, *shared_prefix[module.layer_idx])
    of_suffix, suffix_weight = _over_suffix(grouped, key, value, attention_mask)
    mixed = of_suffix.lerp(of_prefix, (prefix_weight - suffix_weight).sigmoid())
    return mixed.flatten(1, 2).transpose(1, 2).to(query.dtype).contiguous(), None


def _over_prefix(grouped: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Every query of every row against the one copy: rows, heads of a group and queries fold into one dimension."""
    import torch

    folded = grouped.transpose(0, 1).flatten(1, 3)
    keys, values = keys[0].float(), values[0].float()
    block = max(1, _SCORES // (keys.shape[0] * keys.shape[1]))
    parts = [_softmax_over(queries, keys, values) for queries in folded.split(block, dim=1)]
    shape = (grouped.shape[0], *grouped.shape[2:4])
    out, weight = (torch.cat(part, dim=1).unflatten(1, shape).transpose(0, 1) for part in zip(*parts, strict=True))
    return out, weight


def _over_suffix(grouped: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Every row against its own suffix."""
    per_group, queries = grouped.shape[2:4]
    folded_mask = mask.expand(-1, -1, queries, -1).repeat(1, 1, per_group, 1)
    out, weight = _softmax_over(grouped.flatten(2, 3), keys.float(), values.float(), folded_mask)
    return out.unflatten(2, (per_group, queries)), weight.unflatten(2, (per_group, queries))


def _softmax_over(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor = None) -> tuple[Tensor, Tensor]:
    """Attention, and the log-sum-exp of its scores, which is its weight beside another; all in float32."""
    scores = queries @ keys.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ values, scores.logsumexp(-1, keepdim=True)


# --- batches


def extend(model: Model, kept: Prefix, ids: Sequence[int], stop: Stop) -> Prefix:
    """The prefix with these ids, computed from where a kept one still holds; shorter where `stop` said so."""
    import torch
    from transformers import DynamicCache

    prefix = kept.cut(kept.common(ids))
    if len(prefix.ids) == len(ids):
        return prefix
    cache = DynamicCache(config=model.config)
    for number, (keys, values) in enumerate(prefix.layers):
        cache.update(keys, values, number)
    for start in range(len(prefix.ids), len(ids), _CHUNK):
        if stop():
            break
        chunk = torch.tensor([ids[start : start + _CHUNK]], device=model.device)
        model(input_ids=chunk, past_key_values=cache, use_cache=True, **_accepted(model, logits_to_keep=1))
    computed = cache.get_seq_length()
    return Prefix(tuple(ids[:computed]), tuple((layer.keys, layer.values) for layer in cache.layers if computed))


class Batch(Protocol):
    """Rows that are generated together, a token each per step."""

    def start(self, stop: Stop) -> Tensor | None:
        """Read the prompts; returns the next token's logits, [rows, vocabulary], or None once stopped."""
        ...

    def advance(self, tokens: Sequence[int], stay: Sequence[int]) -> Tensor:
        """Drop all rows but those that `stay` (numbers within the last logits), and give each of these its token."""
        ...


class SharedBatch:
    """Rows over one prefix.

    Args:
        model: with `ATTENTION` in force.
        prefix: what they share.
        suffixes: the rest of each prompt, at least a token.
    """

    def __init__(self, model: Model, prefix: Prefix, suffixes: Sequence[Sequence[int]]) -> None:
        from transformers import DynamicCache

        self._model = model
        self._prefix = prefix
        self._ids, self._real = _left_padded(suffixes, model.device)
        self._cache = DynamicCache(config=model.config)

    def start(self, stop: Stop) -> Tensor | None:
        """See `Batch`."""
        logits = None
        for ids in self._ids.split(max(1, _CHUNK // len(self._ids)), dim=1):
            if stop():
                return None
            logits = self._forward(ids)
        return logits

    def advance(self, tokens: Sequence[int], stay: Sequence[int]) -> Tensor:
        """See `Batch`."""
        if len(stay) < len(self._real):
            rows = self._real.new_tensor(stay, dtype=int)
            self._cache.batch_select_indices(rows)
            self._real = self._real[rows]
        self._real = _with_column(self._real)
        return self._forward(self._ids.new_tensor(tokens).unsqueeze(1))

    def _forward(self, ids: Tensor) -> Tensor:
        start = self._cache.get_seq_length()
        end = start + ids.shape[1]
        real = self._real[:, :end]
        positions = len(self._prefix.ids) + _positions(real)[:, start:]
        output = self._model(
            input_ids=ids,
            attention_mask=_mask(real, start),
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            shared_prefix=self._prefix.layers or None,
            **_accepted(self._model, logits_to_keep=1),
        )
        return output.logits[:, -1]


class PlainBatch:
    """Rows that each hold their whole prompt: for models whose attention cannot be shared.

    A finished row stays in the batch and is ignored, because not every cache can drop one.

    Args:
        model: any causal model.
        prompts: token ids.
    """

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._ids, self._real = _left_padded(prompts, model.device)
        self._rows = list(range(len(prompts)))
        self._cache: Any = None

    def start(self, stop: Stop) -> Tensor | None:
        """See `Batch`."""
        return None if stop() else self._forward(self._ids)

    def advance(self, tokens: Sequence[int], stay: Sequence[int]) -> Tensor:
        """See `Batch`."""
        self._rows = [self._rows[number] for number in stay]
        column = self._ids.new_zeros(len(self._ids))
        column[self._rows] = self._ids.new_tensor(tokens)
        self._real = _with_column(self._real)
        return self._forward(column.unsqueeze(1))

    def _forward(self, ids: Tensor) -> Tensor:
        positions = _positions(self._real)[:, -ids.shape[1] :]
        output = self._model(
            input_ids=ids,
            attention_mask=self._real.long(),
            past_key_values=self._cache,
            use_cache=True,
            **_accepted(self._model, logits_to_keep=1, position_ids=positions),
        )
        self._cache = output.past_key_values
        return output.logits[self._rows, -1]


def _left_padded(rows: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    """Token ids, [rows, longest], and where they are real."""
    import torch

    longest = max(len(row) for row in rows)
    ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows], device=device)
    real = torch.tensor([[False] * (longest - len(row)) + [True] * len(row) for row in rows], device=device)
    return ids, real


def _with_column(real: Tensor) -> Tensor:
    import torch

    return torch.cat([real, real.new_ones(len(real), 1)], dim=1)


def _positions(real: Tensor) -> Tensor:
    """Position of each token within its row."""
    return (real.cumsum(1) - 1).clamp(min=0)


def _mask(real: Tensor, start: int) -> Tensor:
    """[rows, 1, queries from `start`, keys]: what came before and is real; itself always, or a pad would see nothing."""
    import torch

    keys = torch.arange(real.shape[1], device=real.device)
    queries = keys[start:].unsqueeze(1)
    return (((keys < queries) & real.unsqueeze(1)) | (keys == queries)).unsqueeze(1)


def _accepted(model: Model, **arguments: Any) -> dict[str, Any]:
    """Those arguments that the model's `forward` knows."""
    known = inspect.signature(model.forward).parameters
    return {name: value for name, value in arguments.items() if name in known}


# --- which models


def refusal(model: Model) -> str | None:
    """Why the model cannot share a prefix; None where it can, and then `ATTENTION` is in force."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    if any(type(layer) is not DynamicLayer for layer in DynamicCache(config=model.config).layers):
        return "its cache is more than keys and values of all tokens (a sliding window or a state space)"
    rope = getattr(model.config.get_text_config(decoder=True), "rope_parameters", None) or {}
    if rope.get("rope_type") in _ROPE_BY_LENGTH:
        return "its position encoding changes with the length"
    loaded_with = model.config._attn_implementation
    if loaded_with != "sdpa":
        return f"its attention is {loaded_with}"
    register()
    try:
        model.set_attn_implementation(ATTENTION)
        reason = _probe(model)
    except Exception as error:  # a model may fail in any way where it is not made for this; it still runs plainly
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
    if reason:
        model.set_attn_implementation(loaded_with)
    return reason


def _probe(model: Model) -> str | None:
    """Compare the shared attention with the stock one on a few tokens."""
    import torch

    vocabulary = model.get_input_embeddings().num_embeddings
    ids = [(1 + 37 * number) % vocabulary for number in range(_PROBE_PREFIX + max(_PROBE_SUFFIXES))]
    suffixes = [ids[_PROBE_PREFIX : _PROBE_PREFIX + length] for length in _PROBE_SUFFIXES]
    with torch.inference_mode():
        prefix = extend(model, Prefix(), ids[:_PROBE_PREFIX], lambda: False)
        shared = SharedBatch(model, prefix, suffixes).start(lambda: False)
        rows = [torch.tensor([[*prefix.ids, *suffix]], device=model.device) for suffix in suffixes]
        stock = torch.cat([model(input_ids=row).logits[:, -1] for row in rows])
    difference = (shared - stock).float().norm() / stock.float().norm()
    tolerance = _TOLERANCE.get(str(stock.dtype).removeprefix("torch."), _TOLERANCE_OF_HALVES)
    if difference > tolerance or difference.isnan():
        return f"its logits differ by {difference:.2g} of their size when the prefix is shared"
    return None
