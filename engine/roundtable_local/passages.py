"""Files are cut into passages along their definitions, and those that say most about a query are found."""

from __future__ import annotations

import re
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from roundtable_local.errors import ConfigError
from roundtable_local.settings import Strict

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CJK = re.compile(r"([\u3040-\u30ff\u3400-\u9fff])")


class PassageSettings(Strict):
    """`passages:` of configs/codebase.yaml, where the comments say what each value is for."""

    tokens: int = Field(gt=0)
    least_lines: int = Field(gt=0)
    most_lines: int = Field(gt=0)
    candidates: int = Field(gt=0)
    path_weight: float = Field(gt=0)
    test_weight: float = Field(gt=0, le=1)
    definition: re.Pattern[str]
    lead: re.Pattern[str]
    stopwords: frozenset[str]


@dataclass(frozen=True)
class Passage:
    """Some lines of one file; `tokens` counts them with their heading, as `passages_text` renders them."""

    id: str
    path: str
    start: int
    end: int
    text: str
    tokens: int

    @property
    def citation(self) -> str:
        """Where it stands: "path:start-end", lines counted from 1."""
        return f"{self.path}:{self.start}-{self.end}"


@dataclass(frozen=True)
class Source:
    """A file that was read.

    Args:
        path: relative, with "/".
        language: its programming language; empty for configuration and documents.
        lines: its text.
        spans: first and last line of each of its passages; none for documents.
        names: its definitions, for the outline.
        test: whether it tests other code, which says less than the code itself.
    """

    path: str
    language: str
    lines: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    test: bool = False


@dataclass(frozen=True)
class Definition:
    """Where a class, function or the like begins; `top` unless it lies within another."""

    line: int
    top: bool
    name: str


def passages_text(passages: Sequence[Passage]) -> str:
    """What the seats read: per passage a line with its id and citation, and its lines."""
    return "\n\n".join(f"[{passage.id}] {passage.citation}\n{passage.text}" for passage in passages)


def definitions(lines: Sequence[str], pattern: re.Pattern[str]) -> tuple[Definition, ...]:
    """The definitions in a file of code, by one pattern for all languages.

    For borders and an outline it finds what a parser would, at a fraction of the time, and no file can break it.
    """
    text = "\n".join(lines)
    made, line, at = [], 1, 0
    for match in pattern.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        made.append(Definition(line, not match["indent"], " ".join(match["name"].split())))
    return tuple(made)


def cut(lines: Sequence[str], defined: Sequence[Definition], settings: PassageSettings) -> tuple[tuple[int, int], ...]:
    """First and last line of each passage; together they hold every line but blank ones at their borders.

    A passage ends before a definition where it can, before one inside another else, after a blank line else.
    """
    borders = {_with_lead(lines, each.line, settings.lead): 0 if each.top else 1 for each in reversed(defined)}
    spans = []
    start = 1
    while start <= len(lines):
        after = start + settings.most_lines
        if after <= len(lines):
            least = min(start + settings.least_lines, after)
            blank = {line: 2 for line in range(least, after + 1) if not lines[line - 2].strip()}
            ranks = blank | {line: rank for line, rank in borders.items() if least <= line <= after}
            after = min(ranks, key=lambda line: (ranks[line], -line), default=after)
        first, last = start, min(after - 1, len(lines))
        while first <= last and not lines[first - 1].strip():
            first += 1
        while last >= first and not lines[last - 1].strip():
            last -= 1
        if first <= last:
            spans.append((first, last))
        start = after
    return tuple(spans)


def _with_lead(lines: Sequence[str], line: int, lead: re.Pattern[str]) -> int:
    while line > 1 and lead.match(lines[line - 2]):
        line -= 1
    return line


class PassageIndex:
    """All passages of a codebase, to be searched; nothing but memory is used.

    The search is BM25 as SQLite's FTS5 does it, which comes with Python: Porter stems, identifiers split into
    words. `rank-bm25` has had no release since 2022, and `bm25s` would bring numpy to the light set of packages.

    Args:
        sources: the files, in an order that stays the same.
        settings: how passages are found.
        count: tokens of a text.

    Raises:
        ConfigError: this Python's sqlite3 was built without FTS5.
    """

    def __init__(self, sources: Sequence[Source], settings: PassageSettings, count: Callable[[str], int]) -> None:
        self._spans = spans = [(source, start, end) for source in sources for start, end in source.spans]
        self._settings, self._count = settings, count
        self._made: dict[int, Passage] = {}
        self._database = _database(lambda number: settings.test_weight if spans[number][0].test else 1.0)
        weakref.finalize(self, self._database.close)
        self._database.executemany(
            "INSERT INTO passage(rowid, path, text) VALUES (?, ?, ?)",
            (
                (number, _words(source.path), _words("\n".join(source.lines[start - 1 : end])))
                for number, (source, start, end) in enumerate(spans)
            ),
        )

    def select(self, queries: Sequence[str], budget: int) -> tuple[Passage, ...]:
        """See `Codebase.select`."""
        rankings = [self._rank(query) for query in queries]
        taken: dict[int, Passage] = {}
        for ranking, waiting in zip(rankings, range(len(rankings), 0, -1), strict=True):
            self._take(ranking, taken, budget, waiting)
        more = bool(rankings)
        while more:
            more = sum(self._take(ranking, taken, budget, 1) for ranking in rankings) > 0
        while True:
            chosen = tuple(replace(taken[number], id=f"S{at}") for at, number in enumerate(sorted(taken), 1))
            if not chosen or self._count(passages_text(chosen)) <= budget:
                return chosen
            taken.popitem()  # a tokenizer may need more for the whole than for its parts

    def _take(self, ranking: Sequence[int], taken: dict[int, Passage], budget: int, share: int) -> bool:
        """Take the best passage that fits into one of `share` equal parts of what is left of the budget."""
        room = (budget - sum(passage.tokens for passage in taken.values())) // share
        for number in ranking:
            if number not in taken and self._passage(number).tokens <= room:
                taken[number] = self._passage(number)
                return True
        return False

    def _rank(self, query: str) -> list[int]:
        """Numbers of the passages that share words with the query, best first."""
        words = dict.fromkeys(re.findall(r"[^\W_]+", _words(query).lower()))
        match = " OR ".join(f'"{word}"' for word in words if word not in self._settings.stopwords)
        if not match:
            return []
        rows = self._database.execute(
            "SELECT rowid FROM passage WHERE passage MATCH ? ORDER BY bm25(passage, ?, 1.0) * weight(rowid), rowid LIMIT ?",
            (match, self._settings.path_weight, self._settings.candidates),
        )
        return [number for (number,) in rows]

    def _passage(self, number: int) -> Passage:
        """A passage, made and counted when first asked for: most of a codebase's never are."""
        if number not in self._made:
            source, start, end = self._spans[number]
            passage = Passage(f"S{number + 1}", source.path, start, end, "\n".join(source.lines[start - 1 : end]), 0)
            self._made[number] = replace(passage, tokens=self._count(passages_text([passage]) + "\n\n"))
        return self._made[number]


def _database(weight: Callable[[int], float]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.create_function("weight", 1, weight, deterministic=True)
    try:
        database.execute("CREATE VIRTUAL TABLE passage USING fts5(path, text, content='', tokenize='porter unicode61')")
    except sqlite3.OperationalError as error:
        raise ConfigError("this Python's sqlite3 has no FTS5", "use a Python that was built with it") from error
    return database


def _words(text: str) -> str:
    """The text with camelCase taken apart, and Chinese and Japanese, which have no blanks, into characters."""
    text = _CAMEL.sub(" ", text)
    return text if text.isascii() else _CJK.sub(r" \1 ", text)
