"""The real engine in a child: adapters in one batch, strict repeatability, thoughts before answers (E4, E5, A1)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roundtable_local.backends.base import Generation, Request, Sampling, Use
from roundtable_local.backends.fleet import Crew, Fleet
from roundtable_local.config import model_profile
from roundtable_local.prompts import render
from roundtable_local.tokens import Codec
from tests.helpers import ignore, never

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parent.parent
WINDOW = 2048
PROFILE: dict[str, Any] = {"window": WINDOW, "engine": {"max_num_batched_tokens": WINDOW}}
TOKENS = 24


def crew(*adapters: Path) -> Crew:
    use = Use(deterministic=True, adapters=tuple(str(each) for each in adapters))
    return Crew("vllm", model_profile("tiny-cpu", PROFILE), WINDOW, None, use)


def adapter(folder: Path, seed: int) -> Path:
    """A LoRA adapter for the tiny model with random weights, large enough to change what it says."""
    import torch
    from safetensors.torch import save_file

    config = json.loads((Path(model_profile("tiny-cpu", {}).path) / "config.json").read_text("utf-8"))
    hidden, rank = config["hidden_size"], 4
    dice = torch.Generator().manual_seed(seed)
    weights = {}
    for layer in range(config["num_hidden_layers"]):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        weights[f"{name}.lora_A.weight"] = torch.randn(rank, hidden, generator=dice)
        weights[f"{name}.lora_B.weight"] = torch.randn(hidden, rank, generator=dice)
    folder.mkdir()
    save_file(weights, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank, "target_modules": ["q_proj"],
                "lora_dropout": 0.0, "bias": "none", "base_model_name_or_path": "tiny"}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


def requests(adapters: list[Path | None]) -> list[Request]:
    """Prompts with one shared beginning, one per seat."""
    codec = Codec(Path(model_profile("tiny-cpu", {}).path), render("system.j2").text)
    head = list(codec.frame.head) + list(codec.encode("The order system is one application. " * 20))
    sampling = Sampling(0.8, 0.95, 0, 0.0, 0.3, 1.0)
    return [
        Request(
            f"t/{number}/1", codec.prompt(head, f"Seat {number}: say what to do."), TOKENS, sampling, number,
            adapter=None if each is None else str(each),
        )
        for number, each in enumerate(adapters)
    ]  # fmt: skip


def said(fleet: Fleet, asked: list[Request]) -> list[str]:
    generations: list[Generation] = fleet.generate(asked, ignore, never)
    assert all(generation.finish_reason in {"stop", "length"} for generation in generations)
    return [generation.text for generation in generations]


@pytest.fixture(name="bare", scope="module")
def _bare() -> Iterator[tuple[dict[str, list[str]], dict[str, Any]]]:
    """What the model says without adapters: cold, warm, and each seat alone."""
    fleet = Fleet({"": crew()})
    asked = requests([None, None, None])
    found = {"cold": said(fleet, asked), "warm": said(fleet, asked)}
    found["solo"] = [said(fleet, [request])[0] for request in asked]
    described = dict(fleet.describe())
    fleet.close()
    yield found, described


def test_e4_e5_strict_replies_depend_on_neither_batch_nor_cache(
    bare: tuple[dict[str, list[str]], dict[str, Any]],
) -> None:
    found, described = bare
    assert found["cold"] == found["warm"] == found["solo"]
    assert len(set(found["cold"])) > 1
    in_force = described["engines"][""]["deterministic"]
    assert in_force == {
        "device": "cpu", "dtype": "float32", "batch_invariant_kernels": False, "prefix_cache": True, "holds": True,
    }  # fmt: skip
    assert described["engines"][""]["options"]["dtype"] == "float32"


def test_a_seat_without_adapter_never_gets_anothers(
    bare: tuple[dict[str, list[str]], dict[str, Any]], tmp_path: Path
) -> None:
    one, two = adapter(tmp_path / "one", 1), adapter(tmp_path / "two", 2)
    fleet = Fleet({"": crew(one, two)})
    try:
        mixed = said(fleet, [*requests([None, None, None]), *requests([one, one, one]), *requests([two, two, two])])
    finally:
        fleet.close()
    assert mixed[:3] == bare[0]["cold"]
    assert mixed[3] != mixed[0] != mixed[6]
    assert mixed[3:6] != mixed[6:9]


def test_a_broken_adapter_is_refused_at_the_start(tmp_path: Path) -> None:
    from roundtable_local.errors import RoundtableError

    broken = adapter(tmp_path / "broken", 3)
    (broken / "adapter_model.safetensors").write_bytes(b"not weights")
    with pytest.raises(RoundtableError, match="broken cannot be loaded"):
        Fleet({"": crew(broken)})


def test_a1_g1_a_seat_thinks_before_it_votes_with_nothing_but_loopback(tmp_path: Path) -> None:
    profile = tmp_path / "thinking.yaml"
    text = (ROOT / "configs" / "models" / "tiny-cpu.yaml").read_text("utf-8")
    profile.write_text(text + 'reasoning: {start: "<think>", end: "</think>", budget: 48}\n', "utf-8")
    sealed = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("ip") is None or subprocess.run([*sealed, "true"], capture_output=True, check=False).returncode:
        sealed = []  # this machine does not let a process have a network of its own
    command = [*sealed, sys.executable, "-m", "roundtable_local", "run", "Shall we cache pages for an hour?"]
    options = ["--protocol", "panel", "--model", str(profile), "--set", "votes=1", "--set", "escalation=return"]
    done = subprocess.run(
        [*command, *options, "--out", str(tmp_path / "out")],
        capture_output=True, text=True, encoding="utf-8", check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode in {0, 3}, done.stderr
    (path,) = (tmp_path / "out").iterdir()
    events = [json.loads(line) for line in (path / "journal.jsonl").read_text("utf-8").splitlines()]
    thoughts = [event for event in events if event["event"] == "reply" and event["turn"] == "vote1/thought"]
    assert len(thoughts) == 2
    for event in events:
        if event["event"] == "reply" and event["turn"] == "vote1":
            assert json.loads(event["text"])["verdict"] in {"accept", "revise", "reject"}
    assert "could think for up to 48 tokens" in (path / "REPORT.md").read_text("utf-8")
