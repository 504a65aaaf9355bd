"""Chat templates of current model families, by minimal ones of ours with the same quirks (C1, C2, C3, C4, C5, A3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from roundtable_local.config import engine_settings
from roundtable_local.errors import ModelError
from roundtable_local.inputs import read_inputs
from roundtable_local.plan import make_plan
from roundtable_local.steps import Block
from roundtable_local.templates import TemplateUse
from roundtable_local.tokens import Codec
from tests.helpers import SCRIPTED_MODEL, write_folder

FIXTURES = Path(__file__).parent / "fixtures" / "templates"
SYSTEM = "You sit at a table."
ENGINE = engine_settings()
USE = TemplateUse("2026-03-01", reasoning_tags=ENGINE.reasoning_tags, answer_openings=ENGINE.answer_openings)


@dataclass(frozen=True)
class Family:
    """A model family: its control tokens, its BOS, whether the tokenizer adds it, and what a prompt ends in."""

    special: tuple[str, ...]
    ends: str
    bos: str | None = None
    adds_bos: bool = False
    folded: bool = False
    opens: tuple[str, str] | None = None
    eos: str = "<eos>"
    plain: tuple[str, ...] = ()


IM = ("<|im_start|>", "<|im_end|>")
TURN = ("<start_of_turn>", "<end_of_turn>")
THINK = ("<think>", "</think>")
FAMILIES = {
    "llama3": Family(("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
                     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|begin_of_text|>", adds_bos=True),
    "qwen25": Family(IM, "<|im_end|>\n<|im_start|>assistant\n"),
    "qwen3": Family(IM, "<|im_end|>\n<|im_start|>assistant\n", plain=THINK),
    "mistral": Family(("<s>", "</s>", "[INST]", "[/INST]"), "[/INST]", "<s>", adds_bos=True, eos="</s>"),
    "gemma2": Family(("<bos>", *TURN), "<end_of_turn>\n<start_of_turn>model\n", "<bos>", adds_bos=True, folded=True),
    "gemma3": Family(("<bos>", *TURN), "<end_of_turn>\n<start_of_turn>model\n", "<bos>", adds_bos=True),
    "phi": Family(("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"), "<|end|><|assistant|>"),
    "deepseek-r1": Family(("<|begin_of_sentence|>", "<|end_of_sentence|>", "<|User|>", "<|Assistant|>"),
                          "<|Assistant|><think>\n", "<|begin_of_sentence|>", adds_bos=True, opens=THINK, plain=THINK),
    "gpt-oss": Family(("<|start|>", "<|message|>", "<|end|>", "<|channel|>", "<|return|>"),
                      "<|end|><|start|>assistant<|channel|>final<|message|>"),
    "smol": Family(IM, "<|im_end|>\n<|im_start|>assistant\n"),
}  # fmt: skip


def tokenizer(family: Family) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["we weigh the decision"], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    names = dict.fromkeys((*family.special, family.eos))
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in names])
    made.add_tokens([AddedToken(text, special=False, normalized=False) for text in family.plain])
    if family.adds_bos:
        bos = family.bos or ""
        made.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, made.token_to_id(bos))]
        )
    return made


def folder(path: Path, name: str) -> Path:
    family = FAMILIES[name]
    config = {"bos_token": family.bos, "eos_token": family.eos}
    files = {"tokenizer.json": tokenizer(family).to_str(), "tokenizer_config.json": config}
    return write_folder(path / name, {**files, "chat_template.jinja": (FIXTURES / f"{name}.jinja").read_text("utf-8")})


def shown(path: Path, codec: Codec, brief: str = "YOUR SEAT: x") -> tuple[str, list[int]]:
    ids = codec.prompt(codec.context([Block("PROBLEM", "Should we?", "decision")]), brief)
    text: str = Tokenizer.from_file(str(path / "tokenizer.json")).decode(ids, skip_special_tokens=False)
    return text, ids


@pytest.mark.parametrize("name", FAMILIES)
def test_c1_c2_c3_every_family_gives_one_whole_prompt(tmp_path: Path, name: str) -> None:
    family, path = FAMILIES[name], folder(tmp_path, name)
    codec = Codec(path, SYSTEM, USE)
    text, ids = shown(path, codec)
    made = tokenizer(family)
    if family.bos is not None:
        bos = made.token_to_id(family.bos)
        assert ids.count(bos) == 1
        assert ids[0] == bos
    assert text.count(SYSTEM) == 1
    assert text.count("PROBLEM:\nShould we?\n\nYOUR SEAT: x") == 1
    assert text.endswith(family.ends)
    assert text.index(SYSTEM) < text.index("PROBLEM")
    assert codec.frame.system_folded is family.folded
    assert codec.frame.opens_thought == family.opens
    assert "A default of the model's." not in text


@pytest.mark.parametrize("name", FAMILIES)
def test_c4_control_tokens_in_documents_stay_plain_text(tmp_path: Path, name: str) -> None:
    family, path = FAMILIES[name], folder(tmp_path, name)
    codec = Codec(path, SYSTEM, USE)
    spelled = " ".join((*family.special, *family.plain, "<|im_start|>system", "[INST]"))
    _, without = shown(path, codec)
    text, ids = shown(path, codec, f"YOUR SEAT: {spelled}")
    control = set(codec.control_ids)
    assert [token for token in ids if token in control] == [token for token in without if token in control]
    assert spelled in text


@pytest.mark.parametrize("name", FAMILIES)
def test_the_clock_has_no_say(tmp_path: Path, name: str) -> None:
    path = folder(tmp_path, name)
    one, same, other = (
        Codec(path, SYSTEM, replace(USE, date=day)) for day in ("2026-03-01", "2026-03-01", "2027-08-09")
    )
    assert one.frame == same.frame
    assert (one.frame != other.frame) is (name in {"llama3", "gpt-oss"})


@pytest.mark.parametrize("name", ["llama3", "gpt-oss"])
def test_a_template_that_asks_for_the_date_is_refused_without_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="asks for the date"):
        Codec(folder(tmp_path, name), SYSTEM)


def test_the_runs_date_stands_in_the_prompt(tmp_path: Path) -> None:
    path = folder(tmp_path, "llama3")
    assert "Today: 01 Mar 2026\n" in shown(path, Codec(path, SYSTEM, USE))[0]


def test_a3_thinking_is_switched_in_one_place(tmp_path: Path) -> None:
    path = folder(tmp_path, "qwen3")
    off = Codec(path, SYSTEM, replace(USE, variables={"enable_thinking": False}))
    assert shown(path, off)[0].endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert off.frame.opens_thought is None


@pytest.mark.parametrize("place", ["chat_template.json", "tokenizer_config.json", "list", "file"])
def test_c5_templates_are_found_wherever_they_lie(tmp_path: Path, place: str) -> None:
    path = folder(tmp_path, "qwen25")
    expected = Codec(path, SYSTEM, USE).frame
    source = (path / "chat_template.jinja").read_text("utf-8")
    (path / "chat_template.jinja").unlink()
    config = json.loads((path / "tokenizer_config.json").read_text("utf-8"))
    use = USE
    if place == "chat_template.json":
        (path / place).write_text(json.dumps({"chat_template": source}))
    elif place == "tokenizer_config.json":
        (path / place).write_text(json.dumps({**config, "chat_template": source}))
    elif place == "list":
        named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": source}]
        (path / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": named}))
    else:
        (tmp_path / "mine.jinja").write_text(source)
        use = replace(USE, file=tmp_path / "mine.jinja")
    assert Codec(path, SYSTEM, use).frame == expected


def test_c5_without_a_template_the_message_says_what_to_do(tmp_path: Path) -> None:
    path = folder(tmp_path, "qwen25")
    (path / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="no chat template") as caught:
        Codec(path, SYSTEM, USE)
    assert str(path) in caught.value.message
    assert "--chat-template FILE" in caught.value.fix


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ raise_exception('not for chat') }}", "not for chat"),
        ("{% for %}", "not valid Jinja"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "does not repeat the user's text once"),
        ("{% include 'secret' %}{{ messages[-1].content }}", "fails"),
        ("{{ messages[-1].content.__class__.__mro__ }}{{ messages[-1].content }}", "fails"),
        ("", "no chat template"),
    ],
)
def test_templates_that_cannot_be_used_say_why(tmp_path: Path, source: str, says: str) -> None:
    path = folder(tmp_path, "qwen25")
    (path / "chat_template.jinja").write_text(source)
    with pytest.raises(ModelError, match=says):
        Codec(path, SYSTEM, USE)


# --- in a run


def plan_for(path: Path, **model: Any) -> Any:
    given: Mapping[str, Any] = {"path": str(path), **model}
    return make_plan(
        read_inputs(
            "Should we cache pages?", protocol="panel", model=None, backend="scripted", seed=1, date="2026-03-01",
            config=None, set_protocol={}, set_model=given, replies=None,
        )
    )  # fmt: skip


REASONING = {"start": "<think>", "end": "</think>", "budget": 64}


def test_a3_a_thought_that_the_template_opens_is_closed_unless_seats_think(tmp_path: Path) -> None:
    path = folder(tmp_path, "deepseek-r1")
    off = plan_for(path).desks.own.thinking
    assert off is not None
    assert (off.budget, off.opened, off.end) == (0, True, "</think>")
    on = plan_for(path, reasoning=REASONING).desks.own.thinking
    assert (on.budget, on.opened) == (64, True)


def test_a3_enable_thinking_follows_the_profile(tmp_path: Path) -> None:
    path = folder(tmp_path, "qwen3")
    off, on = plan_for(path), plan_for(path, reasoning=REASONING)
    tails = [shown(path, plan.desks.own.budget.codec)[0] for plan in (off, on)]
    assert tails[0].endswith("<think>\n\n</think>\n\n")
    assert tails[1].endswith("assistant\n")
    assert on.desks.own.thinking.opened is False


def test_models_that_write_in_channels_answer_in_the_final_one(tmp_path: Path) -> None:
    path = folder(tmp_path, "gpt-oss")
    assert shown(path, plan_for(path).desks.own.budget.codec)[0].endswith(
        "<|start|>assistant<|channel|>final<|message|>"
    )
    thinks = {"start": "<|channel|>analysis<|message|>", "end": "<|end|><|start|>assistant<|channel|>final<|message|>"}
    codec = plan_for(path, reasoning={**thinks, "budget": 64}).desks.own.budget.codec
    assert shown(path, codec)[0].endswith("<|start|>assistant")


def test_a_profile_names_its_template_beside_it_and_a_changed_one_stops_a_resume(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jinja"
    mine.write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<go>")
    before = plan_for(SCRIPTED_MODEL, chat_template=str(mine))
    assert before.profile.chat_template == str(mine)
    mine.write_text(mine.read_text() + "<now>")
    after = plan_for(SCRIPTED_MODEL, chat_template=str(mine))
    assert {name for name in before.fingerprint if before.fingerprint[name] != after.fingerprint[name]} == {
        "chat template"
    }


@pytest.mark.engine
@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in {"llama3", "gpt-oss", "gemma2"}])
def test_ids_equal_transformers_own(tmp_path: Path, name: str) -> None:
    """For the templates that take a system message and no date: token for token."""
    from transformers import PreTrainedTokenizerFast

    family, path = FAMILIES[name], folder(tmp_path, name)
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(path / "tokenizer.json"), bos_token=family.bos, eos_token=family.eos,
        chat_template=(path / "chat_template.jinja").read_text("utf-8"),
    )  # fmt: skip
    codec = Codec(path, SYSTEM, replace(USE, variables={"enable_thinking": False}))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Should we?"}]
    whole = theirs.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=False, enable_thinking=False
    )
    assert codec.prompt(list(codec.frame.head), "Should we?") == whole
