"""The transformers fallback on a tiny random model: one copy of the prefix, rows that do not touch one another (E4, E5, E7, B10, B11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from roundtable_local.backends.base import Generation, Request, Sampling, Use
from roundtable_local.config import model_profile
from roundtable_local.errors import BackendError, UsageError
from tests.helpers import ignore, never, write_folder

pytestmark = pytest.mark.engine

GREEDY = Sampling(0.0, 1.0, 0, 0.0, 0.0, 1.0)
WARM = Sampling(0.9, 0.95, 20, 0.2, 0.3, 1.1)
VOTE = {
    "type": "object",
    "properties": {"why": {"type": "string", "minLength": 1, "maxLength": 20}, "vote": {"enum": ["AGREE", "DISAGREE"]}},
    "required": ["why", "vote"],
    "additionalProperties": False,
}
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers with random weights, grouped-query attention and a byte-level tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    path = tmp_path_factory.mktemp("models") / "tiny"
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["we weigh it"], trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, show_progress=False)
    )
    special = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=made.get_vocab_size(), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, eos_token_id=made.token_to_id("<|end|>"),
        bos_token_id=None, initializer_range=0.2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}
    return write_folder(
        path, {"tokenizer.json": made.to_str(), "tokenizer_config.json": tokenizer, "chat_template.jinja": TEMPLATE}
    )


def start(folder: Path, **engine: Any) -> Any:
    from roundtable_local.backends.transformers_local import TransformersBackend

    profile = model_profile(str(folder), {"window": 1024, "engine": {"dtype": "float32", **engine}})
    return TransformersBackend(profile, 1024, Use(deterministic=True))


@pytest.fixture(name="backend", scope="module")
def _backend(folder: Path) -> Iterator[Any]:
    backend = start(folder)
    yield backend
    backend.close()


def requests(count: int = 4, *, sampling: Sampling = WARM, schema: Any = None, tokens: int = 24) -> list[Request]:
    """A long shared beginning and briefs of different lengths."""
    shared = [7 + number % 200 for number in range(700)]
    text = None if schema is None else json.dumps(schema)
    return [
        Request(f"t/{seat}/1", [*shared, *range(20, 24 + 5 * seat)], tokens, sampling, 100 + seat, text)
        for seat in range(count)
    ]


def said(backend: Any, asked: list[Request]) -> list[list[int]]:
    generations: list[Generation] = backend.generate(asked, ignore, never)
    return [list(generation.token_ids) for generation in generations]


def reference(folder: Path, request: Request) -> list[int]:
    """Greedy decoding by the library itself, one prompt at a time, nothing shared."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([list(request.prompt_ids)])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=request.max_tokens, do_sample=False, pad_token_id=0
    )[0, ids.shape[1] :].tolist()
    end = model.config.eos_token_id
    found: list[int] = out[: out.index(end)] if end in out else out
    return found


def test_greedy_replies_equal_the_librarys_own(folder: Path, backend: Any) -> None:
    asked = requests(sampling=GREEDY)
    assert said(backend, asked) == [reference(folder, request) for request in asked]
    assert backend.describe()["shared_prefix"] is True


@pytest.mark.parametrize("schema", [None, VOTE])
def test_e4_e5_e7_b10_batch_solo_cold_and_warm_agree(backend: Any, schema: Any) -> None:
    asked = requests(schema=schema, tokens=60)
    backend.forget()
    cold = said(backend, asked)
    assert said(backend, asked) == cold  # warm, and a second time
    assert [said(backend, [request])[0] for request in asked] == cold
    assert said(backend, asked[1:3]) == cold[1:3]
    assert len({tuple(ids) for ids in cold}) == len(cold)


def test_another_seed_changes_its_own_row_alone(backend: Any) -> None:
    from dataclasses import replace

    asked = requests()
    before = said(backend, asked)
    asked[1] = replace(asked[1], seed=9)
    after = said(backend, asked)
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True, True]


def test_replies_stand_under_their_grammar_each_row_its_own(backend: Any) -> None:
    from dataclasses import replace

    asked = requests(3, schema=VOTE, tokens=80)
    other = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    asked[1] = replace(asked[1], schema=json.dumps(other))
    generations = backend.generate(asked, ignore, never)
    assert all(generation.finish_reason == "stop" for generation in generations)
    assert json.loads(generations[0].text)["vote"] in {"AGREE", "DISAGREE"}
    assert json.loads(generations[1].text)["n"] in {1, 2}
    assert "\n" not in generations[0].text


def test_b11_one_bad_grammar_spoils_its_own_row_alone(backend: Any) -> None:
    from dataclasses import replace

    asked = requests(3, schema=VOTE, tokens=80)
    expected = said(backend, asked)
    asked[1] = replace(asked[1], schema='{"type": "object", "uniqueItems": 3, "$ref": "#/nowhere"}')
    generations = backend.generate(asked, ignore, never)
    assert [generation.finish_reason for generation in generations] == ["stop", "error", "stop"]
    assert [list(generations[index].token_ids) for index in (0, 2)] == [expected[0], expected[2]]


def test_e8_cached_tokens_are_those_that_were_not_computed(backend: Any) -> None:
    backend.forget()
    asked = requests(3)
    cold = backend.generate(asked, ignore, never)
    shared = len(asked[0].prompt_ids) - 1
    assert [generation.cached_tokens for generation in cold] == [0, shared, shared]
    longer = [
        Request(each.label, [*asked[0].prompt_ids[:700], 5, 6, 7, seat], 4, GREEDY, 1)
        for seat, each in enumerate(asked)
    ]
    warm = backend.generate(longer, ignore, never)
    assert [generation.cached_tokens for generation in warm] == [700, 703, 703]


def test_b1_a_cut_off_reply_says_so_and_stop_texts_end_free_text(backend: Any) -> None:
    (cut,) = backend.generate(requests(1, sampling=GREEDY, tokens=3), ignore, never)
    assert (cut.finish_reason, len(cut.token_ids)) == ("length", 3)
    from dataclasses import replace

    (whole,) = backend.generate(requests(1, sampling=GREEDY, tokens=12), ignore, never)
    stop = whole.text[2:5]
    (stopped,) = backend.generate([replace(requests(1, sampling=GREEDY, tokens=12)[0], stop=(stop,))], ignore, never)
    assert stopped.finish_reason == "stop"
    assert stopped.text.endswith(stop)
    assert len(stopped.token_ids) < len(whole.token_ids)


def test_a_stopped_batch_is_aborted_and_leaves_nothing(backend: Any) -> None:
    steps = iter([False, False, True, True])
    generations = backend.generate(requests(3, tokens=100), ignore, lambda: next(steps))
    assert {generation.finish_reason for generation in generations} == {"abort"}
    done: list[int] = []
    backend.generate(requests(2), lambda index, generation: done.append(index), never)
    assert sorted(done) == [0, 1]


def test_a_model_with_sliding_windows_computes_whole_prompts(folder: Path, tmp_path: Path) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    config = json.loads((folder / "config.json").read_text("utf-8"))
    path = tmp_path / "sliding"
    MistralForCausalLM(
        MistralConfig(
            vocab_size=config["vocab_size"], hidden_size=64, intermediate_size=96, num_hidden_layers=2, sliding_window=64,
            num_attention_heads=4, num_key_value_heads=2, eos_token_id=config["eos_token_id"], initializer_range=0.2,
        )
    ).save_pretrained(path)  # fmt: skip
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (path / name).write_bytes((folder / name).read_bytes())
    backend = start(path)
    asked = requests(2, sampling=GREEDY)
    assert said(backend, asked) == [reference(path, request) for request in asked]
    assert "sliding windows" in backend.describe()["shared_prefix"]


def test_adapters_and_broken_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    from roundtable_local.backends.transformers_local import TransformersBackend

    profile = model_profile(str(folder), {"window": 1024})
    with pytest.raises(UsageError, match="no adapters"):
        TransformersBackend(profile, 1024, Use(adapters=("x",)))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BackendError, match="does not load"):
        TransformersBackend(model_profile(str(tmp_path), {"window": 1024}), 1024)
