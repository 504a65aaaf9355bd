"""Commands about the machine and its models: doctor, models manifest, models verify."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from roundtable_local import errors
from roundtable_local.backends import check_name
from roundtable_local.cli.base import (
    FAILED,
    OK,
    BackendName,
    Model,
    Out,
    Settings,
    app,
    iso_date,
    reported,
)
from roundtable_local.config import engine_settings, model_profile, parse_set
from roundtable_local.doctor import examine
from roundtable_local.manifest import compare, make_manifest, read_manifest
from roundtable_local.terminal import Terminal


@app.command()
def doctor(
    model: Model = None,
    backend: BackendName = None,
    out: Out = Path("roundtables"),
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what this machine can run, and what a model needs to run on it; loads nothing.

    Exit codes: 0 nothing is in the way, 1 there are problems.

    Examples:

    [bold]roundtable-local doctor[/]

    [bold]roundtable-local doctor --model /models/qwen3-8b --set model.engine.tensor_parallel_size=2[/]

    [bold]roundtable-local doctor --model /models/qwen3-8b --json[/]
    """
    terminal = Terminal(quiet=False)
    with reported(terminal):
        _, set_model = parse_set(settings or [])
        if backend:
            check_name(backend)
        profile = model_profile(model, set_model | ({"backend": backend} if backend else {})) if model else None
        found = examine(profile, engine_settings(), out, os.environ, iso_date(None))
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
    with reported(terminal):
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
    with reported(terminal):
        if not manifest.is_file():
            raise errors.UsageError(f"there is no file {str(manifest)!r}", "check the path given to --manifest")
        problems = compare(model, read_manifest(manifest), terminal.reading, leave_out=manifest)
        for problem in problems:
            terminal.result(problem)
        if problems:
            message = f"{len(problems)} files of {model} are not what the manifest says"
            raise errors.ModelError(message, "copy the model's folder again, then verify it again")
        terminal.result(f"{model}: all files are as listed")
