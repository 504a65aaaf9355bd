"""Seats on different models and with adapters: one engine after the other, and what reports say of it (F5, H7)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from roundtable_local import execute
from roundtable_local.audience import Human, Silent
from roundtable_local.backends.adapters import adapter_options, rank_of
from roundtable_local.backends.base import Generation, Request, Use
from roundtable_local.backends.fleet import Crew, Fleet
from roundtable_local.backends.scripted import ScriptedBackend
from roundtable_local.config import model_profile
from roundtable_local.errors import BackendError, ConfigError, ModelError
from roundtable_local.inputs import read_inputs
from roundtable_local.plan import Plan, make_plan
from roundtable_local.steps import Answer
from tests.helpers import SAMPLING, SCRIPTED_MODEL, ignore, never, write_folder

ANSWERED = Human({"escalation": Answer("a")})
QUESTION = "Should we cache pages for an hour?"
PROSE = '{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false}'


@pytest.fixture(name="other")
def _other(tmp_path: Path) -> Path:
    """A second scripted model: another folder, a smaller window."""
    folder = tmp_path / "other-model"
    folder.mkdir()
    for file in SCRIPTED_MODEL.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    profile = yaml.safe_load((Path(__file__).parent.parent / "configs" / "models" / "scripted.yaml").read_text("utf-8"))
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump(profile | {"path": str(folder), "window": 9000}), "utf-8")
    return path


def config(tmp_path: Path, seats: dict[str, dict[str, str]]) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"seats": seats}), "utf-8")
    return path


def plan_for(config_path: Path | None, protocol: str = "panel") -> Plan:
    return make_plan(
        read_inputs(
            QUESTION, protocol=protocol, model=None, backend="scripted", seed=1, date="2026-03-01", config=config_path,
            set_protocol={}, set_model={}, replies=None,
        )
    )  # fmt: skip


class Recording(ScriptedBackend):
    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []

    def generate(self, requests: Any, on_done: Any, stop: Any) -> list[Generation]:
        self.requests += requests
        return super().generate(requests, on_done, stop)


# --- planning


def test_a_seat_names_its_model_in_the_config_file(tmp_path: Path, other: Path) -> None:
    plan = plan_for(config(tmp_path, {"skeptic": {"model": other.name}}))
    assert plan.desks.of("skeptic").profile.path == str(tmp_path / "other-model")
    assert plan.desks.of("arbiter") is plan.desks.own
    assert plan.desks.of("moderator") is plan.desks.own
    budgets = {desk.budget.shrink for desk in plan.desks.all}
    assert len(budgets) == 1  # all are held to what the tightest model allows
    assert plan.desks.own.budget.window != plan.desks.of("skeptic").budget.window


def test_a_model_that_is_the_runs_own_makes_no_second_engine(tmp_path: Path) -> None:
    plan = plan_for(config(tmp_path, {"skeptic": {"model": "scripted"}}))
    assert plan.desks.others == {}


def test_an_unknown_seat_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"names no seat of the table: nobody .*proponent, skeptic, arbiter"):
        plan_for(config(tmp_path, {"nobody": {"model": "scripted"}}))


def test_requests_carry_model_and_adapter_of_their_seat(tmp_path: Path, other: Path) -> None:
    adapter = write_folder(tmp_path / "adapter", {"adapter_config.json": {"r": 8}, "adapter_model.safetensors": b"x"})
    seats = {"skeptic": {"model": other.name}, "arbiter": {"adapter": adapter.name}}
    plan, backend = plan_for(config(tmp_path, seats)), Recording()
    path, _ = execute.run(plan, tmp_path / "out", ANSWERED, Silent(), never, lambda _: backend)
    by_seat = {request.label.split("/")[1]: request for request in backend.requests}
    assert (by_seat["proponent"].model, by_seat["proponent"].adapter) == ("", None)
    assert by_seat["skeptic"].model == str(other)
    assert by_seat["arbiter"].adapter == str(adapter)
    assert execute.verify(path) == []


def test_a_changed_adapter_or_other_model_stops_a_resume(tmp_path: Path, other: Path) -> None:
    adapter = write_folder(tmp_path / "adapter", {"adapter_config.json": {"r": 8}, "adapter_model.safetensors": b"x"})
    path_of = config(tmp_path, {"skeptic": {"model": other.name}, "arbiter": {"adapter": adapter.name}})
    before = plan_for(path_of).fingerprint
    (adapter / "adapter_model.safetensors").write_bytes(b"y")
    (tmp_path / "other-model" / "extra.json").write_text("{}")
    after = plan_for(path_of).fingerprint
    assert {name for name in before if before[name] != after[name]} == {"adapters", "other models"}


# --- the fleet, with scripted engines in real child processes


def crew(path: Path | None = None, *, backend: str = "scripted") -> Crew:
    return Crew(backend, model_profile("scripted", {}), 4096, path, Use())


def request(label: str, model: str) -> Request:
    return Request(label, [1], 100, SAMPLING, 7, PROSE, model=model)


def replies(path: Path, text: str) -> Path:
    path.write_text(json.dumps({f"t/{seat}": {"a": text} for seat in "abcd"}), "utf-8")
    return path


def test_f5_each_model_has_a_process_of_its_own_and_is_gone_before_the_next(tmp_path: Path) -> None:
    fleet = Fleet({"": crew(replies(tmp_path / "x", "x")), "big": crew(replies(tmp_path / "y", "y"))})
    first = fleet._child
    assert first is not None
    done: list[int] = []
    asked = [request("t/a/1", "big"), request("t/b/1", ""), request("t/c/1", "big"), request("t/d/1", "")]
    generations = fleet.generate(asked, lambda index, generation: done.append(index), never)
    assert [json.loads(each.text)["a"] for each in generations] == ["y", "x", "y", "x"]
    assert done == [1, 3, 0, 2]  # the model that is loaded goes first
    assert not first._process.is_alive()
    assert fleet._child is not None
    assert fleet._child.model == "big"
    assert set(fleet.describe()["engines"]) == {"", "big"}
    last = fleet._child
    fleet.close()
    assert not last._process.is_alive()


def test_stop_reaches_the_child(tmp_path: Path) -> None:
    fleet = Fleet({"": crew(replies(tmp_path / "x", "x")), "big": crew()})
    try:
        generations = fleet.generate([request("t/a/1", ""), request("t/b/1", "big")], ignore, lambda: True)
        assert {each.finish_reason for each in generations} == {"abort"}
    finally:
        fleet.close()


def test_an_engine_that_does_not_start_says_why() -> None:
    with pytest.raises(ConfigError, match="cannot be read as a script of replies") as caught:
        Fleet({"": crew(Path("/nowhere")), "big": crew()})
    assert caught.value.fix


def test_f4_a_dead_child_is_reported_and_the_next_call_starts_another(tmp_path: Path) -> None:
    fleet = Fleet({"": crew(replies(tmp_path / "x", "x")), "big": crew()})
    assert fleet._child is not None
    pid = fleet._child._process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(BackendError, match=r"died \(exit code -9\)"):
        fleet.generate([request("t/a/1", "")], ignore, never)
    fleet.close()


def test_f4_children_end_with_their_parent(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.test_desks import crew\n"
        "from roundtable_local.backends.fleet import Fleet\n"
        "if __name__ == '__main__':\n"
        "    fleet = Fleet({'': crew(), 'big': crew()})\n"
        "    print(fleet._child._process.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    root = Path(__file__).resolve().parent.parent
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'engine'}"}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
            if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
                break
            time.sleep(0.05)
        stat = Path(f"/proc/{child}/stat")
        assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_rounds_stay_in_order_on_two_models(tmp_path: Path, other: Path) -> None:
    plan = plan_for(config(tmp_path, {"skeptic": {"model": other.name}}))
    path, outcome = execute.run(plan, tmp_path / "out", ANSWERED, Silent(), never)
    assert outcome.verdict in {"accept", "escalated"}
    turns = [
        json.loads(line)["turn"]
        for line in (path / "journal.jsonl").read_text("utf-8").splitlines()
        if '"event":"call"' in line
    ]
    assert turns[:2] == ["vote1", "vote1-arbiter"]
    record = json.loads((path / "run.json").read_text("utf-8"))
    assert list(record["other_models"]) == [str(other)]
    assert execute.verify(path) == []


# --- adapters


@pytest.mark.parametrize(("rank", "fitting"), [(1, 8), (8, 8), (9, 16), (64, 64), (200, 256)])
def test_there_is_one_slot_more_than_adapters(tmp_path: Path, rank: int, fitting: int) -> None:
    """With as many slots as adapters, requests without one got the last one's weights."""
    files = {"adapter_config.json": {"r": rank}, "adapter_model.safetensors": b"x"}
    folders = [str(write_folder(tmp_path / name, files)) for name in ("a", "b")]
    assert adapter_options(folders) == {"max_loras": 3, "max_lora_rank": fitting}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"adapter_config.json": {"r": 8}},
        {"adapter_model.safetensors": b"x"},
        {"adapter_config.json": {"r": 8}, "adapter_model.bin": b"x"},  # a pickle
        {"adapter_config.json": {}, "adapter_model.safetensors": b"x"},
        {"adapter_config.json": {"r": True}, "adapter_model.safetensors": b"x"},
        {"adapter_config.json": {"r": 0}, "adapter_model.safetensors": b"x"},
        {"adapter_config.json": b"{", "adapter_model.safetensors": b"x"},
    ],
)
def test_what_is_no_adapter_is_refused(tmp_path: Path, files: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        rank_of(write_folder(tmp_path / "adapter", files))


def test_a_rank_without_kernels_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "adapter", {"adapter_config.json": {"r": 1000}, "adapter_model.safetensors": b"x"})
    with pytest.raises(ModelError, match="rank 1000"):
        adapter_options([str(folder)])
