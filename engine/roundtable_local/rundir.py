"""The run directory: made once, one writer at a time, files whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType

from filelock import FileLock, Timeout

from roundtable_local.errors import OutputError

_LOCK = ".lock"
_FILE_MODE = 0o644
_FIX = "name another folder with --out, or change its permissions"


class RunDirectory:
    """A locked run directory; use as a context manager.

    Args:
        path: an existing directory.

    Raises:
        OutputError: another process writes to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._lock = FileLock(self.path / _LOCK)

    def __enter__(self) -> RunDirectory:
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise OutputError(f"{self.path} is in use by another run", "wait for it to end") from error
        except OSError as error:
            raise OutputError(f"{self.path} cannot be locked: {error.strerror}", _FIX) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (self.path / _LOCK).unlink(missing_ok=True)
        self._lock.release()

    def folder(self, name: str) -> None:
        """Make an empty folder.

        Raises:
            OutputError: it cannot be made, or a link stands in its place.
        """
        target = self._inside(name)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{target} cannot be made: {error.strerror}", _FIX) from error
        self._refuse_links(target)

    def write(self, name: str, text: str) -> None:
        """Write a whole file: temporary file, fsync, rename; nothing happens where the same bytes are there.

        Raises:
            OutputError: the disk is full or the folder not writable.
        """
        target = self._inside(name)
        data = text.encode("utf-8", "replace")
        try:
            if target.is_file() and not target.is_symlink() and target.read_bytes() == data:
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, data)
        except OSError as error:
            raise OutputError(f"{target} cannot be written: {error.strerror}", _FIX) from error

    def _inside(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts:
            raise ValueError(f"{name!r} is not a path inside the run directory")
        target = self.path.joinpath(*parts)
        self._refuse_links(target.parent)
        return target

    def _refuse_links(self, folder: Path) -> None:
        """A link in the run directory may lead anywhere: nothing is written through one."""
        while folder != self.path:
            if os.path.islink(folder):  # noqa: PTH114 - unlike Path's, false for a name no file system can have
                raise OutputError(f"{folder} is a link that leads out of the run directory", "remove the link")
            folder = folder.parent


class Mirror:
    """A second place for some of a run's files.

    Args:
        home: the folder; made where it is missing.
        folders: top folders of the run directory whose files are copied.
    """

    def __init__(self, home: Path, folders: Sequence[str]) -> None:
        self._directory = RunDirectory(home)
        self._folders = frozenset(folders)

    def write(self, name: str, text: str) -> None:
        """Write a file of the run directory here too, if it belongs here.

        Raises:
            OutputError: it cannot be written.
        """
        if PurePosixPath(name).parts[0] in self._folders:
            self._directory.write(name, text)


def write_atomically(target: Path, data: bytes) -> None:
    """Put `data` at `target` so that a reader sees the old file or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_FILE_MODE)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def check_root(root: Path) -> None:
    """Whether run directories can be made under `root`; nothing is left behind.

    Raises:
        OutputError: it is a file, or its nearest existing parent is not writable.
    """
    existing = root
    try:
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
    except OSError as error:
        raise OutputError(f"--out {root}: {error.strerror}", "name a folder") from error
    if not existing.is_dir():
        raise OutputError(f"--out {root}: {existing} is not a folder", "name a folder")
    try:  # permission bits do not tell of read-only and virtual file systems: try it
        with tempfile.TemporaryDirectory(prefix=".roundtable-", dir=existing):
            pass
    except OSError as error:
        raise OutputError(f"--out {root}: {existing} is not writable: {error.strerror}", _FIX) from error


def make_run_directory(root: Path, slug: str, date: str) -> Path:
    """Make `{slug}-{YYYYMMDD}` under `root`, with -2, -3 ... where the name is taken (A-020, A-g12).

    Args:
        root: made if missing.
        slug: of the decision.
        date: ISO date.

    Raises:
        OutputError: it cannot be made.
    """
    name = f"{slug}-{date.replace('-', '')}"
    number = 1
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{root} cannot be made: {error.strerror}", _FIX) from error
    while True:
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        except OSError as error:
            raise OutputError(f"{path} cannot be made: {error.strerror}", _FIX) from error
        else:
            return path
