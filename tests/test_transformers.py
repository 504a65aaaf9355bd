"""The transformers fallback on a tiny random model, against a loop that computes one prompt at a time from nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roundtable_local.backends import check_name, make_backend
from roundtable_local.backends.base import Generation, Request, Sampling, Use
from roundtable_local.backends.sampling import Sampler, _likely
from roundtable_local.backends.transformers_local import TransformersBackend
from roundtable_local.errors import BackendError, UsageError
from roundtable_local.settings import ModelProfile
from tests.helpers import SAMPLING, ignore, never

pytestmark = pytest.mark.engine

WINDOW = 400
EOS = 257
BALLOT = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "minLength": 1, "maxLength": 12},
        "vote": {"enum": ["AGREE", "DISSENT"]},
    },
    "required": ["reason", "vote"],
    "additionalProperties": False,
}
WARM = Sampling(0.9, 0.95, 40, 0.4, 0.3, 1.1)
CONTEXT = [256, *b"Should we split the order system? Eight engineers, one product, a yearly audit."]
BRIEFS = (b" You are the Skeptic.", b" You are the Pragmatist, who counts.", b" Ada.", b" You are the Arbiter of it.")


def write_tokenizer(folder: Path) -> None:
    """Bytes as tokens, and three control tokens: 256 to 258."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    vocabulary = {character: number for number, character in bytes_to_unicode().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in ("<s>", "</s>", "<pad>")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    fast.save_pretrained(folder)


def write_model(folder: Path, config: Any) -> Path:
    """Random weights, the same every time, wide enough apart that a greedy choice is no coin toss."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(7)
    write_tokenizer(folder)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


SIZES = {
    "vocab_size": 264,  # larger than the tokenizer's, as many models have it
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "bos_token_id": 256,
    "eos_token_id": EOS,
    "pad_token_id": 258,
}


@pytest.fixture(name="folder", scope="session")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig

    return write_model(tmp_path_factory.mktemp("llama"), LlamaConfig(**SIZES))


def profile(folder: Path, **engine: Any) -> ModelProfile:
    values = {"temperature": 0, "top_p": 1, "top_k": 0, "presence_penalty": 0, "frequency_penalty": 0}
    return ModelProfile.model_validate(
        {
            "path": str(folder), "backend": "transformers", "window": 1024, "tokens_per_character": 1,
            "sampling": {**values, "repetition_penalty": 1}, "engine": engine,
        }
    )  # fmt: skip


@pytest.fixture(name="backend", scope="module")
def _backend(folder: Path) -> TransformersBackend:
    return TransformersBackend(profile(folder), WINDOW)


@pytest.fixture(name="plain", scope="module")
def _plain(folder: Path) -> TransformersBackend:
    return TransformersBackend(profile(folder, shared_prefix=False), WINDOW)


def asks(sampling: Sampling, *, schema: Any = None, tokens: int = 24, seats: int = 4) -> list[Request]:
    text = None if schema is None else json.dumps(schema)
    return [
        Request(f"round/{seat}/1", [*CONTEXT, *BRIEFS[seat]], tokens, sampling, 1000 + seat, text)
        for seat in range(seats)
    ]


def ids(generations: Sequence[Generation]) -> list[list[int]]:
    return [list(generation.token_ids) for generation in generations]


@pytest.fixture(name="reference", scope="module")
def _reference(folder: Path) -> Callable[[Request], list[int]]:
    """One prompt at a time, no cache, no batch, transformers' own processors in vLLM's order."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.generation import (
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def adjusted(request: Request, whole: Any, reply: list[int], scores: Any) -> Any:
        values = request.sampling
        scores = RepetitionPenaltyLogitsProcessor(values.repetition_penalty)(whole, scores)
        for token in set(reply):
            scores[0, token] -= values.frequency_penalty * reply.count(token) + values.presence_penalty
        if values.temperature == 0:
            return scores
        scores = TemperatureLogitsWarper(values.temperature)(whole, scores)
        if values.top_k:
            scores = TopKLogitsWarper(values.top_k)(whole, scores)
        return TopPLogitsWarper(values.top_p)(whole, scores)

    def generate(request: Request) -> list[int]:
        dice = torch.Generator().manual_seed(request.seed)
        reply: list[int] = []
        while len(reply) < request.max_tokens and EOS not in reply:
            whole = torch.tensor([[*request.prompt_ids, *reply]])
            with torch.inference_mode():
                scores = adjusted(request, whole, reply, model(whole).logits[:, -1].clone())
            if request.sampling.temperature == 0:
                reply.append(int(scores.argmax()))
            else:
                ordered, order = scores[0].sort()
                kept = ordered.isfinite()
                reply.append(int(order[kept][torch.multinomial(ordered[kept].softmax(-1), 1, generator=dice)]))
        return reply

    return generate


@pytest.mark.parametrize("sampling", [SAMPLING, replace(SAMPLING, repetition_penalty=1.3), WARM], ids=["greedy", "penalty", "seeded"])  # fmt: skip
@pytest.mark.parametrize("share", [True, False], ids=["shared", "plain"])
def test_a_batch_says_what_one_at_a_time_says_b10_e7(
    share: bool, sampling: Sampling, backend: TransformersBackend, plain: TransformersBackend,
    reference: Callable[[Request], list[int]],
) -> None:  # fmt: skip
    engine = backend if share else plain
    requests = asks(sampling)
    assert ids(engine.generate(requests, ignore, never)) == [reference(request) for request in requests]


def test_the_real_thing_is_shared(backend: TransformersBackend, plain: TransformersBackend) -> None:
    told = backend.describe()
    assert told["shared_prefix"] == "one copy for all rows"
    assert told["options"] == {"device": "cpu", "dtype": "float32", "max_model_len": WINDOW}
    assert {"torch", "transformers", "outlines", "llguidance"} <= told["versions"].keys()
    assert plain.describe()["shared_prefix"] == "not used: the profile says so"
    json.dumps(told)


@pytest.mark.parametrize("schema", [None, BALLOT], ids=["free", "json"])
def test_a_seat_does_not_depend_on_the_others_b10_e5(schema: Any, backend: TransformersBackend) -> None:
    requests = asks(WARM, schema=schema, tokens=60)
    together = ids(backend.generate(requests, ignore, never))
    assert [ids(backend.generate([request], ignore, never))[0] for request in requests] == together
    assert ids(backend.generate(requests[::-1], ignore, never)) == together[::-1]
    others = [replace(request, seed=request.seed + 50) for request in requests[1:]]
    changed = ids(backend.generate([requests[0], *others], ignore, never))
    assert changed[0] == together[0]
    assert changed[1:] != together[1:]


@pytest.mark.parametrize("schema", [None, BALLOT], ids=["free", "json"])
def test_cold_and_warm_caches_say_the_same_b10_e4(schema: Any, backend: TransformersBackend) -> None:
    requests = asks(WARM, schema=schema, tokens=60)
    backend.reset_cache()
    cold = backend.generate(requests, ignore, never)
    warm = backend.generate(requests, ignore, never)
    assert ids(cold) == ids(warm)
    assert [each.cached_tokens for each in cold] == [0, *[len(CONTEXT) + len(b" ")] * 3]
    assert [each.cached_tokens for each in warm] == [len(CONTEXT) + len(b" ")] * 4


def test_a_later_turn_extends_an_earlier_one(backend: TransformersBackend, reference: Callable[[Request], list[int]]) -> None:  # fmt: skip
    first = asks(SAMPLING)
    more = [*CONTEXT, *b"\nRound 1: all of them agree with each other."]
    second = [replace(one, prompt_ids=[*more, *brief], max_tokens=12) for one, brief in zip(first, BRIEFS, strict=True)]
    other = [replace(second[0], prompt_ids=[256, *b"Another question."])]
    backend.reset_cache()
    backend.generate(first, ignore, never)
    for requests, cached in ((second, len(CONTEXT)), (other, 1), (second, 1), (first, len(CONTEXT))):
        replies = backend.generate(requests, ignore, never)
        assert replies[0].cached_tokens == cached
        assert ids(replies) == [reference(request) for request in requests]


def test_prompts_that_share_nothing(backend: TransformersBackend, reference: Callable[[Request], list[int]]) -> None:
    requests = [replace(one, prompt_ids=list(brief.strip()[seat:])) for seat, (one, brief) in enumerate(zip(asks(WARM), BRIEFS, strict=True))]  # fmt: skip
    replies = backend.generate(requests, ignore, never)
    assert [reply.cached_tokens for reply in replies] == [0] * 4
    assert ids(replies) == [reference(request) for request in requests]


def test_the_same_prompt_twice_and_one_that_begins_another(backend: TransformersBackend, reference: Callable[[Request], list[int]]) -> None:  # fmt: skip
    (request, *_) = asks(SAMPLING)
    requests = [request, request, replace(request, prompt_ids=request.prompt_ids[:5]), replace(request, max_tokens=1)]
    assert ids(backend.generate(requests, ignore, never)) == [reference(each) for each in requests]


def test_long_prompts_are_read_in_chunks(backend: TransformersBackend, plain: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    expected = ids(plain.generate(asks(WARM), ignore, never))
    monkeypatch.setattr("roundtable_local.backends.shared_prefix._CHUNK", 7)
    monkeypatch.setattr("roundtable_local.backends.shared_prefix._SCORES", 600)
    backend.reset_cache()
    assert ids(backend.generate(asks(WARM), ignore, never)) == expected


# --- sampling

VOCABULARY = 50
some_ids = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=20)
some_logits = st.lists(
    st.one_of(st.floats(-9, 9, width=32), st.sampled_from([-1.0, 0.0, 3.0]), st.just(float("-inf"))),
    min_size=VOCABULARY, max_size=VOCABULARY,
).filter(lambda logits: max(logits) > float("-inf"))  # fmt: skip


@given(some_logits, some_ids, some_ids, st.floats(-2, 2), st.floats(-2, 2), st.floats(0.5, 2))
def test_penalties_are_vllms(
    logits: list[float], prompt: list[int], reply: list[int], presence: float, frequency: float, repetition: float
) -> None:
    import torch
    from vllm.v1.sample.ops.penalties import apply_all_penalties

    values = Sampling(0.0, 1.0, 0, presence, frequency, repetition)
    mine = Sampler(values, 0, prompt, "cpu")._penalized(reply, torch.tensor(logits))
    rows = [torch.tensor([value]) for value in (presence, frequency, repetition)]
    (theirs,) = apply_all_penalties(torch.tensor([logits]), torch.tensor([prompt]), *rows, [reply])
    torch.testing.assert_close(mine, theirs)


@given(some_logits, st.integers(0, VOCABULARY + 5), st.sampled_from([1.0, 0.95, 0.8, 0.5, 0.1, 0.01]))
def test_top_k_and_top_p_are_vllms(logits: list[float], top_k: int, top_p: float) -> None:
    import torch
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch

    k = torch.tensor([top_k]) if 0 < top_k < VOCABULARY else None
    p = torch.tensor([top_p]) if top_p < 1 else None
    cut = apply_top_k_top_p_pytorch(torch.tensor([logits]), k, None).double().softmax(-1).sort().values.cumsum(-1)
    assume(top_p == 1 or (cut - (1 - top_p)).abs().min() > 1e-5)  # at the border rounding decides
    (theirs,) = apply_top_k_top_p_pytorch(torch.tensor([logits]), k, p).softmax(-1)
    likely, tokens = _likely(torch.tensor(logits), top_k, top_p)
    mine = torch.zeros(VOCABULARY).index_copy(0, tokens, likely / likely.sum())
    torch.testing.assert_close(mine.sort().values, theirs.sort().values)  # of equal ones any may be cut
    torch.testing.assert_close(mine[tokens], torch.tensor(logits)[tokens].softmax(-1))


@pytest.mark.parametrize("logits", [[1.0] * 9, [3.0, 3.0, 1.0], [0.0, float("-inf")]])
def test_one_token_always_stays(logits: list[float]) -> None:
    import torch

    likely, tokens = _likely(torch.tensor(logits), 0, 1e-9)
    assert len(likely) == len(tokens) == 1
    assert logits[int(tokens[0])] == max(logits)


def test_dice_follow_the_probabilities() -> None:
    import torch

    logits = torch.tensor([2.0, 1.0, 0.0, float("-inf")])
    sampler = Sampler(Sampling(2.0, 1.0, 0, 0.0, 0.0, 1.0), 5, [1], "cpu")
    drawn = torch.tensor([sampler.choose([], logits) for _ in range(4000)]).bincount(minlength=4) / 4000
    torch.testing.assert_close(drawn, (logits / 2).softmax(-1), atol=0.03, rtol=0)


# --- grammars


@pytest.mark.parametrize("sampling", [SAMPLING, WARM], ids=["greedy", "seeded"])
@pytest.mark.parametrize("share", [True, False], ids=["shared", "plain"])
def test_replies_hold_to_their_grammar(share: bool, sampling: Sampling, backend: TransformersBackend, plain: TransformersBackend) -> None:  # fmt: skip
    engine = backend if share else plain
    replies = engine.generate(asks(sampling, schema=BALLOT, tokens=120), ignore, never)
    for reply in replies:
        assert reply.finish_reason == "stop"
        assert reply.token_ids[-1] == EOS
        value = json.loads(reply.text)
        jsonschema.validate(value, BALLOT)
        assert list(value) == ["reason", "vote"]
        assert reply.text.startswith('{"reason":"')  # compact: no white space to run away in (B2)
    assert ids(engine.generate(asks(sampling, schema=BALLOT, tokens=120), ignore, never)) == ids(replies)


BAD = {
    "not JSON": "{",
    "not an object": "[1]",
    "unknown keyword": json.dumps({"type": "array", "items": {"enum": ["a"]}, "uniqueItems": True}),
    "contradiction": json.dumps({"type": "nonsense"}),
    "too deep": "[" * 100_000,
}


@pytest.mark.parametrize("schema", BAD.values(), ids=BAD)
def test_one_bad_schema_ends_one_row_b11(schema: str, backend: TransformersBackend) -> None:
    good = asks(WARM, schema=BALLOT, tokens=60)
    expected = ids(backend.generate(good, ignore, never))
    mixed = [good[0], replace(good[1], schema=schema), *good[2:]]
    done: dict[int, Generation] = {}
    replies = backend.generate(mixed, done.__setitem__, never)
    assert (replies[1].finish_reason, replies[1].text, list(replies[1].token_ids)) == ("error", "", [])
    assert [reply for number, reply in enumerate(ids(replies)) if number != 1] == [expected[0], *expected[2:]]
    assert done == dict(enumerate(replies))


def test_nothing_but_bad_schemas(backend: TransformersBackend) -> None:
    replies = backend.generate([replace(each, schema="{") for each in asks(WARM)], ignore, never)
    assert [reply.finish_reason for reply in replies] == ["error"] * 4


def test_rows_may_differ_in_grammar_and_sampling(backend: TransformersBackend) -> None:
    free, ballot = asks(SAMPLING, tokens=40), asks(WARM, schema=BALLOT, tokens=40)
    expected = [*ids(backend.generate(free, ignore, never))[:2], *ids(backend.generate(ballot, ignore, never))[2:]]
    assert ids(backend.generate([*free[:2], *ballot[2:]], ignore, never)) == expected


# --- limits, ends and stops


def test_finish_reasons(backend: TransformersBackend) -> None:
    short, whole = asks(WARM, schema=BALLOT, tokens=5, seats=1) + asks(WARM, schema=BALLOT, tokens=90, seats=1)
    replies = backend.generate([short, whole], ignore, never)
    assert [reply.finish_reason for reply in replies] == ["length", "stop"]
    assert len(replies[0].token_ids) == 5
    assert list(replies[1].token_ids[:5]) == list(replies[0].token_ids)
    assert "</s>" not in replies[1].text


def test_a_reply_ends_with_the_window(folder: Path) -> None:
    (request,) = asks(SAMPLING, tokens=100, seats=1)
    window = len(request.prompt_ids) + 6
    engine = TransformersBackend(profile(folder), window)
    (reply,) = engine.generate([request], ignore, never)
    assert (len(reply.token_ids), reply.finish_reason) == (6, "length")
    with pytest.raises(BackendError, match=r"round/0/1: a prompt of 101 tokens, in a window of 101"):
        TransformersBackend(profile(folder), 101).generate([request], ignore, never)


def test_replies_are_told_as_they_finish(backend: TransformersBackend) -> None:
    requests = [replace(one, max_tokens=most) for one, most in zip(asks(SAMPLING), (9, 3, 6, 3), strict=True)]
    told: list[int] = []
    replies = backend.generate(requests, lambda index, _: told.append(index), never)
    assert told == [1, 3, 2, 0]
    assert [len(reply.token_ids) for reply in replies] == [9, 3, 6, 3]


@pytest.mark.parametrize("share", [True, False], ids=["shared", "plain"])
@pytest.mark.parametrize("after", range(6))
def test_stop_aborts_what_is_unfinished(after: int, share: bool, backend: TransformersBackend, plain: TransformersBackend) -> None:  # fmt: skip
    engine = backend if share else plain
    requests = [replace(one, max_tokens=most) for one, most in zip(asks(SAMPLING), (9, 1, 9, 9), strict=True)]
    expected = ids(engine.generate(requests, ignore, never))
    engine.reset_cache()
    asked = iter(range(100))
    done: dict[int, Generation] = {}
    replies = engine.generate(requests, done.__setitem__, lambda: next(asked) >= after)
    reasons = [reply.finish_reason for reply in replies]
    assert reasons in (["abort"] * 4, ["abort", "length", "abort", "abort"])
    assert done == {number: reply for number, reply in enumerate(replies) if reply.finish_reason != "abort"}
    assert next(asked) == after + 1  # the engine stops at once
    assert ids(engine.generate(requests, ignore, never)) == expected  # nothing is left of the stopped call


def test_a_fault_of_the_listener_is_not_the_engines(backend: TransformersBackend) -> None:
    def fail(index: int, generation: Generation) -> None:
        raise BackendError("the disk is full", "free some space")

    with pytest.raises(BackendError, match="the disk is full"):
        backend.generate(asks(SAMPLING, tokens=2), fail, never)
    assert len(backend.generate(asks(SAMPLING, tokens=2), ignore, never)) == 4


def test_a_model_that_computes_nonsense_is_an_error(folder: Path) -> None:
    engine = TransformersBackend(profile(folder), WINDOW)
    engine._model.lm_head.weight.data.fill_(float("nan"))
    with pytest.raises(BackendError, match="logits are not numbers"):
        engine.generate(asks(SAMPLING), ignore, never)


# --- other models, other options


def test_any_prompts_shared_and_plain_say_the_same(backend: TransformersBackend, plain: TransformersBackend) -> None:
    prompts = st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=12), min_size=1, max_size=4)

    @settings(max_examples=25)
    @given(st.lists(st.integers(0, 255), max_size=20), prompts)
    def same(context: list[int], tails: list[list[int]]) -> None:
        requests = [Request(f"a/{seat}/1", [*context, *tail], 4, WARM, seat) for seat, tail in enumerate(tails)]
        assert ids(backend.generate(requests, ignore, never)) == ids(plain.generate(requests, ignore, never))

    same()


def _mistral() -> Any:
    from transformers import MistralConfig

    return MistralConfig(**SIZES, sliding_window=8)


def _bloom() -> Any:
    from transformers import BloomConfig

    sizes = {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 264, "initializer_range": 0.2}
    return BloomConfig(**sizes, bos_token_id=256, eos_token_id=EOS, pad_token_id=258)


def _gemma() -> Any:
    from transformers import Gemma2Config

    return Gemma2Config(**SIZES, head_dim=16, sliding_window=8)


def _dynamic_rope() -> Any:
    from transformers import LlamaConfig

    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    return LlamaConfig(**SIZES, rope_parameters=rope)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (_mistral, "sliding window"),
        (_bloom, "attention is eager"),
        (_gemma, "sliding window"),
        (_dynamic_rope, "position"),
    ],
    ids=["mistral", "bloom", "gemma", "rope"],
)
def test_other_models_run_as_a_plain_batch(config: Callable[[], Any], why: str, tmp_path: Path) -> None:
    engine = TransformersBackend(profile(write_model(tmp_path / "model", config())), WINDOW)
    assert why in engine.describe()["shared_prefix"]
    requests = asks(SAMPLING, schema=BALLOT, tokens=60)
    replies = engine.generate(requests, ignore, never)
    assert all(json.loads(reply.text)["vote"] in BALLOT["properties"]["vote"]["enum"] for reply in replies)
    solo = [engine.generate([request], ignore, never)[0] for request in requests]
    assert ids(solo) == ids(replies)
    assert [reply.cached_tokens for reply in replies] == [0] * 4


def _qwen3() -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(**SIZES, head_dim=24)


def _neox() -> Any:
    from transformers import GPTNeoXConfig

    sizes = {name: value for name, value in SIZES.items() if name != "num_key_value_heads"}
    return GPTNeoXConfig(**sizes)


@pytest.mark.parametrize("config", [_qwen3, _neox], ids=["qwen3", "neox"])
def test_other_models_share_too(config: Callable[[], Any], tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", config())
    shared, plain = TransformersBackend(profile(folder), WINDOW), TransformersBackend(profile(folder, shared_prefix=False), WINDOW)  # fmt: skip
    assert shared.describe()["shared_prefix"] == "one copy for all rows"
    requests = asks(WARM, schema=BALLOT, tokens=40)
    assert ids(shared.generate(requests, ignore, never)) == ids(plain.generate(requests, ignore, never))


def test_an_attention_that_ignores_the_prefix_is_found_out(folder: Path, plain: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    from roundtable_local.backends import shared_prefix

    honest = shared_prefix.attend

    def deaf(*arguments: Any, shared_prefix: Any = None, **options: Any) -> Any:
        return honest(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(shared_prefix, "attend", deaf)
        engine = TransformersBackend(profile(folder), WINDOW)
    shared_prefix.register()  # its name is known to the whole process
    assert "not used: its logits differ" in engine.describe()["shared_prefix"]
    assert ids(engine.generate(asks(SAMPLING), ignore, never)) == ids(plain.generate(asks(SAMPLING), ignore, never))


def test_bfloat16_and_foreign_options(folder: Path) -> None:
    engine = TransformersBackend(profile(folder, dtype="bfloat16", enforce_eager=True, block_size=32), WINDOW)
    told = engine.describe()
    assert told["options"]["dtype"] == "bfloat16"
    assert told["ignored_options"] == ["block_size", "enforce_eager"]
    assert told["shared_prefix"] == "one copy for all rows"
    for reply in engine.generate(asks(WARM, schema=BALLOT, tokens=90), ignore, never):
        jsonschema.validate(json.loads(reply.text), BALLOT)


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"dtype": "int3"}, "engine.dtype is 'int3'"),
        ({"dtype": 16}, "engine.dtype is 16"),
        ({"shared_prefix": "yes"}, "engine.shared_prefix is 'yes'"),
    ],
)
def test_unusable_options_are_named(engine: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(BackendError, match=message):
        TransformersBackend(profile(folder, **engine), WINDOW)


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(BackendError, match="the model does not load: ") as caught:
        TransformersBackend(profile(tmp_path), WINDOW)
    assert "\n" not in str(caught.value)


def test_missing_packages_name_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "outlines", None)
    with pytest.raises(BackendError) as caught:
        TransformersBackend(profile(folder), WINDOW)
    assert "roundtable-local[transformers]" in caught.value.fix


def test_it_is_made_by_its_name(folder: Path) -> None:
    check_name("transformers")
    engine = make_backend("transformers", profile(folder), WINDOW, None)
    assert engine.describe()["backend"] == "transformers"
    engine.close()
    engine.close()


def test_free_text_ends_at_its_stop_text(backend: TransformersBackend) -> None:
    asked = asks(replace(WARM, temperature=0.0), tokens=16, seats=1)[0]
    (whole,) = backend.generate([asked], ignore, never)
    stop = whole.text[3:6]
    (stopped,) = backend.generate([replace(asked, stop=(stop,))], ignore, never)
    assert stopped.finish_reason == "stop"
    assert stopped.text.endswith(stop)
    assert len(stopped.token_ids) < len(whole.token_ids)


def test_what_a_run_wants_of_it(folder: Path) -> None:
    with pytest.raises(UsageError, match="no adapters"):
        TransformersBackend(profile(folder), WINDOW, Use(adapters=("x",)))
    strict = TransformersBackend(profile(folder, dtype="bfloat16"), WINDOW, Use(deterministic=True))
    assert strict.describe()["deterministic"] == {"device": "cpu", "dtype": "float32", "holds": True}
