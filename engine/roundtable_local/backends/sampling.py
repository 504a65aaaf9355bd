"""From logits to the next token, for one row: grammar, penalties, temperature, top-k, top-p and its own dice.

The order and the meaning of the values are vLLM's, so that a model profile means the same on both engines.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

from roundtable_local.backends.base import Sampling

Tensor = Any

_GREEDY_BELOW = 1e-5
_LEAST_TEMPERATURE = 1e-2
"""vLLM's: below the first the likeliest token is taken, and between the two the second is used."""


class GrammarError(ValueError):
    """A schema that no grammar can be made of, or a grammar that gave up; the row ends, the others go on."""


class Grammars:
    """Makes grammars of JSON schemas, by outlines' llguidance backend.

    Args:
        model: a transformers model.
        tokenizer: its fast tokenizer.

    Raises:
        ValueError: the tokenizer is not a fast one.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        import outlines
        from outlines.backends.llguidance import LLGuidanceBackend

        self._backend = LLGuidanceBackend(outlines.from_transformers(model, tokenizer))

    def compile(self, schema: str) -> Grammar:
        """A fresh grammar: it counts tokens, so it serves one reply.

        Raises:
            GrammarError: no grammar can be made of the schema.
        """
        from llguidance import LLMatcher

        try:
            root = json.loads(schema)
            if not isinstance(root, dict):
                raise ValueError("not an object")
            compact = json.dumps({**root, "x-guidance": {"whitespace_flexible": False}}, ensure_ascii=False)
            processor = self._backend.get_json_schema_logits_processor(compact)
        except (ValueError, RecursionError) as error:
            raise GrammarError(f"not a usable schema: {error}") from error
        if problem := LLMatcher.validate_grammar(processor.grammar, self._backend.llg_tokenizer):
            raise GrammarError(f"not a usable schema: {problem}")
        return Grammar(processor)


class Grammar:
    """One reply's grammar and where in it the reply stands."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def mask(self, tokens: Sequence[int], logits: Tensor) -> Tensor:
        """The logits with everything that cannot follow at minus infinity.

        Args:
            tokens: the reply so far, one longer than at the call before.
            logits: [vocabulary]; changed in place.

        Raises:
            GrammarError: nothing can follow.
        """
        import torch

        # Only the last token is read, but at the first call there is none: any stands for it.
        last = torch.tensor([[tokens[-1] if tokens else 0]], device=logits.device)
        # llguidance would compile its masking, and many machines have no compiler; outlines only warns of an error,
        # but the matcher stays in it
        with torch.compiler.set_stance("force_eager"), warnings.catch_warnings(action="ignore"):
            (masked,) = self._processor(last, logits.unsqueeze(0))
        (matcher,) = self._processor.ll_matchers
        if matcher.is_error() or masked.isneginf().all():
            raise GrammarError(matcher.get_error() or "nothing can follow")
        return masked


class Sampler:
    """Chooses the tokens of one reply.

    Args:
        values: all sampling values.
        seed: of this reply alone, so that it does not depend on who else is in the batch.
        prompt: token ids; repetition counts them too.
        device: where logits are.
    """

    def __init__(self, values: Sampling, seed: int, prompt: Sequence[int], device: Any) -> None:
        import torch

        self._values = values
        self._dice = torch.Generator(device=device).manual_seed(seed)
        self._prompt = torch.tensor(sorted(set(prompt)), device=device)

    def choose(self, tokens: Sequence[int], logits: Tensor) -> int:
        """The next token.

        Args:
            tokens: the reply so far.
            logits: [vocabulary], float32.
        """
        import torch

        logits = self._penalized(tokens, logits)
        if self._values.temperature < _GREEDY_BELOW:
            return int(logits.argmax())
        logits = logits / max(self._values.temperature, _LEAST_TEMPERATURE)
        likely, ids = _likely(logits, self._values.top_k, self._values.top_p)
        return int(ids[torch.multinomial(likely, 1, generator=self._dice)])

    def _penalized(self, tokens: Sequence[int], logits: Tensor) -> Tensor:
        """Repetition counts prompt and reply; frequency and presence count the reply alone."""
        import torch

        values = self._values
        reply, times = torch.tensor(tokens, dtype=torch.long, device=logits.device).unique(return_counts=True)
        if values.repetition_penalty != 1.0:
            seen = torch.cat([self._prompt, reply]).unique()
            before = logits[seen]
            by = values.repetition_penalty
            logits = logits.index_copy(0, seen, torch.where(before > 0, before / by, before * by))
        if values.frequency_penalty or values.presence_penalty:
            logits = logits.index_add(0, reply, -values.frequency_penalty * times.float() - values.presence_penalty)
        return logits


def _likely(logits: Tensor, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """Probabilities of the tokens that may be chosen, and their ids.

    Of equal logits at the border all stay for `top_k`; for `top_p` one always stays.
    """
    import torch

    ids = torch.arange(len(logits), device=logits.device)
    if 0 < top_k < len(logits):
        ids = ids[logits >= logits.topk(top_k).values[-1]]
    likely = logits[ids].softmax(-1)
    if top_p >= 1:
        return likely, ids
    # Whatever is less likely than this cannot stay, even if all are: sorting the rest is much faster than sorting all.
    able = likely >= likely.max().clamp(max=(1 - top_p) / len(ids))
    ordered, order = likely[able].sort()
    within = likely[~able].sum() + ordered.cumsum(-1) > 1 - top_p
    within[-1] = True
    return ordered[within], ids[able][order][within]
