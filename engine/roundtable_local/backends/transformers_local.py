"""The fallback where vLLM cannot be installed: transformers' own models, outlines' grammars, one shared prefix.

One batch per call. What the prompts share is computed once and kept for the next call (`shared_prefix`); every row has
its own grammar and its own dice (`sampling`), so that a reply does not depend on who else is in the batch.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from roundtable_local.backends.base import FinishReason, Generation, OnDone, Request, Stop, Use, first_line, versions_of
from roundtable_local.backends.sampling import Grammar, GrammarError, Grammars, Sampler
from roundtable_local.backends.sealed import seal
from roundtable_local.backends.shared_prefix import (
    Batch,
    PlainBatch,
    Prefix,
    SharedBatch,
    extend,
    refusal,
    shared_length,
)
from roundtable_local.errors import BackendError, RoundtableError, UsageError
from roundtable_local.settings import ModelProfile

_DTYPES = {
    "auto": "auto",
    "half": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "float32": "float32",
}
"""Values of engine.dtype, named as in vLLM."""

_OPTIONS = {"dtype", "shared_prefix"}
"""Engine options that mean something here; the rest are vLLM's and have no effect."""

_PACKAGES = ("torch", "transformers", "outlines", "llguidance")

_Reader = Callable[[Sequence[int], bool], str]
"""Tokens, and whether control tokens stay out -> text."""

_RESUME = "resume the run; finished replies are kept"


class TransformersBackend:
    """One model in transformers, on the first GPU that torch sees, else on the CPU.

    Engine options of the profile: `dtype` (as in vLLM; default float32 on a CPU, the model's own on a GPU) and
    `shared_prefix` (default true; false repeats the shared context for every row). All others are ignored.

    Args:
        profile: folder and engine options.
        window: tokens of prompt and reply together.
        use: strict repeatability (float32) and remote code; adapters are not for this engine.

    Raises:
        UsageError: a seat names an adapter.
        BackendError: torch, transformers or outlines is not installed, an option is unusable, or the model does not
            load.
    """

    def __init__(self, profile: ModelProfile, window: int, use: Use | None = None) -> None:
        use = use or Use()
        if use.adapters:
            raise UsageError(
                "the transformers backend has no adapters", "use --backend vllm, or seats without `adapter:`"
            )
        seal()
        self._deterministic = use.deterministic
        self._window = window
        self._ignored = sorted(set(profile.engine) - _OPTIONS)
        share = profile.engine.get("shared_prefix", True)
        if not isinstance(share, bool):
            raise BackendError(f"engine.shared_prefix is {share!r}", "set it to true or false")
        try:
            import torch

            self._device = "cuda" if torch.cuda.is_available() else "cpu"
            dtype = torch.float32 if use.deterministic else _dtype(profile, self._device)
            self._model, self._tokenizer = _load(profile.path, dtype, self._device, use.trust_remote_code)
            self._grammars: Any = Grammars(self._model, self._tokenizer)
            self._refusal = refusal(self._model) if share else "the profile says so"
        except ImportError as error:
            fix = "pip install 'roundtable-local[transformers]', or try --backend scripted"
            raise BackendError(f"the transformers engine cannot be imported: {error}", fix) from error
        except RoundtableError:
            raise
        except Exception as error:  # whatever the libraries raise, the run has not begun
            raise BackendError(f"the model does not load: {first_line(error)}", _remedy(error)) from error
        self._stops = _stop_ids(self._model, self._tokenizer)
        self._kept = Prefix()

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        """One batch; see `Backend.generate`. A row whose schema is unusable ends with "error", the others go on."""
        self._check(requests)
        generations: dict[int, Generation] = {}

        def finish(index: int, generation: Generation) -> None:
            generations[index] = generation
            on_done(index, generation)

        try:
            import torch

            rows = self._rows(requests, finish)
            with torch.inference_mode():
                self._run(rows, finish, stop)
        except RoundtableError:  # from on_done: not the engine's fault
            raise
        except Exception as error:
            message = f"transformers failed while generating: {first_line(error)}"
            raise BackendError(message, _remedy(error, _RESUME)) from error
        return [generations.get(index, Generation("", [], "abort")) for index in range(len(requests))]

    def describe(self) -> Mapping[str, Any]:
        """Versions and options in force, and whether the shared context is kept as one copy."""
        return {
            "backend": "transformers",
            "versions": versions_of(_PACKAGES),
            "options": {
                "device": self._device,
                "dtype": str(self._model.dtype).removeprefix("torch."),
                "max_model_len": self._window,
            },
            "ignored_options": self._ignored,
            "deterministic": {
                "device": self._device,
                "dtype": str(self._model.dtype).removeprefix("torch."),
                "holds": self._device == "cpu",
            }
            if self._deterministic
            else None,
            "shared_prefix": "one copy for all rows" if self._refusal is None else f"not used: {self._refusal}",
        }

    def reset_cache(self) -> None:
        """Forget the kept prefix; for benchmarks."""
        self._kept = Prefix()

    def close(self) -> None:
        """Free the model."""
        import torch

        self._model = self._grammars = None
        self._kept = Prefix()
        gc.collect()  # the model and what wraps it hold each other
        if self._device == "cuda":
            torch.cuda.empty_cache()

    def _check(self, requests: Sequence[Request]) -> None:
        for request in requests:
            length = len(request.prompt_ids)
            if not 0 < length < self._window:
                raise BackendError(
                    f"{request.label}: a prompt of {length:,} tokens, in a window of {self._window:,}",
                    "shorten the decision, or use a model with a larger window",
                )

    def _rows(self, requests: Sequence[Request], finish: OnDone) -> list[_Row]:
        rows = []
        for index, request in enumerate(requests):
            try:
                grammar = None if request.schema is None else self._grammars.compile(request.schema)
            except GrammarError:
                finish(index, Generation("", [], "error", 0))
                continue
            limit = min(request.max_tokens, self._window - len(request.prompt_ids))
            sampler = Sampler(request.sampling, request.seed, request.prompt_ids, self._device)
            rows.append(_Row(index, request, limit, grammar, sampler, self._stops))
        return rows

    def _run(self, rows: list[_Row], finish: OnDone, stop: Stop) -> None:
        """Read the prompts, then a token per row and step until no row is left."""
        if not rows:
            return
        prepared = self._prepare([row.request.prompt_ids for row in rows], stop)
        if prepared is None:
            return
        for row, cached in zip(rows, prepared.cached, strict=True):
            row.cached = cached
        logits = prepared.batch.start(stop)
        while logits is not None:
            if bool(logits.isnan().any()):  # else the likeliest "token" would be some id, and nobody would know
                raise BackendError("the model's logits are not numbers", "set engine.dtype to bfloat16 or float32")
            reasons = [row.take(scores, self._text) for row, scores in zip(rows, logits.float(), strict=True)]
            for row, reason in zip(rows, reasons, strict=True):
                if reason is not None:
                    finish(row.index, row.generation(reason, self._text))
            stay = [number for number, reason in enumerate(reasons) if reason is None]
            rows = [rows[number] for number in stay]
            if not rows or stop():
                return
            logits = prepared.batch.advance([row.tokens[-1] for row in rows], stay)

    def _prepare(self, prompts: Sequence[Sequence[int]], stop: Stop) -> _Prepared | None:
        """The batch, and for each row how many tokens of its prompt are not computed for it; None once stopped."""
        if self._refusal is not None:
            return _Prepared(PlainBatch(self._model, prompts), [0] * len(prompts))
        shared = shared_length(prompts)
        reused = self._kept.common(prompts[0][:shared])
        self._kept = extend(self._model, self._kept, prompts[0][:shared], stop)
        if len(self._kept.ids) < shared:
            return None
        batch = SharedBatch(self._model, self._kept, [prompt[shared:] for prompt in prompts])
        return _Prepared(batch, [reused] + [shared] * (len(prompts) - 1))  # the first row pays for the prefix

    def _text(self, tokens: Sequence[int], plain: bool) -> str:
        """What tokens say; a thought's end may be a control token, so free text keeps those."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=plain, clean_up_tokenization_spaces=False)
        return text


class _Prepared(NamedTuple):
    batch: Batch
    cached: list[int]


class _Row:
    """One reply while it grows."""

    def __init__(
        self, index: int, request: Request, limit: int, grammar: Grammar | None, sampler: Sampler, stops: frozenset[int]
    ) -> None:
        self.index = index
        self.request = request
        self.tokens: list[int] = []
        self.cached = 0
        self._limit = limit
        self._grammar = grammar
        self._sampler = sampler
        self._stops = stops
        self._ended = False

    def take(self, logits: Any, text: _Reader) -> FinishReason | None:
        """Choose the next token from [vocabulary] logits; says why the reply is finished, if it is."""
        if self._grammar is not None:
            try:
                logits = self._grammar.mask(self.tokens, logits)
            except GrammarError:
                return "error"
        self.tokens.append(self._sampler.choose(self.tokens, logits))
        if self.tokens[-1] in self._stops:
            self._ended = True
            return "stop"
        if self.request.stop and text(self.tokens, self.request.schema is not None).endswith(self.request.stop):
            return "stop"
        return "length" if len(self.tokens) >= self._limit else None

    def generation(self, reason: FinishReason, text: _Reader) -> Generation:
        """The finished reply; its ids end with the stop token where there is one, its text does not."""
        said = self.tokens[:-1] if self._ended else self.tokens
        return Generation(text(said, self.request.schema is not None), list(self.tokens), reason, self.cached)


def _dtype(profile: ModelProfile, device: str) -> Any:
    import torch

    name = profile.engine.get("dtype", "float32" if device == "cpu" else "auto")
    if not isinstance(name, str) or name not in _DTYPES:
        raise BackendError(f"engine.dtype is {name!r}", f"choose one of: {', '.join(_DTYPES)}")
    return "auto" if _DTYPES[name] == "auto" else getattr(torch, _DTYPES[name])


def _load(path: str, dtype: Any, device: str, trust: bool) -> tuple[Any, Any]:
    """Model and tokenizer from a local folder; code from the folder is run only where it is trusted."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    local = {"local_files_only": True, "trust_remote_code": trust}
    tokenizer = AutoTokenizer.from_pretrained(path, **local)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True, **local)
    return model.to(device).eval(), tokenizer


def _stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a reply: the tokenizer's, and those of the model's generation settings."""
    ids = model.generation_config.eos_token_id
    more = [ids] if isinstance(ids, int) else ids or []
    return frozenset(number for number in (tokenizer.eos_token_id, *more) if number is not None)


def _remedy(error: Exception, otherwise: str = "try another model folder or engine.dtype") -> str:
    if "out of memory" in str(error).lower() or isinstance(error, MemoryError):
        return "free the device's memory, lower model.window, or set engine.dtype to bfloat16"
    return otherwise
