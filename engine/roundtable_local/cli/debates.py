"""Commands that hold debates and tell of them: run, resume, report, verify, panel."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.markup import escape

from roundtable_local import errors, execute, protocols
from roundtable_local.audience import Human
from roundtable_local.caller import Panels
from roundtable_local.cli.base import (
    CONFIDENCE,
    PANEL,
    TABLE,
    Answers,
    BackendName,
    Commit,
    ConfigPath,
    Context,
    Ledger,
    LogFile,
    Model,
    Out,
    Project,
    Quiet,
    Quorum,
    RepliesPath,
    Roadmap,
    RunDate,
    Seed,
    Settings,
    Unit,
    Yes,
    app,
    finish,
    given_answers,
    goal_fact,
    interruptible,
    iso_date,
    log_target,
    point_to,
    reported,
    stoppable,
)
from roundtable_local.config import engine_settings, parse_set
from roundtable_local.inputs import DEFAULT_PROTOCOL, read_inputs
from roundtable_local.plan import make_plan
from roundtable_local.seating import read_facts, read_souls
from roundtable_local.terminal import Terminal


@app.command()
def run(
    decision: Annotated[str, typer.Argument(help="A decision file, or a question in quotes.")],
    protocol: Annotated[
        str | None, typer.Option(help=f"How to debate: {', '.join(protocols.NAMES)}; default: {DEFAULT_PROTOCOL}.")
    ] = None,
    model: Model = None,
    backend: BackendName = None,
    out: Out = Path("roundtables"),
    seed: Seed = 0,
    date: RunDate = None,
    settings: Settings = None,
    config: ConfigPath = None,
    replies: RepliesPath = None,
    seats: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|FOLDER,...",
            help="Who sits at the table: persona files, read whole. Repeatable.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    person: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME: HABIT", help="A real person, by the one habit they bring. Repeatable.", rich_help_panel=TABLE
        ),
    ] = None,
    context: Context = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Language of the debate, in English (Korean); default: the decision's.", rich_help_panel=TABLE
        ),
    ] = None,
    options: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Two to four options to vote on.", rich_help_panel=CONFIDENCE)
    ] = None,
    aggregator: Annotated[
        str | None, typer.Option(help="weighted, majority, or unanimity-or-escalate.", rich_help_panel=CONFIDENCE)
    ] = None,
    oracle_root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Copy minute, state and decision into the ψ/ folder of this repository.",
            rich_help_panel=CONFIDENCE,
        ),
    ] = None,
    quorum: Quorum = None,
    goal: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the artifact is meant to reach.", rich_help_panel=PANEL)
    ] = None,
    proposal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The unit's proposal; of a long one the fitting section.", rich_help_panel=PANEL
        ),
    ] = None,
    focus: Annotated[
        str | None,
        typer.Option(help="Section of a long proposal: approach, success-criteria, or auto.", rich_help_panel=PANEL),
    ] = None,
    log: LogFile = None,
    project: Project = None,
    unit: Unit = None,
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
    yes: Yes = False,
    chat_template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A chat template in place of the model's own.")
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic", help="Replies that depend on neither batch nor cache, as far as the hardware goes."
        ),
    ] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Let code in the model's folder run; it is recorded.")
    ] = False,
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

    [bold]roundtable-local run decision.md --protocol confidence --seats souls/ --options adopt,modify,reject --yes[/]
    """
    terminal = Terminal(quiet=quiet)
    with reported(terminal):
        set_protocol, set_model = parse_set(settings or [])
        shortcuts = {
            "orchestration": orchestration,
            "options": options,
            "aggregator": aggregator,
            "quorum": quorum,
            "focus": focus,
        }
        set_protocol |= {key: value for key, value in shortcuts.items() if value is not None}
        inputs = read_inputs(
            decision, protocol=protocol, model=model, backend=backend, seed=seed, date=iso_date(date), config=config,
            set_protocol=set_protocol, set_model=set_model, replies=replies, personas=_personas(personas),
            dissent=_dissent(dissent, devil_advocate), codebase=codebase, out=out,
            seats=read_souls([path for each in seats or [] for path in _listed(each)], person or [], engine_settings().slug),
            facts=(*goal_fact(goal), *read_facts([proposal] if proposal else [], "proposal"), *read_facts(context or [])),
            language=language, oracle_root=oracle_root, log=log_target(terminal, log, project, unit),
            deterministic=deterministic, trust_remote_code=trust_remote_code, chat_template=chat_template,
        )  # fmt: skip
        planned = make_plan(inputs)
        if dry_run:
            terminal.plan(planned)
            return
        afterwards = execute.Afterwards(ledger, roadmap, commit)
        afterwards.check(out)
        terminal.say(f"[bold]{planned.protocol.name}[/] on {planned.profile.path}")
        for line in planned.protocol.announce(planned.table):
            terminal.say(f"  {escape(line)}")
        for warning in planned.warnings:
            terminal.notice(warning)
        with stoppable() as stop:
            path, outcome = execute.run(planned, out, Human(given_answers(answer), yes), terminal, stop)
        for line in afterwards.do(planned, path, outcome):
            terminal.say(line)
    finish(terminal, path, outcome)


@app.command()
def resume(
    run_dir: Annotated[Path, typer.Argument(help="Directory of a run that was stopped or waits for an answer.")],
    ledger: Ledger = None,
    roadmap: Roadmap = None,
    commit: Commit = False,
    answer: Answers = None,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who gives the answer, where it must be signed.")] = "",
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")] = "",
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run: what was generated is kept, only what is missing is generated.

    Example:

    [bold]roundtable-local resume roundtables/microservices-vs-monolith-20260301[/]

    [bold]roundtable-local resume roundtables/adopt-it-20260301 --answer deadlock=adopt --by Ada --why "costs least"[/]
    """
    terminal = Terminal(quiet=quiet)
    with reported(terminal), stoppable() as stop:
        afterwards = execute.Afterwards(ledger, roadmap, commit)
        planned, outcome, worked = execute.resume(run_dir, Human(given_answers(answer, by, why), yes), terminal, stop)
        if not worked:
            terminal.say("nothing to do: the run is finished")
        for line in afterwards.do(planned, run_dir, outcome):
            terminal.say(line)
    finish(terminal, run_dir, outcome)


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
    with reported(terminal):
        if out.exists():
            raise errors.UsageError(f"--out {out} is already there", "name a new folder")
        execute.check_finished(run_dir)
        try:
            out.mkdir(parents=True)
        except OSError as error:
            raise errors.OutputError(f"--out {out} cannot be made: {error.strerror}", "name another folder") from error
        outcome = execute.render_again(run_dir, out)
    point_to(terminal, out.resolve(), outcome)


@app.command()
def verify(run_dir: Annotated[Path, typer.Argument(help="Directory of a finished run.")]) -> None:
    """Check that every file of a run is what its journal renders to; exit 1 where one is not.

    Example:

    [bold]roundtable-local verify roundtables/microservices-vs-monolith-20260301[/]
    """
    terminal = Terminal(quiet=False)
    with reported(terminal):
        if changed := execute.verify(run_dir):
            message = f"not what the journal renders to: {', '.join(changed)}"
            raise errors.JournalError(message, "render the files again with roundtable-local report")
    terminal.result(f"{run_dir}: all files are what the journal renders to")


@app.command()
def panel(
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read a JSON object per line; needed.")] = False,
    model: Model = None,
    backend: BackendName = None,
    out: Out = Path("roundtables"),
    seed: Seed = 0,
    date: RunDate = None,
    settings: Settings = None,
    config: ConfigPath = None,
    replies: RepliesPath = None,
    context: Context = None,
    quorum: Quorum = None,
    log: LogFile = None,
    project: Project = None,
    unit: Unit = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Give escalations back as results instead of leaving the run waiting.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Answer many panel decisions with one loaded engine: a JSON object per line in, a result per line out.

    Keys of a line: artifact (needed), decision, context, goal, proposal, quorum, focus, log, auto. The options here are
    the standing instruction; a line may override quorum, log and auto. A bad line gets an error object.

    Example:

    [bold]echo '{"artifact": "Cache pages for an hour.", "quorum": "3/3"}' | roundtable-local panel --jsonl --model tiny-cpu[/]
    """
    terminal = Terminal(quiet=quiet)
    with reported(terminal), stoppable() as stop:
        if not jsonl:
            fix = "add --jsonl and pipe the decisions in; for one decision: roundtable-local run ARTIFACT --protocol panel"
            raise errors.UsageError("panel answers JSON lines on standard input", fix)
        if sys.stdin is None or sys.stdout is None:
            raise errors.UsageError("standard input or output is closed", "pipe the decisions in and the results out")
        set_protocol, set_model = parse_set(settings or [])
        standing = read_inputs(
            "a panel's standing instruction", protocol="panel", model=model, backend=backend, seed=seed, date=iso_date(date),
            config=config, set_protocol=set_protocol | ({"quorum": quorum} if quorum else {}), set_model=set_model,
            replies=replies, out=out, facts=read_facts(context or []), log=log_target(terminal, log, project, unit),
        )  # fmt: skip
        with closing(Panels(standing, out, auto=auto, listener=terminal, stop=stop)) as panels:
            for result in panels.answer(_lines(sys.stdin.buffer)):
                try:
                    sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
                    sys.stdout.flush()
                except BrokenPipeError as error:  # who called has gone
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                    message = "nobody reads the results any more"
                    raise errors.InterruptedRunError(
                        message, "each decision's run directory holds its result"
                    ) from error


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines as they come; a signal that arrives while waiting ends the command at once."""
    while True:
        with interruptible():
            line = stream.readline()
        if not line:
            return
        yield line


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
