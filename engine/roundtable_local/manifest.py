"""Checksums of every file of a model folder, in the form of sha256sum, to compare what arrived with what was sent."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from roundtable_local.errors import ModelError

Seen = Callable[[str, int], None]
"""Told each file's name and size in bytes before it is read."""

_LINE = re.compile(r"(\\?)([0-9a-fA-F]{64}) [ *](.+)")
_ESCAPE = re.compile(r"\\([\\nr])")
_ESCAPED = {"\\": "\\", "n": "\n", "r": "\r"}
_AGAIN = "make it with: roundtable-local models manifest MODEL --out FILE"


def _unseen(name: str, size: int) -> None:
    """Nobody watches."""


def make_manifest(folder: Path, seen: Seen = _unseen) -> str:
    """A line per file: sha256, two blanks, path below the folder; sorted by path.

    Args:
        folder: the model's folder. Links are followed inside it.
        seen: told of each file.

    Raises:
        ModelError: no folder, nothing in it, a link that leads out of it, or a file that cannot be read or listed.
    """
    lines = [_line(name, _sha256(name, path, seen)) for name, path in _files(folder)]
    if not lines:
        raise ModelError(f"{folder} holds no files", "name a model's folder")
    return "".join(lines)


def compare(folder: Path, manifest: str, seen: Seen = _unseen, leave_out: Path | None = None) -> list[str]:
    """What differs from the manifest: a line per file that is missing, changed, or not listed; empty where nothing does.

    Args:
        folder: the model's folder.
        manifest: the text of what `make_manifest` or sha256sum wrote; paths may begin with "./".
        seen: told of each file.
        leave_out: the manifest's own file, which may lie in the folder.

    Raises:
        ModelError: as `make_manifest`, or the manifest is none.
    """
    listed = _parse(manifest)
    own = leave_out.resolve() if leave_out else None
    found = {name: path for name, path in _files(folder) if name in listed or path.resolve() != own}
    problems = [f"missing: {name}" for name in listed if name not in found]
    problems += [f"not listed: {name}" for name in found if name not in listed]
    problems += [
        f"changed: {name}"
        for name, path in found.items()
        if name in listed and _sha256(name, path, seen) != listed[name]
    ]
    return sorted(problems)


def read_manifest(path: Path) -> str:
    """The text of a manifest's file.

    Raises:
        ModelError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}", "check its permissions") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8 (byte {error.start})", _AGAIN) from error


def _line(name: str, digest: str) -> str:
    """One line of sha256sum, which marks the lines whose backslashes it doubles."""
    mark, name = ("\\", name.replace("\\", "\\\\")) if "\\" in name else ("", name)
    return f"{mark}{digest}  {name}\n"


def _parse(manifest: str) -> dict[str, str]:
    listed: dict[str, str] = {}
    for number, line in enumerate(manifest.split("\n"), 1):  # other line ends of Unicode may stand in names
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.removesuffix("\r"))
        if match is None:
            raise ModelError(f"line {number} of the manifest is not `sha256  path`", _AGAIN)
        name = _ESCAPE.sub(lambda found: _ESCAPED[found[1]], match[3]) if match[1] else match[3]
        name = name.removeprefix("./")
        if name in listed:
            raise ModelError(f"line {number} of the manifest repeats {name!r}", _AGAIN)
        listed[name] = match[2].lower()
    if not listed:
        raise ModelError("the manifest lists no files", _AGAIN)
    return listed


def _files(folder: Path) -> list[tuple[str, Path]]:
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder", "name a model's folder; hub names are not downloaded")
    root = folder.resolve()
    return sorted((_name(path, folder), path) for path in _walk(folder, root, (root,)))


def _walk(folder: Path, root: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """Every file below a folder; unlike a glob, nothing that cannot be read is passed over.

    Args:
        folder: as it is reached.
        root: the model's folder, resolved.
        above: resolved folders on the way here.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise _unreadable(folder, error) from error
    for entry in entries:
        path = folder / entry.name
        target = _target(path, root) if entry.is_symlink() else path
        if target.is_dir():
            resolved = target.resolve()
            if resolved in above:
                raise ModelError(f"{path} is a link to a folder that it lies in", "remove the link")
            yield from _walk(path, root, (*above, resolved))
        elif target.is_file():
            yield path
        else:
            raise ModelError(f"{path} is neither a file nor a folder", "remove it from the model's folder")


def _target(link: Path, root: Path) -> Path:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise ModelError(f"{link} is a link that leads nowhere", "copy the file itself into the folder") from error
    if not target.is_relative_to(root):
        raise ModelError(f"{link} is a link that leads out of the folder", "copy the file itself into the folder")
    return target


def _name(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    if {"\n", "\r"} & set(name):
        raise ModelError(f"{name!r} has a line break in its name", "rename the file")
    if not name.isascii() and name != name.encode("utf-8", "replace").decode():
        raise ModelError(f"{name!r} has a name that is not UTF-8", "rename the file")
    return name


def _sha256(name: str, path: Path, seen: Seen) -> str:
    try:
        seen(name, path.stat().st_size)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"{path} cannot be read: {error.strerror}", "change its permissions")
