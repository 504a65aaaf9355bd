"""Transformers as a fallback where vLLM cannot be installed: the same requests, the same grammars, the same files.

Slower than vLLM, and made for correctness: all seats of a call are one batch, the prefix they share is computed once and
attended to as one copy (`shared_prefix`), every row samples with a generator of its own, and grammars come from llguidance
through outlines, as in vLLM.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from roundtable_local.backends.base import FinishReason, Generation, OnDone, Request, Stop, Use
from roundtable_local.backends.sealed import seal
from roundtable_local.backends.shared_prefix import NAME, Layout, laid_out, register
from roundtable_local.errors import BackendError, UsageError
from roundtable_local.settings import ModelProfile

_PACKAGES = ("torch", "transformers", "outlines", "llguidance")
_CHUNK = 512
"""Tokens of the prefix that are computed at once."""


@dataclass
class _Row:
    """One reply in the making."""

    request: Request
    dice: Any
    grammar: Any
    ids: list[int] = field(default_factory=list)
    finish: FinishReason | None = None


class TransformersBackend:
    """One model in transformers.

    Args:
        profile: folder and engine options; of these `dtype` alone is used.
        window: tokens of prompt and reply together; held to by the caller.
        use: adapters are not for this engine.

    Raises:
        BackendError: the packages are not installed, or the model does not load.
        UsageError: a seat names an adapter.
    """

    def __init__(self, profile: ModelProfile, window: int, use: Use | None = None) -> None:
        use = use or Use()
        if use.adapters:
            raise UsageError(
                "the transformers backend has no adapters", "use --backend vllm, or seats without `adapter:`"
            )
        seal()
        try:
            import outlines
            import torch
            from llguidance import LLMatcher
            from outlines.backends import get_json_schema_logits_processor
            from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
            from transformers.utils.logging import disable_progress_bar
        except ImportError as error:
            fix = "pip install 'roundtable-local[transformers]', or try --backend scripted"
            raise BackendError(f"transformers cannot be imported: {error}", fix) from error
        self._torch, self._cache_type, self._grammar = torch, DynamicCache, get_json_schema_logits_processor
        disable_progress_bar()
        self._matcher: Any = LLMatcher
        register()
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._dtype = "float32" if use.deterministic else str(profile.engine.get("dtype", "float32"))
        options = {"local_files_only": True, "trust_remote_code": use.trust_remote_code}
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(profile.path, **options)
            self._model: Any = AutoModelForCausalLM.from_pretrained(
                profile.path, dtype=getattr(torch, self._dtype), use_safetensors=True, **options
            )
            self._shares = _is_plain(self._model.config)
            self._model.set_attn_implementation(NAME if self._shares else "sdpa")
            self._model.to(self._device).eval()
            self._outlines: Any = outlines.from_transformers(self._model, self._tokenizer)
        except Exception as error:  # whatever the library raises, the run has not begun
            text = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise BackendError(
                f"transformers does not load {profile.path}: {text}", "check the model's folder"
            ) from error
        self._ends = _end_ids(self._model, self._tokenizer)
        self._kept: list[int] = []
        self._prefix: Any = None
        self._strict = use.deterministic

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        """One batch; see `Backend.generate`."""
        rows = [self._row(request) for request in requests]
        prompts = [list(request.prompt_ids) for request in requests]
        found: dict[int, Generation] = {}
        with self._torch.inference_mode():
            shared = _common(prompts) if self._shares else 0
            reused = self._compute_prefix(prompts[0][:shared]) if shared else 0
            batch = _Batch(self, [prompt[shared:] for prompt in prompts], shared)
            scores = batch.first()
            while True:
                for index, row in enumerate(rows):
                    if row.finish is None:
                        self._extend(row, scores[index])
                    if row.finish is not None and index not in found:
                        found[index] = self._generation(row, reused if index == 0 else shared)
                        on_done(index, found[index])
                if len(found) == len(rows) or stop():
                    break
                scores = batch.following([row.ids[-1] if row.ids else 0 for row in rows])
        return [found.get(index, Generation("", [], "abort")) for index in range(len(rows))]

    def describe(self) -> Mapping[str, Any]:
        """Versions, and what is in force."""
        strict = {
            "device": self._device,
            "dtype": self._dtype,
            "holds": self._dtype == "float32" and self._device == "cpu",
        }
        return {
            "backend": "transformers",
            "versions": {package: version(package) for package in _PACKAGES},
            "device": self._device,
            "dtype": self._dtype,
            "shared_prefix": self._shares
            or "no: the model has sliding windows or other layers; whole prompts are computed",
            "deterministic": strict if self._strict else None,
        }

    def forget(self) -> None:
        """Drop the kept prefix; for tests and benchmarks."""
        self._kept, self._prefix = [], None

    def close(self) -> None:
        """Free the model."""
        self._model = self._outlines = None
        self.forget()

    def _compute_prefix(self, ids: list[int]) -> int:
        """Have the shared prefix in the cache; returns how many of its tokens were there from an earlier call."""
        torch = self._torch
        reused = _agree(self._kept, ids)
        if self._prefix is None or not reused:
            self._prefix, reused = self._cache_type(config=self._model.config), 0
        self._prefix.crop(reused)
        for at in range(reused, len(ids), _CHUNK):
            part = ids[at : at + _CHUNK]
            with laid_out(Layout()):
                self._model(
                    input_ids=torch.tensor([part], device=self._device),
                    position_ids=torch.arange(at, at + len(part), device=self._device)[None],
                    past_key_values=self._prefix,
                    use_cache=True,
                    logits_to_keep=1,
                )
        self._kept = ids
        return reused

    def _row(self, request: Request) -> _Row:
        dice = self._torch.Generator().manual_seed(request.seed)
        if request.schema is None:
            return _Row(request, dice, None)
        schema = json.dumps(json.loads(request.schema) | {"x-guidance": {"whitespace_flexible": False}})
        if self._matcher.validate_grammar(self._matcher.grammar_from_json_schema(schema)):
            return _Row(request, dice, None, finish="error")  # it spoils its own row alone (B11)
        return _Row(request, dice, self._grammar("llguidance", self._outlines, schema))

    def _extend(self, row: _Row, scores: Any) -> None:
        """Sample one token, in the order that vLLM applies its steps."""
        scores = scores.float().clone()
        if row.grammar is not None:
            ids = self._torch.tensor([[*row.request.prompt_ids[-1:], *row.ids]])
            scores = row.grammar(ids, scores[None].cpu())[0]
        token = self._sample(row, scores)
        if token in self._ends:
            row.finish = "stop"
            return
        row.ids.append(token)
        if row.request.stop and self._text(row).endswith(row.request.stop):
            row.finish = "stop"
        elif len(row.ids) >= row.request.max_tokens:
            row.finish = "length"

    def _sample(self, row: _Row, scores: Any) -> int:
        torch, values = self._torch, row.request.sampling
        scores = scores.cpu()
        if values.repetition_penalty != 1.0:
            seen = torch.tensor(sorted({*row.request.prompt_ids, *row.ids}))
            some = scores[seen]
            scores[seen] = torch.where(some > 0, some / values.repetition_penalty, some * values.repetition_penalty)
        if row.ids:
            tokens, counts = torch.tensor(row.ids).unique(return_counts=True)
            scores[tokens] -= values.frequency_penalty * counts + values.presence_penalty
        if values.temperature == 0:
            return int(scores.argmax())
        scores = scores / values.temperature
        if values.top_k:
            least = scores.topk(min(values.top_k, len(scores))).values[-1]
            scores = scores.masked_fill(scores < least, float("-inf"))
        chances, order = scores.softmax(-1).sort(descending=True)
        kept = chances * (chances.cumsum(-1) - chances < values.top_p)
        return int(order[torch.multinomial(kept, 1, generator=row.dice)])

    def _text(self, row: _Row) -> str:
        text: str = self._tokenizer.decode(row.ids, skip_special_tokens=row.request.schema is not None)
        return text

    def _generation(self, row: _Row, cached: int) -> Generation:
        return Generation(self._text(row), list(row.ids), row.finish or "abort", cached)


class _Batch:
    """The rows of one call in the model: suffixes padded on the left, a cache of their own, and the shared prefix."""

    def __init__(self, backend: TransformersBackend, suffixes: list[list[int]], shared: int) -> None:
        torch = self._torch = backend._torch
        self._model, device, self._shared = backend._model, backend._device, shared
        width = max(map(len, suffixes))
        self._pads = torch.tensor([width - len(suffix) for suffix in suffixes], device=device)
        self._ids = torch.tensor([[0] * (width - len(suffix)) + suffix for suffix in suffixes], device=device)
        self._layout = Layout(backend._prefix if shared else None, self._pads)
        self._cache = backend._cache_type(config=self._model.config)
        self._plain = not backend._shares
        self._at = 0

    def first(self) -> Any:
        """Scores of the first new token of every row, [rows, vocabulary]."""
        return self._forward(self._ids)

    def following(self, tokens: list[int]) -> Any:
        """Scores of the next token of every row."""
        return self._forward(self._torch.tensor(tokens, device=self._ids.device)[:, None])

    def _forward(self, ids: Any) -> Any:
        torch = self._torch
        at = torch.arange(self._at, self._at + ids.shape[1], device=ids.device)
        positions = (at[None] - self._pads[:, None]).clamp_min(0) + self._shared
        self._at += ids.shape[1]
        seen = torch.arange(self._at, device=ids.device)[None] >= self._pads[:, None]
        with laid_out(self._layout):
            done = self._model(
                input_ids=ids,
                position_ids=positions,
                attention_mask=seen.long() if self._plain else None,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
        return done.logits[:, -1]


def _common(prompts: Sequence[list[int]]) -> int:
    """Length of the prefix that all prompts share; one token of each is left to compute."""
    shared = _agree(min(prompts), max(prompts))
    return min(shared, min(map(len, prompts)) - 1)


def _agree(one: Sequence[int], other: Sequence[int]) -> int:
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )


def _is_plain(config: Any) -> bool:
    """Whether all layers attend to the whole context, so that the shared prefix may be used."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    recurrent = any("mamba" in key or "ssm" in key for key in config.to_dict())
    return kinds == {"full_attention"} and not getattr(config, "sliding_window", None) and not recurrent


def _end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids that end a reply: the tokenizer's, and those of the model's generation settings."""
    named = [tokenizer.eos_token_id, getattr(model.generation_config, "eos_token_id", None)]
    flat = [each for ids in named for each in (ids if isinstance(ids, list) else [ids])]
    return frozenset(each for each in flat if each is not None)
