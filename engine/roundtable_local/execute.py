"""From a plan to a finished run directory: make or reopen it, start the engine, conduct, record.

`run`, `resume`, `report` and `verify` differ only in where replies may come from and where files go.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from roundtable_local import aftermath, repository
from roundtable_local.audience import Human, Listener, Silent, answering, check_answer
from roundtable_local.backends import make_backend
from roundtable_local.backends.base import Backend, Generation, OnDone, Request, Use
from roundtable_local.backends.fleet import Crew, Fleet
from roundtable_local.desks import Desk
from roundtable_local.doctor import preflight
from roundtable_local.errors import DecisionError, JournalError, SuspendedError
from roundtable_local.inputs import Inputs
from roundtable_local.journal import NAME, Journal
from roundtable_local.oracle import find_psi, free_name
from roundtable_local.plan import Plan, make_plan
from roundtable_local.rundir import Mirror, RunDirectory, check_root, make_run_directory
from roundtable_local.runner import Room, conduct
from roundtable_local.seats import Place
from roundtable_local.steps import Answer, Outcome, Result

Make = Callable[[Plan], Backend]

_CHANGED = "undo the change, or start a new run; nothing was touched"
_RECORDED_ONLY = frozenset({NAME, "run.json", "metrics.json"})
"""Files of a run directory that are not rendered from replies."""


def start_backend(plan: Plan) -> Backend:
    """The plan's engine, started; several models take turns in a fleet."""
    replies = Path(plan.inputs.replies) if plan.inputs.replies else None
    crews = {
        desk.model: Crew(
            plan.backend_of(desk),
            desk.profile,
            desk.budget.window,
            replies,
            Use(plan.inputs.deterministic, plan.inputs.trust_remote_code, _adapters(plan, desk)),
        )
        for desk in plan.desks.all
    }
    for desk in plan.desks.all if replies is None else ():  # with replies a real engine is refused, fit or not
        where, trusted = Path(plan.inputs.out or "."), plan.inputs.trust_remote_code
        preflight(desk.profile, plan.backend_of(desk), os.environ, where, trusted=trusted)
    if len(crews) > 1:
        return Fleet(crews)
    (crew,) = crews.values()
    return make_backend(crew.backend, crew.profile, crew.window, crew.replies, crew.use)


def _adapters(plan: Plan, desk: Desk) -> tuple[str, ...]:
    """The adapters of the seats on one model, each once."""
    named = (folder for seat, folder in plan.desks.adapters.items() if plan.desks.of(seat) is desk)
    return tuple(dict.fromkeys(named))


def run(
    plan: Plan,
    root: Path,
    human: Human,
    listener: Listener,
    stop: Callable[[], bool],
    make: Make = start_backend,
) -> tuple[Path, Outcome]:
    """Run a debate from its start.

    The directory is made once the engine is up, so that a run that cannot begin leaves nothing behind.

    Args:
        plan: what to run.
        root: where the run directory is made.
        human: what a human said beforehand.
        listener: who watches.
        stop: true ends the run, resumably.
        make: starts the engine.
    """
    check_root(root)
    passed = _pass_gate(plan, human, listener)
    with ExitStack() as stack:
        listener.starting()
        backend = make(plan)
        stack.callback(backend.close)
        path = make_run_directory(root, plan.table.decision.slug, plan.inputs.date)
        directory = stack.enter_context(RunDirectory(path))
        journal = stack.enter_context(closing(Journal(path / NAME)))
        place = _place(plan, path)
        plan = replace(plan, table=replace(plan.table, place=place))
        journal.append(
            "start",
            inputs=plan.inputs.model_dump(mode="json"),
            fingerprint=dict(plan.fingerprint),
            place={"home": place.home, "name": place.name},
        )
        for name, answer in passed.items():
            journal.append("answer", name=name, value=answer.value, by=answer.by, why=answer.why)
        directory.write("run.json", _record(plan, backend))
        listener.begun(path)
        return path, _conduct(plan, directory, journal, backend, human, listener, stop)


def resume(
    path: Path,
    human: Human,
    listener: Listener,
    stop: Callable[[], bool],
    make: Make = start_backend,
) -> tuple[Plan, Outcome, bool]:
    """Go on with a run: journalled replies are replayed, only what is missing is generated.

    Returns:
        The plan, the outcome, and whether anything was left to do.

    Raises:
        JournalError: not a run directory, or decision, settings, prompts or model changed since.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(RunDirectory(_run_directory(path)))
        journal = stack.enter_context(closing(Journal(path / NAME)))
        plan = _plan_again(journal)
        if ended := journal.of("end"):
            return plan, _recorded(ended[-1]), False
        backend = stack.enter_context(closing(_StartedWhenNeeded(lambda: make(plan), listener)))
        journal.append("resume")
        return plan, _conduct(plan, directory, journal, backend, human, listener, stop), True


class _StartedWhenNeeded:
    """An engine that starts with the first request: a resumed run may need none, only a human's answer."""

    def __init__(self, make: Callable[[], Backend], listener: Listener) -> None:
        self._make = make
        self._listener = listener
        self._backend: Backend | None = None

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Callable[[], bool]) -> list[Generation]:
        if self._backend is None:
            self._listener.starting()
            self._backend = self._make()
        return self._backend.generate(requests, on_done, stop)

    def describe(self) -> Mapping[str, Any]:
        return {} if self._backend is None else self._backend.describe()

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()


def _pass_gate(plan: Plan, human: Human, listener: Listener) -> dict[str, Answer]:
    """Settle the protocol's gate before anything is started or written (O-001, O-003)."""
    passed = {}
    for question in plan.protocol.gate(plan.table):
        answer = human.says(question) or listener.ask(question)
        if answer is None:
            raise SuspendedError(
                f"question {question.name!r} waits for an answer before the table is convened: {' '.join(question.parts)}",
                f"add --yes if all of it holds, or {answering(question)}",
            )
        check_answer(question, answer)
        if answer.value == "no":
            raise DecisionError(
                f"not convened: {' '.join(question.parts)} no",
                "ask it as a decision with options and stakes, or use --protocol supermajority for an open question",
            )
        passed[question.name] = answer
    return passed


def _place(plan: Plan, path: Path) -> Place:
    """Where the run's files lie: its own directory, or a ψ folder that gets a copy of them (O-010 to O-012)."""
    name = plan.table.place.name
    if plan.inputs.oracle_root is None:
        return Place(str(path.resolve()), name)
    psi, _ = find_psi(Path(plan.inputs.oracle_root))
    return Place(str(psi.resolve()), free_name(psi, name))


@dataclass(frozen=True)
class Afterwards:
    """What to leave outside the run directory once a debate has ended; nothing unless asked for (A-200 to A-205).

    Args:
        ledger: Markdown file to append a row to.
        roadmap: Markdown file to add a bullet to.
        commit: whether to commit the run directory and the ledger.
    """

    ledger: Path | None = None
    roadmap: Path | None = None
    commit: bool = False

    def check(self, root: Path) -> None:
        """Refuse before anything is generated what could not be done afterwards.

        Raises:
            AftermathError: with the reason.
        """
        if self.ledger:
            aftermath.check_ledger(self.ledger)
        if self.roadmap:
            aftermath.check_roadmap(self.roadmap)
        if self.commit:
            repository.check_commit(root, self.ledger)

    def do(self, plan: Plan, path: Path, outcome: Outcome) -> list[str]:
        """Do it, each at most once however often it is called; returns a line for each thing done or already there."""
        slug, verdict = plan.table.decision.slug, cast(Any, outcome.verdict)  # its words are the protocol's
        decided = aftermath.Decided(
            slug=slug,
            verdict=verdict,
            summary=f"{slug}: {outcome.verdict}",
            artifact=str(path.resolve()),
            date=plan.inputs.date,
        )
        lines = []
        if self.ledger:
            done = aftermath.append_ledger(self.ledger, decided)
            lines.append(f"ledger {self.ledger}: {'a row was added' if done else 'the row is there already'}")
        if self.roadmap:
            done = aftermath.merge_roadmap(self.roadmap, decided)
            lines.append(f"roadmap {self.roadmap}: {'a bullet was added' if done else 'the bullet is there already'}")
        if self.commit:
            made = repository.commit(path, self.ledger, f"roundtable: {slug}")
            lines.append(f"git: {f'committed as {made}' if made else 'nothing to commit'}")
        return lines


def home_of(path: Path) -> Path:
    """Where the results of a run lie: its directory, or the ψ folder that it writes to."""
    with (_run_directory(path) / NAME).open(encoding="utf-8") as file:
        start = json.loads(file.readline())
    return Path(start["place"]["home"]) if start["inputs"].get("oracle_root") else path.resolve()


def check_finished(path: Path) -> None:
    """Whether a run has ended: only then do its files follow from its journal alone.

    Raises:
        JournalError: it has not, or it is no run directory.
    """
    lines = (_run_directory(path) / NAME).read_bytes().splitlines()
    if not any(line.startswith(b'{"event":"end"') for line in lines):
        raise JournalError(f"{path} is not finished", f"finish it first: roundtable-local resume {path}")


def render_again(path: Path, target: Path) -> Outcome:
    """Render a finished run's files from its journal alone into `target`, an existing empty folder.

    Raises:
        JournalError: the run is not finished.
    """
    check_finished(path)
    journal_path = _run_directory(path) / NAME
    with RunDirectory(target) as directory:
        (target / NAME).write_bytes(journal_path.read_bytes())
        with closing(Journal(target / NAME)) as journal:
            plan = _plan_again(journal)
            plan = replace(
                plan, inputs=plan.inputs.model_copy(update={"oracle_root": None})
            )  # copies are not made again
            return _conduct(plan, directory, journal, None, Human(), Silent(), lambda: False)


def verify(path: Path) -> list[str]:
    """Names of files in a run directory that differ from what its journal renders to, or that do not belong there."""
    with tempfile.TemporaryDirectory(prefix="roundtable-verify-") as folder:
        render_again(path, Path(folder))
        rendered, there = _files(Path(folder)), _files(path)
    return sorted(name for name in rendered.keys() | there.keys() if rendered.get(name) != there.get(name))


def _files(folder: Path) -> dict[str, bytes]:
    found = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    return {
        name: file.read_bytes()
        for name, file in found.items()
        if name not in _RECORDED_ONLY and not name.startswith(".")
    }


def _run_directory(path: Path) -> Path:
    if not (path / NAME).is_file():
        raise JournalError(f"{path} is not a run directory: it has no {NAME}", "name the directory that a run printed")
    return path


def _plan_again(journal: Journal) -> Plan:
    inputs = Inputs.model_validate(journal.start["inputs"])
    if inputs.source_path and _hash_of(Path(inputs.source_path)) not in {None, inputs.source_sha256}:
        raise JournalError(f"the decision file {inputs.source_path} changed since the run began", _CHANGED)
    plan = make_plan(inputs)
    before, now = journal.start["fingerprint"], plan.fingerprint
    if changed := [name for name in before if before[name] != now.get(name)]:
        raise JournalError(
            f"changed since the run began: {', '.join(changed)}",
            "undo the change, or start a new run; nothing was touched",
        )
    place = Place(**journal.start["place"])
    return replace(plan, table=replace(plan.table, place=place))


def _recorded(end: Mapping[str, Any]) -> Outcome:
    results = tuple(Result(each["label"], each["path"]) for each in end["results"])
    return Outcome(end["verdict"], end["needs_human"], end["summary"], end["failed"], results, end["data"])


def _hash_of(path: Path) -> str | None:
    """sha256 of a decision file that is still there; one that is gone has not changed: the journal keeps its text."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _conduct(
    plan: Plan,
    directory: RunDirectory,
    journal: Journal,
    backend: Backend | None,
    human: Human,
    listener: Listener,
    stop: Callable[[], bool],
) -> Outcome:
    mirror = Path(plan.table.place.home) if plan.inputs.oracle_root else None
    room = Room(
        desks=plan.desks,
        attempts=plan.engine.attempts,
        seed=plan.inputs.seed,
        decision_sha256=plan.table.decision.sha256,
        directory=directory,
        journal=journal,
        backend=backend,
        human=human,
        mirror=None if mirror is None else Mirror(mirror, plan.protocol.mirrored),
        log_file=Path(plan.inputs.log) if plan.inputs.log else None,
        listener=listener,
        stop=stop,
        log=list(plan.warnings),
    )
    return conduct(plan.protocol.debate(plan.table), room)


def _record(plan: Plan, backend: Backend) -> str:
    """run.json: what was in force."""
    record: dict[str, Any] = {
        "inputs": plan.inputs.model_dump(mode="json", exclude={"text"}),
        "settings": plan.table.settings.model_dump(mode="json"),
        "engine_settings": plan.engine.model_dump(mode="json"),
        "model": {
            "profile": plan.profile.model_dump(mode="json"),
            "parameters": plan.model.parameters,
            "window": plan.desks.own.budget.window,
            "files": plan.model.files,
        },
        "other_models": {
            desk.model: {"profile": desk.profile.model_dump(mode="json"), "files": desk.folder.files}
            for desk in plan.desks.others.values()
        },
        "adapters": dict(plan.desks.adapters),
        "budget": {
            "shrink": plan.rehearsal.budget.shrink,
            "turns": [vars(row) | {"total": row.total} for row in plan.rehearsal.rows],
        },
        "backend": dict(backend.describe()),
        "environment": {"cpus": os.cpu_count()},
        "fingerprint": dict(plan.fingerprint),
    }
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"
