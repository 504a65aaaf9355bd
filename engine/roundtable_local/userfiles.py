"""Files and folders of the user: read whole, changed by one writer at a time, never through a link."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from filelock import FileLock, Timeout

from roundtable_local.errors import RoundtableError
from roundtable_local.report.markdown import one_line
from roundtable_local.rundir import write_atomically

LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""One line with its end."""

_WAIT_SECONDS = 60.0


class AftermathError(RoundtableError):
    """The ledger, the roadmap or the user's repository cannot be changed safely; the run itself is finished."""


def absolute(path: Path) -> Path:
    """The path with its folder resolved, but not the file itself: that it is a link has to be seen."""
    return path.parent.resolve() / path.name


def plain(text: str) -> str:
    """Text as one line that any file can hold."""
    return one_line(text.encode("utf-8", "replace").decode())


def quoted(text: str) -> str:
    """The text in percent-encoding; letters and digits of every script stay as they are."""
    return re.sub(r"[^\w/.~-]+", lambda match: quote(match[0], safe="", errors="surrogateescape"), text)


def unquoted(text: str) -> str:
    """The path that a percent-encoded reference stands for."""
    return unquote(text, errors="surrogateescape")


def reference_to(target: Path, folder: Path) -> str:
    """How a file in `folder` names `target`: relative where it lies below the folder or beside it, else absolute."""
    if target.is_relative_to(folder):
        return target.relative_to(folder).as_posix()
    if folder.parent != folder.parent.parent and target.is_relative_to(folder.parent):
        return f"../{target.relative_to(folder.parent).as_posix()}"
    return target.as_posix()


def inserted(lines: Sequence[str], index: int, *added: str) -> str:
    """The text with lines added before `index`, which is not 0, ended as the line before them is."""
    last = lines[index - 1]
    ending = "\r\n" if (last if last.endswith("\n") else lines[0]).endswith("\r\n") else "\n"
    before = "".join(lines[:index]) + ("" if last.endswith("\n") else ending)
    return before + "".join(line + ending for line in added) + "".join(lines[index:])


def read_text(path: Path) -> str | None:
    """A text file that may be rewritten; None where there is none.

    Raises:
        AftermathError: something else is there.
    """
    try:
        if path.is_symlink():
            raise AftermathError(f"{path} is a link, which rewriting it would break", "name the file that it leads to")
        if not path.exists():
            return None
        if not path.is_file():
            raise AftermathError(f"{path} is not a file", "name a Markdown file")
        if not os.access(path, os.W_OK) or not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise AftermathError(f"{path} is read-only", "make it writable, or name another file")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise AftermathError(f"{path} is not UTF-8 text", "save it as UTF-8, or name another file") from error
    except OSError as error:
        raise AftermathError(f"{path} cannot be read: {error.strerror}", "name another file") from error


def existing(path: Path) -> Path:
    """The nearest of a path and its parents that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def check_folder(path: Path) -> None:
    """Refuse a path whose folder does not exist or cannot be written.

    Raises:
        AftermathError: it cannot.
    """
    folder = existing(path.parent)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise AftermathError(f"{path} cannot be written: {folder} is no writable folder", "name another file")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other runs from `path` meanwhile, by a lock file beside it that is gone afterwards."""
    lock = path.with_name(f".{path.name}.lock")
    held = FileLock(lock)
    try:
        held.acquire(timeout=_WAIT_SECONDS)
    except Timeout as error:
        raise AftermathError(f"{path} is in use by another run", "wait for it to end") from error
    except OSError as error:
        raise AftermathError(f"{path} cannot be locked: {error.strerror}", "change its folder's permissions") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is held: who waited for it sees that it is gone, and makes another
        held.release()


def update(path: Path, edit: Callable[[str | None], str | None]) -> bool:
    """Rewrite a file with what `edit` makes of its text, unless that is None; one run at a time, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path):
            text = edit(read_text(path))
            if text is None:
                return False
            _replace(path, text.encode("utf-8"))
    except OSError as error:
        fix = "make room or change the folder's permissions; the file is as it was"
        raise AftermathError(f"{path} cannot be written: {error.strerror}", fix) from error
    return True


def _replace(path: Path, data: bytes) -> None:
    if not path.exists():
        write_atomically(path, data)
        return
    # A file that is there keeps its permissions: the new one gets them where nobody else can look into it yet.
    with tempfile.TemporaryDirectory(prefix=".roundtable-", dir=path.parent) as folder:
        staged = Path(folder) / path.name
        write_atomically(staged, data)
        staged.chmod(stat.S_IMODE(path.stat().st_mode))
        staged.replace(path)
