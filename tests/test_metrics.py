"""Counting: the ideal number of prompt tokens by a trie, and sums in which unknown stays unknown (E3, E8)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local.metrics import PromptTrie, summarise

prompts = st.lists(
    st.lists(st.sampled_from([0, 1, 255, 256, 65_536, 2**31, 2**32 - 1]) | st.integers(0, 300_000), max_size=6),
    max_size=6,
)
calls = st.lists(prompts, max_size=4)


class NaiveTrie:
    def __init__(self) -> None:
        self.nodes: set[tuple[int, ...]] = set()

    def add(self, batch: list[list[int]]) -> int:
        before = len(self.nodes)
        self.nodes |= {tuple(prompt[:end]) for prompt in batch for end in range(1, len(prompt) + 1)}
        return len(self.nodes) - before


@given(calls)
def test_the_trie_counts_like_a_naive_one(batches: list[list[list[int]]]) -> None:
    quick, naive = PromptTrie(), NaiveTrie()
    for batch in batches:
        assert quick.add(batch) == naive.add(batch)


@given(st.lists(st.integers(0, 50), max_size=8), st.lists(st.lists(st.integers(0, 3), max_size=5), max_size=5))
def test_a_shared_prefix_counts_once(prefix: list[int], tails: list[list[int]]) -> None:
    trie = PromptTrie()
    assert trie.add([prefix]) == len(prefix)
    assert trie.add([[*prefix, *tail] for tail in tails]) == NaiveTrie().add(tails)
    assert trie.add([[*prefix, *tail] for tail in tails]) == 0


def call(turn: str, attempt: int = 1, asks: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "event": "call", "turn": turn, "attempt": attempt, "asks": asks, "seconds_generate": 1.5, "prompt_tokens": 100,
        "cached_tokens": 40, "computed_tokens": 60, "ideal_tokens": 55, "generated_tokens": 20, **changes,
    }  # fmt: skip


def settled(turn: str, seconds: float = 0.25) -> dict[str, Any]:
    return {"event": "turn", "turn": turn, "seconds_outside": seconds}


def test_sums_per_turn_and_in_total() -> None:
    events = [{"event": "start"}, call("round1"), call("round1", 2, asks=1), settled("round1"), {"event": "reply"},
              call("vote", asks=10), settled("vote", 0.5), {"event": "end"}]  # fmt: skip
    metrics = json.loads(summarise(events))
    assert [row["name"] for row in metrics["turns"]] == ["round1", "vote"]
    assert metrics["turns"][0] == {
        "name": "round1", "asks": 2, "calls": 2, "seconds_generate": 3.0, "seconds_outside": 0.25, "prompt_tokens": 200,
        "cached_tokens": 80, "computed_tokens": 120, "ideal_tokens": 110, "generated_tokens": 40,
    }  # fmt: skip
    assert metrics["total"] == {
        "asks": 12, "calls": 3, "seconds_generate": 4.5, "seconds_outside": 0.75, "prompt_tokens": 300,
        "cached_tokens": 120, "computed_tokens": 180, "ideal_tokens": 165, "generated_tokens": 60,
    }  # fmt: skip


@pytest.mark.parametrize("unknown", [0, 1])
def test_e8_an_unknown_cached_count_is_null_never_zero(unknown: int) -> None:
    events = [call("round1"), call("round1", 2), call("vote")]
    events[unknown] |= {"cached_tokens": None, "computed_tokens": None}
    metrics = json.loads(summarise(events))
    for row in (metrics["turns"][0], metrics["total"]):
        assert row["cached_tokens"] is None
        assert row["computed_tokens"] is None
        assert row["prompt_tokens"] > 0
    assert metrics["turns"][1]["cached_tokens"] == 40


def test_e3_a_known_zero_is_zero() -> None:
    metrics = json.loads(summarise([call("round1", cached_tokens=0, computed_tokens=100)]))
    assert metrics["total"]["cached_tokens"] == 0
    assert metrics["total"]["computed_tokens"] == 100


def test_no_events_make_an_empty_table() -> None:
    text = summarise([])
    assert json.loads(text)["turns"] == []
    assert set(json.loads(text)["total"].values()) == {0}
    assert text.endswith("}\n")
