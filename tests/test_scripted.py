"""The scripted backend: deterministic, public, and able to have every fault that a real engine may have (A2, B1, B2, C8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local.backends import NAMES, check_name, make_backend
from roundtable_local.backends.base import Generation
from roundtable_local.backends.scripted import ScriptedBackend
from roundtable_local.config import model_profile
from roundtable_local.errors import BackendError, ConfigError, UsageError
from roundtable_local.schema import canonical, grammar, parse
from tests.helpers import any_ask, draw, ignore, never, request, supermajority_asks

SCHEMA = canonical({
    "type": "object",
    "properties": {
        "why": {"type": "string", "maxLength": 60},
        "pick": {"enum": ["a", "b"]},
        "ids": {"type": "array", "items": {"enum": ["p1", "p2", "p3", "p4", "p5"]}, "minItems": 1, "maxItems": 9},
    },
    "required": ["why", "pick", "ids"],
    "additionalProperties": False,
})  # fmt: skip


def answer(script: dict[str, Any] | None, label: str, schema: str | None = SCHEMA, seed: int = 0) -> Generation:
    (generation,) = ScriptedBackend(script).generate([request(label, schema, seed)], ignore, never)
    return generation


# --- drawn replies


@given(st.integers(0, 999), st.integers(0, 2**63 - 1), st.sampled_from([0.0, 0.3, 1.0]))
def test_drawn_replies_are_valid_whatever_the_seed(number: int, seed: int, shrink: float) -> None:
    ask = any_ask(number)
    schema = grammar(ask.reply, ask.narrow, shrink, 24)
    assert isinstance(parse(ask.reply, schema, draw(canonical(schema), seed)), ask.reply)


def test_the_same_seed_draws_the_same_reply_and_another_seed_another() -> None:
    for asked in supermajority_asks():
        schema = canonical(grammar(asked.ask.reply, asked.ask.narrow))
        assert draw(schema, 7) == draw(schema, 7)
        assert draw(schema, 7) != draw(schema, 8)


def test_a_reply_depends_on_nothing_but_its_own_schema_and_seed() -> None:
    """E5: whoever else is in the batch."""
    alone = answer(None, "t/a/1", seed=3)
    batch = ScriptedBackend().generate(
        [request(f"t/{name}/1", SCHEMA, seed) for seed, name in enumerate("xyzab")], ignore, never
    )
    assert batch[3] == alone


def test_drawn_lists_of_ids_do_not_repeat() -> None:
    for seed in range(50):
        ids = json.loads(draw(SCHEMA, seed))["ids"]
        assert 1 <= len(ids) == len(set(ids)) <= 3


# --- scripted replies


@pytest.mark.parametrize(
    ("scripted", "text", "reason"),
    [
        ({"pick": "a", "why": "한"}, '{"pick":"a","why":"한"}', "stop"),
        ("I cannot evaluate this.", "I cannot evaluate this.", "stop"),
        ("", "", "stop"),
        ([1, 2], "[1,2]", "stop"),
        ({"text": '{"why": "I ch', "finish_reason": "length"}, '{"why": "I ch', "length"),
        ({"text": "{" + "\n" * 50, "finish_reason": "length"}, "{" + "\n" * 50, "length"),
        ({"text": "", "finish_reason": "error"}, "", "error"),
        ({"finish_reason": "error"}, "", "error"),
    ],
)
def test_a2_b1_b2_a_script_can_hold_any_reply(scripted: Any, text: str, reason: str) -> None:
    generation = answer({"turn/seat": scripted}, "turn/seat/1")
    assert (generation.text, generation.finish_reason) == (text, reason)
    assert len(generation.token_ids) == len(text.encode())
    assert generation.cached_tokens is None, "E8: unknown, not zero"


def test_an_attempt_s_own_reply_wins_and_the_rest_is_drawn() -> None:
    script = {"turn/seat/2": "second", "turn/seat": "any", "turn/other/1": "first"}
    assert answer(script, "turn/seat/1").text == "any"
    assert answer(script, "turn/seat/2").text == "second"
    assert answer(script, "turn/other/1").text == "first"
    assert answer(script, "turn/other/2").text == draw(SCHEMA, 0)
    assert answer(script, "other/seat/1").text == draw(SCHEMA, 0)


def test_free_text_cannot_be_drawn() -> None:
    assert answer({"turn/seat": "text"}, "turn/seat/1", schema=None).text == "text"
    with pytest.raises(BackendError, match="turn/seat/1"):
        answer(None, "turn/seat/1", schema=None)


def test_replies_come_in_order_and_are_told_one_by_one() -> None:
    backend = ScriptedBackend()
    told: list[tuple[int, Generation]] = []
    requests = [request(f"turn/{name}/1", SCHEMA, seed) for seed, name in enumerate("abc")]
    generations = backend.generate(requests, lambda index, generation: told.append((index, generation)), never)
    assert told == list(enumerate(generations))
    backend.generate(requests[:1], ignore, never)
    assert backend.labels == [["turn/a/1", "turn/b/1", "turn/c/1"], ["turn/a/1"]]
    backend.close()


def test_what_is_not_finished_when_stopped_comes_back_aborted() -> None:
    done: list[int] = []
    requests = [request(f"turn/{name}/1", SCHEMA) for name in "abcd"]
    generations = ScriptedBackend().generate(requests, lambda index, _: done.append(index), lambda: len(done) >= 2)
    assert [generation.finish_reason for generation in generations] == ["stop", "stop", "abort", "abort"]
    assert [generation.text for generation in generations[2:]] == ["", ""]


# --- scripts from files


def test_a_script_is_yaml_or_json(tmp_path: Path) -> None:
    path = tmp_path / "replies.yaml"
    path.write_text('\ufeffvote/pragmatist: {"pick": "a"}\nvote/pragmatist/2: "prose"\n', "utf-8")
    (generation,) = ScriptedBackend.from_file(path).generate([request("vote/pragmatist/1", SCHEMA)], ignore, never)
    assert generation.text == '{"pick":"a"}'
    path.write_text('{"vote/pragmatist": "한국어"}', "utf-8")
    (generation,) = ScriptedBackend.from_file(path).generate([request("vote/pragmatist/1", SCHEMA)], ignore, never)
    assert generation.text == "한국어"


@pytest.mark.parametrize(
    "data", [b"", b"- a\n", b"text", b"a: [", b"a: \xff", b"a: 2026-02-30", b"a: !!int x"], ids=repr
)
def test_a_script_that_is_no_mapping_is_a_config_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "replies.yaml"
    path.write_bytes(data)
    for missing in (path, tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ConfigError) as caught:
            ScriptedBackend.from_file(missing)
        assert str(missing) in caught.value.message


# --- choosing a backend


def test_backends_are_made_by_name(tmp_path: Path) -> None:
    profile = model_profile("scripted", {})
    backend = make_backend("scripted", profile, 4096, None)
    assert backend.describe() == {"backend": "scripted"}
    assert "scripted" in NAMES
    with pytest.raises(UsageError, match="no backend 'nope'") as caught:
        check_name("nope")
    assert all(name in caught.value.fix for name in NAMES)
    with pytest.raises(UsageError, match="--replies"):
        make_backend("vllm", profile, 4096, tmp_path / "replies.yaml")
