"""Commands on state files of the confidence protocol: inspect and vote, with exit codes of their own (O-057, O-060)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from roundtable_local import errors
from roundtable_local.cli.base import (
    FAILED,
    HUMAN,
    OK,
    REPROMPT,
    app,
)
from roundtable_local.config import protocol_settings
from roundtable_local.decision import read_text
from roundtable_local.protocols.confidence import statefile, tally
from roundtable_local.protocols.confidence.settings import ConfidenceSettings
from roundtable_local.terminal import Terminal


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


def _state(terminal: Terminal, command: str, arguments: Sequence[str]) -> tuple[str, ConfidenceSettings]:
    """The text of the one state file; here bad usage is bad input as well (O-057)."""
    try:
        if len(arguments) != 1 or arguments[0].startswith("-"):
            raise errors.UsageError(f"{command} takes one state file", f"roundtable-local {command} STATE.json")
        path = Path(arguments[0])
        try:
            there = path.exists()
        except (OSError, ValueError):  # longer than a file name can be, or with a NUL
            there = False
        if not there:
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
