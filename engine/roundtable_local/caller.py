"""One loaded engine for many decisions: a JSON object per line in, a JSON object per line out, in order (M-060 to M-064).

An orchestrator starts it once with its standing instruction (quorum, log, what to do with escalations); every line
then brings an artifact with its context and may override these. A line that cannot be used gets an error object, and
the next line goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from roundtable_local import execute, logbook
from roundtable_local.audience import Human, Listener
from roundtable_local.backends.base import Backend, Generation, OnDone, Request, Stop
from roundtable_local.decision import decode, whole_text
from roundtable_local.errors import InterruptedRunError, RoundtableError, SuspendedError, UsageError
from roundtable_local.inputs import Inputs
from roundtable_local.jsonfiles import parse_json
from roundtable_local.plan import Plan, make_plan
from roundtable_local.seats import Fact
from roundtable_local.settings import Strict
from roundtable_local.steps import Answer, Entry, Question

SOURCE = "call"
"""Source of an artifact that a caller sent: it is judged whole, and its words ask for no quorum."""


class Call(Strict):
    """One line of input.

    Args:
        artifact: what the panel judges, whole.
        decision: names it in the log; default: the artifact's first heading or line.
        context: what the panel may use, one text or several (M-015).
        goal: what the artifact is meant to reach.
        proposal: the unit's proposal; too long a one is shown by its fitting section (M-016).
        quorum: overrides the standing quorum (M-062).
        focus: which section of a long proposal fits.
        log: overrides the standing log.
        auto: true gives an escalation back as a result and goes on; false leaves the run waiting for
            `resume RUN_DIR --answer escalation=CHOICE`.
    """

    artifact: str = Field(min_length=1)
    decision: str | None = None
    context: tuple[str, ...] = ()
    goal: str | None = None
    proposal: str | None = None
    quorum: Literal["2/3", "3/3"] | None = None
    focus: Literal["auto", "approach", "success-criteria"] | None = None
    log: str | None = None
    auto: bool | None = None

    @field_validator("context", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    def inputs(self, standing: Inputs, auto: bool) -> Inputs:
        """What a run of this call is given."""
        texts = [
            ("goal", "goal", [self.goal]),
            ("proposal", "proposal", [self.proposal]),
            ("context", "context", self.context),
        ]
        facts = [
            Fact.model_validate({"kind": kind, "title": title, "text": whole_text(text)})
            for kind, title, given in texts
            for text in given
            if text and text.strip()
        ]
        named = {"quorum": self.quorum, "focus": self.focus}
        escalation = "return" if (auto if self.auto is None else self.auto) else "ask"
        chosen = {key: value for key, value in named.items() if value is not None} | {"escalation": escalation}
        changes: dict[str, Any] = {
            "text": whole_text(self.artifact),
            "source": SOURCE,
            "topic": " ".join(whole_text(self.decision or "").split()) or None,
            "facts": (*standing.facts, *facts),
            "set_protocol": {**standing.set_protocol, **chosen},
        }
        if self.log:
            changes["log"] = str(Path(self.log).absolute())
        return standing.model_copy(update=changes)


class Panels:
    """Answers calls with one engine, started with the first that can be run.

    Args:
        standing: what holds for every call.
        out: where run directories are made.
        auto: whether escalations are given back rather than left waiting.
        listener: who watches.
        stop: true ends the run.
        make: starts the engine.
    """

    def __init__(
        self,
        standing: Inputs,
        out: Path,
        *,
        auto: bool,
        listener: Listener,
        stop: Stop,
        make: Callable[[Plan], Backend] = execute.start_backend,
    ) -> None:
        self._standing = standing
        self._out = out
        self._auto = auto
        self._listener = listener
        self._stop = stop
        self._make = make
        self._backend: Backend | None = None

    def answer(self, lines: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
        """A result or an error for every line that is not blank, in order.

        Raises:
            InterruptedRunError: the user stopped it; results so far were given.
        """
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield {"line": number, **self._one(line)}
                except InterruptedRunError:
                    raise
                except RoundtableError as error:
                    yield {"line": number, "error": {"message": error.message, "fix": error.fix}}
                except (
                    OSError,
                    ValueError,
                ) as error:  # a path that no file system can have, text that no file can hold
                    message = f"the line cannot be used: {' '.join(str(error).split())}"
                    yield {"line": number, "error": {"message": message, "fix": "mend its texts and paths"}}

    def close(self) -> None:
        """Stop the engine."""
        if self._backend is not None:
            self._backend.close()

    def _one(self, line: bytes) -> Mapping[str, Any]:
        inputs = read_call(line).inputs(self._standing, self._auto)
        if inputs.log:
            logbook.check(Path(inputs.log))
        plan = make_plan(inputs)
        seen = _Unattended(self._listener)
        try:
            path, outcome = execute.run(plan, self._out, Human(), seen, self._stop, self._engine)
        except SuspendedError as error:
            waiting = {"verdict": "escalated", "waits": True, "question": error.message, "fix": error.fix}
            return {"decision": plan.table.decision.topic, "run_dir": str(seen.path), **waiting}
        return {"decision": plan.table.decision.topic, "run_dir": str(path.resolve()), "waits": False, **outcome.data}

    def _engine(self, plan: Plan) -> Backend:
        if self._backend is None:
            self._listener.starting()
            self._backend = self._make(plan)
        return _Kept(self._backend)


class _Unattended:
    """Passes on what happens, remembers the run directory, and asks nobody; log entries stand in the result."""

    def __init__(self, listener: Listener) -> None:
        self.path: Path | None = None
        self.turn = listener.turn
        self.reply = listener.reply
        self.notice = listener.notice
        self._begun = listener.begun

    def starting(self) -> None:
        """Nothing is shown here: one engine serves all runs."""

    def begun(self, path: Path) -> None:
        self.path = path.resolve()
        self._begun(path)

    def entry(self, entry: Entry) -> None:
        return None

    def ask(self, question: Question) -> Answer | None:
        return None


class _Kept:
    """The engine for one run: it stays when the run is over."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        return self._backend.generate(requests, on_done, stop)

    def describe(self) -> Mapping[str, Any]:
        return self._backend.describe()

    def close(self) -> None:
        return None


def read_call(line: bytes) -> Call:
    """One line of input.

    Raises:
        UsageError: not a JSON object of the form of `Call`.
        DecisionError: not UTF-8 text.
    """
    example = 'for example {"artifact": "...", "context": "...", "quorum": "2/3", "log": "scratchpad.md", "auto": true}'
    try:
        text = decode(line, "the line").removeprefix("\ufeff")
        return Call.model_validate(parse_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the line"
        raise UsageError(f"{where}: {first['msg']}", example) from error
    except ValueError as error:
        raise UsageError(f"not valid JSON: {error}", example) from error
