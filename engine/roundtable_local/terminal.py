"""What a person sees while a run goes on: lines on standard error, a clock while the engine works."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.prompt import Prompt
from rich.table import Table as Grid

from roundtable_local.backends.base import Generation
from roundtable_local.doctor import Examination
from roundtable_local.errors import RoundtableError
from roundtable_local.plan import Plan
from roundtable_local.report.markdown import one_line
from roundtable_local.steps import Answer, Entry, Question

_LARGE = 2**28
"""Bytes above which reading a file takes a while."""


class Terminal:
    """A listener that prints; nothing but errors when quiet.

    Args:
        quiet: print errors only.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._out = Console(highlight=False, soft_wrap=True, emoji=False)
        self._err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        self._began = time.monotonic()

    def starting(self) -> None:
        """The engine is being started."""
        self.say("starting the engine ...")

    def begun(self, path: Path) -> None:
        """The run directory is made."""
        self.say(f"writing to {escape(str(path))}")

    def turn(self, name: str, asks: int, attempt: int) -> None:
        """A generate call begins."""
        again = f", attempt {attempt}" if attempt > 1 else ""
        self.say(f"[bold]{escape(name)}[/]: {asks} {'seat' if asks == 1 else 'seats'} in one call{again}")
        self._began = time.monotonic()

    def reply(self, turn: str, ask: str, done: int, asks: int, generation: Generation) -> None:
        """One reply of it has finished."""
        note = "" if generation.finish_reason == "stop" else f" ({generation.finish_reason})"
        seconds = time.monotonic() - self._began
        self.say(f"  {done:>2}/{asks} {escape(ask)}: {len(generation.token_ids)} tokens after {seconds:.1f} s{note}")

    def notice(self, text: str) -> None:
        """A line for LOG.md came up."""
        first, *more = text.splitlines() or [""]
        self.say(f"  [yellow]note:[/] {escape(one_line(first))}")
        for line in more:
            self.say(f"        {escape(one_line(line))}")

    def ask(self, question: Question) -> Answer | None:
        """A human is asked, where one sits at the terminal; no answer stands for the default."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        for part in question.parts:
            self._err.print(f"[bold]{escape(one_line(part))}[/]")
        # at a prompt one signal is enough
        before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            return self._prompt(question)
        except EOFError:  # Ctrl-D: nobody is there any more
            return None
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _prompt(self, question: Question) -> Answer | None:
        choices = list(question.choices) or None
        value = Prompt.ask(escape(question.name), console=self._err, choices=choices, default=question.default)
        if value is None or not value.strip():
            return None
        by = Prompt.ask("your name", console=self._err) if question.signed else ""
        why = Prompt.ask("why (may stay empty)", console=self._err, default="") if question.signed else ""
        return Answer(value.strip(), by, why)

    def entry(self, entry: Entry) -> None:
        """A log entry that goes to no file is shown as it would stand there (M-053)."""
        self.result(f"{entry.heading}\n{entry.text}")

    def say(self, markup: str) -> None:
        """A line of progress."""
        if not self._quiet:
            self._err.print(markup)

    def result(self, text: str) -> None:
        """A line of the result, on standard output, also when quiet."""
        self._out.print(text, markup=False)

    def error(self, error: RoundtableError) -> None:
        """What is wrong and what to do, one line each."""
        self._err.print(f"[red]error:[/] {escape(one_line(error.message))}")
        self._err.print(f"  [bold]fix:[/] {escape(one_line(error.fix))}")

    def reading(self, name: str, size: int) -> None:
        """A file is about to be read; said of large ones, which take a while."""
        if size > _LARGE:
            self.say(f"  reading {escape(name)} ({size / 2**30:.1f} GiB)")

    def findings(self, found: Examination) -> None:
        """What the doctor found, a line each, problems with their remedy."""
        marks = {"ok": "[green]ok[/]     ", "note": "[yellow]note[/]   ", "problem": "[red]problem[/]"}
        for each in found.findings:
            self._out.print(f"{marks[each.level]} [bold]{escape(each.about)}[/]: {escape(each.text)}")
            if each.remedy:
                self._out.print(f"        [bold]fix:[/] {escape(each.remedy)}")

    def plan(self, plan: Plan) -> None:
        """What `--dry-run` shows: seats, turns with their token budget, and what would be written."""
        decision, budget = plan.table.decision, plan.rehearsal.budget
        self._out.print(f"[bold]{escape(decision.topic)}[/]")
        self._out.print(
            f"protocol {plan.protocol.name}, model {escape(plan.profile.path)}, backend {plan.backend}, seed {plan.inputs.seed}, "
            f"date {plan.inputs.date}"
        )
        seats = Grid(title=f"{len(plan.table.seats)} seats", title_justify="left")
        for column in ("seat", "perspective", "duty"):
            seats.add_column(column)
        for seat in plan.table.seats:
            seats.add_row(*(escape(text) for text in (seat.name, seat.perspective, seat.duty)))
        self._out.print(seats)
        for line in plan.protocol.announce(plan.table):
            self._out.print(escape(line))
        self._out.print(self._turns(plan))
        self._out.print(f"window {budget.window:,} tokens, replies at {budget.shrink:.0%} of their full length")
        self._out.print(f"would write under {escape(decision.slug)}-{plan.inputs.date.replace('-', '')}/:")
        for path in (*plan.rehearsal.paths, "LOG.md", "journal.jsonl", "run.json", "metrics.json"):
            self._out.print(f"  {escape(path)}")
        for warning in plan.warnings:
            self._out.print(f"[yellow]note:[/] {escape(warning)}")

    def _turns(self, plan: Plan) -> Grid:
        turns = Grid(title="turns, worst case in tokens", title_justify="left")
        for column in ("turn", "seats", "shared context", "brief", "reply cap", "total", "of window"):
            turns.add_column(column, justify="left" if column == "turn" else "right")
        window = plan.rehearsal.budget.window
        for row in plan.rehearsal.rows:
            numbers = (row.asks, row.context, row.brief, row.reply, row.total)
            turns.add_row(row.turn, *(f"{number:,}" for number in numbers), f"{row.total / window:.0%}")
        return turns
