"""Models that think first: one splitter for thoughts, and two calls per turn (A1, A3, A4, A6, A7)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local import execute
from roundtable_local.audience import Human, Silent
from roundtable_local.backends.base import Request
from roundtable_local.backends.scripted import ScriptedBackend
from roundtable_local.inputs import read_inputs
from roundtable_local.plan import Plan, make_plan
from roundtable_local.reasoning import Thinking, split
from tests.helpers import scripted_codec

QUESTION = "Should we use microservices or a monolith?"
THINK = {"reasoning": {"start": "<think>", "end": "</think>", "budget": 64}}
LOST = {"text": "it goes on and", "finish_reason": "length"}


@pytest.mark.parametrize(
    ("text", "thought", "answer", "closed"),
    [
        ("<think>a</think>b", "a", "b", True),
        ("a</think>b", "a", "b", True),  # lone closing tag
        ("<think>a", "a", "", False),  # lone opening tag: cut off
        ("x <think>a", "a", "x", False),
        ("x <think>a</think> y", "a", "x y", True),
        ("<THINK>a</Think>b", "a", "b", True),
        ("<think>a<think>b</think>c</think>d", "a b c", "d", True),  # nested
        ("<think>a<think>b</think>c", "a b c", "", False),
        ("<think>a</think>b<think>c</think>d", "a c", "b d", True),
        ("a</think>b</think>c", "a b", "c", True),
        ("write `<think>` first", "", "write `<think>` first", True),  # quoted as code
        ("``</think>`` stays", "", "``</think>`` stays", True),
        ("", "", "", True),
        ("<think></think>", "", "", True),
        ("no tags", "", "no tags", True),
    ],
)
def test_a7_one_splitter(text: str, thought: str, answer: str, closed: bool) -> None:
    found = split(text, "<think>", "</think>")
    assert (found.thought, found.answer, found.closed) == (thought, answer, closed)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "</THINK>", "a", " b", "<", "think>", "/"]), max_size=12).map(
        "".join
    )
)
def test_a7_no_tag_leaks_and_no_word_is_lost(text: str) -> None:
    found = split(text, "<think>", "</think>")
    assert not re.search("</?think>", found.answer + " " + found.thought, re.IGNORECASE)
    plain = re.sub("</?think>", "", text, flags=re.IGNORECASE)
    assert sorted((found.thought + found.answer).replace(" ", "")) == sorted(plain.replace(" ", ""))
    assert split(found.answer, "<think>", "</think>").answer == found.answer


def test_tags_of_other_models_are_taken_literally() -> None:
    found = split("[THINK]a.b[/THINK]c", "[THINK]", "[/THINK]")
    assert (found.thought, found.answer) == ("a.b", "c")


# --- what a thought does to the prompt


def thinking(*, budget: int = 64, opened: bool = False) -> Thinking:
    return Thinking("<think>", "</think>", budget, opened, scripted_codec())


def test_the_answer_extends_the_prompt_by_the_closed_thought() -> None:
    codec, mind = scripted_codec(), thinking()
    ids = mind.extended([1, 2, 3], "we weigh it")
    assert ids == (1, 2, 3, *codec.literal("<think>\n"), *codec.encode("we weigh it"), *codec.literal("\n</think>\n\n"))
    assert len(ids) - 3 <= mind.tokens


def test_a3_a_thought_that_the_template_opens_is_not_opened_twice() -> None:
    mind = thinking(opened=True)
    assert mind.opening == ()
    assert mind.extended([1], "") == (1, *scripted_codec().literal("\n</think>\n\n"))


@pytest.mark.parametrize(
    ("generated", "finished", "thought"),
    [
        ("a thought</think>", True, "a thought"),
        ("a thought</THINK> and an answer", False, "a thought"),
        ("a thought", True, "a thought"),  # ended without a tag
        ("a thought", False, None),  # A4: half a thought is no answer
        ("a <think> nested</think> one", False, None),
        ("", True, ""),
    ],
)
def test_a4_half_a_thought_is_none(generated: str, finished: bool, thought: str | None) -> None:
    assert thinking().read(generated, finished) == thought


# --- whole runs


class Recording(ScriptedBackend):
    """Keeps its requests."""

    def __init__(self, script: dict[str, Any] | None = None) -> None:
        super().__init__(script)
        self.requests: dict[str, Request] = {}

    def generate(self, requests: Any, on_done: Any, stop: Any) -> Any:
        self.requests |= {request.label: request for request in requests}
        return super().generate(requests, on_done, stop)


def plan_for(model: dict[str, Any], protocol: str = "panel") -> Plan:
    return make_plan(
        read_inputs(
            QUESTION, protocol=protocol, model=None, backend="scripted", seed=1, date="2026-03-01", config=None,
            set_protocol={}, set_model=model, replies=None,
        )
    )  # fmt: skip


def run(plan: Plan, out: Path, backend: ScriptedBackend) -> Path:
    return execute.run(plan, out, Human(yes=True), Silent(), lambda: False, lambda _: backend)[0]


def accept(seat: str) -> dict[str, Any]:
    texts = {"proponent": {"points": [{"point": "it is simple", "evidence": "one line"}]}, "skeptic": {"concerns": []},
             "arbiter": {"load_bearing": ["it is simple"]}}  # fmt: skip
    return texts[seat] | {"outcome": "one deployable", "reason": "it is simple", "verdict": "accept"}


SCRIPT = {
    "vote1/proponent": accept("proponent"),
    "vote1/skeptic": accept("skeptic"),
    "vote1-arbiter/arbiter": accept("arbiter"),
}


def test_a1_a_seat_thinks_freely_and_answers_under_the_grammar(tmp_path: Path) -> None:
    backend = Recording({**SCRIPT, "vote1/thought/skeptic": "SECRET thought</think>"})
    path = run(plan_for(THINK), tmp_path, backend)
    free, bound = backend.requests["vote1/thought/skeptic/1"], backend.requests["vote1/skeptic/1"]
    assert (free.schema, free.stop, free.max_tokens) == (None, ("</think>",), 64)
    assert bound.schema is not None
    assert bound.stop == ()
    assert tuple(bound.prompt_ids)[: len(free.prompt_ids)] == tuple(free.prompt_ids)
    assert free.seed != bound.seed
    assert backend.labels[0] == ["vote1/thought/proponent/1", "vote1/thought/skeptic/1"]  # one call for all thoughts
    assert backend.labels[1] == ["vote1/proponent/1", "vote1/skeptic/1"]
    files = [file for file in path.rglob("*") if file.is_file() and file.name != "journal.jsonl"]
    assert not any("SECRET" in file.read_text("utf-8") for file in files)
    assert "SECRET" in (path / "journal.jsonl").read_text("utf-8")
    arbiter = scripted_codec()
    later = backend.requests["vote1-arbiter/arbiter/1"]
    secret = arbiter.encode("SECRET thought")
    ids = tuple(later.prompt_ids)
    assert not any(ids[at : at + len(secret)] == secret for at in range(len(ids)))
    assert execute.verify(path) == []
    assert "could think for up to 64 tokens" not in (path / "REPORT.md").read_text(
        "utf-8"
    )  # scripted: no model took part


def test_a4_a6_a_thought_that_is_cut_off_is_asked_again_without_thinking(tmp_path: Path) -> None:
    backend = Recording({**SCRIPT, "vote1/thought/skeptic": LOST})
    path = run(plan_for(THINK), tmp_path, backend)
    assert "vote1/thought/skeptic/2" not in backend.requests
    again = backend.requests["vote1/skeptic/2"]
    assert tuple(again.prompt_ids)[-len(scripted_codec().literal("\n</think>\n\n")) :] == scripted_codec().literal(
        "\n</think>\n\n"
    )
    assert "the thought was cut off" in (path / "LOG.md").read_text("utf-8")
    assert "vote1/skeptic/1" not in backend.requests
    (end,) = [
        json.loads(line) for line in (path / "journal.jsonl").read_text("utf-8").splitlines() if '"event":"end"' in line
    ]
    assert end["verdict"] == "accept"


def test_a_killed_run_resumes_between_thought_and_answer(tmp_path: Path) -> None:
    class Dying(Recording):
        def generate(self, requests: Any, on_done: Any, stop: Any) -> Any:
            if requests[0].label == "vote1/proponent/1":
                raise SystemExit("killed")
            return super().generate(requests, on_done, stop)

    with pytest.raises(SystemExit):
        run(plan_for(THINK), tmp_path, Dying(SCRIPT))
    (path,) = tmp_path.iterdir()
    backend = Recording(SCRIPT)
    execute.resume(path, Human(), Silent(), lambda: False, lambda _: backend)
    assert backend.labels[0] == ["vote1/proponent/1", "vote1/skeptic/1"]  # thoughts are not thought again
    assert execute.verify(path) == []


def test_d4_the_rehearsal_makes_room_for_thoughts() -> None:
    without, with_thoughts = plan_for({}), plan_for(THINK)
    for one, other in zip(without.rehearsal.rows, with_thoughts.rehearsal.rows, strict=True):
        assert other.total - one.total >= 2 * 64


def test_without_a_reasoning_profile_nothing_changes(tmp_path: Path) -> None:
    backend = Recording(SCRIPT)
    run(plan_for({}), tmp_path, backend)
    assert not any("thought" in label for label in backend.requests)


def test_a_reasoning_model_that_should_not_think_gets_its_thought_closed(tmp_path: Path) -> None:
    plan = plan_for({})
    backend = Recording(SCRIPT)
    run(
        replace(plan, desks=replace(plan.desks, own=replace(plan.desks.own, thinking=thinking(budget=0, opened=True)))),
        tmp_path,
        backend,
    )
    closing = scripted_codec().literal("\n</think>\n\n")
    assert all(tuple(request.prompt_ids)[-len(closing) :] == closing for request in backend.requests.values())
