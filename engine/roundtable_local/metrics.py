"""What a run cost: seconds and prompt tokens per turn, against the least that a shared prefix allows."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_COUNTS = (
    "asks",
    "calls",
    "seconds_generate",
    "seconds_outside",
    "prompt_tokens",
    "cached_tokens",
    "computed_tokens",
    "ideal_tokens",
    "generated_tokens",
)
_ID_BYTES = 4
_DIGITS = 4


class PromptTrie:
    """Counts the nodes of a growing token trie without building it.

    A set of sequences sorted as bytes has as many trie nodes as the sum of each one's length beyond its
    common prefix with the one before.
    """

    def __init__(self) -> None:
        self._prompts: set[bytes] = set()
        self._nodes = 0

    def add(self, prompts: Iterable[Sequence[int]]) -> int:
        """Add prompts (token ids); return how many nodes are new: the ideal number of computed tokens."""
        self._prompts |= {array("I", prompt).tobytes() for prompt in prompts}
        before, self._nodes = self._nodes, 0
        previous = b""
        for prompt in sorted(self._prompts):
            self._nodes += len(prompt) // _ID_BYTES - _common(previous, prompt) // _ID_BYTES
            previous = prompt
        return self._nodes - before


def _common(one: bytes, two: bytes) -> int:
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def summarise(events: Iterable[Mapping[str, Any]]) -> str:
    """metrics.json from a journal's `call` and `turn` events; a sum with an unknown part is unknown (null)."""
    turns: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["event"] not in {"call", "turn"}:
            continue
        row = turns.setdefault(event["turn"], {"name": event["turn"], **dict.fromkeys(_COUNTS, 0)})
        if event["event"] == "turn":
            row["seconds_outside"] = round(row["seconds_outside"] + event["seconds_outside"], _DIGITS)
            continue
        row["calls"] += 1
        row["asks"] += event["asks"] if event["attempt"] == 1 else 0
        for name in _COUNTS[2:]:
            if name != "seconds_outside":
                row[name] = _sum(row[name], event[name])
    rows = list(turns.values())
    total = {name: _total([row[name] for row in rows]) for name in _COUNTS}
    return json.dumps({"turns": rows, "total": total}, indent=2, ensure_ascii=False) + "\n"


def _sum(one: float | None, two: float | None) -> float | None:
    if one is None or two is None:
        return None
    return round(one + two, _DIGITS)


def _total(values: Sequence[float | None]) -> float | None:
    total: float | None = 0
    for value in values:
        total = _sum(total, value)
    return total
