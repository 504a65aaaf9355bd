"""What a finished run may leave outside its directory: a ledger row, a roadmap bullet, a commit (A-200 to A-205).

Each is off unless asked for, each can be done again without doing it twice, and each refuses where it cannot be done
safely. `check_ledger`, `check_roadmap` and `check_commit` refuse for the same reasons before a run begins, and write
nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import quote, unquote

from filelock import FileLock, Timeout

from roundtable_local.errors import RoundtableError
from roundtable_local.report.markdown import document, inline, one_line, table
from roundtable_local.rundir import write_atomically

COLUMNS = ("Date", "Task", "Source", "Slug", "Verdict", "Summary", "Artifact", "Milestone", "Phase", "Scope")
"""Head of the ledger's table (A-g2)."""
ANCHOR = "<!-- roundtable-local:decisions -->"
"""The line of a roadmap below which decisions are listed."""

_TASK, _ARTIFACT = COLUMNS.index("Task"), COLUMNS.index("Artifact")
_WAIT_SECONDS = 60.0
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_CELL = re.compile(r"((?:[^|\\]|\\.?)*)(?:\||\Z)", re.DOTALL)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_RULE = re.compile(r":?-+:?")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_ANCHOR = re.compile(r" {0,3}<!--\s*roundtable-local:decisions\s*-->\s*$")
_BREAK = r"([-*_])(?:[ \t]*\1){2,}\s*$"
_BULLET = re.compile(rf" {{0,3}}(?!{_BREAK})[-*+](?:\s|$)")
_BLOCK = re.compile(rf" {{0,3}}(?:#{{1,6}}(?:\s|$)|>|<!|```|~~~|\d+[.)]\s|{_BREAK})")
_INDENTED = re.compile(r" {2,}\S|\t")


class AftermathError(RoundtableError):
    """The ledger, the roadmap or the user's repository cannot be changed safely; the run itself is finished."""


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
    path = _absolute(path)
    artifact = Path(decided.artifact).resolve()
    key = (_plain(decided.task_id), str(artifact))
    row = _ledger_row(decided, _reference(artifact, path.parent))

    def edit(text: str | None) -> str | None:
        if not text:
            return document("# Decision Ledger", table(COLUMNS, [row]))
        lines = _LINE.findall(text)
        rows = _ledger_rows(path, lines)
        if any(_ledger_key(lines[index], path.parent) == key for index in rows):
            return None
        last = lines[rows.stop - 1]
        indent = " " * (len(last) - len(last.lstrip(" ")))  # a table in a list stays in it
        return _inserted(lines, rows.stop, indent + table(COLUMNS, [row]).split("\n")[-1])

    return _update(path, edit)


def check_ledger(path: Path) -> None:
    """Whether a row can be appended to the ledger at `path`, or a ledger made there.

    Raises:
        AftermathError: it cannot.
    """
    path = _absolute(path)
    if text := _read(path):
        _ledger_rows(path, _LINE.findall(text))
    _check_folder(path)


def _ledger_row(decided: Decided, reference: str) -> list[str]:
    # A name that a line of text cannot hold as it is (two blanks, a line end) is percent-encoded, others read plainly.
    artifact = reference if _plain(reference) == reference == _unquoted(reference) else _quoted(reference)
    cells = [
        decided.date, decided.task_id, decided.source, decided.slug, decided.verdict, decided.summary, artifact,
        decided.milestone or "", decided.phase or "", decided.scope,
    ]  # fmt: skip
    return [_plain(cell) for cell in cells]


def _ledger_rows(path: Path, lines: Sequence[str]) -> range:
    """Indexes of the table's rows.

    Raises:
        AftermathError: there is no such table, or more than one.
    """
    heads = [index for index in _prose(lines) if _is_head(lines, index)]
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
    return cells[_TASK], os.path.normpath(folder / _unquoted(cells[_ARTIFACT]))


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
    path = _absolute(path)
    link = _quoted(_reference(Path(decided.artifact).resolve(), path.parent)) + "/REPORT.md"
    task = re.sub("(?<=-)-", "%2D", _quoted(_plain(decided.task_id)))  # two hyphens may end a comment
    text = " ".join(part for part in (inline(f"{decided.verdict}."), inline(_plain(decided.summary))) if part)
    bullet = f"- {inline(_plain(decided.date))} [{inline(_plain(decided.slug))}]({link}): {text} <!-- {task} -->"
    # Escaped text of other bullets never matches: its brackets have an odd number of backslashes before them.
    unescaped = r"(?<!\\)(?:\\\\)*"
    same = re.compile(rf"{unescaped}\]\({re.escape(link)}\).*{unescaped}<!-- {re.escape(task)} -->")

    def edit(text: str | None) -> str | None:
        lines = _LINE.findall(text or "")
        anchor = _anchor(path, lines)
        if any(same.search(lines[index]) for index in _prose(lines)):
            return None
        end = _end_of_bullets(lines, anchor + 1)
        # The text that follows would be read as part of a first bullet without a blank line between them.
        blank = end == anchor + 1 and end < len(lines) and bool(lines[end].strip())
        return _inserted(lines, end, bullet, *([""] if blank else []))

    return _update(path, edit)


def check_roadmap(path: Path) -> None:
    """Whether a bullet can be added to the roadmap at `path`.

    Raises:
        AftermathError: it cannot.
    """
    path = _absolute(path)
    text = _read(path)
    if text is None:
        raise AftermathError(f"there is no roadmap {path}", f"make the file, with the line {ANCHOR} for its decisions")
    _anchor(path, _LINE.findall(text))
    _check_folder(path)


def _anchor(path: Path, lines: Sequence[str]) -> int:
    anchors = [index for index in _prose(lines) if _ANCHOR.match(lines[index].removeprefix("\ufeff"))]
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


# --- files of the user


def _absolute(path: Path) -> Path:
    """The path with its folder resolved, but not the file itself: that it is a link has to be seen."""
    return path.parent.resolve() / path.name


def _plain(text: str) -> str:
    return one_line(text.encode("utf-8", "replace").decode())


def _quoted(text: str) -> str:
    """The text in percent-encoding; letters and digits of every script stay as they are."""
    return re.sub(r"[^\w/.~-]+", lambda match: quote(match[0], safe="", errors="surrogateescape"), text)


def _unquoted(text: str) -> str:
    return unquote(text, errors="surrogateescape")


def _reference(target: Path, folder: Path) -> str:
    """How a file in `folder` names `target`: relative where it lies below the folder or beside it, else absolute."""
    if target.is_relative_to(folder):
        return target.relative_to(folder).as_posix()
    if folder.parent != folder.parent.parent and target.is_relative_to(folder.parent):
        return f"../{target.relative_to(folder.parent).as_posix()}"
    return target.as_posix()


def _prose(lines: Sequence[str]) -> Iterator[int]:
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


def _inserted(lines: Sequence[str], index: int, *added: str) -> str:
    """The text with lines added before `index`, which is not 0, ended as the line before them is."""
    last = lines[index - 1]
    ending = "\r\n" if (last if last.endswith("\n") else lines[0]).endswith("\r\n") else "\n"
    before = "".join(lines[:index]) + ("" if last.endswith("\n") else ending)
    return before + "".join(line + ending for line in added) + "".join(lines[index:])


def _read(path: Path) -> str | None:
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


def _existing(path: Path) -> Path:
    """The nearest of a path and its parents that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _check_folder(path: Path) -> None:
    folder = _existing(path.parent)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise AftermathError(f"{path} cannot be written: {folder} is no writable folder", "name another file")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
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


def _update(path: Path, edit: Callable[[str | None], str | None]) -> bool:
    """Rewrite a file with what `edit` makes of its text, unless that is None; one run at a time, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path):
            text = edit(_read(path))
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


# --- the user's repository

_LEAVE_OUT = "or leave out --commit"
_UNDERWAY = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick or revert",
    "BISECT_LOG": "bisect",
}
_REPOSITORY_VARIABLES = frozenset(
    {
        "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_IMPLICIT_WORK_TREE", "GIT_LITERAL_PATHSPECS",
        "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
    }
)  # fmt: skip
"""What would lead git to another repository than the one that the folder is in, as a hook's environment does."""


def commit(run_directory: Path, ledger: Path | None, message: str) -> str | None:
    """Commit the run directory, and the ledger if given, to the repository that holds them, and nothing else (A-200).

    What the user has staged stays staged, what is changed stays changed. Hooks and signing are the user's own. Lock
    files and single files that .gitignore names stay out.

    A detached HEAD is refused: its commit is on no branch, so the next `git switch` would lose the record.

    Returns:
        The new commit's id; None where there is nothing to commit.

    Raises:
        AftermathError: it cannot be done safely; index and work tree are as they were.
    """
    if not run_directory.is_dir():
        raise AftermathError(f"{run_directory} is not a folder", "name the directory that a run printed")
    if ledger is not None and not ledger.is_file():
        raise AftermathError(f"there is no ledger {ledger}", "write it first, or commit the run directory alone")
    run_directory = run_directory.resolve()
    repository = _repository(run_directory)
    paths = repository.check([run_directory, *([] if ledger is None else [_absolute(ledger)])])
    with _alone(repository.state() / "roundtable-local"):
        return repository.commit(paths, message)


def check_commit(root: Path, ledger: Path | None = None) -> None:
    """Whether a run directory that is going to be made under `root`, and a ledger, could be committed.

    Raises:
        AftermathError: they could not.
    """
    root = root.resolve()
    run_directory = root / "run"
    _repository(_existing(root)).check([run_directory, *([] if ledger is None else [_absolute(ledger)])])


def _repository(folder: Path) -> _Repository:
    program = shutil.which("git")
    if program is None:
        raise AftermathError("git is not installed", f"install it, {_LEAVE_OUT}")
    asked = _Repository(program, folder).ask("rev-parse", "--show-toplevel")
    if asked.returncode:
        raise AftermathError(
            f"{folder} is not in the work tree of a git repository: {one_line(asked.stderr)}",
            f"name a folder of the repository with --out, {_LEAVE_OUT}",
        )
    return _Repository(program, Path(asked.stdout.removesuffix("\n")).resolve())


@dataclass(frozen=True)
class _Repository:
    """A git work tree, spoken to by the git program.

    Args:
        program: path of git.
        top: the work tree's topmost folder.
    """

    program: str
    top: Path

    def check(self, paths: Sequence[Path]) -> list[str]:
        """Whether these can be committed, and their names within the work tree."""
        self._check_state()
        names = [self._name(path) for path in paths]
        for name, path in zip(names, paths, strict=True):
            if self._ignores(name):
                raise AftermathError(
                    f"{path} is ignored by .gitignore",
                    f"take the rule out (git check-ignore -v {path} names it), {_LEAVE_OUT}",
                )
        return names

    def commit(self, names: Sequence[str], message: str) -> str | None:
        """Commit what is new or changed under these names; the first is the run directory."""
        new = self._new(names)
        if not new and not self._tell("ls-files", "-z", "--", _literal(names[0])):
            raise AftermathError(
                f"all files of {self.top / names[0]} are ignored by .gitignore",
                f"take the rules out that name them, {_LEAVE_OUT}",
            )
        listed = [_literal(name) for name in names]
        if not new and not self._tell("status", "--porcelain", "-z", "--untracked-files=no", "--", *listed):
            return None
        head = self._head()
        try:
            if new:  # git commits by name only what its index knows
                self._change("add", "--intent-to-add", "--", *(_literal(name) for name in new))
            self._change("commit", "--quiet", "--only", f"--message={_plain(message)}", "--", *listed)
        except BaseException:
            if self._head() == head:
                self._forget(new)
            raise
        return self._head()

    def state(self) -> Path:
        """Where git keeps the state of this work tree."""
        return Path(self._tell("rev-parse", "--absolute-git-dir").removesuffix("\n"))

    def ask(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run git to be told something."""
        environment = _environment() | {"LC_ALL": "C", "LANGUAGE": "", "GIT_OPTIONAL_LOCKS": "0"}
        return subprocess.run(
            [self.program, "-C", str(self.top), *arguments],
            input=given, capture_output=True, check=False, env=environment,
            encoding="utf-8", errors="surrogateescape",
        )  # fmt: skip

    def _tell(self, *arguments: str, fine: int = 0) -> str:
        """What git says; exit codes up to `fine` are answers, those above it failures."""
        asked = self.ask(*arguments)
        if not 0 <= asked.returncode <= fine:
            raise AftermathError(
                f"git {arguments[0]} failed in {self.top}: {one_line(asked.stderr)}",
                f"mend the repository, {_LEAVE_OUT}",
            )
        return asked.stdout

    def _change(self, *arguments: str) -> None:
        """Run git to change something: hooks and filters see the user's own locale."""
        with tempfile.TemporaryFile() as output:  # a pipe would have to wait for what a hook leaves running
            done = subprocess.run(
                [self.program, "-C", str(self.top), *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False, env=_environment(),
            )  # fmt: skip
            output.seek(0)
            said = one_line(output.read().decode("utf-8", "replace"))
        if done.returncode:
            raise AftermathError(
                f"git {arguments[0]} failed in {self.top}: {said[-1000:] or f'exit status {done.returncode}'}",
                "settle what git or a hook objects to, then commit by hand; the run itself is finished",
            )

    def _check_state(self) -> None:
        state = self.state()
        for name, work in _UNDERWAY.items():
            if (state / name).exists():
                raise AftermathError(f"a {work} is in progress in {self.top}", f"finish it, {_LEAVE_OUT}")
        if self._tell("ls-files", "--unmerged", "-z"):
            raise AftermathError(f"{self.top} has unresolved conflicts", f"resolve them, {_LEAVE_OUT}")
        if self.ask("symbolic-ref", "--quiet", "HEAD").returncode:
            raise AftermathError(
                f"HEAD of {self.top} is detached: a commit would be on no branch", f"git switch a branch, {_LEAVE_OUT}"
            )
        for variable in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            if self.ask("-c", "user.useConfigOnly=true", "var", variable).returncode:
                raise AftermathError(
                    f"git does not know who commits in {self.top}",
                    f"git config user.name NAME and git config user.email ADDRESS, {_LEAVE_OUT}",
                )

    def _name(self, path: Path) -> str:
        outside = not path.is_relative_to(self.top) or path == self.top
        if outside or _repository(_existing(path.parent)).top != self.top:
            raise AftermathError(
                f"{path} does not lie in the git repository {self.top}", f"name a place inside it, {_LEAVE_OUT}"
            )
        return path.relative_to(self.top).as_posix()

    def _ignores(self, name: str) -> bool:
        return bool(self._tell("check-ignore", "--", f"./{name}", fine=1))

    def _new(self, names: Sequence[str]) -> list[str]:
        """Files that git does not know yet; what begins with a point in a run directory is a lock or a torn write."""
        options = ("-z", "--others", "--exclude-standard")
        told = self._tell("ls-files", *options, "--", *(_literal(name) for name in names))
        return [
            name
            for name in told.split("\0")
            if name and (name in names or not PurePosixPath(name).name.startswith("."))
        ]

    def _head(self) -> str | None:
        return self.ask("rev-parse", "--quiet", "--verify", "HEAD^{commit}").stdout.strip() or None

    def _forget(self, names: Sequence[str]) -> None:
        """Take names that were added out of the index again."""
        self.ask("update-index", "--force-remove", "-z", "--stdin", given="".join(f"{name}\0" for name in names))


def _literal(name: str) -> str:
    return f":(top,literal){name}"


def _environment() -> dict[str, str]:
    """The user's environment, without questions and without another repository's variables."""
    kept = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
