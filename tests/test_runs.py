"""Whole runs on the scripted backend: loss, re-asking, resuming, repeatability (A-g6, J3, J4, B1, B2, H1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roundtable_local import execute
from roundtable_local.audience import Human, Silent
from roundtable_local.backends.base import Backend, Generation, OnDone, Request, Stop
from roundtable_local.backends.scripted import ScriptedBackend
from roundtable_local.errors import InterruptedRunError, JournalError, ReplyLostError, WindowError
from roundtable_local.inputs import read_inputs
from roundtable_local.plan import Plan, make_plan
from roundtable_local.steps import Outcome

ROOT = Path(__file__).resolve().parent.parent
DECISION = ROOT / "examples" / "modular-monolith.md"
REFERENCE = Path(__file__).parent / "golden" / "supermajority" / "prompts.json"


def plan_for(decision: str | Path = DECISION, *, seed: int = 1, model: Mapping[str, Any] | None = None) -> Plan:
    return make_plan(
        read_inputs(
            str(decision), protocol=None, model=None, backend="scripted", seed=seed, date="2026-03-01", config=None,
            set_protocol={}, set_model=model or {}, replies=None,
        )
    )  # fmt: skip


def run(plan: Plan, root: Path, backend: Backend | None = None, stop: Stop = lambda: False) -> tuple[Path, Outcome]:
    made = backend or ScriptedBackend()
    return execute.run(plan, root, Human(), Silent(), stop, lambda _: made)


def resume(path: Path, backend: Backend) -> Outcome:
    return execute.resume(path, Human(), Silent(), lambda: False, lambda _: backend)[1]


def tree(path: Path) -> dict[str, bytes]:
    """All files of a run directory but those that hold times."""
    files = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    return {
        name: file.read_bytes()
        for name, file in files.items()
        if name not in {"journal.jsonl", "run.json", "metrics.json"}
    }


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "journal.jsonl").read_text("utf-8").splitlines()]
    return [line for line in lines if line["event"] == kind]


def prompts(path: Path) -> dict[str, str]:
    return {f"{each['turn']}/{each['ask']}/{each['attempt']}": each["prompt_sha256"] for each in events(path, "reply")}


class Dying(ScriptedBackend):
    """Dies, as a killed process would, when it is about to give reply number `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        def counted(index: int, generation: Generation) -> None:
            if self.left == 0:
                raise SystemExit("killed")
            self.left -= 1
            on_done(index, generation)

        return super().generate(requests, counted, stop)


def test_same_seed_and_date_give_identical_trees(tmp_path: Path) -> None:
    (one, _), (two, _) = (run(plan_for(), tmp_path / name) for name in ("one", "two"))
    assert tree(one) == tree(two)
    assert prompts(one) == prompts(two)


def test_another_seed_gives_other_replies(tmp_path: Path) -> None:
    (one, _), (two, _) = (run(plan_for(seed=seed), tmp_path / str(seed)) for seed in (1, 2))
    assert tree(one)["REPORT.md"] != tree(two)["REPORT.md"]


def test_rendering_again_from_the_journal_gives_identical_bytes(tmp_path: Path) -> None:
    path, _ = run(plan_for(), tmp_path / "runs")
    again = tmp_path / "again"
    again.mkdir()
    execute.render_again(path, again)
    assert tree(again) == tree(path)
    assert execute.verify(path) == []


def test_verify_names_an_edited_file(tmp_path: Path) -> None:
    path, _ = run(plan_for(), tmp_path)
    (path / "votes" / "futurist.md").write_text("edited", "utf-8")
    (path / "extra.md").write_text("not ours", "utf-8")
    assert execute.verify(path) == ["extra.md", "votes/futurist.md"]


def test_prompts_equal_the_reference_hashes(tmp_path: Path) -> None:
    """A change of any prompt shows here; write the file anew with scripts/reference_prompts.py and read the diff."""
    path, _ = run(plan_for(), tmp_path)
    assert prompts(path) == json.loads(REFERENCE.read_text("utf-8"))


@pytest.mark.parametrize("at", [0, 1, 9, 10, 13, 20, 21, 25, 30])
def test_a_run_killed_at_any_reply_resumes_to_the_same_tree_j3(tmp_path: Path, at: int) -> None:
    whole, _ = run(plan_for(), tmp_path / "whole")
    with pytest.raises(SystemExit):
        run(plan_for(), tmp_path / "killed", Dying(at))
    (killed,) = (tmp_path / "killed").iterdir()
    backend = ScriptedBackend()
    resume(killed, backend)
    assert tree(killed) == tree(whole)
    generated = [label for call in backend.labels for label in call]
    assert len(generated) == len(events(whole, "reply")) - at  # nothing is generated twice
    assert len(prompts(killed)) == len(events(killed, "reply"))


def test_a_run_killed_after_round_1_does_not_generate_it_again_j3(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        run(plan_for(), tmp_path, Dying(10))
    (path,) = tmp_path.iterdir()
    backend = ScriptedBackend()
    resume(path, backend)
    assert backend.labels[0][0] == "round2/systems-analyst/1"


def test_a_finished_run_resumes_to_nothing_j3(tmp_path: Path) -> None:
    path, outcome = run(plan_for(), tmp_path)
    before, backend = tree(path), ScriptedBackend()
    assert resume(path, backend) == outcome
    assert backend.labels == []
    assert tree(path) == before


def test_a_torn_last_line_is_generated_again_j3(tmp_path: Path) -> None:
    whole, _ = run(plan_for(), tmp_path / "whole")
    with pytest.raises(SystemExit):
        run(plan_for(), tmp_path / "torn", Dying(15))
    (torn,) = (tmp_path / "torn").iterdir()
    journal = torn / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    resume(torn, ScriptedBackend())
    assert tree(torn) == tree(whole)


def test_a_changed_decision_file_is_refused_j4(tmp_path: Path) -> None:
    decision = tmp_path / "decision.md"
    decision.write_text("# Should we?\n\nPerhaps.", "utf-8")
    with pytest.raises(SystemExit):
        run(plan_for(decision), tmp_path / "runs", Dying(12))
    (path,) = (tmp_path / "runs").iterdir()
    decision.write_text("# Should we?\n\nCertainly.", "utf-8")
    with pytest.raises(JournalError, match="decision file"):
        resume(path, ScriptedBackend())


def test_a_changed_prompt_is_refused_j4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        run(plan_for(), tmp_path, Dying(12))
    (path,) = tmp_path.iterdir()
    monkeypatch.setattr("roundtable_local.plan.template_hashes", lambda _: {"changed": "hash"})
    with pytest.raises(JournalError, match="prompt templates"):
        resume(path, ScriptedBackend())


def test_stopping_by_the_user_keeps_what_is_there(tmp_path: Path) -> None:
    asked = iter([False] * 14 + [True] * 100)
    with pytest.raises(InterruptedRunError, match="round2"):
        run(plan_for(), tmp_path, stop=lambda: next(asked))
    (path,) = tmp_path.iterdir()
    assert len(events(path, "reply")) == 14
    whole, _ = run(plan_for(), tmp_path / "whole")
    resume(path, ScriptedBackend())
    assert tree(path) == tree(whole)


BAD = {
    "prose": ("I cannot evaluate this.", "not valid JSON"),
    "empty": ("  ", "the reply was empty"),
    "truncated": ({"text": '{"votes":{"R1":', "finish_reason": "length"}, "cut off"),
    "blanks": ({"text": "{" + "\n" * 5000, "finish_reason": "length"}, "cut off"),
    "off-list": ({"votes": {}}, "required property"),
    "engine": ({"text": "", "finish_reason": "error"}, "engine"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_reply_is_asked_again_once_with_the_reason_b1_b2_h1(tmp_path: Path, fault: str) -> None:
    reply, reason = BAD[fault]
    backend = ScriptedBackend({"vote/futurist/1": reply})
    path, _ = run(plan_for(), tmp_path, backend)
    assert ["vote/futurist/2"] in backend.labels
    assert "**Agents:** 10/10" in (path / "REPORT.md").read_text("utf-8")
    log = (path / "LOG.md").read_text("utf-8")
    assert "vote/futurist: reply 1 asked again:" in log
    assert reason in log


@pytest.mark.parametrize("turn", ["round1", "round2", "vote"])
def test_a_seat_that_fails_twice_leaves_a_nine_seat_debate_a_g6(tmp_path: Path, turn: str) -> None:
    backend = ScriptedBackend({f"{turn}/futurist": "no JSON"})
    path, outcome = run(plan_for(), tmp_path, backend)
    report = (path / "REPORT.md").read_text("utf-8")
    assert "**Agents:** 9/10" in report
    assert "Supermajority: 6/9+" in report
    assert not outcome.needs_human
    assert not (path / "votes" / "futurist.md").exists()


def test_four_lost_seats_need_a_human_a_g7(tmp_path: Path) -> None:
    lost = ("futurist", "pragmatist", "empiricist", "synthesizer")
    backend = ScriptedBackend({f"vote/{slug}": "no JSON" for slug in lost})
    path, outcome = run(plan_for(), tmp_path, backend)
    assert outcome.needs_human
    assert "A human must decide" in (path / "REPORT.md").read_text("utf-8")


def test_a_lost_required_reply_stops_resumably(tmp_path: Path) -> None:
    whole, _ = run(plan_for(), tmp_path / "whole")
    with pytest.raises(ReplyLostError, match="synthesis-R1/moderator"):
        run(plan_for(), tmp_path / "lost", ScriptedBackend({"synthesis-R1/moderator": "no JSON"}))
    (path,) = (tmp_path / "lost").iterdir()
    assert not (path / "REPORT.md").exists()
    resume(path, ScriptedBackend())
    assert (path / "REPORT.md").exists()
    assert execute.verify(path) == []
    assert tree(path).keys() == tree(whole).keys()


def test_an_oversized_prompt_is_refused_before_anything_is_generated_d1(tmp_path: Path) -> None:
    plan = plan_for()
    own = plan.desks.own
    small = replace(own, budget=replace(own.budget, window=1500))
    backend = ScriptedBackend()
    with pytest.raises(WindowError, match=r"round1/systems-analyst needs .* the model's window is 1,500"):
        run(replace(plan, desks=replace(plan.desks, own=small)), tmp_path, backend)
    assert backend.labels == []


def test_metrics_add_up(tmp_path: Path) -> None:
    path, _ = run(plan_for(), tmp_path)
    metrics = json.loads((path / "metrics.json").read_text("utf-8"))
    names = [turn["name"] for turn in metrics["turns"]]
    assert names[:2] == ["round1", "round2"]
    assert "vote" in names
    assert names[-1] == "report"
    assert all(turn["calls"] == 1 for turn in metrics["turns"])
    assert metrics["total"]["asks"] == len(events(path, "reply"))
    assert metrics["total"]["prompt_tokens"] == sum(turn["prompt_tokens"] for turn in metrics["turns"])
    assert metrics["total"]["cached_tokens"] is None  # unknown, never zero (E8)
    assert metrics["total"]["ideal_tokens"] < metrics["total"]["prompt_tokens"] / 3


def test_a_moderator_turn_extends_the_prefix_of_the_one_before(tmp_path: Path) -> None:
    seen: dict[str, Request] = {}

    class Watching(ScriptedBackend):
        def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
            seen.update({request.label: request for request in requests})
            return super().generate(requests, on_done, stop)

    run(plan_for(), tmp_path, Watching())
    one, two = (list(seen[f"synthesis-R{number}/moderator/1"].prompt_ids) for number in (1, 2))
    shared = next(index for index, (left, right) in enumerate(zip(one, two, strict=False)) if left != right)
    assert shared > 0.9 * len(one) - 200


@pytest.mark.parametrize("make", [lambda path: path / "missing", lambda path: path])
def test_what_is_no_run_directory_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(JournalError, match="not a run directory"):
        resume(make(tmp_path), ScriptedBackend())
