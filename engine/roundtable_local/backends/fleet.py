"""Seats on different models: one engine per model, one after the other.

Each runs in a spawned child with the engine in process inside. A child is gone before the next one starts, and the
kernel ends it when its parent dies, so no engine is left holding a device.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from roundtable_local.backends import make_backend
from roundtable_local.backends.base import Backend, Generation, OnDone, Request, Stop, Use
from roundtable_local.errors import BackendError, RoundtableError
from roundtable_local.settings import ModelProfile

_PR_SET_PDEATHSIG = 1
_PATIENCE = 30.0
"""Seconds that a child has to end before it is killed."""
_GLANCE = 0.05
"""Seconds between two looks at whether the user wants to stop."""


@dataclass(frozen=True)
class Crew:
    """What one engine is started with; see `make_backend`."""

    backend: str
    profile: ModelProfile
    window: int
    replies: Path | None
    use: Use


class Fleet:
    """A backend that keeps at most one of its engines alive.

    Args:
        crews: by the model's name in requests.

    Raises:
        BackendError: the first engine does not start.
    """

    def __init__(self, crews: Mapping[str, Crew]) -> None:
        self._crews = dict(crews)
        self._described: dict[str, Any] = {}
        self._child: _Child | None = None
        self._engine(next(iter(crews)))

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        """One batch per model, the engine that is alive first; see `Backend.generate`."""
        groups: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(request.model, []).append(index)
        alive = self._child.model if self._child else None
        found: dict[int, Generation] = {}
        for model in sorted(groups, key=lambda name: name != alive):
            indices = groups[model]
            if stop():
                break
            generations = self._engine(model).generate(
                [requests[index] for index in indices],
                lambda at, generation, indices=indices: on_done(indices[at], generation),  # type: ignore[misc]
                stop,
            )
            found |= dict(zip(indices, generations, strict=True))
        return [found.get(index, Generation("", [], "abort")) for index in range(len(requests))]

    def describe(self) -> Mapping[str, Any]:
        """What each engine that has run said of itself."""
        return {"backend": "fleet", "engines": dict(self._described)}

    def close(self) -> None:
        """End the engine that is alive."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _engine(self, model: str) -> _Child:
        if self._child is None or self._child.model != model:
            self.close()
            self._child = _Child(model, self._crews[model])
            self._described[model] = self._child.described
        return self._child


class _Child:
    """One engine in a process of its own."""

    def __init__(self, model: str, crew: Crew) -> None:
        self.model = model
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, os.getpid(), crew), daemon=True)
        self._process.start()
        theirs.close()
        self.described: Mapping[str, Any] = self._answer()

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        self._send("generate", list(requests))
        asked = False
        while True:
            if not self._pipe.poll(_GLANCE):
                if not asked and stop():
                    self._send("stop", None)
                    asked = True
                self._check()
                continue
            kind, value = self._receive()
            if kind == "done":
                on_done(*value)
            else:
                generations: list[Generation] = _or_raise(kind, value)
                return generations

    def end(self) -> None:
        """Ask it to end, then make it."""
        with contextlib.suppress(OSError):  # it may be gone already
            self._pipe.send(("close", None))
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()

    def _send(self, kind: str, value: Any) -> None:
        try:
            self._pipe.send((kind, value))
        except OSError as error:
            raise self._died() from error

    def _answer(self) -> Any:
        while not self._pipe.poll(_GLANCE):
            self._check()
        return _or_raise(*self._receive())

    def _receive(self) -> tuple[str, Any]:
        try:
            received: tuple[str, Any] = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        return received

    def _check(self) -> None:
        if not self._process.is_alive() and not self._pipe.poll():
            raise self._died()

    def _died(self) -> BackendError:
        self._process.join(_PATIENCE)
        return BackendError(
            f"the engine of model {self.model or 'of the run'!r} died (exit code {self._process.exitcode})",
            "resume the run; finished replies are kept",
        )


def _or_raise(kind: str, value: Any) -> Any:
    if kind == "error":
        raise value[0](*value[1:])
    return value


def _serve(pipe: Connection, parent: int, crew: Crew) -> None:
    """The child: an engine that answers until it is told to close, or its parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was told
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops it in an orderly way
    backend: Backend | None = None
    try:
        backend = make_backend(crew.backend, crew.profile, crew.window, crew.replies, crew.use)
        pipe.send(("ready", dict(backend.describe())))
        while (message := pipe.recv())[0] != "close":
            if message[0] == "generate":
                pipe.send(("end", _generate(backend, pipe, message[1])))
    except RoundtableError as error:
        pipe.send(("error", (type(error), error.message, error.fix)))
    except EOFError:
        pass
    finally:
        if backend is not None:
            backend.close()


def _generate(backend: Backend, pipe: Connection, requests: Sequence[Request]) -> list[Generation]:
    stopped = False

    def stop() -> bool:
        nonlocal stopped
        if not stopped and pipe.poll():
            stopped = pipe.recv()[0] == "stop"
        return stopped

    return backend.generate(requests, lambda index, generation: pipe.send(("done", (index, generation))), stop)
