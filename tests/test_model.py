"""Model folders: what is missing or damaged, the window, the number of weights, fingerprints (C5, F9, J4)."""

from __future__ import annotations

import json
import math
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local.errors import ModelError
from roundtable_local.model import read_model
from tests.helpers import SCRIPTED_MODEL, write_folder

CONFIG = {"model_type": "llama", "max_position_embeddings": 8192}


def safetensors(*shapes: tuple[int, ...], body: bytes = b"", **extra: Any) -> bytes:
    tensors = {
        f"t{number}": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, 0]}
        for number, shape in enumerate(shapes)
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors, **extra}).encode()
    return struct.pack("<Q", len(header)) + header + body


def model(folder: Path, **files: Any) -> Path:
    names = {name.replace("__", "."): content for name, content in files.items() if content is not None}
    return write_folder(folder, names)


# --- missing and damaged parts


def test_a_folder_that_is_not_there_is_a_model_error_that_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist") as caught:
        read_model(tmp_path / "none", weights=True)
    assert "make demo" in caught.value.fix


def test_f9_a_file_in_the_folder_s_place_is_not_said_to_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(ModelError) as caught:
        read_model(path, weights=True)
    assert "does not exist" not in caught.value.message


def test_a_folder_without_config_is_refused_only_where_weights_are_needed(tmp_path: Path) -> None:
    path = model(tmp_path, model__safetensors=safetensors((2, 2)))
    with pytest.raises(ModelError, match=r"no config\.json"):
        read_model(path, weights=True)
    assert read_model(path, weights=False).window is None


@pytest.mark.parametrize("other", ["pytorch_model.bin", "model.gguf", "model.safetensors.index.json"])
def test_a_folder_without_safetensors_is_refused_only_where_weights_are_needed(tmp_path: Path, other: str) -> None:
    path = write_folder(tmp_path, {"config.json": CONFIG, other: "x"})
    with pytest.raises(ModelError, match="no safetensors") as caught:
        read_model(path, weights=True)
    assert "safetensors" in caught.value.fix
    assert read_model(path, weights=False).parameters is None


@pytest.mark.parametrize("config", ["", "{", "[]", '"text"', "null", b"\xff\xfe{}"], ids=repr)
@pytest.mark.parametrize("weights", [True, False])
def test_a_config_that_is_no_json_object_is_a_model_error(tmp_path: Path, config: str | bytes, weights: bool) -> None:
    path = model(tmp_path, config__json=config, model__safetensors=safetensors((2, 2)))
    with pytest.raises(ModelError, match=r"config\.json") as caught:
        read_model(path, weights=weights)
    assert "copy" in caught.value.fix


BROKEN = {
    "empty": b"",
    "shorter than its length": b"\x00\x01",
    "cut off": safetensors((2, 2))[:-9],
    "a length beyond the file": struct.pack("<Q", 10**6) + b"{}",
    "a length beyond memory": struct.pack("<Q", 2**64 - 1) + b"{}",
    "not JSON": struct.pack("<Q", 4) + b"what",
    "not UTF-8": struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc",
    "a list": struct.pack("<Q", 2) + b"[]",
    "a tensor that is text": safetensors((2, 2), extra="text"),
    "a tensor without shape": safetensors((2, 2), extra={"dtype": "F32"}),
    "a tensor without a place": safetensors((2, 2), extra={"dtype": "F32", "shape": [2]}),
    "a place before the file": safetensors((2, 2), extra={"dtype": "F32", "shape": [2], "data_offsets": [-8, -4]}),
    "a shape of text": safetensors((2, 2), extra={"dtype": "F32", "shape": ["two"]}),
    "a git-lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 12345\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_weights_file_is_a_model_error_that_names_it(tmp_path: Path, data: bytes) -> None:
    path = model(tmp_path, config__json=CONFIG, model__safetensors=data)
    with pytest.raises(ModelError, match=r"model\.safetensors") as caught:
        read_model(path, weights=True)
    assert "copy" in caught.value.fix


def test_weights_that_are_only_pointers_say_how_to_get_them(tmp_path: Path) -> None:
    path = model(tmp_path, config__json=CONFIG, model__safetensors=BROKEN["a git-lfs pointer"])
    with pytest.raises(ModelError, match="Git LFS pointer") as caught:
        read_model(path, weights=True)
    assert "git lfs pull" in caught.value.fix


@pytest.mark.parametrize("missing", range(3))
def test_weights_that_are_cut_off_or_whole(tmp_path: Path, missing: int) -> None:
    place = {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}
    whole = safetensors((1,), body=bytes(12), last=place)
    path = model(tmp_path, config__json=CONFIG, model__safetensors=whole[: len(whole) - missing])
    if not missing:
        assert read_model(path, weights=True).parameters == 3
        return
    with pytest.raises(ModelError, match=f"is cut off: it has {len(whole) - missing} of {len(whole)} bytes"):
        read_model(path, weights=True)


INDEX = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}


def test_only_the_files_that_the_index_lists_are_the_model_s(tmp_path: Path) -> None:
    files = {
        "config.json": CONFIG,
        "model.safetensors.index.json": INDEX,
        "consolidated.safetensors": safetensors((7,)),
    }
    files |= {f"model-{number}.safetensors": safetensors((number,)) for number in (1, 2)}
    path = write_folder(tmp_path, files)
    assert read_model(path, weights=True).parameters == 3
    (path / "model-1.safetensors").unlink()
    with pytest.raises(ModelError, match=r"lacks 1 of its 2 weight files: model-1\.safetensors"):
        read_model(path, weights=True)


@pytest.mark.parametrize("index", ["", "{}", "[]", {"weight_map": []}, {"weight_map": {"a": 1}}], ids=repr)
def test_an_index_that_is_none_is_a_model_error_that_names_it(tmp_path: Path, index: Any) -> None:
    files = {"config.json": CONFIG, "model.safetensors.index.json": index, "model.safetensors": safetensors((1,))}
    with pytest.raises(ModelError, match=r"index\.json"):
        read_model(write_folder(tmp_path, files), weights=True)


# --- what a good one says


@given(st.lists(st.lists(st.integers(0, 50), max_size=4).map(tuple), max_size=5), st.integers(1, 3))
def test_weights_are_counted_over_all_shards(shapes: list[tuple[int, ...]], shards: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(CONFIG), "utf-8")
        for number in range(shards):
            (folder / f"model-{number}.safetensors").write_bytes(safetensors(*shapes, body=b"\0" * 64))
        assert read_model(folder, weights=True).parameters == shards * sum(math.prod(shape) for shape in shapes)


@pytest.mark.parametrize(
    ("config", "window"),
    [
        (CONFIG, 8192),
        ({"n_positions": 1024}, 1024),
        ({"max_seq_len": 2048}, 2048),
        ({"text_config": {"max_position_embeddings": 4096}, "model_type": "gemma3"}, 4096),
        ({"max_position_embeddings": "8192"}, None),
        ({}, None),
    ],
)
def test_the_window_is_the_model_s_own(tmp_path: Path, config: dict[str, Any], window: int | None) -> None:
    path = model(tmp_path, config__json=config, model__safetensors=safetensors((1,)))
    assert read_model(path, weights=True).window == window


def test_the_scripted_model_needs_neither_config_nor_weights() -> None:
    found = read_model(SCRIPTED_MODEL, weights=False)
    assert found.parameters is None
    assert {"tokenizer.json", "chat_template.jinja"} <= found.files.keys()


def test_j4_a_fingerprint_changes_with_any_file_and_with_nothing_else(tmp_path: Path) -> None:
    files = {"config.json": CONFIG, "model.safetensors": safetensors((1,)), "chat_template.jinja": "x"}
    one = read_model(write_folder(tmp_path / "one", files), weights=True).files
    same = read_model(write_folder(tmp_path / "same", {**files, ".cache": "hidden"}), weights=True).files
    other = read_model(write_folder(tmp_path / "other", {**files, "chat_template.jinja": "y"}), weights=True).files
    more = read_model(write_folder(tmp_path / "more", {**files, "extra.json": "{}"}), weights=True).files
    assert one == same
    assert list(one) == sorted(one)
    assert {name for name in one if one[name] != other[name]} == {"chat_template.jinja"}
    assert more.keys() - one.keys() == {"extra.json"}
