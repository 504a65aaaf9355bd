"""A folder of code becomes an overview and passages: what is read, what is not, and what is found (A-005 to A-010, A-130, A-131)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from roundtable_local.codebase import (
    Codebase,
    CodebaseSettings,
    Passage,
    context_file,
    overview,
    passages_text,
    read_codebase,
)
from roundtable_local.codefiles import REMOVED
from roundtable_local.config import merge, read_yaml, validate
from roundtable_local.errors import ConfigError, UsageError
from roundtable_local.passages import cut, definitions
from roundtable_local.shipped import shipped
from tests.helpers import ROOT, scripted_codec

CONFIG = shipped("configs") / "codebase.yaml"
CODE = "".join(f"def step_{number}(value):\n    return value + {number}\n\n\n" for number in range(20))


def some_settings(**changed: Any) -> CodebaseSettings:
    return validate(CodebaseSettings, merge(read_yaml(CONFIG), changed), str(CONFIG), ConfigError)


SETTINGS = some_settings()


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def read(folder: Path, count: Callable[[str], int] = len, **changed: Any) -> Codebase:
    return read_codebase(folder, some_settings(**changed) if changed else SETTINGS, count)


def paths(codebase: Codebase) -> list[str]:
    return [source.path for source in codebase.sources]


def reasons(codebase: Codebase) -> dict[str, str]:
    return {each.path: each.reason for each in codebase.skipped}


@cache
def this_repository() -> Codebase:
    return read(ROOT, lambda text: len(text) // 4)


# --- .gitignore

IGNORES: dict[str, dict[str, str]] = {
    "plain": {".gitignore": "*.log\nbuild/\n/only_top.py\n"},
    "negation": {".gitignore": "*.log\n!keep.log\n"},
    "a folder cannot be opened from inside": {".gitignore": "build/\n!build/keep.log\n"},
    "white list": {".gitignore": "*\n!*/\n!*.py\n"},
    "white list of a folder": {".gitignore": "/*\n!/src\n"},
    "the deeper file wins": {".gitignore": "*.log\n", "src/.gitignore": "!*.log\nonly_top.py\n"},
    "nested white list": {"src/.gitignore": "*\n!a.py\n"},
    "a negation does not reach below what it names": {".gitignore": "node/\n*.txt\n!src/\n"},
    "stars": {".gitignore": "src/**/b.py\n**/node\nsrc/*.txt\n"},
    "what lies inside does not open the folder": {".gitignore": "/*\n!/src/**\n"},
    "folders only": {".gitignore": "a.py/\n/src/**/\n"},
    "comments, blanks, broken lines": {".gitignore": "# *.py\n\n!\n[\n\\#odd\n*.log  \n"},
    "byte order mark and line ends": {".gitignore": "\ufeff*.log\r\nbuild/\r\n"},
}
TREE = (
    *("a.py", "keep.log", "other.log", "only_top.py", "top.txt", "#odd", "build/x.py", "build/keep.log", "node/d.py"),
    *("src/a.py", "src/b.py", "src/keep.log", "src/note.txt", "src/only_top.py", "src/deep/b.py", "src/node/c.py"),
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is what the result is compared with")
@pytest.mark.parametrize("ignores", IGNORES.values(), ids=IGNORES.keys())
def test_gitignore_files_mean_what_they_mean_to_git(tmp_path: Path, ignores: dict[str, str]) -> None:
    write(tmp_path, dict.fromkeys(TREE, "x\n") | ignores)
    git = ["git", "-c", "core.excludesFile=", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    kept = subprocess.run([*git, "ls-files", "-oz", "--exclude-standard"], check=True, capture_output=True, text=True)
    codebase = read(tmp_path)
    assert paths(codebase) == sorted(filter(None, kept.stdout.split("\0")))
    assert codebase.skipped == ()
    assert any("ignored" in line for line in codebase.notices)


def test_what_is_never_part_of_a_project_is_ignored_whatever_a_gitignore_says(tmp_path: Path) -> None:
    names = ("node_modules/a.js", "x/.venv/b.py", ".git/config", "roundtables/r/REPORT.md", "poetry.lock", "out/run.py")
    write(tmp_path, dict.fromkeys(names, "x\n") | {".gitignore": "!node_modules/\n!.git\n", "kept.py": "x\n"})
    codebase = read_codebase(tmp_path, SETTINGS, len, exclude=[tmp_path / "out"])
    assert paths(codebase) == [".gitignore", "kept.py"]


# --- what cannot or must not be read


def test_secrets_are_skipped_by_name_and_said_so(tmp_path: Path) -> None:
    secret = (".env", ".env.local", "prod.env", "tls/server.KEY", "a.pem", "id_rsa", "id_rsa.pub", "credentials.json",
              "Secrets.yaml", ".netrc", ".npmrc", ".pypirc", "k.p12", ".ssh/config", "x/terraform.tfstate")  # fmt: skip
    kept = (".env.example", "secretary.py", "keys.py", "environment.py")
    codebase = read(write(tmp_path, dict.fromkeys(secret + kept, "hush hush\n")))
    assert paths(codebase) == sorted(kept)
    assert set(reasons(codebase)) == {*secret, ".ssh"} - {".ssh/config"}
    assert any("named like a file of secrets" in line for line in codebase.notices)
    assert "hush" not in overview(codebase)


KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq1\n" * 3 + "-----END RSA PRIVATE KEY-----"
SECRET_LINES = {
    "key": KEY,
    "key without an end": "-----BEGIN PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq1MIIEpAIBAAKCAQEA7bq1\n" * 2,
    "key in quotes": "KEY = '''-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----'''",
    "aws": "client('AKIA" + "IOSFODNN7EXAMPLE')",
    "github": "use('ghp_" + "a1B2" * 9 + "')",
    "slack": "use(xoxb-" + "1234567890-abc)",
    "password": 'password = "correct horse"',
    "json": '  "client_secret": "abcdef123456",',
    "django": "SECRET_KEY = 'django-insecure-1'",
    "byte string": 'api_key = b"abcdef123456"',
    "env": "export DB_PASSWORD=hunter2hunter2",
    "yaml": "  apiKey: 9f8e7d6c5b4a",
    "url": "postgres://admin:swordfish@db/prod",
    "token": 'token: "a1b2c3d4e5f6a7b8c9d0e1f2"',
}
HARMLESS = (
    "password = get_password()", "password: str", 'password = "${DB_PASSWORD}"', "token = tokens[1]", 'pad_token = "[MASK]"',
    "def check(password: str, api_key: str) -> bool:", 'mask_token="TILE_GLOBAL"', "https://example.org:8080/path",
    'if "-----BEGIN CERTIFICATE-----" in text:', "secret_key=settings.secret_key,", "git@github.com:org/repo.git",
)  # fmt: skip


@pytest.mark.parametrize("lines", SECRET_LINES.values(), ids=SECRET_LINES.keys())
def test_what_looks_like_a_secret_is_removed_from_the_text(tmp_path: Path, lines: str) -> None:
    codebase = read(write(tmp_path, {"a.py": f"first = 1\n{lines}\nlast = 2\n"}))
    (source,) = codebase.sources
    hidden = lines.rstrip("\n").count("\n") + 1
    assert source.lines[:2] == ("first = 1", REMOVED)
    assert set(source.lines[2 : 1 + hidden]) <= {""}
    assert source.lines[-1] == "last = 2"
    assert len(source.lines) == 2 + lines.count("\n") + 1  # so that line numbers stay true
    assert (
        codebase.notices[-1] == f"codebase: {hidden} line{'s' * (hidden > 1)} that look like secrets removed from a.py"
    )


@pytest.mark.parametrize("line", HARMLESS)
def test_ordinary_code_is_no_secret(tmp_path: Path, line: str) -> None:
    (source,) = read(write(tmp_path, {"a.py": line + "\n"})).sources
    assert source.lines == (line,)


def test_what_is_no_text_is_skipped_with_the_reason(tmp_path: Path) -> None:
    write(
        tmp_path, {"logo.png": b"\x89PNG\0", "latin.py": "café = 1".encode("latin-1"), "utf16.py": "x".encode("utf-16")}
    )
    write(
        tmp_path,
        {"huge.py": "x = 1\n" * 50_000, "min.js": "x" * 2001, "bom.py": "\ufeffx = 1\r\ny = 2\r", "empty.py": ""},
    )
    os.mkfifo(tmp_path / "pipe")
    codebase = read(tmp_path)
    assert {source.path: source.lines for source in codebase.sources} == {"bom.py": ("x = 1", "y = 2"), "empty.py": ()}
    assert reasons(codebase) == {
        "huge.py": "larger than 262144 bytes",
        "latin.py": "not UTF-8 text",
        "logo.png": "binary",
        "min.js": "has lines longer than 2000 characters",
        "pipe": "not a regular file",
        "utf16.py": "binary",
    }
    assert sum(line.startswith("codebase: skipped") for line in codebase.notices) == 5


def test_links_are_never_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    folder = write(tmp_path / "project", {"src/a.py": "x = 1\n"})
    (tmp_path / "outside/secret.txt").write_text("hush")
    for name, target in {
        "out": "../outside",
        "loop": ".",
        "src/up": "..",
        "a.py": "src/a.py",
        "dead": "nowhere",
    }.items():
        (folder / name).symlink_to(target)
    (folder / ".gitignore").symlink_to("../outside/secret.txt")
    codebase = read(folder)
    assert paths(codebase) == ["src/a.py"]
    assert set(reasons(codebase).values()) == {"a symbolic link"}
    assert len(codebase.skipped) == 6
    (tmp_path / "link").symlink_to(folder)
    assert read(tmp_path / "link").name == "project"  # the folder itself may be one


def test_names_that_cannot_be_printed_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"two\nlines.py": "x", "esc\x1b[1m/a.py": "x", "한국어.py": "x\n"})
    (tmp_path / os.fsdecode(b"bad\xff.py")).write_text("x")
    codebase = read(tmp_path)
    assert paths(codebase) == ["한국어.py"]
    assert set(reasons(codebase)) == {"bad\\udcff.py", "esc\\x1b[1m", "two\\nlines.py"}
    assert all(line.isprintable() for line in codebase.notices)


def test_files_and_folders_that_cannot_be_read_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.py": "x\n", "locked/b.py": "x\n", "c.py": "x\n"})
    scandir, lstat = os.scandir, Path.lstat

    def no_scandir(path: Any) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    def no_lstat(path: Path) -> os.stat_result:
        if path.name == "c.py":
            raise PermissionError(13, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(os, "scandir", no_scandir)
    monkeypatch.setattr(Path, "lstat", no_lstat)
    codebase = read(tmp_path)
    assert paths(codebase) == ["a.py"]
    assert reasons(codebase) == {
        "c.py": "cannot be read: Permission denied",
        "locked": "cannot be read: Permission denied",
    }
    with pytest.raises(ConfigError, match=r"cannot be read: Permission denied \(check"):
        read(tmp_path / "locked")


def test_a_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read(tmp_path / "missing")
    with pytest.raises(UsageError, match="is not a folder"):
        read(write(tmp_path, {"file.py": "x"}) / "file.py")


def test_limits_on_all_files_together_are_said(tmp_path: Path) -> None:
    write(tmp_path, {f"f{number}.py": "x = 1\n" for number in range(9)})
    few = read(tmp_path, files={"max_files": 3})
    assert len(few.sources) == 3
    assert reasons(few) == {"f3.py": "reading stopped here: more than 3 files"}
    small = read(tmp_path, files={"max_total_bytes": 13})
    assert len(small.sources) == 2
    assert len(small.skipped) == 7


# --- what is known of the whole


def test_a130_configuration_alone_is_greenfield(tmp_path: Path) -> None:
    config = "key: value\n" * 100
    write(tmp_path, {"a.yaml": config, "pyproject.toml": config, "README.md": config, "Dockerfile": config})
    write(tmp_path, {"setup.py": "x = 1\n" * 100, "vite.config.ts": "x\n" * 100, "one.py": "print()\n"})
    codebase = read(tmp_path)
    assert not codebase.brownfield
    assert "greenfield" in codebase.notices[0]
    assert [(each.name, each.files) for each in codebase.languages] == [("Python", 1)]
    (tmp_path / "empty").mkdir()
    assert not read(tmp_path / "empty").brownfield


def test_a130_source_code_is_brownfield(tmp_path: Path) -> None:
    codebase = read(write(tmp_path, {"src/app.py": CODE, "web/app.TS": "let x = 1\n", "web/b.ts": "let y = 1\n"}))
    assert codebase.brownfield
    assert [(each.name, each.files, each.lines) for each in codebase.languages] == [
        ("Python", 1, 40),
        ("TypeScript", 2, 2),
    ]


def test_a010_conventions_are_those_of_the_top_and_capped_visibly(tmp_path: Path) -> None:
    write(tmp_path, {"sub/AGENTS.md": "not this", "a.py": CODE})
    assert read(tmp_path).conventions == ""
    write(tmp_path, {"AGENTS.md": "".join(f"Rule {number} of the house.\n" for number in range(500))})
    codebase = read(tmp_path)
    lines = codebase.conventions.split("\n")
    assert len("\n".join(lines[:-1])) <= SETTINGS.conventions_tokens
    assert lines[0] == "Rule 0 of the house."
    assert lines[-1] == f"[... {500 - len(lines) + 1} more lines left out]"
    assert "Rule 1 of" in overview(codebase)
    assert "AGENTS.md" not in {passage.path for passage in codebase.select(["rule of the house"], 10_000)}


def test_the_tree_goes_as_deep_as_its_limit_allows_and_counts_the_rest(tmp_path: Path) -> None:
    write(
        tmp_path, {f"src/pkg{number}/m.py": "x\n" for number in range(3)} | {"src/pkg0/in/n.py": "x\n", "z.py": "x\n"}
    )
    whole = "src/\n  pkg0/\n    in/\n      n.py\n    m.py\n  pkg1/\n    m.py\n  pkg2/\n    m.py\nz.py"
    assert read(tmp_path).tree == whole
    assert read(tmp_path, tree_entries=6).tree == "src/\n  pkg0/ (2 files)\n  pkg1/ (1 file)\n  pkg2/ (1 file)\nz.py"
    assert read(tmp_path, tree_entries=6, tree_folder_entries=2).tree == (
        "src/\n  pkg0/ (2 files)\n  pkg1/ (1 file)\n  ... 1 more\nz.py"
    )
    assert read(tmp_path, tree_entries=1).tree == "src/ (4 files)\n... 1 more"


def test_the_outline_names_public_definitions_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "big.py": CODE,
            "small.ts": "export class Cart {\n  add() {}\n}\nconst total = (x) => x\nfunction _own() {}\n",
        },
    )
    write(tmp_path, {"tests/test_big.py": "def test_it():\n    pass\n"})
    assert read(tmp_path).outline == (
        "big.py: def step_0, def step_1, def step_2, def step_3, def step_4, def step_5, ... 14 more\n"
        "small.ts: class Cart, const total"
    )
    write(
        tmp_path / "more",
        {
            "shop.py": "class Shop:\n    pass\n\n\nasync def main() -> None:\n    pass\n",
            "a.rs": "impl Cart::Item {\n}\n",
        },
    )
    assert read(tmp_path / "more").outline == "a.rs: impl Cart::Item\nshop.py: class Shop, def main"
    shutil.rmtree(tmp_path / "more")
    assert read(tmp_path, outline_tokens=100).outline.endswith("... 14 more\n... 1 more file")


def test_neither_the_overview_nor_the_file_says_where_the_folder_lies(tmp_path: Path) -> None:
    codebase = read(write(tmp_path / "shop", {"a.py": CODE}))
    text = overview(codebase) + context_file(codebase, codebase.select(["step"], 5000)) + repr(codebase.notices)
    assert codebase.name == "shop"
    assert str(tmp_path) not in text
    assert overview(codebase).startswith(
        "Project: shop\nProgramming languages: Python (1 file, 40 lines)\n\nFiles:\na.py\n\n"
    )


# --- repeatability


def test_two_readings_are_alike_and_every_byte_counts(tmp_path: Path) -> None:
    write(tmp_path, {"a/x.py": CODE, "b.py": CODE.replace("step", "leap"), "c.yaml": "x: 1\n"})
    first, second = read(tmp_path), read(tmp_path)
    queries = ["leap 3", "step 4 value"]
    assert first == second
    assert first.select(queries, 3000) == second.select(queries, 3000) == first.select(queries, 3000)
    for change in ({"c.yaml": "x: 2\n"}, {"c.yaml": "x: 1\r\n"}, {"d.yaml": ""}):
        again = read(write(tmp_path, change))
        assert again.sha256 != first.sha256
        first = again
    (tmp_path / "d.yaml").rename(tmp_path / "e.yaml")
    assert read(tmp_path).sha256 != first.sha256


# --- passages


def test_passages_begin_at_definitions_and_hold_every_line(tmp_path: Path) -> None:
    text = CODE.replace("def step_7", "# About step 7.\n@cached\ndef step_7")
    (source,) = read(write(tmp_path, {"a.py": text})).sources
    for start, end in source.spans:
        assert re.match(r"def step_|# About", source.lines[start - 1])
        assert end - start < SETTINGS.passages.most_lines
    covered = {line for start, end in source.spans for line in range(start, end + 1)}
    assert all(line in covered for line, content in enumerate(source.lines, 1) if content.strip())


DEFINED = {
    "export default class Cart extends Base {": "class Cart",
    "const total = async (items) => {": "const total",
    "func (s *Server) Start(port int) error {": "func (s *Server) Start",
    "type Server struct {": "type Server",
    "impl<T> Shop for Cart<T> {": "impl<T> Shop",
    "    pub(crate) async fn go(&self) {": "fn go",
    "public sealed interface Shape permits Circle {": "interface Shape",
    "enum class Color { RED }": "enum class Color",
    "defmodule Shop.Cart do": "defmodule Shop.Cart",
    "  def self.total": "def self.total",
    "class Cart:": "class Cart",
    "module therefore knows nothing": None,
    "class of things that": None,
    "case 3:": None,
    "const limit = 3": None,
}


@pytest.mark.parametrize(("line", "name"), DEFINED.items())
def test_definitions_are_told_from_prose(line: str, name: str | None) -> None:
    found = definitions(["", line], SETTINGS.passages.definition)
    assert [(each.line, each.name) for each in found] == ([(2, name)] if name else [])


@given(st.lists(st.sampled_from(["", "  ", "x = 1", "def f():", "    def g():", "# note"]), max_size=120))
def test_passages_cover_all_lines_but_blank_ones_once(lines: list[str]) -> None:
    spans = cut(lines, definitions(lines, SETTINGS.passages.definition), SETTINGS.passages)
    covered = [line for start, end in spans for line in range(start, end + 1)]
    assert covered == sorted(set(covered))
    assert {line for line, content in enumerate(lines, 1) if content.strip()} <= set(covered)
    assert all(start <= end < start + SETTINGS.passages.most_lines for start, end in spans)


COUNTS: dict[str, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "more than its parts": lambda text: len(text) // 4 + (len(text) // 400) ** 2,
    "real": lambda text: scripted_codec().count(text),
}


@cache
def some_codebase(count: Callable[[str], int]) -> Codebase:
    files = {"a.py": CODE, "b/b.py": CODE.replace("step", "leap"), "c.yaml": "config_key: 1\n" * 40}
    with tempfile.TemporaryDirectory() as folder:
        return read(write(Path(folder), files), count)


@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS.keys())
@given(
    queries=st.lists(st.text(max_size=40) | st.sampled_from(["step value", "leap 3", "config key"])),
    budget=st.integers(-5, 3000),
)
@example(queries=['"', "NEAR(a b) OR *", "'; DROP TABLE passage", "\0", "\ud800"], budget=500)
def test_the_budget_is_never_exceeded(count: Callable[[str], int], queries: list[str], budget: int) -> None:
    chosen = some_codebase(count).select(queries, budget)
    assert not chosen or count(passages_text(chosen)) <= budget
    assert [passage.id for passage in chosen] == [f"S{number}" for number in range(1, len(chosen) + 1)]
    assert list(chosen) == sorted(chosen, key=lambda passage: (passage.path, passage.start))


def test_citations_exist_and_say_what_the_files_say() -> None:
    codebase = this_repository()
    chosen = codebase.select(["journal", "vote", "tokens of a block", "configs of the model"], 8000)
    assert len(chosen) > 10
    for passage in chosen:
        lines = (ROOT / passage.path).read_text("utf-8").split("\n")
        assert 1 <= passage.start <= passage.end <= len(lines)
        assert passage.citation == f"{passage.path}:{passage.start}-{passage.end}"
        if REMOVED not in passage.text:
            assert passage.text == "\n".join(lines[passage.start - 1 : passage.end])


def test_what_a_query_is_about_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"billing/invoice.py": "class InvoiceWriter:\n    def total_price(self):\n        return 1\n"})
    write(tmp_path, {"auth/login.go": "func checkPassword(user string) bool {\n\treturn true\n}\n", "other.py": CODE})
    write(
        tmp_path,
        {"docs/notes.md": "The invoice writer, the invoice writer, the invoice writer.\n", "검색.py": "# 결제 금액\n"},
    )
    codebase = read(tmp_path)
    wanted = {"Who writes invoices?": "billing/invoice.py", "checking of passwords": "auth/login.go", "결제": "검색.py"}
    for query, path in wanted.items():
        assert codebase.select([query], 200)[0].path == path, query
    assert codebase.select(["Should we do it?", "", "zebra"], 5000) == ()


def test_every_query_gets_a_passage_where_the_budget_allows(tmp_path: Path) -> None:
    write(tmp_path, {"rich.py": CODE.replace("value", "cache"), "poor.py": "def store_journal():\n    return 1\n"})
    codebase = read(tmp_path)
    (one,) = codebase.select(["journal"], 5000)
    chosen = codebase.select(["cache", "journal"], 1500)
    assert {passage.path for passage in chosen} == {"rich.py", "poor.py"}
    assert one.text in {passage.text for passage in chosen}


def test_code_ranks_before_its_tests(tmp_path: Path) -> None:
    body = "def total_price(invoice):\n    return invoice.net + invoice.tax\n"
    codebase = read(write(tmp_path, {"tests/price.py": body + "# total price of an invoice\n", "z.py": body}))
    assert codebase._index._rank("total price of an invoice") == [1, 0]


def test_on_this_repository_the_runner_is_found() -> None:
    codebase = this_repository()
    chosen = codebase.select(["A run is resumed from its journal: replies are replayed, then generation goes on"], 3000)
    assert "engine/roundtable_local/runner.py" in {passage.path for passage in chosen}
    assert codebase.brownfield
    assert codebase.languages[0].name == "Python"


# --- CODEBASE_CONTEXT.md


def test_a131_the_context_file_is_markdown_that_no_text_can_break(tmp_path: Path) -> None:
    nasty = 'def fence():\n    return """\n```\n# Not a heading\n````\n"""\n\x1b[31m \u202e <b>\n'
    write(tmp_path, {"AGENTS.md": "# Rules\n```\nno end", "a|b`_*.py": nasty + CODE})
    codebase = read(tmp_path)
    chosen = codebase.select(["fence"], 2000)
    text = context_file(codebase, chosen)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings[:6] == ["Codebase Context", "Languages", "Conventions", "Tree", "Outline", "Relevant Passages"]
    assert len(headings) == 6 + len(chosen)
    fences = [token.content for token in tokens if token.type == "fence"]
    assert fences[0] == "# Rules\n```\nno end\n"
    assert "# Not a heading\n````\n" in fences[3]
    assert not re.search("[\x1b\u202e]", text)
    assert text == context_file(codebase, chosen)


def test_a131_the_context_file_says_what_is_missing(tmp_path: Path) -> None:
    text = context_file(read(tmp_path), ())
    for line in (
        "No programming language was found.",
        "There is no AGENTS.md.",
        "No files were read.",
        "No passage matches.",
    ):
        assert f"\n{line}\n" in text


def test_what_the_seats_read() -> None:
    passages = (Passage("S1", "a.py", 3, 4, "x = 1\ny = 2", 9), Passage("S2", "b.py", 1, 1, "z", 5))
    assert passages_text(passages) == "[S1] a.py:3-4\nx = 1\ny = 2\n\n[S2] b.py:1-1\nz"
