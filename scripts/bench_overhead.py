"""Measure the CPU time that a whole supermajority debate takes outside generate: everything that is not the model.

A debate is run with scripted replies: reading the decision, planning with its rehearsal, every turn, journal, files
and report. CPU time is that of the whole process, all threads. `generate` is the scripted engine alone; what the
runner does while it hands replies over (journal, prompt hashes) counts as ours. The total is split in three:

    tokenising  Codec._encode, which is where every text of a prompt becomes ids
    fsync       os.fsync: CPU time, and beside it the time spent waiting for the disk
    the rest    everything else; it has to stay below --limit. Shown apart is what of it goes into loading the
                tokenizer, once a debate, which grows with the model's vocabulary (the scripted one has 2,048 tokens)

Every debate has a fresh plan. The first one is dropped: it imports modules and compiles templates. Shown are medians.
The exit status is 1 where the rest is not below the limit.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final, ParamSpec, TypeVar
from unittest.mock import patch

from bench_round import decision_text, positive
from roundtable_local import execute
from roundtable_local.audience import Human, Silent
from roundtable_local.backends.base import Generation, OnDone, Request, Stop
from roundtable_local.backends.scripted import ScriptedBackend
from roundtable_local.config import model_profile
from roundtable_local.errors import RoundtableError
from roundtable_local.inputs import read_inputs
from roundtable_local.plan import make_plan
from roundtable_local.prompts import render
from roundtable_local.tokens import Codec

P = ParamSpec("P")
R = TypeVar("R")

DATE: Final = "2026-03-01"
PROFILE_ROWS: Final = 20


@dataclass
class Clock:
    """Sums up CPU and wall time of the calls of the functions it is put around; nested calls count once."""

    cpu: float = 0.0
    wall: float = 0.0
    calls: int = 0
    _depth: int = 0

    def around(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, timed."""

        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            self._depth += 1
            cpu, wall = time.process_time(), time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.cpu += time.process_time() - cpu
                    self.wall += time.perf_counter() - wall
                    self.calls += 1

        return timed


@dataclass
class Clocks:
    """The clocks of one debate."""

    debate: Clock = field(default_factory=Clock)
    generate: Clock = field(default_factory=Clock)
    on_done: Clock = field(default_factory=Clock)
    tokenising: Clock = field(default_factory=Clock)
    fsync: Clock = field(default_factory=Clock)
    loading: Clock = field(default_factory=Clock)

    @property
    def outside(self) -> float:
        """CPU seconds outside generate: what runs in its callbacks is ours."""
        return self.debate.cpu - (self.generate.cpu - self.on_done.cpu)

    @property
    def rest(self) -> float:
        """CPU seconds outside generate that are neither tokenising nor fsync."""
        return self.outside - self.tokenising.cpu - self.fsync.cpu


class TimedBackend(ScriptedBackend):
    """The scripted backend with a clock around it, and one around what it calls back."""

    def __init__(self, clocks: Clocks) -> None:
        super().__init__()
        self._clocks = clocks

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        """As the scripted backend's."""
        timed = self._clocks.generate.around(super().generate)
        return timed(requests, self._clocks.on_done.around(on_done), stop)


def debate(decision: Path, folder: Path, options: argparse.Namespace, profiler: cProfile.Profile | None) -> Clocks:
    """One whole debate from its decision file to its report."""
    clocks = Clocks()
    with ExitStack() as stack:
        stack.enter_context(patch.object(Codec, "_encode", clocks.tokenising.around(Codec._encode)))
        stack.enter_context(patch.object(Codec, "__init__", clocks.loading.around(Codec.__init__)))
        stack.enter_context(patch.object(os, "fsync", clocks.fsync.around(os.fsync)))
        stack.enter_context(profiler if profiler is not None else nullcontext())
        clocks.debate.around(_debate)(decision, folder, options, clocks)
    return clocks


def _debate(decision: Path, folder: Path, options: argparse.Namespace, clocks: Clocks) -> None:
    inputs = read_inputs(
        str(decision), protocol="supermajority", model=options.model, backend="scripted", seed=1, date=DATE, config=None,
        set_protocol={}, set_model={"window": options.window}, replies=None,
    )  # fmt: skip
    execute.run(make_plan(inputs), folder, Human(), Silent(), lambda: False, lambda plan: TimedBackend(clocks))


def report(debates: Sequence[Clocks], limit: float) -> str:
    """The split of the CPU time, as medians."""
    rest = median(each.rest for each in debates)
    verdict = "under" if rest < limit else "NOT under"
    low, high = min(each.rest for each in debates), max(each.rest for each in debates)
    rows = [
        ("outside generate", median(each.outside for each in debates), ""),
        (
            "  tokenising",
            median(each.tokenising.cpu for each in debates),
            _calls([each.tokenising for each in debates]),
        ),
        ("  fsync", median(each.fsync.cpu for each in debates), _calls([each.fsync for each in debates])),
        ("  the rest", rest, f"{low:.3f} to {high:.3f}; {verdict} {limit:g} s"),
        ("    loading tokenizer", median(each.loading.cpu for each in debates), ""),
        ("generate, scripted", median(each.generate.cpu - each.on_done.cpu for each in debates), ""),
    ]
    lines = ["CPU seconds a debate"]
    lines += [f"{name:<22}{seconds:>8.3f}  {note}".rstrip() for name, seconds, note in rows]
    wall = median(each.debate.wall for each in debates)
    return "\n".join([*lines, "", f"wall seconds a debate {wall:>8.3f}"])


def _calls(clocks: Sequence[Clock]) -> str:
    return f"{round(median(each.calls for each in clocks))} calls, {median(each.wall for each in clocks):.3f} s of wall time"


def print_profile(profiler: cProfile.Profile) -> None:
    """The functions with the most time of their own; the profiler itself makes all of them slower."""
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(PROFILE_ROWS)


def run(options: argparse.Namespace) -> bool:
    """Measure and print; whether the rest is below the limit."""
    codec = Codec(Path(model_profile(options.model, {}).path), render("system.j2").text)
    with tempfile.TemporaryDirectory(prefix="roundtable-bench-", dir=options.folder) as name:
        folder = Path(name)
        decision = folder / "decision.md"
        decision.write_text(decision_text(codec, options.decision_tokens) + "\n", "utf-8")
        debates = []
        for number in range(options.repeat + 1):
            clocks = debate(decision, folder / "runs", options, None)
            label = f"debate {number}/{options.repeat}" if number else "warm-up"
            say(f"{label}: {clocks.outside:.3f} s of CPU outside generate, the rest {clocks.rest:.3f} s")
            if number:
                debates.append(clocks)
        print(f"10 seats, decision of {options.decision_tokens:,} tokens, median of {options.repeat} debates\n")
        print(report(debates, options.limit))
        if options.profile:
            profiler = cProfile.Profile()
            debate(decision, folder / "runs", options, profiler)
            print_profile(profiler)
    return bool(median(each.rest for each in debates) < options.limit)


def say(message: str) -> None:
    """One line of progress."""
    print(f"bench: {message}", file=sys.stderr, flush=True)


def main() -> int:
    """Read the command line, and put every failure in one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--model", default="scripted", help="profile or folder whose tokenizer is used; no weights (%(default)s)"
    )
    parser.add_argument(
        "--decision-tokens", type=positive, default=20_000, metavar="N", help="tokens of the decision (%(default)s)"
    )
    parser.add_argument(
        "--window", type=positive, default=131_072, metavar="N", help="tokens of the model's window (%(default)s)"
    )
    parser.add_argument(
        "--repeat", type=positive, default=5, metavar="N", help="debates after the warm-up (%(default)s)"
    )
    parser.add_argument(
        "--limit", type=float, default=0.3, metavar="S", help="seconds that the rest has to stay below (%(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="where debates are written and removed (the temporary folder)")
    parser.add_argument("--profile", action="store_true", help="profile one more debate and show where its time goes")
    try:
        return 0 if run(parser.parse_args()) else 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except RoundtableError as error:
        say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
