"""Logs of the user's project that several writers add to: lines below dated headings, and which log is in use.

A log is Markdown. What stands in it stays byte for byte; lines are added at the end of their heading's section.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from roundtable_local.errors import OutputError
from roundtable_local.report.markdown import prose_lines
from roundtable_local.userfiles import LINE, AftermathError, inserted, update

_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
_BOM = "\ufeff"

_DATE = r"(?![^\W\d_])[^\d\r\n]{0,4}\d{4}-\d{2}-\d{2}"
"""A date at most four characters after a word that ends there."""
_POST_PROMOTE = re.compile(
    r"^[ \t]*(?:>[ \t]*)*(?:\*\*|__)?[ \t]*"
    rf"(?:summarized at\b.*promote|promoted{_DATE}|<!--[ \t]*post-promote|#{{1,6}}[ \t]+promoted?{_DATE})",
    re.IGNORECASE | re.MULTILINE,
)


def add(path: Path, heading: str, text: str) -> None:
    """Add lines below their heading in a Markdown file; both are made where they are missing (M-050, M-052).

    Args:
        path: the file.
        heading: the whole heading line, such as "## Panel decisions 2026-05-21".
        text: the lines.

    Raises:
        OutputError: the file is a link, no UTF-8 text, or cannot be written; it is as it was.
    """
    lines = text.encode("utf-8", "replace").decode().split("\n")

    def edit(before: str | None) -> str:
        if before and "\0" in before:
            raise OutputError(f"{path} is not text: it holds a NUL", "name a Markdown file")
        return added(before or "", heading, lines, str(path))

    try:
        update(path, edit)
    except AftermathError as error:
        raise OutputError(error.message, error.fix) from error


def check(path: Path) -> None:
    """Whether lines can be added to a log, before anything is generated that would have to be logged.

    Raises:
        OutputError: it is a link or a folder, is no UTF-8 text, or cannot be written.
    """
    try:
        update(path, lambda before: None)
    except AftermathError as error:
        raise OutputError(error.message, error.fix) from error


def count(path: Path, heading: str, text: str) -> int:
    """How often the lines stand below the heading, one after the other."""
    lines = LINE.findall(_read(path)) if path.is_file() else []
    start, end = _section(lines, heading)
    below = [line.rstrip("\r\n") for line in lines[start + 1 : end]]
    wanted = text.split("\n")
    return sum(below[at : at + len(wanted)] == wanted for at in range(len(below)))


def added(before: str, heading: str, lines: Sequence[str], name: str) -> str:
    """The text with lines added below the heading: after the section's last line, or in a new section at the end.

    Raises:
        OutputError: they would stand in fenced code.
    """
    old = LINE.findall(before)
    start, end = _section(old, heading)
    while end > start and not old[end - 1].strip():
        end -= 1
    if end not in prose_lines([*old, ""]):
        raise OutputError(f"{name} has fenced code that does not end", "close it with a line of its fence's own marks")
    if start < len(old):
        return inserted(old, end, *lines)
    if not old:
        return "".join(f"{line}\n" for line in (heading, *lines))
    gap = ("",) if old[-1].strip() else ()
    return inserted(old, len(old), *gap, heading, *lines)


def _section(lines: Sequence[str], heading: str) -> tuple[int, int]:
    """Where the heading stands and where its section ends; both are the end of the text where there is none."""
    start, level = len(lines), len(heading) - len(heading.lstrip("#"))
    for index in prose_lines(lines):
        line = lines[index].removeprefix(_BOM)
        mark = _HEADING.match(line)
        if mark and start < len(lines) and len(mark[1]) <= level:
            return start, index
        if mark and start == len(lines) and line.strip() == heading.strip():
            start = index
    return start, len(lines)


def in_flight(project: Path) -> list[Path]:
    """The scratchpads of a project's work units that are still in use, in order of their names (M-052).

    Raises:
        OutputError: one cannot be read.
    """
    folders = sorted(folder for folder in (project / ".minerva" / "work").glob("*") if not folder.name.startswith("."))
    pads = [folder / "scratchpad.md" for folder in folders if (folder / "scratchpad.md").is_file()]
    return [pad for pad in pads if not is_post_promote(_read(pad))]


def is_post_promote(text: str) -> bool:
    """Whether a scratchpad's unit is finished: a line of it says that it was promoted (M-055)."""
    return _POST_PROMOTE.search(text.removeprefix(_BOM)) is not None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}", "change its permissions") from error
