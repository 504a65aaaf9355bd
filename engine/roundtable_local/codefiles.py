"""Which files of a folder are read, and their text: .gitignore honoured, links never followed, secrets taken out."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern
from pydantic import Field

from roundtable_local.errors import ConfigError, UsageError
from roundtable_local.settings import Strict

REMOVED = "[removed: looks like a secret]"


class FileSettings(Strict):
    """`files:` of configs/codebase.yaml, where the comments say what each value is for."""

    max_file_bytes: int = Field(gt=0)
    max_total_bytes: int = Field(gt=0)
    max_files: int = Field(gt=0)
    max_line_characters: int = Field(gt=0)
    ignored: tuple[str, ...]
    secret_names: tuple[str, ...]
    secret_texts: tuple[re.Pattern[str], ...]


@dataclass(frozen=True)
class CodeFile:
    """A file that was read: its path, relative, with "/" and printable; its lines, without line ends and secrets."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was not read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Reading:
    """What came of reading a folder.

    Args:
        files: by path.
        skipped: what was not read and no .gitignore or setting says to ignore, by path.
        ignored: how many files and folders those say to ignore.
        removed: by path, how many lines were taken out as secrets.
        sha256: hash over paths and bytes of `files`.
    """

    files: tuple[CodeFile, ...]
    skipped: tuple[Skipped, ...]
    ignored: int
    removed: Mapping[str, int]
    sha256: str


def read_files(folder: Path, settings: FileSettings, exclude: Collection[Path] = ()) -> Reading:
    """Read the text files of a folder, in an order that depends on their names alone.

    Args:
        folder: the folder; it alone may be a link.
        settings: limits and patterns.
        exclude: more folders that are ignored, for example where runs are written.

    Raises:
        UsageError: there is no such folder.
        ConfigError: it cannot be read.
    """
    try:
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise UsageError(f"{folder} {what}", "name the folder that holds the project's code")
        os.scandir(folder).close()
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read: {error.strerror}", "check the folder's permissions") from error
    walk = _Walk(folder.resolve(), settings, frozenset(path.resolve() for path in exclude))
    files: list[CodeFile] = []
    removed: dict[str, int] = {}
    hashes: list[tuple[str, str]] = []
    for path in walk.paths():
        try:
            data = walk.read(path)
            lines, secrets = _without_secrets(_text(data, settings.max_line_characters), settings.secret_texts)
        except _SkipError as reason:
            walk.skip(path, str(reason))
            continue
        files.append(CodeFile(path, tuple(lines)))
        hashes.append((path, hashlib.sha256(data).hexdigest()))
        if secrets:
            removed[path] = secrets
    return Reading(
        tuple(sorted(files, key=lambda file: file.path)),
        tuple(sorted(walk.skipped, key=lambda each: each.path)),
        walk.ignored,
        dict(sorted(removed.items())),
        hashlib.sha256(repr(sorted(hashes)).encode()).hexdigest(),
    )


class _SkipError(Exception):
    """A file is left out; the text says why."""


class _Rule(NamedTuple):
    """One line of a .gitignore, asked about one file or folder at a time, as git does on its way down.

    A pattern of `pathspec` also matches everything below what it names, which would let `!*/` or `!src/` take
    back what another line ignores further down. So a bare name is compared with the last part of the path
    alone, and a path counts only where its folder does not match already.
    """

    pattern: GitIgnoreSpecPattern
    line: str

    def says(self, path: str) -> bool | None:
        """Whether to ignore the path, which ends with "/" for a folder; None where the line says nothing."""
        mark = "/" * self.line.endswith("/")
        if mark and not path.endswith("/"):
            return None
        plain = path.rstrip("/")
        parent, _, name = plain.rpartition("/")
        if "/" not in self.line.removeprefix("**/").rstrip("/"):
            matches = self.pattern.match_file(name + mark)
        else:
            matches = self.pattern.match_file(plain + mark)
            if parent and "**" not in self.line and self.pattern.match_file(parent + mark):
                matches = None
        return self.pattern.include if matches else None


def _rules(lines: Iterable[str]) -> tuple[_Rule, ...]:
    """The rules of a .gitignore, last line first: the last that matches decides."""
    rules = []
    for line in lines:
        try:
            pattern = GitIgnoreSpecPattern(line + "*/" if line.endswith("/**/") else line)  # folders inside, not it
        except GitIgnorePatternError:  # matches nothing for git either
            continue
        if pattern.include is not None:
            rules.append(_Rule(pattern, line.removeprefix("!").rstrip()))
    return tuple(reversed(rules))


@dataclass
class _Walk:
    """One way through a folder, and what it leaves out."""

    root: Path
    settings: FileSettings
    exclude: frozenset[Path]
    skipped: list[Skipped] = field(default_factory=list)
    ignored: int = 0
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._always = _rules(self.settings.ignored)
        self._secrets = GitIgnoreSpec.from_lines(map(str.lower, self.settings.secret_names))

    def skip(self, path: str, reason: str) -> None:
        self.skipped.append(Skipped(path if path.isprintable() else repr(path)[1:-1], reason))

    def paths(self) -> Iterator[str]:
        """Relative paths of what is neither ignored, a link, nor named like a secret."""
        inherited: dict[str, tuple[tuple[str, tuple[_Rule, ...]], ...]] = {}  # by folder; the deepest rules first
        seen = 0
        for here, folders, names in os.walk(self.root, onerror=self._unreadable):
            base = "" if here == str(self.root) else Path(here).relative_to(self.root).as_posix() + "/"
            above = inherited.get(base.rstrip("/").rpartition("/")[0], ())
            own = self._gitignore(base) if ".gitignore" in names else ()
            rules = inherited[base.rstrip("/")] = ((base, own), *above) if own else above
            folders[:] = [name for name in sorted(folders) if self._wanted(f"{base}{name}/", rules)]
            for path in (base + name for name in sorted(names)):
                seen += 1
                if seen > self.settings.max_files:
                    self.skip(path, f"reading stopped here: more than {self.settings.max_files} files")
                    return
                if self._wanted(path, rules):
                    yield path

    def read(self, path: str) -> bytes:
        """A regular file's bytes, within the limits."""
        most = self.settings.max_file_bytes
        try:
            found = (self.root / path).lstat()
            if not stat.S_ISREG(found.st_mode):
                raise _SkipError("not a regular file")
            if found.st_size > most:
                raise _SkipError(f"larger than {most} bytes")
            if self._bytes + found.st_size > self.settings.max_total_bytes:
                raise _SkipError(f"past the limit of {self.settings.max_total_bytes} bytes for all files")
            with (self.root / path).open("rb") as file:
                data = file.read(most)
        except OSError as error:
            raise _SkipError(f"cannot be read: {error.strerror}") from error
        self._bytes += len(data)
        return data

    def _gitignore(self, base: str) -> tuple[_Rule, ...]:
        path = base + ".gitignore"
        if self._is_link(path):  # git does not follow it either
            return ()
        try:
            return _rules(self.read(path).decode("utf-8-sig", "replace").splitlines())
        except _SkipError as reason:
            self.skip(path, f"its rules are not followed: {reason}")
            return ()

    def _wanted(self, path: str, rules: tuple[tuple[str, tuple[_Rule, ...]], ...]) -> bool:
        for base, each in (("", self._always), *rules):
            said = next((said for rule in each if (said := rule.says(path[len(base) :])) is not None), None)
            if said is not None:
                break
        plain = path.rstrip("/")
        if said or self.root / plain in self.exclude:
            self.ignored += 1
        elif not path.isprintable():
            self.skip(plain, "its name has unprintable characters")
        elif self._is_link(plain):
            self.skip(plain, "a symbolic link")
        elif self._secrets.match_file(path.lower()):
            self.skip(plain, "named like a file of secrets")
        else:
            return True
        return False

    def _is_link(self, path: str) -> bool:
        try:
            return stat.S_ISLNK((self.root / path).lstat().st_mode)
        except OSError:  # the reader will meet it too, and say so
            return False

    def _unreadable(self, error: OSError) -> None:
        self.skip(Path(error.filename).relative_to(self.root).as_posix(), f"cannot be read: {error.strerror}")


def _text(data: bytes, longest: int) -> str:
    """Decoded, with line feeds only."""
    if b"\0" in data:
        raise _SkipError("binary")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise _SkipError("not UTF-8 text") from error
    if any(len(line) > longest for line in text.split("\n")):
        raise _SkipError(f"has lines longer than {longest} characters")
    return text.removesuffix("\n")


def _without_secrets(text: str, patterns: Iterable[re.Pattern[str]]) -> tuple[list[str], int]:
    """The text's lines, as many as before, and how many of them were taken out."""
    lines = text.split("\n") if text else []
    hit: set[int] = set()
    for pattern in patterns:
        for match in pattern.finditer(text):
            first = text.count("\n", 0, match.start())
            last = first + match[0].count("\n")
            for number in range(first, last + 1):
                lines[number] = ""
            lines[first] = REMOVED
            hit.update(range(first, last + 1))
    return lines, len(hit)
