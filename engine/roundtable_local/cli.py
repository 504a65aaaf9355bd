"""The command line: parse, load, call, print. Only this file picks exit codes.

0    the debate ran to its end and the report is written, whatever passed
1    bad content, config file, model, window, output folder, or engine
2    usage: unknown option, protocol or setting key, missing file
3    a human must decide
130  interrupted
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date as Date  # noqa: N812 - the word `date` is an option's name here
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

import roundtable_local
from roundtable_local import errors, execute
from roundtable_local.config import parse_set
from roundtable_local.inputs import read_inputs
from roundtable_local.plan import make_plan
from roundtable_local.steps import Answer, Outcome
from roundtable_local.terminal import Terminal

OK, FAILED, USAGE, HUMAN, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="roundtable-local",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Structured multi-seat debates on local models: seats argue in rounds, vote, and a report says what passed.",
)


def main() -> None:
    """Entry point of the `roundtable-local` command."""
    if sys.getfilesystemencoding() != "utf-8":
        # An ASCII locale cannot name a run directory after a Korean decision: begin again in Python's UTF-8 mode.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "roundtable_local", *sys.argv[1:]])  # noqa: S606 - ourselves
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console that cannot show a character must not end a run
            stream.reconfigure(errors="replace")
    app()


@contextmanager
def _reported(terminal: Terminal) -> Iterator[None]:
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
def _stoppable() -> Iterator[Callable[[], bool]]:
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the report's path and errors only.")]


@app.command()
def run(
    decision: Annotated[str, typer.Argument(help="A decision file, or a question in quotes.")],
    protocol: Annotated[str | None, typer.Option(help="How to debate: supermajority.")] = None,
    model: Annotated[
        str | None, typer.Option(help="A model folder, a profile file, or a profile's name (tiny-cpu).")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="vllm or scripted; default: the model profile's.")] = None,
    out: Annotated[Path, typer.Option(help="Where run directories are made.")] = Path("roundtables"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of all sampling.")] = 0,
    date: Annotated[str | None, typer.Option(help="Date of the run, YYYY-MM-DD; default: today.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting (model.KEY for the model's). Repeatable."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file with protocol, model, settings, model_settings.")
    ] = None,
    replies: Annotated[Path | None, typer.Option(help="Scripted replies (YAML), with --backend scripted.")] = None,
    personas: Annotated[
        str | None, typer.Option(metavar="ROLE=PERSONA,...", help="Voices of seats, see configs/personas.yaml.")
    ] = None,
    dissent: Annotated[str | None, typer.Option(metavar="ROLE,...", help="Structured dissenters, two at most.")] = None,
    devil_advocate: Annotated[
        bool, typer.Option("--devil-advocate", help="Short for --dissent devils-advocate.")
    ] = False,
    orchestration: Annotated[
        str | None,
        typer.Option(help="sub-agents (one call a round), sequential, or agent-team (seats challenge each other)."),
    ] = None,
    codebase: Annotated[
        Path | None, typer.Option(help="A folder of code to check the recommendations against, after the theory.")
    ] = None,
    ledger: Ledger = None,
    roadmap: Roadmap = None,
    commit: Commit = False,
    answer: Answers = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show seats, turns, token budget and files; load no model.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Debate a decision and write the report.

    Examples:

    [bold]roundtable-local run decision.md --model /models/qwen3-8b[/]

    [bold]roundtable-local run "Should we use microservices or monolith?" --model tiny-cpu --dry-run[/]

    [bold]roundtable-local run decision.md --model /models/qwen3-8b --set recommendations.most=5 --seed 7[/]
    """
    terminal = Terminal(quiet=quiet)
    with _reported(terminal):
        set_protocol, set_model = parse_set(settings or [])
        if orchestration is not None:
            set_protocol["orchestration"] = orchestration
        inputs = read_inputs(
            decision, protocol=protocol, model=model, backend=backend, seed=seed, date=_date(date), config=config,
            set_protocol=set_protocol, set_model=set_model, replies=replies, personas=_personas(personas),
            dissent=_dissent(dissent, devil_advocate), codebase=codebase, out=out,
        )  # fmt: skip
        planned = make_plan(inputs)
        if dry_run:
            terminal.plan(planned)
            return
        afterwards = execute.Afterwards(ledger, roadmap, commit)
        afterwards.check(out)
        terminal.say(f"[bold]{planned.protocol.name}[/] on {planned.profile.path}")
        for warning in planned.warnings:
            terminal.notice(warning)
        with _stoppable() as stop:
            terminal.say("starting the engine ...")
            path, outcome = execute.run(planned, out, _answers(answer), terminal, stop)
        for line in afterwards.do(planned, path, outcome):
            terminal.say(line)
    _finish(terminal, path, outcome)


@app.command()
def resume(
    run_dir: Annotated[Path, typer.Argument(help="Directory of a run that was stopped or waits for an answer.")],
    ledger: Ledger = None,
    roadmap: Roadmap = None,
    commit: Commit = False,
    answer: Answers = None,
    quiet: Quiet = False,
) -> None:
    """Go on with a run: what was generated is kept, only what is missing is generated.

    Example:

    [bold]roundtable-local resume roundtables/microservices-vs-monolith-20260301[/]
    """
    terminal = Terminal(quiet=quiet)
    with _reported(terminal), _stoppable() as stop:
        afterwards = execute.Afterwards(ledger, roadmap, commit)
        planned, outcome, worked = execute.resume(run_dir, _answers(answer), terminal, stop)
        if not worked:
            terminal.say("nothing to do: the run is finished")
        for line in afterwards.do(planned, run_dir, outcome):
            terminal.say(line)
    _finish(terminal, run_dir, outcome)


@app.command()
def report(
    run_dir: Annotated[Path, typer.Argument(help="Directory of a finished run.")],
    out: Annotated[Path, typer.Option(help="New folder for the files.")],
) -> None:
    """Render a run's files again, from its journal alone.

    Example:

    [bold]roundtable-local report roundtables/microservices-vs-monolith-20260301 --out /tmp/again[/]
    """
    terminal = Terminal(quiet=False)
    with _reported(terminal):
        if out.exists():
            raise errors.UsageError(f"--out {out} is already there", "name a new folder")
        try:
            out.mkdir(parents=True)
        except OSError as error:
            raise errors.OutputError(f"--out {out} cannot be made: {error.strerror}", "name another folder") from error
        execute.render_again(run_dir, out)
    terminal.result(str((out / "REPORT.md").resolve()))


@app.command()
def verify(run_dir: Annotated[Path, typer.Argument(help="Directory of a finished run.")]) -> None:
    """Check that every file of a run is what its journal renders to; exit 1 where one is not.

    Example:

    [bold]roundtable-local verify roundtables/microservices-vs-monolith-20260301[/]
    """
    terminal = Terminal(quiet=False)
    with _reported(terminal):
        if changed := execute.verify(run_dir):
            message = f"not what the journal renders to: {', '.join(changed)}"
            raise errors.JournalError(message, "render the files again with roundtable-local report")
    terminal.result(f"{run_dir}: all files are what the journal renders to")


def _finish(terminal: Terminal, path: Path, outcome: Outcome) -> None:
    terminal.say(outcome.summary)
    terminal.result(str((path / "REPORT.md").resolve()))
    raise typer.Exit(HUMAN if outcome.needs_human else OK)


def _date(text: str | None) -> str:
    if text is None:
        return Date.today().isoformat()  # noqa: DTZ011 - the user's own day
    try:
        return Date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise errors.UsageError(f"--date {text!r} is not a date", "write it as YYYY-MM-DD") from error


def _personas(text: str | None) -> dict[str, str]:
    pairs = [each.partition("=") for each in _listed(text)]
    if any(not equals for _, equals, _ in pairs):
        raise errors.UsageError(
            f"--personas {text!r} is not ROLE=PERSONA,...", "for example --personas empiricist=data-purist"
        )
    return {slug.strip(): persona.strip() for slug, _, persona in pairs}


def _dissent(text: str | None, devil_advocate: bool) -> list[str]:
    return [*_listed(text), *(["devils-advocate"] if devil_advocate else [])]


def _listed(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _answers(given: list[str] | None, by: str = "", why: str = "") -> dict[str, Answer]:
    answers = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise errors.UsageError(f"--answer {each!r} is not NAME=VALUE", "for example --answer deadlock=yes")
        answers[name] = Answer(value, by, why)
    return answers
