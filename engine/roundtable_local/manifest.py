"""Checksums of every file of a model folder, in the form of sha256sum, to compare what arrived with what was sent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from roundtable_local.errors import ModelError

_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def make_manifest(folder: Path, seen: Callable[[str, int], None] = lambda name, size: None) -> str:
    """A line per file: sha256, two blanks, path below the folder; sorted.

    Args:
        folder: the model's folder.
        seen: called with each file's name and size in bytes before it is read.

    Raises:
        ModelError: no folder, nothing in it, a link that leads out of it, or a file that cannot be read.
    """
    lines = []
    for name, path in _files(folder):
        seen(name, path.stat().st_size)
        lines.append(f"{_sha256(path)}  {name}\n")
    if not lines:
        raise ModelError(f"{folder} holds no files", "name a model's folder")
    return "".join(lines)


def compare(folder: Path, manifest: str, seen: Callable[[str, int], None] = lambda name, size: None) -> list[str]:
    """What differs from the manifest: a line per file that is missing, changed, or not listed; empty where nothing does.

    Raises:
        ModelError: as `make_manifest`, or the manifest is none.
    """
    listed = _parse(manifest)
    found = dict(_files(folder))
    problems = [f"missing: {name}" for name in listed if name not in found]
    problems += [f"not listed: {name}" for name in found if name not in listed]
    for name, path in found.items():
        if name in listed:
            seen(name, path.stat().st_size)
            if _sha256(path) != listed[name]:
                problems.append(f"changed: {name}")
    return sorted(problems)


def _parse(manifest: str) -> dict[str, str]:
    listed: dict[str, str] = {}
    for number, line in enumerate(manifest.splitlines(), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None or match[2] in listed:
            fix = "make it with: roundtable-local models manifest MODEL --out FILE"
            raise ModelError(f"line {number} of the manifest is not `sha256  path`, or repeats a path", fix)
        listed[match[2]] = match[1]
    if not listed:
        raise ModelError(
            "the manifest lists no files", "make it with: roundtable-local models manifest MODEL --out FILE"
        )
    return listed


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder", "name a model's folder; hub names are not downloaded")
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise ModelError(f"{path} is a link that leads out of the folder", "copy the file itself into the folder")
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            if "\n" in name:
                raise ModelError(f"{name!r} has a line break in its name", "rename the file")
            yield name, path


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}", "change its permissions") from error
