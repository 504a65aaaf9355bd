"""The doctor: what a machine has and a model needs, from config.json and headers alone (C5, E3, F1, F2, F3, G3)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from roundtable_local.architecture import read_architecture
from roundtable_local.cli import app
from roundtable_local.config import engine_settings, model_profile
from roundtable_local.doctor import Examination, examine, preflight
from roundtable_local.errors import ModelError
from roundtable_local.machine import look
from tests.helpers import SCRIPTED_MODEL, write_folder

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 4096,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
}  # fmt: skip


def weights(gibibytes: float, dtype: str = "BF16") -> bytes:
    """A safetensors header that claims so many bytes of weights; the weights themselves are not there."""
    header = json.dumps({"w": {"dtype": dtype, "shape": [int(gibibytes * 2**30 / 2)], "data_offsets": [0, 0]}}).encode()
    return struct.pack("<Q", len(header)) + header


def model(path: Path, *, size: float = 1, files: dict[str, Any] | None = None, **config: Any) -> Path:
    shipped = {name: (SCRIPTED_MODEL / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}
    template = (SCRIPTED_MODEL / "chat_template.jinja").read_bytes()
    given = {"config.json": CONFIG | config, "model.safetensors": weights(size), "chat_template.jinja": template}
    return write_folder(path, shipped | given | (files or {}))


def found(folder: Path, environment: dict[str, str] | None = None, **profile: Any) -> Examination:
    settings = model_profile(str(folder), {"window": 8192, **profile})
    return examine(settings, engine_settings(), folder, environment or {}, "2026-03-01")


def text_of(examination: Examination, about: str) -> str:
    return "\n".join(f"{each.level} {each.text} {each.remedy}" for each in examination.findings if each.about == about)


@pytest.fixture(name="gpu")
def _gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver's tool that tells of two GPUs of 24 GiB, one of them half taken."""
    return fake_tool(
        tmp_path, monkeypatch, "echo 'NVIDIA A, 550.1, 24576, 24000'; echo 'NVIDIA A, 550.1, 24576, 12000'"
    )


def fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    return tool


# --- machine


def test_a_machine_without_a_gpu_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    machine = look(tmp_path / "not" / "there" / "yet")
    assert machine.gpus == ()
    assert machine.gpu_problem == ""
    assert machine.memory_free > 0
    assert machine.disk_free > 0
    assert machine.versions["python"]


def test_gpus_are_read_from_the_drivers_tool(gpu: Path, tmp_path: Path) -> None:
    machine = look(tmp_path)
    assert [(each.name, each.driver, each.total, each.free) for each in machine.gpus] == [
        ("NVIDIA A", "550.1", 24576 * 2**20, 24000 * 2**20), ("NVIDIA A", "550.1", 24576 * 2**20, 12000 * 2**20),
    ]  # fmt: skip


@pytest.mark.parametrize("body", ["echo 'no devices' >&2; exit 9", "echo garbage", "echo 'A, B, x, y'"])
def test_a_driver_that_does_not_work_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    fake_tool(tmp_path, monkeypatch, body)
    examination = examine(None, engine_settings(), tmp_path, {}, "2026-03-01")
    assert "problem nvidia-smi" in text_of(examination, "gpu")
    assert not examination.healthy


# --- models


def test_what_a_model_needs_is_read_from_its_headers(tmp_path: Path) -> None:
    made = read_architecture(model(tmp_path / "m", size=3))
    assert (made.name, made.layers, made.heads, made.kv_heads, made.head_size) == ("LlamaForCausalLM", 32, 32, 8, 128)
    assert made.weight_bytes == 3 * 2**30
    assert made.cache_bytes == 2 * 32 * 8 * 128 * 2
    assert made.splits() == (1, 2, 4, 8, 16)


def test_a_model_with_a_nested_text_config_and_no_kv_heads(tmp_path: Path) -> None:
    nested = {"num_hidden_layers": 4, "num_attention_heads": 6, "hidden_size": 96, "head_dim": 32}
    path = write_folder(tmp_path / "m", {"config.json": {"text_config": nested, "torch_dtype": "float32"}})
    made = read_architecture(path)
    assert (made.layers, made.heads, made.kv_heads, made.head_size) == (4, 6, 6, 32)
    assert made.cache_bytes == 2 * 4 * 6 * 32 * 4
    assert made.splits() == (1, 2, 3, 6)


def test_f3_a_split_that_does_not_divide_the_heads_lists_those_that_do(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    examination = found(path, engine={"tensor_parallel_size": 3})
    assert "problem 32 attention heads cannot be split over tensor_parallel_size 3" in text_of(examination, "split")
    assert "1, 2, 4, 8, 16" in text_of(examination, "split")
    with pytest.raises(ModelError, match="cannot be split"):
        preflight(model_profile(str(path), {"engine": {"tensor_parallel_size": 3}}), "vllm", {}, path)


def test_f1_weights_that_do_not_fit_the_gpus_are_refused_with_numbers(gpu: Path, tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=30)
    assert "problem the weights take 30.0 GiB and the GPUs have 21.6 GiB usable" in text_of(found(path), "memory")
    with pytest.raises(ModelError, match=r"30\.0 GiB"):
        preflight(model_profile(str(path), {}), "vllm", {}, path)
    both = {"tensor_parallel_size": 2}
    assert "the GPUs have" not in text_of(found(path, engine=both), "memory")  # 21.6 + 11.7
    preflight(model_profile(str(path), {"engine": both}), "vllm", {}, path)
    preflight(model_profile(str(path), {}), "scripted", {}, path)


def test_f2_the_largest_window_that_fits_is_named(gpu: Path, tmp_path: Path) -> None:
    text = text_of(found(model(tmp_path / "m", size=16), window=131072), "memory")
    fits = int((0.9 * 24576 * 2**20 - 16 * 2**30) / (2 * 32 * 8 * 128 * 2))
    assert f"note 32.0 GiB needed, 21.6 GiB usable; the largest window that fits is {fits:,}" in text


def test_pickles_and_code_of_its_own_are_named(tmp_path: Path) -> None:
    files = {"pytorch_model.bin": b"x", "training_args.bin": b"x"}
    examination = found(model(tmp_path / "m", files=files, auto_map={"AutoModel": "modeling.Model"}))
    assert "pytorch_model.bin" in text_of(examination, "weights")
    assert "training_args.bin" not in text_of(examination, "weights")
    assert "--trust-remote-code" in text_of(examination, "code")


def test_pickles_alone_are_a_problem(tmp_path: Path) -> None:
    path = model(tmp_path / "m", files={"pytorch_model.bin": b"x"})
    (path / "model.safetensors").unlink()
    examination = found(path)
    assert "problem" in text_of(examination, "model")
    assert not examination.healthy


def test_g3_gpt_oss_needs_its_vocabulary(tmp_path: Path) -> None:
    path = model(tmp_path / "m", model_type="gpt_oss")
    assert "problem gpt-oss needs a vocabulary file" in text_of(found(path), "vocabulary")
    assert text_of(found(path, {"TIKTOKEN_ENCODINGS_BASE": "/vocab"}), "vocabulary") == ""


def test_e3_layers_with_a_state_are_noted(tmp_path: Path) -> None:
    assert "may not be shared" in text_of(
        found(model(tmp_path / "m", layer_types=["linear_attention", "full_attention"])), "cache"
    )


def test_adapters_in_the_folder_are_listed(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    write_folder(path / "risk", {"adapter_config.json": {"r": 8}})
    assert "risk" in text_of(found(path), "adapters")


def test_c5_a_missing_template_is_a_problem_with_its_remedy(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    (path / "chat_template.jinja").unlink()
    (path / "tokenizer_config.json").write_text("{}")
    assert "--chat-template FILE" in text_of(found(path), "template")


@pytest.mark.parametrize("broken", [{"config.json": b"{"}, {"model.safetensors": b"xx"}, {"tokenizer.json": b"{}"}])
def test_broken_files_are_problems_never_tracebacks(tmp_path: Path, broken: dict[str, bytes]) -> None:
    assert not found(model(tmp_path / "m", files=broken)).healthy


# --- the commands


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_doctor_prints_findings_and_exits_1_with_a_problem(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    healthy = invoke("doctor", "--model", str(path), "--set", "model.backend=scripted")
    assert healthy.exit_code == 0, healthy.output
    assert "LlamaForCausalLM" in healthy.stdout
    (path / "tokenizer.json").unlink()
    sick = invoke("doctor", "--model", str(path))
    assert sick.exit_code == 1
    assert "fix:" in sick.stdout


def test_doctor_as_json(tmp_path: Path) -> None:
    result = invoke("doctor", "--model", str(model(tmp_path / "m")), "--set", "model.backend=scripted", "--json")
    data = json.loads(result.stdout)
    assert data["healthy"] is True
    assert data["model"]["kv_heads"] == 8
    assert {finding["about"] for finding in data["findings"]} >= {
        "gpu",
        "processor",
        "disk",
        "versions",
        "model",
        "template",
    }


def test_doctor_of_an_unknown_model_is_a_usage_error() -> None:
    assert invoke("doctor", "--model", "org/name").exit_code == 2
