"""Committing a run directory to the user's git repository, and nothing else (A-200)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from roundtable_local.report.markdown import one_line
from roundtable_local.userfiles import AftermathError, absolute, alone, existing, plain

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
    paths = repository.check([run_directory, *([] if ledger is None else [absolute(ledger)])])
    with alone(repository.state() / "roundtable-local"):
        return repository.commit(paths, message)


def check_commit(root: Path, ledger: Path | None = None) -> None:
    """Whether a run directory that is going to be made under `root`, and a ledger, could be committed.

    Raises:
        AftermathError: they could not.
    """
    root = root.resolve()
    run_directory = root / "run"
    _repository(existing(root)).check([run_directory, *([] if ledger is None else [absolute(ledger)])])


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
            self._change("commit", "--quiet", "--only", f"--message={plain(message)}", "--", *listed)
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
        if outside or _repository(existing(path.parent)).top != self.top:
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
