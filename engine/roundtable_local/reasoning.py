"""Models that think before they answer: what is thought, what is said, and how the one leads to the other.

A seat thinks freely up to a budget; then the thought is closed and the answer is decoded under the grammar, in a second
call whose prompt extends the first's. Thoughts stand in the journal alone: they are never parsed and no seat sees them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from roundtable_local.tokens import Codec

_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Split:
    """Text with reasoning tags, taken apart.

    Args:
        thought: what stood inside the tags.
        answer: everything else.
        closed: whether the last thought ended.
    """

    thought: str
    answer: str
    closed: bool


def split(text: str, start: str, end: str) -> Split:
    """Take thoughts out of a text.

    Tags count in any case and nested; a lone closing tag ends a thought that began with the text, a lone opening tag
    begins one that was cut off; a tag quoted as code is none.

    Args:
        text: as the model wrote it.
        start: opening tag.
        end: closing tag.
    """
    quoted = [match.span() for match in _CODE.finditer(text)]
    tags = re.compile(f"({re.escape(start)})|({re.escape(end)})", re.IGNORECASE)
    thought: list[str] = []
    answer: list[str] = []
    depth = at = 0
    for tag in tags.finditer(text):
        if any(begin <= tag.start() < stop for begin, stop in quoted):
            continue
        (thought if depth else answer).append(text[at : tag.start()])
        at = tag.end()
        if tag[1]:
            depth += 1
        elif depth:
            depth -= 1
        else:
            thought, answer = thought + answer, []
    (thought if depth else answer).append(text[at:])
    return Split(_joined(thought), _joined(answer), closed=not depth)


def _joined(pieces: list[str]) -> str:
    """Pieces with a blank between them: what stood around a tag must not become one."""
    return " ".join(piece.strip() for piece in pieces if piece.strip())


@dataclass(frozen=True)
class Thinking:
    """How a model's thoughts are asked for and closed.

    Args:
        start: opening tag.
        end: closing tag.
        budget: tokens of a thought; 0: the seats do not think, and a thought that the template opens is closed at once.
        opened: whether the chat template leaves a thought open where the reply begins.
        codec: the model's tokenizer.
        padding: what stands between the tags and their text.
    """

    start: str
    end: str
    budget: int
    opened: bool
    codec: Codec
    padding: str = "\n"

    @property
    def tokens(self) -> int:
        """What a thought adds to a prompt at most: its own tokens, which may come out differently when read again, and tags."""
        return 2 * self.budget + len(self._closing) + len(self.opening)

    @property
    def opening(self) -> tuple[int, ...]:
        """Ids that begin a thought."""
        return () if self.opened else self.codec.literal(f"{self.start}{self.padding}")

    @property
    def _closing(self) -> tuple[int, ...]:
        return self.codec.literal(f"{self.padding}{self.end}{2 * self.padding}")

    def extended(self, prompt: Sequence[int], thought: str) -> tuple[int, ...]:
        """Ids of a prompt that goes on with a closed thought; an empty one tells the model not to think."""
        return (*prompt, *self.opening, *self.codec.encode(thought), *self._closing)

    def read(self, generated: str, finished: bool) -> str | None:
        """The thought that was generated; None where it was cut off: nothing may be made of half a thought.

        Args:
            generated: text after the opening tag.
            finished: whether the model ended it, by the closing tag or otherwise.
        """
        found = split(f"{self.start}{generated}", self.start, self.end)
        return found.thought if found.closed or finished else None
