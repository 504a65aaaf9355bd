"""A folder of code becomes a value that a pure protocol can use: an overview, and passages with ids to cite.

All reading happens in `read_codebase`, at plan time; see `codefiles` for what is read and `passages` for how it is
cut and searched. Nothing is left out silently: `Codebase.notices` and `Codebase.skipped` say what was and why.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pathspec import GitIgnoreSpec
from pydantic import Field

from roundtable_local.codefiles import FileSettings, Reading, Skipped, read_files
from roundtable_local.passages import Passage, PassageIndex, PassageSettings, Source, cut, definitions, passages_text
from roundtable_local.report.markdown import document, inline, table
from roundtable_local.settings import Strict

__all__ = [
    "Codebase",
    "CodebaseSettings",
    "Language",
    "Passage",
    "Skipped",
    "context_file",
    "overview",
    "passages_text",
    "read_codebase",
]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NAMED = 5  # paths that a notice names before it says how many more


class CodebaseSettings(Strict):
    """configs/codebase.yaml, where the comments say what each value is for."""

    brownfield_lines: int = Field(gt=0)
    conventions_file: str
    conventions_tokens: int = Field(gt=0)
    outline_tokens: int = Field(gt=0)
    outline_names: int = Field(gt=0)
    tree_entries: int = Field(gt=0)
    tree_folder_entries: int = Field(gt=0)
    files: FileSettings
    passages: PassageSettings
    not_code: tuple[str, ...]
    prose: tuple[str, ...]
    tests: tuple[str, ...]
    languages: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Language:
    """How much of the code is written in one programming language."""

    name: str
    files: int
    lines: int


@dataclass(frozen=True)
class Codebase:
    """What the seats may see of a project from the reality check on (A-006, A-g19).

    Args:
        name: the folder's own name, never its path.
        brownfield: whether there is meaningful source code, more than config files (A-130).
        tree: files and folders, as many as the settings allow.
        outline: public definitions per file, tests left out; the longest files are the last to be left out.
        languages: the programming languages, most lines first.
        conventions: AGENTS.md at the folder's top, as far as the settings allow (A-010); empty if there is none.
        notices: lines for the log.
        sha256: hash over paths and bytes of the files that were read.
        skipped: what was not read, and why.
        sources: what was read, by path.
        settings: how it was read.
        count: tokens of a text.
    """

    name: str
    brownfield: bool
    tree: str
    outline: str
    languages: tuple[Language, ...]
    conventions: str
    notices: tuple[str, ...]
    sha256: str
    skipped: tuple[Skipped, ...]
    sources: tuple[Source, ...] = field(repr=False)
    settings: CodebaseSettings = field(repr=False)
    count: Callable[[str], int] = field(repr=False, compare=False)

    def select(self, queries: Sequence[str], budget: int) -> tuple[Passage, ...]:
        """The passages that say most about the queries, by path and line, numbered S1, S2, ...

        Each query first gets a passage from its fair share of the budget, where one matches and fits; then they
        take turns until nothing more fits. The same arguments always select the same.

        Args:
            queries: one text per question to the code, for example per recommendation.
            budget: tokens that `passages_text` of the result never exceeds.
        """
        return self._index.select(queries, budget)

    @cached_property
    def _index(self) -> PassageIndex:
        return PassageIndex(self.sources, self.settings.passages, self.count)


def read_codebase(
    folder: Path, settings: CodebaseSettings, count: Callable[[str], int], exclude: Collection[Path] = ()
) -> Codebase:
    """Read a folder of code.

    Args:
        folder: the project's root (A-013).
        settings: configs/codebase.yaml.
        count: tokens of a text.
        exclude: folders that are not part of the project, for example where runs are written.

    Raises:
        UsageError: there is no such folder.
        ConfigError: it cannot be read.
    """
    reading = read_files(folder, settings.files, exclude)
    sources = _sources(reading, settings)
    languages = _languages(sources)
    brownfield = sum(language.lines for language in languages) >= settings.brownfield_lines
    conventions = next((file.lines for file in reading.files if file.path == settings.conventions_file), ())
    codebase = Codebase(
        name=folder.resolve().name or "codebase",
        brownfield=brownfield,
        tree=_tree([file.path for file in reading.files], settings),
        outline=_outline(sources, settings, count),
        languages=languages,
        conventions=_capped("\n".join(conventions).strip(), settings.conventions_tokens, count),
        notices=(),
        sha256=reading.sha256,
        skipped=reading.skipped,
        sources=sources,
        settings=settings,
        count=count,
    )
    return replace(codebase, notices=_notices(codebase, reading))


def overview(codebase: Codebase) -> str:
    """What the seats read of the codebase as a whole; the passages stand in `passages_text`."""
    languages = ", ".join(
        f"{each.name} ({_many(each.files, 'file')}, {_many(each.lines, 'line')})" for each in codebase.languages
    )
    conventions = f"Conventions ({codebase.settings.conventions_file}):\n{codebase.conventions}"
    parts = [
        f"Project: {codebase.name}\nProgramming languages: {languages or 'none'}",
        conventions if codebase.conventions else "",
        f"Files:\n{codebase.tree}" if codebase.tree else "",
        f"Definitions:\n{codebase.outline}" if codebase.outline else "",
    ]
    return "\n\n".join(part for part in parts if part)


def context_file(codebase: Codebase, passages: Sequence[Passage]) -> str:
    """CODEBASE_CONTEXT.md: what the seats may see of the project, for people (A-131)."""
    rows = [(each.name, str(each.files), str(each.lines)) for each in codebase.languages]
    cited = [
        part for passage in passages for part in (f"### {passage.id}: {inline(passage.citation)}", _fence(passage.text))
    ]
    return document(
        "# Codebase Context",
        f"Project: {inline(codebase.name)}",
        "## Languages",
        table(("Language", "Files", "Lines"), rows) if rows else "No programming language was found.",
        "## Conventions",
        _fence(codebase.conventions) if codebase.conventions else f"There is no {codebase.settings.conventions_file}.",
        "## Tree",
        _fence(codebase.tree) if codebase.tree else "No files were read.",
        "## Outline" if codebase.outline else "",
        _fence(codebase.outline) if codebase.outline else "",
        "## Relevant Passages",
        *(cited or ["No passage matches."]),
    )


def _fence(text: str) -> str:
    """A code block that the text cannot end, without control and direction characters."""
    text = _CONTROL.sub("\ufffd", text)
    ticks = "`" * (1 + max([2, *(len(run) for run in re.findall("`+", text))]))
    return f"{ticks}\n{text}\n{ticks}"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _sources(reading: Reading, settings: CodebaseSettings) -> tuple[Source, ...]:
    by_suffix = {suffix: name for name, suffixes in settings.languages.items() for suffix in suffixes}
    patterns = (settings.not_code, settings.prose, settings.tests)
    not_code, prose, tests = (GitIgnoreSpec.from_lines(map(str.lower, each)) for each in patterns)
    sources = []
    for file in reading.files:
        path = file.path.lower()
        language = "" if not_code.match_file(path) else by_suffix.get(Path(path).suffix, "")
        defined = definitions(file.lines, settings.passages.definition) if language else ()
        spans = () if prose.match_file(path) else cut(file.lines, defined, settings.passages)
        public = [each for each in defined if not each.name.split()[-1].startswith("_")]
        names = tuple(each.name for each in public if each.top) or tuple(each.name for each in public)
        sources.append(Source(file.path, language, file.lines, spans, names, tests.match_file(path)))
    return tuple(sources)


def _languages(sources: Iterable[Source]) -> tuple[Language, ...]:
    """By language, its files and their lines that are not blank."""
    files, lines = Counter[str](), Counter[str]()
    for source in sources:
        if source.language:
            files[source.language] += 1
            lines[source.language] += sum(1 for line in source.lines if line.strip())
    return tuple(
        Language(name, files[name], lines[name]) for name in sorted(files, key=lambda name: (-lines[name], name))
    )


def _outline(sources: Iterable[Source], settings: CodebaseSettings, count: Callable[[str], int]) -> str:
    listed = [source for source in sources if source.names and not source.test]
    listed.sort(key=lambda source: (-len(source.lines), source.path))
    lines = []
    for source in listed:
        more = len(source.names) - settings.outline_names
        names = [*source.names[: settings.outline_names], *([f"... {more} more"] if more > 0 else [])]
        lines.append(f"{source.path}: {', '.join(names)}")
    fit = _fitting(lines, settings.outline_tokens, count)
    rest = [f"... {_many(len(lines) - fit, 'more file')}"] if fit < len(lines) else []
    return "\n".join([*sorted(lines[:fit]), *rest])


def _capped(text: str, tokens: int, count: Callable[[str], int]) -> str:
    lines = text.split("\n")
    fit = _fitting(lines, tokens, count)
    rest = [f"[... {_many(len(lines) - fit, 'more line')} left out]"] if fit < len(lines) else []
    return "\n".join([*lines[:fit], *rest])


def _fitting(lines: Sequence[str], tokens: int, count: Callable[[str], int]) -> int:
    """How many of the first lines fit."""
    for number, line in enumerate(lines):
        tokens -= count(line + "\n")
        if tokens < 0:
            return number
    return len(lines)


def _tree(paths: Iterable[str], settings: CodebaseSettings) -> str:
    """The tree down to the deepest level at which it has few enough lines; deeper folders show how many files they hold."""
    children: dict[str, set[str]] = defaultdict(set)
    files = Counter[str]()
    for path in paths:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            folder = "/".join(parts[:depth]) + "/" * (depth > 0)
            children[folder].add(part + "/" * (depth + 1 < len(parts)))
            files[folder] += 1

    def lines(folder: str, depth: int) -> Iterator[str]:
        names = sorted(children[folder], key=lambda name: (not name.endswith("/"), name))
        most = min(settings.tree_folder_entries, settings.tree_entries)
        for name in names[:most]:
            closed = name.endswith("/") and depth == 1
            yield f"{name} ({_many(files[folder + name], 'file')})" if closed else name
            if name.endswith("/") and not closed:
                yield from (f"  {line}" for line in lines(folder + name, depth - 1))
        if len(names) > most:
            yield f"... {len(names) - most:,} more"

    depth, shown = 1, list(lines("", 1))
    while len(deeper := list(lines("", depth + 1))) <= settings.tree_entries and deeper != shown:
        depth, shown = depth + 1, deeper
    return "\n".join(shown)


def _notices(codebase: Codebase, reading: Reading) -> tuple[str, ...]:
    kind = "brownfield" if codebase.brownfield else "greenfield: no source code to speak of (A-130, A-137)"
    notices = [f"codebase {codebase.name}: {_many(len(reading.files), 'file')} read, {kind}"]
    if reading.ignored:
        notices.append(
            f"codebase: {_many(reading.ignored, 'file')} or folders ignored, as .gitignore or our settings say"
        )
    reasons: dict[str, list[str]] = defaultdict(list)
    for each in reading.skipped:
        reasons[each.reason].append(each.path)
    notices += [f"codebase: skipped {_named(paths)}: {reason}" for reason, paths in sorted(reasons.items())]
    if reading.removed:
        lines = _many(sum(reading.removed.values()), "line")
        notices.append(f"codebase: {lines} that look like secrets removed from {_named(list(reading.removed))}")
    return tuple(notices)


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
