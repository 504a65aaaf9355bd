"""The command line: parse, load, call, print. Only this file picks exit codes.

0    the debate ran to its end and the report is written, whatever passed
1    bad content, config file, model, window, output folder, or engine
2    usage: unknown option, protocol or setting key, missing file
3    a human must decide
130  interrupted
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date as Date  # noqa: N812 - the word `date` is an option's name here
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.markup import escape

import roundtable_local
from roundtable_local import errors, execute, logbook, protocols
from roundtable_local.caller import Panels
from roundtable_local.config import engine_settings, model_profile, parse_set, protocol_settings
from roundtable_local.decision import read_text
from roundtable_local.doctor import examine
from roundtable_local.inputs import DEFAULT_PROTOCOL, read_inputs
from roundtable_local.manifest import compare, make_manifest
from roundtable_local.plan import make_plan
from roundtable_local.protocols.confidence import statefile, tally
from roundtable_local.protocols.confidence.settings import ConfidenceSettings
from roundtable_local.runner import Human
from roundtable_local.seating import read_facts, read_souls
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
    with _reported(terminal):
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
            decision, protocol=protocol, model=model, backend=backend, seed=seed, date=_date(date), config=config,
            set_protocol=set_protocol, set_model=set_model, replies=replies, personas=_personas(personas),
            dissent=_dissent(dissent, devil_advocate), codebase=codebase, out=out,
            seats=read_souls([path for each in seats or [] for path in _listed(each)], person or [], engine_settings().slug),
            facts=(*_goal(goal), *read_facts([proposal] if proposal else [], "proposal"), *read_facts(context or [])),
            language=language, oracle_root=oracle_root, log=_log_target(terminal, log, project, unit),
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
        with _stoppable() as stop:
            path, outcome = execute.run(planned, out, Human(_answers(answer), yes), terminal, stop)
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
    with _reported(terminal), _stoppable() as stop:
        afterwards = execute.Afterwards(ledger, roadmap, commit)
        planned, outcome, worked = execute.resume(run_dir, Human(_answers(answer, by, why), yes), terminal, stop)
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
        outcome = execute.render_again(run_dir, out)
    _point_to(terminal, out.resolve(), outcome)


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
    with _reported(terminal), _stoppable() as stop:
        if not jsonl:
            fix = "add --jsonl and pipe the decisions in; for one decision: roundtable-local run ARTIFACT --protocol panel"
            raise errors.UsageError("panel answers JSON lines on standard input", fix)
        set_protocol, set_model = parse_set(settings or [])
        standing = read_inputs(
            "a panel's standing instruction", protocol="panel", model=model, backend=backend, seed=seed, date=_date(date),
            config=config, set_protocol=set_protocol | ({"quorum": quorum} if quorum else {}), set_model=set_model,
            replies=replies, out=out, facts=read_facts(context or []), log=_log_target(terminal, log, project, unit),
        )  # fmt: skip
        with closing(Panels(standing, out, auto=auto, listener=terminal, stop=stop)) as panels:
            for result in panels.answer(sys.stdin.buffer):
                sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
                sys.stdout.flush()


def _goal(text: str | None) -> tuple[Fact, ...]:
    return (Fact(kind="goal", title="goal", text=text),) if text and text.strip() else ()


def _log_target(terminal: Terminal, log: Path | None, project: Path | None, unit: str | None) -> Path | None:
    """Where log lines go: the file named, the one unit in flight or the one named, else nowhere (M-052, M-053, M-g8)."""
    if log is not None or project is None:
        return log
    if not project.is_dir():
        raise errors.UsageError(f"there is no folder {str(project)!r}", "check the path given to --project")
    pads = {pad.parent.name: pad for pad in logbook.in_flight(project)}
    if unit is not None:
        if unit not in pads:
            known = ", ".join(pads) or "none"
            raise errors.UsageError(f"no unit {unit!r} is in flight in {project}", f"in flight: {known}")
        return pads[unit]
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


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def inspect(context: typer.Context) -> None:
    """Say what follows from the last round of a confidence STATE.json: stop early, skip round 3, ask, or go on.

    Exit codes: 0 said, 1 bad input or fewer than three seats.

    Example:

    [bold]roundtable-local inspect examples/adopt-a-pattern.json[/]
    """
    terminal = Terminal(quiet=False)
    state, rules = _state(terminal, "inspect", context.args)
    with _judged(terminal):
        terminal.result(tally.inspect(statefile.load_state(state), rules).line)


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def vote(context: typer.Context) -> None:
    """Count the votes of a confidence STATE.json.

    Exit codes: 0 decided, 2 ballots must be cast again (RE-PROMPT), 3 a human decides (ESCALATE), 1 bad input or
    fewer than three seats.

    Example:

    [bold]roundtable-local vote examples/adopt-a-pattern.json[/]
    """
    terminal = Terminal(quiet=False)
    state, rules = _state(terminal, "vote", context.args)
    with _judged(terminal):
        counted = tally.vote(statefile.load_state(state), rules)
        terminal.result(counted.block)
        raise typer.Exit(REPROMPT if counted.problems else OK if counted.decided else HUMAN)


@app.command()
def doctor(
    model: Model = None,
    out: Out = Path("roundtables"),
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what this machine can run, and what a model needs to run on it; loads nothing.

    Exit codes: 0 nothing is in the way, 1 there are problems.

    Examples:

    [bold]roundtable-local doctor[/]

    [bold]roundtable-local doctor --model /models/qwen3-8b --json[/]
    """
    terminal = Terminal(quiet=False)
    with _reported(terminal):
        _, set_model = parse_set(settings or [])
        profile = model_profile(model, set_model) if model else None
        found = examine(profile, engine_settings(), out, os.environ, _date(None))
        if as_json:
            terminal.result(json.dumps(found.as_json(), indent=2, ensure_ascii=False))
        else:
            terminal.findings(found)
        raise typer.Exit(OK if found.healthy else FAILED)


models = typer.Typer(no_args_is_help=True, help="Checksums of a model's files, for what was carried over an air gap.")
app.add_typer(models, name="models")


@models.command()
def manifest(
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this new file.")] = None,
) -> None:
    """List sha256 and path of every file of a model, as sha256sum does.

    Example:

    [bold]roundtable-local models manifest /models/qwen3-8b --out qwen3-8b.sha256[/]
    """
    terminal = Terminal(quiet=False)
    with _reported(terminal):
        if out is not None and out.exists():
            raise errors.UsageError(f"--out {out} is already there", "name a new file")
        text = make_manifest(model, terminal.reading)
        if out is None:
            terminal.result(text.removesuffix("\n"))
            return
        try:
            out.write_text(text, "utf-8")
        except OSError as error:
            raise errors.OutputError(f"{out} cannot be written: {error.strerror}", "name another file") from error
        terminal.result(str(out.resolve()))


@models.command("verify")
def verify_model(
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    manifest: Annotated[Path, typer.Option(metavar="FILE", help="What `models manifest` wrote.")],
) -> None:
    """Name every file of a model that is missing, changed, or not listed; exit 1 where there is one.

    Example:

    [bold]roundtable-local models verify /models/qwen3-8b --manifest qwen3-8b.sha256[/]
    """
    terminal = Terminal(quiet=False)
    with _reported(terminal):
        if not manifest.is_file():
            raise errors.UsageError(f"there is no file {str(manifest)!r}", "check the path given to --manifest")
        problems = compare(model, read_text(manifest), terminal.reading)
        for problem in problems:
            terminal.result(problem)
        if problems:
            message = f"{len(problems)} files of {model} are not what the manifest says"
            raise errors.ModelError(message, "copy the model's folder again, then verify it again")
        terminal.result(f"{model}: all files are as listed")


def _state(terminal: Terminal, command: str, arguments: Sequence[str]) -> tuple[str, ConfidenceSettings]:
    """The text of the one state file; here bad usage is bad input as well (O-057)."""
    try:
        if len(arguments) != 1 or arguments[0].startswith("-"):
            raise errors.UsageError(f"{command} takes one state file", f"roundtable-local {command} STATE.json")
        path = Path(arguments[0])
        if not path.exists():
            raise errors.UsageError(f"there is no file {arguments[0]!r}", "check the path")
        rules = protocol_settings("confidence", ConfidenceSettings, config={}, decision={}, command_line={})
        return read_text(path).removeprefix("\ufeff"), rules
    except errors.RoundtableError as error:
        terminal.error(error)
        raise typer.Exit(FAILED) from error


@contextmanager
def _judged(terminal: Terminal) -> Iterator[None]:
    try:
        yield
    except statefile.BadState as error:
        terminal.error(errors.SeatError(str(error), "mend the state file"))
        raise typer.Exit(FAILED) from error


def _finish(terminal: Terminal, path: Path, outcome: Outcome) -> None:
    terminal.say(escape(outcome.summary))
    _point_to(terminal, execute.home_of(path), outcome)
    raise typer.Exit(FAILED if outcome.failed else HUMAN if outcome.needs_human else OK)


def _point_to(terminal: Terminal, home: Path, outcome: Outcome) -> None:
    """Absolute, resolved paths of the results (O-082)."""
    for each in outcome.results:
        terminal.result(f"{each.label}: {home / each.path}" if each.label else str(home / each.path))


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
