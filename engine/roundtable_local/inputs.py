"""What the user gave, read and complete: the journal keeps it, and `resume` plans again from it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roundtable_local import protocols
from roundtable_local.backends import check_name
from roundtable_local.config import engine_settings, read_yaml, validate
from roundtable_local.decision import (
    QUESTION,
    STDIN,
    Decision,
    decode,
    parse_decision,
    read_decision,
    whole_decision,
    whole_text,
)
from roundtable_local.errors import ConfigError, DecisionError, UsageError
from roundtable_local.seats import Fact, Seat
from roundtable_local.settings import Strict

DEFAULT_PROTOCOL = "supermajority"


class SeatModel(Strict):
    """What one seat runs on: another model, or an adapter on top of its model; paths are relative to the config file."""

    model: str = ""
    adapter: str = ""


class ConfigFile(Strict):
    """A user's config file (`--config`); all keys are optional."""

    protocol: str | None = None
    model: str | None = None
    settings: Mapping[str, Any] = {}
    model_settings: Mapping[str, Any] = {}
    seats: Mapping[str, SeatModel] = {}


class Inputs(Strict):
    """What the user gave, complete: the journal keeps it, and `resume` plans again from it."""

    text: str
    source: str
    source_path: str | None = None
    source_sha256: str | None = None
    topic: str | None = None
    protocol: str
    model: str
    backend: str | None = None
    seed: int
    date: str
    config: ConfigFile = ConfigFile()
    set_protocol: Mapping[str, Any] = {}
    set_model: Mapping[str, Any] = {}
    replies: str | None = None
    personas: Mapping[str, str] = {}
    dissent: tuple[str, ...] = ()
    codebase: str | None = None
    out: str | None = None
    seats: tuple[Seat, ...] = ()
    facts: tuple[Fact, ...] = ()
    language: str | None = None
    oracle_root: str | None = None
    log: str | None = None
    deterministic: bool = False
    trust_remote_code: bool = False
    chat_template: str | None = None


def read_inputs(
    argument: str,
    *,
    protocol: str | None,
    model: str | None,
    backend: str | None,
    seed: int,
    date: str,
    config: Path | None,
    set_protocol: Mapping[str, Any],
    set_model: Mapping[str, Any],
    replies: Path | None,
    personas: Mapping[str, str] | None = None,
    dissent: Sequence[str] = (),
    codebase: Path | None = None,
    out: Path | None = None,
    seats: Sequence[Seat] = (),
    facts: Sequence[Fact] = (),
    language: str | None = None,
    oracle_root: Path | None = None,
    log: Path | None = None,
    deterministic: bool = False,
    trust_remote_code: bool = False,
    chat_template: Path | None = None,
) -> Inputs:
    """Read decision and config file; settle which protocol and model are meant.

    Raises:
        UsageError, DecisionError, ConfigError: as `read_decision` and `read_yaml` say.
    """
    if backend is not None:
        check_name(backend)
    slugs = engine_settings().slug
    whole = protocol is not None and protocols.find(protocol).whole
    if argument == "-":
        piped = decode(sys.stdin.buffer.read(), STDIN).removeprefix("\ufeff")
        decision = (whole_decision if whole else parse_decision)(piped, STDIN, slugs)
    else:
        decision, piped = read_decision(argument, slugs, whole=whole), ""
    file = _config_file(config)
    path = None if decision.source in {QUESTION, STDIN} else Path(argument).resolve()
    front_protocol = decision.front.get("protocol")
    if front_protocol is not None and not isinstance(front_protocol, str):
        raise DecisionError("the decision file's `protocol:` is not a name", f"one of: {', '.join(protocols.NAMES)}")
    return Inputs(
        text=whole_text(piped or argument) if path is None else path.read_text("utf-8-sig"),
        source=decision.source,
        source_path=None if path is None else str(path),
        source_sha256=None if path is None else hashlib.sha256(path.read_bytes()).hexdigest(),
        protocol=protocol or front_protocol or file.protocol or DEFAULT_PROTOCOL,
        model=model or file.model or ("scripted" if backend == "scripted" else ""),
        backend=backend,
        seed=seed,
        date=date,
        config=file,
        set_protocol=set_protocol,
        set_model=set_model,
        replies=None if replies is None else str(replies.resolve()),
        personas=personas or {},
        dissent=tuple(dissent),
        codebase=_codebase_path(codebase, decision, path),
        out=None if out is None else str(out.resolve()),
        seats=tuple(seats),
        facts=tuple(facts),
        language=language,
        deterministic=deterministic,
        trust_remote_code=trust_remote_code,
        chat_template=None if chat_template is None else str(chat_template.resolve()),
        log=None if log is None else str(log.absolute()),
        oracle_root=None if oracle_root is None else str(oracle_root.resolve()),
    )


def _codebase_path(given: Path | None, decision: Decision, decision_path: Path | None) -> str | None:
    """The code's folder: `--codebase`, else the decision file's key, relative to that file."""
    if given is not None:
        return str(given.resolve())
    named = decision.front.get("codebase")
    if named is None or decision_path is None:
        return None
    if not isinstance(named, str):
        raise DecisionError(
            "the decision file's `codebase:` is not a path", "write the folder's path, relative to the file"
        )
    return str((decision_path.parent / Path(named).expanduser()).resolve())


def _config_file(path: Path | None) -> ConfigFile:
    if path is None:
        return ConfigFile()
    if not path.is_file():
        raise UsageError(f"there is no config file {str(path)!r}", "check the path given to --config")
    file = validate(ConfigFile, read_yaml(path), str(path), ConfigError)
    seats = {slug: _beside(each, path) for slug, each in file.seats.items()}
    return file.model_copy(update={"seats": seats})


def _beside(seat: SeatModel, config: Path) -> SeatModel:
    """A seat's paths, absolute; a name of a profile stays a name."""
    folder = config.resolve().parent
    model = str((folder / seat.model).resolve()) if "/" in seat.model or seat.model.endswith(".yaml") else seat.model
    adapter = str((folder / Path(seat.adapter).expanduser()).resolve()) if seat.adapter else ""
    return SeatModel(model=model, adapter=adapter)
