"""Text becomes token ids: the chat template's frame, blocks, briefs; control tokens in documents are defused.

    [frame head][block][block]...[brief][frame tail]

The frame is probed once per model. Every block is tokenised once, alone, so that the context's ids are the
same for all seats and begin the ids of later turns: that is what the KV cache shares. Backends get ids,
never text. Needs only the `tokenizers` library and the model folder's tokenizer.json.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from roundtable_local.errors import ModelError
from roundtable_local.steps import Block
from roundtable_local.templates import ChatTemplate, TemplateUse, token_text


@dataclass(frozen=True)
class Frame:
    """What the chat template puts around the one user message.

    Args:
        head: ids before the user's text: exactly one BOS where the model has one, and the system message.
        tail: ids after it, up to where the reply begins.
        system_folded: whether the template takes no system message, so that it opens the user's text.
        opens_thought: the reasoning tags, where the template leaves a thought open at its end; else None.
    """

    head: tuple[int, ...]
    tail: tuple[int, ...]
    system_folded: bool
    opens_thought: tuple[str, str] | None = None


class Codec:
    """A model folder's tokenizer and chat template.

    Args:
        folder: the model's folder.
        system: text of the system message, ours and the same for all seats.
        use: how the run wants the chat template.

    Raises:
        ModelError: tokenizer.json or the chat template is missing or unusable.
        ConfigError: a template variable is one that the engine itself sets.
    """

    def __init__(self, folder: Path, system: str, use: TemplateUse | None = None) -> None:
        self._use = use or TemplateUse()
        self._config = _json(folder / "tokenizer_config.json", optional=True)
        self._live, self._inert, self.control_ids = _tokenizers(folder)
        self.frame = self._probe(ChatTemplate(folder, self._config, self._use), system)
        self.encode = lru_cache(maxsize=4096)(self._encode)

    def _encode(self, text: str) -> tuple[int, ...]:
        """Ids of untrusted text: no control token can come out, whatever the text spells.

        Raises:
            ModelError: a single character is a control token of this model.
        """
        text = _whole(text)
        encoding = self._inert.encode(text, add_special_tokens=False)
        if self.control_ids.isdisjoint(encoding.ids):
            return tuple(encoding.ids)
        # The vocabulary itself spells control tokens as ordinary pieces: cut the text inside each, until none is left.
        ids: list[int] = []
        waiting = [text]
        while waiting:
            part = waiting.pop()
            encoding = self._inert.encode(part, add_special_tokens=False)
            if self.control_ids.isdisjoint(encoding.ids):
                ids += encoding.ids
            else:
                waiting += reversed(_cut(part, encoding, self.control_ids))
        return tuple(ids)

    def literal(self, text: str) -> tuple[int, ...]:
        """Ids of our own text, in which control tokens are what they say."""
        return tuple(self._live.encode(_whole(text), add_special_tokens=False).ids)

    def count(self, text: str) -> int:
        """Number of tokens of untrusted text."""
        return len(self.encode(text))

    def context(self, blocks: Sequence[Block]) -> list[int]:
        """Ids that every seat's prompt begins with: frame head, then each block's own ids."""
        ids = list(self.frame.head)
        for block in blocks:
            ids += self.encode(block.render())
        return ids

    def prompt(self, context: Sequence[int], brief: str) -> list[int]:
        """Ids of one seat's whole prompt."""
        return [*context, *self.encode(brief), *self.frame.tail]

    def spells_control(self, text: str) -> list[str]:
        """Control tokens that the text spells out, so that the run can say they were read as plain text."""
        return sorted(token for token in self.control_texts if token in text)

    @property
    def control_texts(self) -> tuple[str, ...]:
        """Texts of the tokenizer's control tokens."""
        return tuple(self._live.id_to_token(token) or "" for token in sorted(self.control_ids))

    def _probe(self, template: ChatTemplate, system: str) -> Frame:
        wrapping = template.wrap(system)
        tail = wrapping.tail
        tail += next((text for end, text in self._use.answer_openings.items() if tail.endswith(end)), "")
        return Frame(
            self._with_one_bos(wrapping.head), self.literal(tail), wrapping.system_folded, self._left_open(tail)
        )

    def _with_one_bos(self, head: str) -> tuple[int, ...]:
        ids = self.literal(head)
        bos_text = _whole(token_text(self._config.get("bos_token")))
        bos = self._live.token_to_id(bos_text) if bos_text else None
        if bos is None:
            return ids
        while ids[:2] == (bos, bos):
            ids = ids[1:]
        added_by_tokenizer = self._live.encode("", add_special_tokens=True).ids[:1] == [bos]
        in_template = head.lstrip().startswith(bos_text)
        return (bos, *ids) if added_by_tokenizer and not in_template else ids

    def _left_open(self, tail: str) -> tuple[str, str] | None:
        """The reasoning tags whose opening one comes last, with nothing but text after it."""
        pairs = [tags for tags in self._use.reasoning_tags if tail.rfind(tags[0]) > tail.rfind(tags[1])]
        last = max(pairs, key=lambda tags: tail.rfind(tags[0]), default=None)
        if last is None or not self.control_ids.isdisjoint(self.literal(tail.rpartition(last[0])[2])):
            return None
        return last


def _cut(text: str, encoding: Any, control_ids: frozenset[int]) -> list[str]:
    """The text, cut in the middle of every piece that is a control token."""
    cuts = [0]
    for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        if token in control_ids:
            if end - start < 2:
                raise ModelError(
                    f"the tokenizer turns the plain character {text[start:end]!r} into a control token",
                    "remove that character from the text, or use another model",
                )
            cuts.append((start + end + 1) // 2)
    return [text[start:end] for start, end in itertools.pairwise([*cuts, len(text)]) if start < end]


def _json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not path.exists():
        return {}
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}", "copy the model's folder again") from error
    if not isinstance(data, dict):
        raise ModelError(f"{path} is not a JSON object", "copy the model's folder again")
    return data


def _tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer, frozenset[int]]:
    """The tokenizer as it is, the same with every added token read as plain text, and the ids of added tokens."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        fix = "copy tokenizer.json into it, or save the tokenizer again with transformers' save_pretrained"
        raise ModelError(f"{folder} has no tokenizer.json", fix)
    data = _json(path)
    try:
        added = list(data.get("added_tokens") or [])
        # Only special tokens can be switched off. Mere white space that some models list there is text like any other.
        inert = data | {"added_tokens": [token | {"special": bool(token["content"].strip())} for token in added]}
        control = frozenset(token["id"] for token in added if token["content"].strip())
        live_tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
        inert_tokenizer = Tokenizer.from_str(json.dumps(inert))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{path} is not a usable tokenizer: {error}", "copy the model's folder again") from error
    inert_tokenizer.encode_special_tokens = True
    for tokenizer in (live_tokenizer, inert_tokenizer):
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return live_tokenizer, inert_tokenizer, control


def _whole(text: str) -> str:
    """Lone surrogates, which JSON and YAML escapes can spell, replaced: no tokenizer takes them."""
    return text.encode("utf-8", "replace").decode()
