"""Souls and facts out of files: every one is read from somewhere real, whole, or refused by name (O-021, O-022, O-024)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from roundtable_local.config import read_yaml, validate
from roundtable_local.decision import front_matter, read_text, slugify, whole_text
from roundtable_local.errors import ConfigError, DecisionError, SeatError, UsageError
from roundtable_local.seats import Fact, Roster, Seat
from roundtable_local.settings import SlugSettings
from roundtable_local.shipped import names as profile_names
from roundtable_local.steps import MODERATOR

_SLUG = re.compile(r"\w[\w-]*")
_TEXT = frozenset({".md", ".markdown", ".txt"})
_ROSTER = frozenset({".yaml", ".yml"})
_PREFIX = "resonance_"  # O-022: resonance_<name>.md
_NAMELESS = frozenset({"skill", "claude", "agents", "readme", "index", "persona", "soul"})
"""Stems that say what a file is, not whose: its folder names the seat."""
_ABOUT = frozenset({"readme", "index"})
"""Stems of files that tell about a folder of souls; no seat is made of them."""


def read_souls(paths: Sequence[str], persons: Sequence[str], slugs: SlugSettings) -> tuple[Seat, ...]:
    """Seats from persona files, folders of them, roster files, and people, in this order.

    Args:
        paths: as the user gave them.
        persons: "Name: the one habit they bring", written by a human (O-022).
        slugs: how a name becomes an id.

    Raises:
        UsageError: a path is not there, or a person has no name or habit.
        SeatError: a file cannot be read as text, is empty, or names a seat that sits already.
    """
    seats = [seat for path in paths for seat in _seats_at(path, slugs)]
    seats += [_person(text, slugs) for text in persons]
    taken: dict[tuple[str, str], Seat] = {}
    for seat in seats:
        _check(seat)
        for key in (("slug", seat.slug), ("name", seat.name)):
            if (other := taken.setdefault(key, seat)) is not seat:
                raise SeatError(
                    f"{seat.source} and {other.source} both seat {seat.name!r}",
                    "rename a file, or give one a `name:` in its front matter",
                )
    return tuple(seats)


def _check(seat: Seat) -> None:
    """Names must serve in ballots and file names, wherever they come from."""
    if seat.slug == MODERATOR:
        raise SeatError(
            f"{seat.source}: the name {seat.name!r} is kept for the seat that does not vote", "name it otherwise"
        )
    if not seat.name.strip() or not _SLUG.fullmatch(seat.slug):
        raise SeatError(
            f"{seat.source} seats {seat.name!r} ({seat.slug!r}): a seat needs a name and a slug",
            "use letters, digits and hyphens in slugs",
        )


def read_facts(paths: Sequence[Path], kind: str = "context") -> tuple[Fact, ...]:
    """Facts from text files, whole; a title is the file's name.

    Raises:
        UsageError: a file is not there.
        SeatError: it cannot be read as text.
    """
    return tuple(
        Fact.model_validate({"kind": kind, "title": whole_text(path.name), "text": _whole(path)}) for path in paths
    )


def _seats_at(given: str, slugs: SlugSettings) -> Iterator[Seat]:
    try:
        path = Path(given).expanduser()
        is_folder = path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:  # too long, NUL, unknown home
        raise UsageError(f"{given[:80]!r} cannot be a file's path", "check the path; none is invented") from error
    given = whole_text(given)
    if is_folder:
        files = sorted(each for each in path.iterdir() if each.suffix.lower() in _TEXT and each.is_file())
        files = [each for each in files if not each.name.startswith(".") and each.stem.lower() not in _ABOUT]
        if not files:
            raise SeatError(
                f"the folder {given} holds no persona files", f"put {', '.join(sorted(_TEXT))} files into it"
            )
        for file in files:
            yield _soul(file, f"{given.rstrip('/')}/{file.name}", slugs)
    elif path.suffix.lower() in _ROSTER and path.is_file():
        for seat in validate(Roster, read_yaml(path), given, ConfigError).seats:
            yield _on_model(
                seat.model_copy(update={"source": seat.source or given}),
                seat.model,
                seat.adapter,
                path.absolute().parent,
            )
    else:
        yield _soul(path, given, slugs)


def _soul(path: Path, source: str, slugs: SlugSettings) -> Seat:
    text = _whole(path)
    front, body = front_matter(text, source)
    if not body.strip():
        raise SeatError(f"{source} names a seat and says nothing of it", "write the persona below its front matter")
    stem = path.stem.removeprefix(_PREFIX)
    name = front.get("name") or (path.absolute().parent.name if stem.lower() in _NAMELESS else stem)
    seat = _seat(str(name), text, source, slugs, opposes=front.get("devils_advocate") is True)
    model = str(front.get("model") or "")
    ours = "/" in model or model.endswith(".yaml") or model in profile_names("configs", "models")
    return _on_model(seat, model if ours else "", str(front.get("adapter") or ""), path.absolute().parent)


def _on_model(seat: Seat, model: str, adapter: str, folder: Path) -> Seat:
    """The seat with its model and adapter; paths are relative to the file that names them."""
    if "/" in model or model.endswith(".yaml"):
        model = str((folder / Path(model).expanduser()).resolve())
    adapter = str((folder / Path(adapter).expanduser()).resolve()) if adapter else ""
    return seat.model_copy(update={"model": model, "adapter": adapter})


def _person(text: str, slugs: SlugSettings) -> Seat:
    text = whole_text(text)
    name, colon, habit = text.partition(":")
    if not colon or not name.strip() or not habit.strip():
        fix = 'for example --person "Ada: asks for the measurement"'
        raise UsageError(f"--person {text!r} is not NAME: ONE HABIT", fix)
    return _seat(name, f"{name.strip()}: {habit.strip()}", "a person, in one line by the user", slugs)


def _seat(name: str, soul: str, source: str, slugs: SlugSettings, *, opposes: bool = False) -> Seat:
    name = " ".join(name.split())
    slug = slugify(name, slugs)
    return Seat(slug=slug, name=name, soul=soul, source=source, devils_advocate=opposes)


def _whole(path: Path) -> str:
    try:
        there = path.exists()
    except (OSError, ValueError) as error:  # longer than a file name can be, or with a NUL
        raise UsageError(f"{str(path)[:80]!r} cannot be a file's path", "check the path; none is invented") from error
    if not there:
        raise UsageError(f"there is no file {str(path)!r}", "check the path; none is invented")
    try:
        text = read_text(path)
    except DecisionError as error:
        raise SeatError(error.message, "name a UTF-8 text file; none is invented or read in part") from error
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").strip()
