"""Settings: layers and their order, unknown keys, `--set`, and the model profile behind `--model`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local.config import (
    engine_settings,
    merge,
    model_profile,
    parse_set,
    protocol_settings,
    read_yaml,
    validate,
)
from roundtable_local.errors import ConfigError, ModelError, RoundtableError, UsageError
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings
from roundtable_local.settings import EngineSettings, ModelProfile
from roundtable_local.shipped import names, shipped
from tests.helpers import SCRIPTED_MODEL

PROFILE = """
path: models/mine
backend: vllm
window: 4096
tokens_per_character: 0.5
sampling: {temperature: 0.5, top_p: 1.0, top_k: 0, presence_penalty: 0.0, frequency_penalty: 0.0, repetition_penalty: 1.0}
engine: {dtype: bfloat16, nested: {a: 1, b: 2}}
"""
UNREADABLE = ["2026-02-30", "!!int abc", "1" * 5000, "[" * 600]
"""What YAML's reader answers with errors that are not its own."""


def settings(
    config: dict[str, Any] | None = None,
    decision: dict[str, Any] | None = None,
    command_line: dict[str, Any] | None = None,
) -> SupermajoritySettings:
    return protocol_settings(
        "supermajority",
        SupermajoritySettings,
        config=config or {},
        decision=decision or {},
        command_line=command_line or {},
    )


# --- layers


def test_shipped_settings_are_valid_and_frozen() -> None:
    shipped_settings = settings()
    assert shipped_settings.pass_share == Fraction(2, 3)
    assert engine_settings().slug.max_characters == 40
    for frozen, key in ((shipped_settings, "words"), (engine_settings(), "attempts")):
        with pytest.raises(ValueError, match="frozen"):
            setattr(frozen, key, 1)


def test_precedence_is_command_line_decision_config_file_default() -> None:
    layers: tuple[dict[str, Any], ...] = ({"words": 100}, {"words": 200}, {"words": 300})
    assert settings().words == 500
    assert settings(layers[0]).words == 100
    assert settings(layers[0], layers[1]).words == 200
    assert settings(layers[0], layers[1], layers[2]).words == 300
    assert settings(layers[0], None, layers[2]).words == 300


def test_nested_settings_merge_key_by_key() -> None:
    merged = settings(
        {"recommendations": {"least": 2}}, {"recommendations": {"most": 6}}, {"recommendations": {"most": 5}}
    )
    assert merged.recommendations.model_dump() == {"least": 2, "most": 5, "points": 10}


def test_no_layer_changes_what_it_was_given() -> None:
    config, over = {"recommendations": {"least": 2}}, {"recommendations": {"most": 5}}
    settings(config, None, over)
    assert (config, over) == ({"recommendations": {"least": 2}}, {"recommendations": {"most": 5}})


nested = st.recursive(st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8)
mappings = st.dictionaries(st.sampled_from("abc"), nested)


@given(mappings, mappings)
def test_merging_replaces_values_and_merges_mappings(base: Any, over: Any) -> None:
    def check(base: Any, over: Any, merged: Any) -> None:
        assert merged.keys() == base.keys() | over.keys()
        for key, value in merged.items():
            if key in base and key in over and isinstance(base[key], dict) and isinstance(over[key], dict):
                check(base[key], over[key], value)
            else:
                assert value == over.get(key, base.get(key))

    check(base, over, merge(base, over))


# --- unknown keys and wrong values


@pytest.mark.parametrize(
    ("layer", "error"), [("config", ConfigError), ("decision", ConfigError), ("command_line", UsageError)]
)
def test_an_unknown_key_is_an_error_of_its_layer_with_a_suggestion(layer: str, error: type[RoundtableError]) -> None:
    for data, key, like in (
        ({"pass_shar": "1/2"}, "pass_shar", "pass_share"),
        ({"recommendations": {"mosst": 3}}, "recommendations.mosst", "most"),
    ):
        with pytest.raises(error) as caught:
            settings(**{layer: data})
        assert type(caught.value) is error
        assert repr(key) in caught.value.message
        assert caught.value.fix == f"did you mean {like!r}?"


def test_an_unknown_key_unlike_any_other_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        settings({"zzz": 1})
    assert "pass_share" in caught.value.fix
    with pytest.raises(ConfigError) as caught:
        settings({"recommendations": {"zzz": 1}})
    assert "least, most, points" in caught.value.fix


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"words": "many"}, "words"),
        ({"words": 0}, "words"),
        ({"words": None}, "words"),
        ({"pass_share": "2/0"}, "pass_share"),
        ({"pass_share": "3/2"}, "pass_share"),
        ({"pass_share": "two thirds"}, "pass_share"),
        ({"recommendations": 3}, "recommendations"),
        ({"recommendations": {"least": 9, "most": 3}}, "recommendations"),
    ],
)
def test_a_wrong_value_names_its_key_and_layer(data: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings({}, data)
    assert caught.value.message.startswith(f"the decision file's settings: {key}")
    with pytest.raises(UsageError, match=r"^--set: "):
        settings({}, {}, data)


def test_the_layer_at_fault_is_named_even_when_a_later_one_would_mend_it() -> None:
    with pytest.raises(ConfigError, match="the config file"):
        settings({"words": -1}, {}, {"words": 300})


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ConfigError, match="slug"):
        validate(EngineSettings, {}, "engine.yaml", ConfigError)


# --- YAML files


def test_yaml_files_may_be_empty_or_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"")
    assert read_yaml(path) == {}
    path.write_bytes("\ufeffmodel: 모델\r\n".encode())
    assert read_yaml(path) == {"model": "모델"}


@pytest.mark.parametrize(
    "data",
    [
        b"- a\n- b\n",
        b"just text",
        b"a: [1",
        b"a: \xff",
        b"a: 1\n\tb: 2",
        *(f"a: {text}".encode() for text in UNREADABLE),
    ],
    ids=lambda data: repr(data[:12]),
)
def test_a_yaml_file_that_is_no_mapping_is_a_config_error_with_its_path(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"config\.yaml") as caught:
        read_yaml(path)
    assert "\n" not in caught.value.message


def test_a_yaml_file_that_is_not_there_is_a_config_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_yaml(path)


# --- --set


def test_set_values_have_their_yaml_types() -> None:
    protocol, model = parse_set(
        ["words=300", "high_confidence=2.5", "flag=true", "share=2/3", "list=[a, b]", "none=", "text='3'", "eq=a=b",
         "recommendations.most=5", "recommendations.least=2", "model.window=4096", "model.sampling.top_p=0.5"]
    )  # fmt: skip
    assert protocol == {
        "words": 300, "high_confidence": 2.5, "flag": True, "share": "2/3", "list": ["a", "b"], "none": None, "text": "3",
        "eq": "a=b", "recommendations": {"most": 5, "least": 2},
    }  # fmt: skip
    assert model == {"window": 4096, "sampling": {"top_p": 0.5}}


def test_the_last_of_two_equal_keys_wins() -> None:
    assert parse_set(["words=1", "words=2"]) == ({"words": 2}, {})
    assert parse_set([]) == ({}, {})


@pytest.mark.parametrize(
    "assignment", ["words", "=3", "a..b=1", ".a=1", "a.=1", "", "model.=1", "a={", "a=[1", "a=b: c: d"]
)
def test_what_is_not_key_equals_value_is_a_usage_error(assignment: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        parse_set([assignment])


@pytest.mark.parametrize("text", UNREADABLE, ids=lambda text: text[:12])
def test_a_value_that_yaml_cannot_read_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        parse_set([f"words={text}"])


@pytest.mark.parametrize(
    "assignments",
    [
        ["recommendations=3", "recommendations.most=5"],
        ["recommendations.most=5", "recommendations=3"],
        ["recommendations.most=5", "recommendations={least: 3}"],
        ["model.sampling=1", "model.sampling.top_p=0.5"],
    ],
)
def test_a_key_cannot_have_a_value_and_parts(assignments: list[str]) -> None:
    """Neither order may drop what the user asked for without a word."""
    with pytest.raises(UsageError, match="either the whole or its parts"):
        parse_set(assignments)


# --- model profiles


@pytest.mark.parametrize("name", [name for name in names("configs", "models") if name != "default"])
def test_every_shipped_profile_is_valid_and_has_an_absolute_folder(name: str) -> None:
    profile = model_profile(name, {})
    assert Path(profile.path).is_absolute()
    assert "{" not in profile.path


def test_the_scripted_profile_leads_to_the_package() -> None:
    assert Path(model_profile("scripted", {}).path) == SCRIPTED_MODEL


def test_a_folder_runs_with_the_default_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = read_yaml(shipped("configs") / "models" / "default.yaml")
    (tmp_path / "org" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for argument in (str(tmp_path / "org" / "model"), "org/model", "./org/model"):
        profile = model_profile(argument, {})
        assert profile.path == str(tmp_path / "org" / "model")
        assert (profile.window, profile.backend) == (default["window"], "vllm")


def test_a_profile_file_names_its_folder_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(PROFILE, "utf-8")
    profile = model_profile(str(tmp_path / "mine.yaml"), {})
    assert profile.path == str(tmp_path / "models" / "mine")
    assert profile.engine == {"dtype": "bfloat16", "nested": {"a": 1, "b": 2}}


def test_overrides_merge_into_the_profile(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(PROFILE, "utf-8")
    overrides = {"window": 2048, "sampling": {"temperature": 0}, "engine": {"nested": {"b": 3}, "seed": 1}}
    profile = model_profile(str(tmp_path / "mine.yml"), overrides)
    assert (profile.window, profile.sampling.temperature, profile.sampling.top_p) == (2048, 0, 1.0)
    assert profile.engine == {"dtype": "bfloat16", "nested": {"a": 1, "b": 3}, "seed": 1}


@pytest.mark.parametrize(
    ("overrides", "fix"),
    [
        ({"windw": 4096}, "did you mean 'window'?"),
        ({"sampling": {"top": 1}}, "did you mean 'top_p'?"),
        ({"window": 3}, ""),
    ],
)
def test_c8_a_wrong_override_is_a_usage_error(overrides: dict[str, Any], fix: str) -> None:
    with pytest.raises(UsageError, match=r"^--set: ") as caught:
        model_profile("scripted", overrides)
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    "change",
    [
        ("window: 4096", "windows: 4096"),
        ("backend: vllm", "backend: cloud"),
        ("top_p: 1.0, ", ""),
        ("window: 4096", ""),
    ],
)
def test_c8_a_profile_with_unknown_missing_or_wrong_values_is_a_config_error(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    """All sampling values have to be set: none is taken from the model's own configuration."""
    (tmp_path / "mine.yaml").write_text(PROFILE.replace(*change), "utf-8")
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        model_profile(str(tmp_path / "mine.yaml"), {})


@pytest.mark.parametrize("argument", ["HuggingFaceTB/SmolLM2-135M-Instruct", "org/name", "org/name-GGUF"])
def test_g2_hub_names_are_refused(argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="nothing is downloaded") as caught:
        model_profile(argument, {})
    assert "tiny-cpu" in caught.value.fix


@pytest.mark.parametrize(
    "argument", ["default", "nope", "./nope", "../a/b", "~/no-such-model", "nope.yaml", "/no/such/dir"]
)
def test_other_models_that_are_not_there_are_a_usage_error(
    argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no model") as caught:
        model_profile(argument, {})
    assert "default" not in caught.value.fix.split(", ")


@pytest.mark.parametrize("argument", ["x" * 300, "a/" * 3000, "~no-such-user/model"])
def test_paths_that_no_file_system_has_are_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError, match="no model"):
        model_profile(argument, {})


@pytest.mark.parametrize("there", [True, False])
def test_f9_gguf_files_are_refused_with_the_way_out(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "Model-Q4.GGUF"
    if there:
        path.write_bytes(b"GGUF")
    for argument in (str(path), "org/model.gguf"):
        with pytest.raises(ModelError, match="GGUF") as caught:
            model_profile(argument, {})
        assert "safetensors" in caught.value.fix


def test_a_profile_holds_nothing_but_its_keys() -> None:
    assert ModelProfile.model_config["extra"] == "forbid"
    assert ModelProfile.model_config["frozen"] is True
