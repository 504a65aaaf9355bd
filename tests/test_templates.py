"""Chat templates of current model families, by minimal ones of ours with the same quirks (C1, C2, C3, C4, C5, A3)."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from roundtable_local.config import engine_settings
from roundtable_local.errors import ConfigError, ModelError
from roundtable_local.inputs import read_inputs
from roundtable_local.plan import make_plan
from roundtable_local.steps import Block
from roundtable_local.templates import TemplateUse
from roundtable_local.tokens import Codec
from tests.helpers import SCRIPTED_MODEL, write_folder

FIXTURES = Path(__file__).parent / "fixtures" / "templates"
SYSTEM = "You sit at a table.\nAnswer in JSON."
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
    rstrip: bool = False  # control tokens that swallow the white space after them


IM = ("<|im_start|>", "<|im_end|>")
TURN = ("<start_of_turn>", "<end_of_turn>")
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
THINK = ("<think>", "</think>")
FAMILIES = {
    "llama3": Family(("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
                     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|begin_of_text|>", adds_bos=True),
    "qwen25": Family(IM, "<|im_end|>\n<|im_start|>assistant\n"),
    "qwen3": Family(IM, "<|im_end|>\n<|im_start|>assistant\n", plain=THINK),
    "mistral": Family(("<s>", "</s>", "[INST]", "[/INST]"), "[/INST]", "<s>", adds_bos=True, eos="</s>"),
    "gemma2": Family(("<bos>", *TURN), "<end_of_turn>\n<start_of_turn>model\n", "<bos>", adds_bos=True, folded=True),
    "gemma3": Family(("<bos>", *TURN), "<end_of_turn>\n<start_of_turn>model\n", "<bos>", adds_bos=True),
    "phi": Family(ROLES, "<|end|><|assistant|>", rstrip=True),
    "deepseek-r1": Family(("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
                          "<｜Assistant｜><think>\n", "<｜begin▁of▁sentence｜>", adds_bos=True, opens=THINK, plain=THINK),
    "gpt-oss": Family(("<|start|>", "<|message|>", "<|end|>", "<|channel|>", "<|return|>"),
                      "<|end|><|start|>assistant<|channel|>final<|message|>"),
    "smol": Family(IM, "<|im_end|>\n<|im_start|>assistant\n"),
    "parts": Family(("<s>", "<image>", *ROLES), "<|end|><|assistant|>", "<s>", adds_bos=True),
    "trims": Family(("<s>", *ROLES), "<|end|><|assistant|>", "<s>", adds_bos=True),
    "doubles": Family(("<s>", *ROLES), "<|end|><|assistant|>", "<s>"),
    "offers": Family(("<s>", *ROLES), "<|end|><|assistant|>", "<s>"),
    "twice": Family(("<s>", *ROLES), "<|end|><|assistant|>", "<s>", folded=True),
}  # fmt: skip
DATED = ("llama3", "gpt-oss", "offers")


@cache
def tokenizer(family: Family) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["we weigh the decision"], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    names = dict.fromkeys((*family.special, family.eos))
    made.add_special_tokens([AddedToken(text, special=True, normalized=False, rstrip=family.rstrip) for text in names])
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
    assert all(text.count(line) == 1 and text.index(line) < text.index("PROBLEM") for line in SYSTEM.splitlines())
    assert text.count("PROBLEM:\nShould we?\n\nYOUR SEAT: x") == 1
    assert text.endswith(family.ends)
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
    assert (one.frame != other.frame) is (name in DATED)


@pytest.mark.parametrize("name", DATED)
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


def with_template(path: Path, source: str, name: str = "twice") -> Path:
    """A folder whose tokenizer knows the roles, with another template."""
    made = folder(path, name)
    (made / "chat_template.jinja").write_text(source, "utf-8")
    return made


PLAIN = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
DATED_RULES = "{% if messages[0].role == 'system' %}{{ strftime_now('%Y') }}{% endif %}"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ raise_exception('not for chat') }}", "fails: not for chat"),
        ("{{ raise_exception('one\\ntwo') }}", "fails: one two"),
        ("\n\n{% for %}", "is not valid Jinja: line 3: Expected"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "does not repeat the user's text once"),
        ("The same for everyone.", "does not repeat the user's text once"),
        (PLAIN.replace("m.content", "m.content | replace('You', 'Thou')"), "does not repeat the system message once"),
        ("{% include 'secret' %}" + PLAIN, "it loads the file 'secret'"),
        ("{% include 'secret' ignore missing %}" + PLAIN, "it loads the file 'secret'"),
        ("{% extends 'secret' %}", "it loads the file 'secret'"),
        ("{% import 'secret' as s %}" + PLAIN, "it loads the file 'secret'"),
        (DATED_RULES + PLAIN, "asks for the date"),  # and is not tried again without a system message
        ("{{ messages[-1].content.__class__.__mro__ }}" + PLAIN, "fails: access to attribute '__class__'"),
        ("{% set _ = messages.append({}) %}" + PLAIN, "fails: access to attribute 'append'"),
        ("{{ lipsum() }}" + PLAIN, "fails: 'lipsum' is undefined"),  # nothing of a prompt may be random
        ("{{ [1, 2] | random }}" + PLAIN, "is not valid Jinja: line 1: No filter named 'random'"),
        ("", "no chat template"),
    ],
)
def test_c5_templates_that_cannot_be_used_say_why_in_one_line(tmp_path: Path, source: str, says: str) -> None:
    path = with_template(tmp_path, source)
    with pytest.raises(ModelError) as caught:
        Codec(path, SYSTEM)
    assert says in caught.value.message
    assert str(path) in caught.value.message
    assert len(str(caught.value).splitlines()) == 1
    assert "--chat-template FILE" in caught.value.fix


def test_c5_a_template_of_ones_own_is_named_when_it_fails(tmp_path: Path) -> None:
    path = folder(tmp_path, "qwen25")
    mine = tmp_path / "mine.jinja"
    for source in (" ", "{% for %}", "{{ raise_exception('no') }}", "nothing"):
        mine.write_text(source)
        with pytest.raises(ModelError, match=re.escape(str(mine))):
            Codec(path, SYSTEM, replace(USE, file=mine))
    mine.unlink()
    with pytest.raises(ModelError, match=re.escape(str(mine))):
        Codec(path, SYSTEM, replace(USE, file=mine))


@pytest.mark.parametrize("name", ["messages", "tools", "documents", "add_generation_prompt"])
def test_variables_may_not_replace_what_the_engine_sets(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"template_variables may not set {name}"):
        Codec(folder(tmp_path, "qwen25"), SYSTEM, replace(USE, variables={name: []}))


# --- one BOS, whatever template and tokenizer do


@pytest.mark.parametrize("adds_bos", [True, False])
@pytest.mark.parametrize(
    "start",
    ["{{ bos_token }}", "<s>", "{{ bos_token }}{{ bos_token }}", "{{ '\\n' + bos_token }}", "\n  {{ bos_token }}"],
)
def test_c3_a_bos_of_the_template_is_the_only_one(tmp_path: Path, start: str, adds_bos: bool) -> None:
    """White space before it does not hide it."""
    path = with_template(tmp_path, start + PLAIN, "parts" if adds_bos else "twice")
    _, ids = shown(path, Codec(path, SYSTEM))
    assert ids.count(Tokenizer.from_file(str(path / "tokenizer.json")).token_to_id("<s>")) == 1


# --- what transformers gives to templates


def test_templates_get_what_transformers_gives_them(tmp_path: Path) -> None:
    """tojson with transformers' arguments, scopes of {% generation %}, loop controls, tools and documents that are none."""
    path = folder(tmp_path, "offers")
    text, _ = shown(path, Codec(path, SYSTEM, USE))
    data = {"b": "<ä&>", "a": [1]}
    forms = [{"ensure_ascii": False}, {}, {"ensure_ascii": False, "indent": 1, "sort_keys": True}]
    values = [json.dumps(data, **form) for form in forms]
    assert text.startswith("<s>" + "/".join([*values, "21", "2", "True", "01.03.26<|system|>You sit"]))


def test_templates_get_the_profile_s_variables(tmp_path: Path) -> None:
    path = folder(tmp_path, "llama3")
    codec = Codec(path, SYSTEM, TemplateUse(variables={"date_string": "a day in May"}))
    assert "Today: a day in May\n" in shown(path, codec)[0]


def test_a_file_may_be_json_and_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = folder(tmp_path, "qwen25")
    source = (path / "chat_template.jinja").read_text("utf-8")
    expected = Codec(path, SYSTEM, USE).frame
    named = [{"name": "default", "template": source}]
    for file, text in {"a.json": json.dumps({"chat_template": source}), "b.json": json.dumps({"chat_template": named}),
                       "c.jinja": f"\ufeff{source}"}.items():  # fmt: skip
        (tmp_path / file).write_text(text, "utf-8")
        assert Codec(path, SYSTEM, replace(USE, file=tmp_path / file)).frame == expected, file


# --- thoughts left open


@pytest.mark.parametrize(
    ("end", "opened"),
    [
        ("<|assistant|><think>\n", THINK),
        ("<|assistant|><think>", THINK),
        ("<|assistant|><think>\nOkay, ", THINK),
        ("<|assistant|>[THINK]", ("[THINK]", "[/THINK]")),
        ("<|assistant|><think></think><thinking>", ("<thinking>", "</thinking>")),
        ("<|assistant|><thinking><think>", THINK),
        ("<|assistant|><think><thinking>", ("<thinking>", "</thinking>")),
        ("<|assistant|><seed:think>", ("<seed:think>", "</seed:think>")),
        ("<|assistant|>", None),
        ("<|assistant|><think>\n\n</think>\n\n", None),
        ("<|assistant|></think>", None),
        (" Begin with <think>.<|end|><|assistant|>", None),  # told to the model, not opened
    ],
)
def test_a3_the_frame_says_which_thought_is_left_open(tmp_path: Path, end: str, opened: tuple[str, str] | None) -> None:
    path = with_template(tmp_path, "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}" + end)
    assert Codec(path, SYSTEM, USE).frame.opens_thought == opened
    assert Codec(path, SYSTEM).frame.opens_thought is None


@cache
def codecs() -> dict[str, Codec]:
    with tempfile.TemporaryDirectory() as place:
        return {name: Codec(folder(Path(place), name), SYSTEM, USE) for name in FAMILIES}


@given(st.sampled_from(sorted(FAMILIES)), st.data())
def test_c4_no_text_changes_the_control_tokens_of_a_prompt(name: str, data: st.DataObject) -> None:
    family, codec = FAMILIES[name], codecs()[name]
    marks = st.sampled_from([*family.special, *family.plain, family.eos])
    text = "".join(data.draw(st.lists(marks | st.text(max_size=5) | st.sampled_from("<|>[]/\n "), max_size=8)))
    ids = codec.prompt(codec.context([Block("PROBLEM", text, "decision")]), text)
    frame = [*codec.frame.head, *codec.frame.tail]
    assert [token for token in ids if token in codec.control_ids] == [
        token for token in frame if token in codec.control_ids
    ]


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


class Clock(datetime):
    """The clock that transformers asks, standing still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Clock:
        return cls.fromisoformat(USE.date)


def messages_for(name: str, text: str) -> list[dict[str, Any]]:
    turns = [("system", SYSTEM), ("user", text)]
    if FAMILIES[name].folded:
        turns = [("user", f"{SYSTEM}\n\n{text}")]
    return [
        {"role": role, "content": [{"type": "text", "text": each}] if name == "parts" else each} for role, each in turns
    ]


@pytest.mark.engine
@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_ids_equal_transformers_own(tmp_path: Path, name: str, thinks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Token for token, the date and the switch included; a BOS is ours to add where only the tokenizer has one (C3)."""
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import chat_template_utils

    monkeypatch.setattr(chat_template_utils, "datetime", Clock)
    family, path = FAMILIES[name], folder(tmp_path, name)
    theirs = PreTrainedTokenizerFast.from_pretrained(path)
    whole = theirs.apply_chat_template(
        messages_for(name, "Should we?"),
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        enable_thinking=thinks,
    )
    codec = Codec(path, SYSTEM, replace(USE, variables={"enable_thinking": thinks}, answer_openings={}))
    bos = [theirs.bos_token_id] if name == "trims" else []
    assert codec.prompt(list(codec.frame.head), "Should we?") == [*bos, *whole]
    assert (whole[0] == theirs.bos_token_id) is (family.bos is not None and not bos)
