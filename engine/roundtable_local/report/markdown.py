"""Model text in Markdown files: it reads as written and cannot become structure.

Every piece of text that a model or a user's file supplies passes through here before it stands in a report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_INLINE = re.compile(r"[\\`*<\[\]|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|(?:(?<=\s)|^)#(?=#*$)")
_LINE_START = re.compile(r"^(?:(#{1,6})(?=\s|$)|([-+>=])|(\d+)([.)])(?=\s|$))")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """The text with all white space runs as one blank and no control or direction characters."""
    return " ".join(_CONTROL.sub(" ", text).split())


def inline(text: str) -> str:
    """One line of prose: whatever would be Markdown or HTML is escaped."""
    line = one_line(text)
    escaped = _INLINE.sub(lambda match: "\\" + match[0], line)
    return _LINE_START.sub(_escape_start, escaped)


def _escape_start(match: re.Match[str]) -> str:
    if match[3]:
        return f"{match[3]}\\{match[4]}"
    return "\\" + match[0]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; all cells are escaped, so every row parses to as many cells as the head has."""
    lines = [_row(head), _row(["-" * max(3, len(cell)) for cell in head], raw=True)]
    return "\n".join([*lines, *(_row(row) for row in rows)])


def _row(cells: Sequence[str], *, raw: bool = False) -> str:
    return "| " + " | ".join(cell if raw else inline(cell) for cell in cells) + " |"


def bullets(items: Iterable[str]) -> str:
    """A list of escaped lines."""
    return "\n".join(f"- {inline(item)}" for item in items)


def numbered(items: Iterable[str]) -> str:
    """A numbered list of escaped lines."""
    return "\n".join(f"{number}. {inline(item)}" for number, item in enumerate(items, 1))


def quoted(text: str) -> str:
    """A text of the user's own, whole, as a quotation: its headings are none of the file's."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def prose_lines(lines: Sequence[str]) -> Iterator[int]:
    """Indexes of the lines outside fenced code."""
    fence = ""
    for index, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark:
            fence = mark[1]
        else:
            yield index


def document(*parts: str) -> str:
    """Paragraphs, headings and lists, a blank line between them and one newline at the end; empty parts fall out."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
