"""What all commands share: the application, exit codes, options, and how errors and signals are told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date as Date  # noqa: N812 - the word `date` is an option's name here
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.markup import escape

import roundtable_local
from roundtable_local import errors, execute, logbook
from roundtable_local.seats import Fact
from roundtable_local.steps import Answer, Outcome, Question
from roundtable_local.terminal import Terminal

OK, FAILED, USAGE, HUMAN, INTERRUPTED = 0, 1, 2, 3, 130
REPROMPT = 2  # O-060: of `vote` alone
TABLE, CONFIDENCE, PANEL = "The table", "Protocol confidence", "Protocol panel"
"""Headings in the help of `run`."""

app = typer.Typer(
    name="roundtable-local",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Structured multi-seat debates on local models: seats argue in rounds, vote, and a report says what passed.",
)


@contextmanager
def reported(terminal: Terminal) -> Iterator[None]:
    """Turn our errors into one line, its fix, and an exit code."""
    try:
        yield
    except errors.SuspendedError as error:
        terminal.error(error)
        raise typer.Exit(HUMAN) from error
    except errors.InterruptedRunError as error:
        terminal.error(error)
        raise typer.Exit(INTERRUPTED) from error
    except errors.UsageError as error:
        terminal.error(error)
        raise typer.Exit(USAGE) from error
    except errors.RoundtableError as error:
        terminal.error(error)
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask the run to stop between steps; a second Ctrl-C ends it at once."""
    asked = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """While waiting for input, one signal is enough."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _version(value: bool) -> None:
    if value:
        typer.echo(roundtable_local.__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


Model = Annotated[str | None, typer.Option(help="A model folder, a profile file, or a profile's name (tiny-cpu).")]
BackendName = Annotated[str | None, typer.Option(help="vllm, transformers or scripted; default: the model profile's.")]
Out = Annotated[Path, typer.Option(help="Where run directories are made.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all sampling.")]
RunDate = Annotated[str | None, typer.Option(help="Date of the run, YYYY-MM-DD; default: today.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting (model.KEY for the model's). Repeatable."),
]
ConfigPath = Annotated[Path | None, typer.Option(help="A YAML file with protocol, model, settings, model_settings.")]
RepliesPath = Annotated[Path | None, typer.Option(help="Scripted replies (YAML), with --backend scripted.")]
Context = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Facts that every seat may use, read whole. Repeatable.", rich_help_panel=TABLE),
]
Answers = Annotated[
    list[str] | None, typer.Option("--answer", metavar="NAME=VALUE", help="Answer a question beforehand. Repeatable.")
]
Ledger = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Append one row for the decision to this Markdown ledger.")
]
Roadmap = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Add one bullet for the decision at the anchor in this Markdown file."),
]
Commit = Annotated[
    bool, typer.Option("--commit", help="Commit the run directory (and the ledger) to your git repository.")
]
Quorum = Annotated[str | None, typer.Option(help="Accepts needed: 2/3 or 3/3.", rich_help_panel=PANEL)]
LogFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Append log lines to this Markdown file.", rich_help_panel=PANEL)
]
Project = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Log to the scratchpad of this project's one unit in flight.", rich_help_panel=PANEL
    ),
]
Unit = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which unit, where several are in flight.", rich_help_panel=PANEL)
]
Yes = Annotated[bool, typer.Option("--yes", help="Say yes to whatever asks for consent, for unattended runs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the report's path and errors only.")]


def finish(terminal: Terminal, path: Path, outcome: Outcome) -> None:
    """Say what came of a debate and where it stands, and exit with its code."""
    terminal.say(escape(outcome.summary))
    point_to(terminal, execute.home_of(path), outcome)
    raise typer.Exit(FAILED if outcome.failed else HUMAN if outcome.needs_human else OK)


def point_to(terminal: Terminal, home: Path, outcome: Outcome) -> None:
    """Absolute, resolved paths of the results (O-082)."""
    for each in outcome.results:
        terminal.result(f"{each.label}: {home / each.path}" if each.label else str(home / each.path))


def iso_date(text: str | None) -> str:
    """The date given, or today."""
    if text is None:
        return Date.today().isoformat()  # noqa: DTZ011 - the user's own day
    try:
        return Date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise errors.UsageError(f"--date {text!r} is not a date", "write it as YYYY-MM-DD") from error


def given_answers(given: list[str] | None, by: str = "", why: str = "") -> dict[str, Answer]:
    """`--answer` options by the question's name."""
    answers = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise errors.UsageError(f"--answer {each!r} is not NAME=VALUE", "for example --answer deadlock=yes")
        answers[name] = Answer(value, by, why)
    return answers


def goal_fact(text: str | None) -> tuple[Fact, ...]:
    """`--goal` as a fact."""
    return (Fact(kind="goal", title="goal", text=text),) if text and text.strip() else ()


def log_target(terminal: Terminal, log: Path | None, project: Path | None, unit: str | None) -> Path | None:
    """Where log lines go: the file named, the one unit in flight or the one named, else nowhere (M-052, M-053, M-g8)."""
    if log is not None and (project is not None or unit is not None):
        raise errors.UsageError("--log and --project (or --unit) both name a log", "leave one of them out")
    if unit is not None and project is None:
        raise errors.UsageError("--unit needs --project", "name the project's folder: --project .")
    chosen = log if project is None else _scratchpad(terminal, project, unit)
    if chosen is not None:
        logbook.check(chosen)
    return chosen


def _scratchpad(terminal: Terminal, project: Path, unit: str | None) -> Path | None:
    if not project.is_dir():
        raise errors.UsageError(f"there is no folder {str(project)!r}", "check the path given to --project")
    pads = {pad.parent.name: pad for pad in logbook.in_flight(project)}
    if unit is not None:
        named = project / ".minerva" / "work" / unit
        if "/" in unit or not named.is_dir():
            known = ", ".join(pads) or "none"
            raise errors.UsageError(f"there is no unit {unit!r} in {project}", f"in flight: {known}")
        return named / "scratchpad.md"  # a unit that is named may be new, or finished (M-052)
    if len(pads) > 1:
        question = Question(
            "unit", ("Several units are in flight: which one's scratchpad is the log?",), choices=(*pads, "none")
        )
        answer = terminal.ask(question)
        if answer is None:
            terminal.notice(
                f"several units are in flight ({', '.join(pads)}): log lines go to standard output; name one with --unit"
            )
        return pads.get(answer.value) if answer else None
    return next(iter(pads.values()), None)
