"""What a finished run may leave outside its directory: a ledger row, a roadmap bullet, a commit (A-200 to A-205).

Each is off unless asked for, each can be done again without doing it twice, and each refuses where it cannot be done
safely. `check_ledger`, `check_roadmap` and `check_commit` refuse for the same reasons before a run begins, and write
nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from roundtable_local.report.markdown import document, inline, prose_lines, table
from roundtable_local.userfiles import (
    LINE,
    AftermathError,
    absolute,
    check_folder,
    inserted,
    plain,
    quoted,
    read_text,
    reference_to,
    unquoted,
    update,
)

COLUMNS = ("Date", "Task", "Source", "Slug", "Verdict", "Summary", "Artifact", "Milestone", "Phase", "Scope")
"""Head of the ledger's table (A-g2)."""
ANCHOR = "<!-- roundtable-local:decisions -->"
"""The line of a roadmap below which decisions are listed."""

_TASK, _ARTIFACT = COLUMNS.index("Task"), COLUMNS.index("Artifact")
_BREAK = r"([-*_])(?:[ \t]*\1){2,}\s*$"
_CELL = re.compile(r"((?:[^|\\]|\\.?)*)(?:\||\Z)", re.DOTALL)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_RULE = re.compile(r":?-+:?")
_ANCHOR = re.compile(r" {0,3}<!--\s*roundtable-local:decisions\s*-->\s*$")
_BULLET = re.compile(rf" {{0,3}}(?!{_BREAK})[-*+](?:\s|$)")
_BLOCK = re.compile(rf" {{0,3}}(?:#{{1,6}}(?:\s|$)|>|<!|```|~~~|\d+[.)]\s|{_BREAK})")
_INDENTED = re.compile(r" {2,}\S|\t")


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What a run decided, as ledgers and roadmaps tell of it (A-202).

    Args:
        task_id: with the artifact the key that keeps a second entry out; the run directory's name unless given.
        source: who decided.
        slug: of the decision.
        verdict: of the debate (A-g3).
        summary: one line.
        artifact: path of the run directory.
        date: ISO date.
        milestone: that the decision belongs to, if any.
        phase: that the decision belongs to, if any.
        scope: what the decision is about.
    """

    task_id: str = ""
    source: str = "roundtable-local"
    slug: str
    verdict: Literal["consensus", "split", "no-decision"]
    summary: str
    artifact: str
    date: str
    milestone: str | None = None
    phase: str | None = None
    scope: str = ""

    def __post_init__(self) -> None:
        if not self.task_id:
            object.__setattr__(self, "task_id", Path(self.artifact).resolve().name)


# --- the decision ledger


def append_ledger(path: Path, decided: Decided) -> bool:
    """Append the decision's row to the ledger, which is made if missing (A-203, A-g2).

    Returns:
        Whether a row was appended: false where one with the same task and artifact is there.

    Raises:
        AftermathError: the file is not a ledger, or cannot be written.
    """
    check_ledger(path)
    path = absolute(path)
    artifact = Path(decided.artifact).resolve()
    key = (plain(decided.task_id), str(artifact))
    row = _ledger_row(decided, reference_to(artifact, path.parent))

    def edit(text: str | None) -> str | None:
        if not text:
            return document("# Decision Ledger", table(COLUMNS, [row]))
        lines = LINE.findall(text)
        rows = _ledger_rows(path, lines)
        if any(_ledger_key(lines[index], path.parent) == key for index in rows):
            return None
        last = lines[rows.stop - 1]
        indent = " " * (len(last) - len(last.lstrip(" ")))  # a table in a list stays in it
        return inserted(lines, rows.stop, indent + table(COLUMNS, [row]).split("\n")[-1])

    return update(path, edit)


def check_ledger(path: Path) -> None:
    """Whether a row can be appended to the ledger at `path`, or a ledger made there.

    Raises:
        AftermathError: it cannot.
    """
    path = absolute(path)
    if text := read_text(path):
        _ledger_rows(path, LINE.findall(text))
    check_folder(path)


def _ledger_row(decided: Decided, reference: str) -> list[str]:
    # A name that a line of text cannot hold as it is (two blanks, a line end) is percent-encoded, others read plainly.
    artifact = reference if plain(reference) == reference == unquoted(reference) else quoted(reference)
    cells = [
        decided.date, decided.task_id, decided.source, decided.slug, decided.verdict, decided.summary, artifact,
        decided.milestone or "", decided.phase or "", decided.scope,
    ]  # fmt: skip
    return [plain(cell) for cell in cells]


def _ledger_rows(path: Path, lines: Sequence[str]) -> range:
    """Indexes of the table's rows.

    Raises:
        AftermathError: there is no such table, or more than one.
    """
    heads = [index for index in prose_lines(lines) if _is_head(lines, index)]
    if len(heads) != 1:
        found = f"has {len(heads)} tables" if heads else "has no table"
        raise AftermathError(
            f"{path} {found} with the columns {' | '.join(COLUMNS)}",
            "name a ledger with one such table, or a file that does not exist yet",
        )
    start = end = heads[0] + 2
    while end < len(lines) and "|" in lines[end] and not _BLOCK.match(lines[end]) and not _BULLET.match(lines[end]):
        end += 1
    return range(start, end)


def _is_head(lines: Sequence[str], index: int) -> bool:
    if parse_row(lines[index]) != COLUMNS or lines[index].startswith(("    ", "\t")) or index + 1 == len(lines):
        return False
    rule = parse_row(lines[index + 1])
    return len(rule) == len(COLUMNS) and all(_RULE.fullmatch(cell) for cell in rule)


def _ledger_key(line: str, folder: Path) -> tuple[str, str] | None:
    cells = parse_row(line)
    if len(cells) <= _ARTIFACT:
        return None
    return cells[_TASK], os.path.normpath(folder / unquoted(cells[_ARTIFACT]))


def parse_row(line: str) -> tuple[str, ...]:
    """The cells of a table's line as they read, escapes taken off."""
    body = line.strip("\ufeff \t\r\n")
    cells = _CELL.findall(body)[:-1]  # what comes after the last separator, or the end, is no cell
    if body.startswith("|"):
        cells = cells[1:]
    return tuple(_ESCAPED.sub(r"\1", cell.strip(" \t")) for cell in cells)


# --- the roadmap


def merge_roadmap(path: Path, decided: Decided) -> bool:
    """Add the decision's bullet after those that stand below the roadmap's anchor line (A-204).

    Returns:
        Whether a bullet was added: false where one with the same task and artifact is anywhere in the file.

    Raises:
        AftermathError: the file or its anchor is missing, or the file cannot be written.
    """
    check_roadmap(path)
    path = absolute(path)
    link = quoted(reference_to(Path(decided.artifact).resolve(), path.parent)) + "/REPORT.md"
    task = re.sub("(?<=-)-", "%2D", quoted(plain(decided.task_id)))  # two hyphens may end a comment
    text = " ".join(part for part in (inline(f"{decided.verdict}."), inline(plain(decided.summary))) if part)
    bullet = f"- {inline(plain(decided.date))} [{inline(plain(decided.slug))}]({link}): {text} <!-- {task} -->"
    # Escaped text of other bullets never matches: its brackets have an odd number of backslashes before them.
    unescaped = r"(?<!\\)(?:\\\\)*"
    same = re.compile(rf"{unescaped}\]\({re.escape(link)}\).*{unescaped}<!-- {re.escape(task)} -->")

    def edit(text: str | None) -> str | None:
        lines = LINE.findall(text or "")
        anchor = _anchor(path, lines)
        if any(same.search(lines[index]) for index in prose_lines(lines)):
            return None
        end = _end_of_bullets(lines, anchor + 1)
        # The text that follows would be read as part of a first bullet without a blank line between them.
        blank = end == anchor + 1 and end < len(lines) and bool(lines[end].strip())
        return inserted(lines, end, bullet, *([""] if blank else []))

    return update(path, edit)


def check_roadmap(path: Path) -> None:
    """Whether a bullet can be added to the roadmap at `path`.

    Raises:
        AftermathError: it cannot.
    """
    path = absolute(path)
    text = read_text(path)
    if text is None:
        raise AftermathError(f"there is no roadmap {path}", f"make the file, with the line {ANCHOR} for its decisions")
    _anchor(path, LINE.findall(text))
    check_folder(path)


def _anchor(path: Path, lines: Sequence[str]) -> int:
    anchors = [index for index in prose_lines(lines) if _ANCHOR.match(lines[index].removeprefix("\ufeff"))]
    if not anchors:
        raise AftermathError(f"{path} does not say where decisions belong", f"add the line {ANCHOR} there")
    if len(anchors) > 1:
        raise AftermathError(f"{path} has the line {ANCHOR} {len(anchors)} times", "keep one of them")
    return anchors[0]


def _end_of_bullets(lines: Sequence[str], start: int) -> int:
    """Index after the last line of the list that begins at `start` or after blank lines; `start` where none does."""
    end = start
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.strip():
            continue
        goes_on = end > start and (_INDENTED.match(line) or (index == end and not _BLOCK.match(line)))
        if not goes_on and not _BULLET.match(line):
            break
        end = index + 1
    return end
