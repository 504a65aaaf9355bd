"""What a finished run leaves outside its directory: ledger rows, roadmap bullets, commits (A-200 to A-205, A-g2)."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from roundtable_local import repository as committing
from roundtable_local import userfiles
from roundtable_local.aftermath import (
    ANCHOR,
    COLUMNS,
    Decided,
    append_ledger,
    check_ledger,
    check_roadmap,
    merge_roadmap,
    parse_row,
)
from roundtable_local.errors import RoundtableError
from roundtable_local.report.markdown import one_line, table
from roundtable_local.repository import check_commit, commit
from roundtable_local.userfiles import AftermathError

READER = MarkdownIt("commonmark").enable("table")
HOSTILE = [
    "a | b", "a\nb\r\nc", "trailing \\", "\\|", "\\\\|", "`a|b`", "| x | y |", "<!-- x -->", "--> <script>", "](evil)", "`", "# h",
    "- b", "", " ", "한국어 'x' \"y\"", "\u2028", "\x00", "%41", "1. x", "|", "\ud800",
]  # fmt: skip
PLACES = [
    "plain",
    "with blank",
    "한국어",
    'it\'s "quoted"',
    "a*b[c]?",
    ":(top)x",
    "$(x)",
    "100%20",
    "-x",
    "back\\slash",
]
TABLE = table(COLUMNS, [])
texts = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=6), max_size=6).map("".join)


@pytest.fixture(autouse=True, scope="module")
def hurried() -> Iterator[None]:
    """Nobody pulls the plug on these tests: nothing waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def decided(artifact: Path, **fields: str) -> Decided:
    given = {"slug": "rest-vs-queue", "summary": "3 of 4 passed.", "date": "2026-03-01", "scope": "api"} | fields
    return Decided(artifact=str(artifact), verdict="split", **given)


def run_directory(root: Path, name: str = "rest-vs-queue-20260301") -> Path:
    path = root / name
    (path / "round1").mkdir(parents=True)
    (path / "REPORT.md").write_text("# Report\n")
    (path / "round1" / "cto.md").write_text("# CTO\n")
    (path / "journal.jsonl").write_text("{}\n")
    (path / ".lock").touch()
    (path / ".REPORT.md.x1y2").write_text("torn")
    return path


def rows(path: Path) -> list[tuple[str, ...]]:
    """The rows of the ledger's table as another reader of Markdown sees them."""
    tokens = READER.parse(path.read_text("utf-8"))
    assert [token.type for token in tokens].count("table_open") == 1
    found: list[list[str]] = []
    for at, token in enumerate(tokens):
        if token.type == "tr_open":
            found.append([])
        elif token.type == "td_open":
            found[-1].append("".join(child.content for child in tokens[at + 1].children or []))
    return [tuple(row) for row in found if row]


def bullets(path: Path) -> list[str]:
    tokens = READER.parse(path.read_text("utf-8"))
    texts = []
    for at, token in enumerate(tokens):
        if token.type == "list_item_open":
            children = tokens[at + 2].children or []
            texts.append("".join(child.content for child in children if child.type in {"text", "text_special"}).strip())
    return texts


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(call: Callable[[], object], match: str) -> None:
    with pytest.raises(AftermathError, match=match) as caught:
        call()
    assert isinstance(caught.value, RoundtableError)
    assert caught.value.fix
    assert "\n" not in str(caught.value)


def both_refuse(check: Callable[[Path], None], write: Callable[[Path, Decided], bool], path: Path, match: str) -> None:
    """The check beforehand and the writing afterwards refuse alike, and leave the folder as it was."""
    before = sorted(path.parent.iterdir()) if path.parent.is_dir() else None
    content = path.read_bytes() if path.is_file() else None
    refused(lambda: check(path), match)
    refused(lambda: write(path, decided(path.parent / "run")), match)
    assert (sorted(path.parent.iterdir()) if path.parent.is_dir() else None) == before
    assert (path.read_bytes() if path.is_file() else None) == content


# --- what was decided


def test_a_g2_a_task_is_named_after_the_run_directory_unless_it_is_given(tmp_path: Path) -> None:
    assert decided(tmp_path / "rest-20260301").task_id == "rest-20260301"
    assert decided(tmp_path / "rest-20260301", task_id="T-7").task_id == "T-7"
    assert decided(tmp_path).source == "roundtable-local"


# --- the ledger


def test_a_203_the_ledger_is_made_with_one_row(tmp_path: Path) -> None:
    ledger = tmp_path / "docs" / "DECISIONS.md"
    check_ledger(ledger)
    assert not ledger.parent.exists()
    entry = Decided(
        slug="rest-vs-queue", verdict="consensus", summary="All passed.", artifact=str(tmp_path / "roundtables" / "r-1"),
        date="2026-03-01", milestone="M1", phase=None, scope="api",
    )  # fmt: skip
    assert append_ledger(ledger, entry)
    assert ledger.read_text() == (
        "# Decision Ledger\n\n"
        "| Date | Task | Source | Slug | Verdict | Summary | Artifact | Milestone | Phase | Scope |\n"
        "| ---- | ---- | ------ | ---- | ------- | ------- | -------- | --------- | ----- | ----- |\n"
        "| 2026-03-01 | r-1 | roundtable-local | rest-vs-queue | consensus | All passed. | ../roundtables/r-1 | M1 |  | api |\n"
    )
    assert names(ledger.parent) == ["DECISIONS.md"]


def test_a_203_a_row_is_appended_once_per_task_and_artifact(tmp_path: Path) -> None:
    ledger = tmp_path / "L.md"
    entry = decided(tmp_path / "r-1")
    assert append_ledger(ledger, entry)
    before = ledger.read_bytes(), ledger.stat().st_ino
    assert not append_ledger(ledger, entry)
    assert not append_ledger(ledger, decided(tmp_path / "r-1", summary="other words", date="2027-01-01"))
    assert (ledger.read_bytes(), ledger.stat().st_ino) == before
    assert append_ledger(ledger, decided(tmp_path / "r-1", task_id="other"))
    assert append_ledger(ledger, decided(tmp_path / "r-2", task_id="r-1"))
    assert [(row[1], row[6]) for row in rows(ledger)] == [("r-1", "r-1"), ("other", "r-1"), ("r-1", "r-2")]


def test_a_203_rows_written_by_hand_count_too(tmp_path: Path) -> None:
    ledger = tmp_path / "L.md"
    head = table(COLUMNS, [])
    ledger.write_text(f"{head}\n2026-03-01|r\\-1|||||./sub/../r-1/|||\n| short |\n")
    assert not append_ledger(ledger, decided(tmp_path / "r-1"))
    ledger.write_text(f"{head}\n| 2026-03-01 | r-1 |  |  |  |  | {tmp_path}/r-1 |  |  |  |\n")
    assert not append_ledger(ledger, decided(tmp_path / "r-1"))


def test_a_203_the_artifact_is_named_from_the_ledger_where_it_is_near(tmp_path: Path) -> None:
    ledger = tmp_path / "a" / "b" / "L.md"
    near, beside, far = ledger.parent / "r" / "1", tmp_path / "a" / "r" / "2", tmp_path / "r" / "3"
    for artifact in (near, beside, far):
        assert append_ledger(ledger, decided(artifact))
        assert not append_ledger(ledger, decided(artifact))
    assert [row[6] for row in rows(ledger)] == ["r/1", "../r/2", str(far)]


def test_a_203_relative_paths_and_linked_folders_name_the_same_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "r-1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    assert append_ledger(Path("real/L.md"), decided(Path("real/r-1")))
    assert not append_ledger(tmp_path / "link" / "L.md", decided(tmp_path / "link" / "r-1"))


@pytest.mark.parametrize(
    "name", ["two  blanks", "line\nend", " edge ", "tab\t", "\u202ebidi", "%41", "한국어 a", "a|b", "\udcff"]
)
def test_a_203_names_that_a_line_cannot_hold_stay_apart(tmp_path: Path, name: str) -> None:
    ledger = tmp_path / "L.md"
    assert append_ledger(ledger, decided(tmp_path / name, task_id="t"))
    assert not append_ledger(ledger, decided(tmp_path / name, task_id="t"))
    assert append_ledger(ledger, decided(tmp_path / one_line(f"x{name}".replace("\udcff", "")), task_id="t"))
    assert len(rows(ledger)) == 2
    if name in {"한국어 a", "a|b"}:
        assert rows(ledger)[0][6] == name


@pytest.mark.parametrize("text", HOSTILE)
def test_a_203_hostile_cells_stay_in_their_cells(tmp_path: Path, text: str) -> None:
    ledger = tmp_path / "L.md"
    entry = Decided(
        task_id=text, source=text, slug=text, verdict="split", summary=text, artifact=str(tmp_path / "r"), date=text,
        milestone=text, phase=text, scope=text,
    )  # fmt: skip
    assert append_ledger(ledger, entry)
    assert not append_ledger(ledger, entry)
    assert append_ledger(ledger, decided(tmp_path / "r-2"))
    seen = one_line(text.replace("\ud800", "?"))
    first, second = rows(ledger)
    assert set(first[:4] + first[5:6] + first[7:]) == {seen} or (not text.strip() and first[1] == "r")
    assert second[1] == "r-2"


@given(st.lists(texts, min_size=1, max_size=12))
@example(["a\\", "|", "\\|"])
@example(["", "", ""])
def test_a_203_rows_are_read_as_they_were_written(cells: list[str]) -> None:
    line = table(COLUMNS, [cells]).split("\n")[-1]
    assert parse_row(line) == tuple(one_line(cell) for cell in cells)


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("| a | b |", ("a", "b")),
        ("a | b", ("a", "b")),
        ("  |a|b|  \r\n", ("a", "b")),
        ("| a \\| b | c\\\\ |", ("a | b", "c\\")),
        ("||a||", ("", "a", "")),
        ("| a | \\|", ("a", "|")),
        ("", ()),
        ("|", ()),
        ("|\\", ("\\",)),
    ],
)
def test_a_203_rows_of_others_are_read_too(line: str, cells: tuple[str, ...]) -> None:
    assert parse_row(line) == cells


@given(st.text(alphabet="\\|ab `\n", max_size=30))
def test_a_203_any_line_can_be_read(line: str) -> None:
    assert isinstance(parse_row(line), tuple)


# What may stand around a table: no table of this head itself, and nothing that goes on into it.
around = st.text(max_size=40).map(lambda text: text.replace("|", "/").replace("`", "'").replace("~", "-"))


@settings(max_examples=25)
@given(around, around, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]))
def test_a_203_what_stands_around_the_table_is_kept_byte_for_byte(before: str, after: str, end: str, bom: str) -> None:
    entry = "| 2026-01-01 | t |  |  |  |  | x |  |  |  |"
    head = (
        f"{bom}{before}{end}{end}".encode("utf-8", "replace")
        + end.join([*table(COLUMNS, []).split("\n"), entry]).encode()
    )
    tail = f"{end}{end}{after}".encode("utf-8", "replace")
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "L.md"
        ledger.write_bytes(head + tail)
        assert append_ledger(ledger, decided(Path(folder) / "r"))
        assert not append_ledger(ledger, decided(Path(folder) / "r"))
        data = ledger.read_bytes()
    assert data.startswith(head + end.encode() + b"| 2026-03-01 | r |")
    assert data.endswith(tail)
    assert data[len(head) : len(data) - len(tail)].count(b"\n") == 1
    assert (b"\r\n" in data[len(head) : len(data) - len(tail)]) == (end == "\r\n")


def test_a_203_only_a_folder_that_holds_both_makes_a_path_relative() -> None:
    assert userfiles.reference_to(Path("/data/r"), Path("/docs")) == "/data/r"
    assert userfiles.reference_to(Path("/data/r"), Path("/")) == "data/r"
    assert userfiles.reference_to(Path("/p/data/r"), Path("/p/docs")) == "../data/r"


def test_a_203_a_byte_order_mark_may_stand_before_everything(tmp_path: Path) -> None:
    ledger, roadmap = tmp_path / "L.md", tmp_path / "ROADMAP.md"
    ledger.write_text(f"\ufeff{TABLE}\n")
    roadmap.write_text(f"\ufeff{ANCHOR}\n")
    for write, path in ((append_ledger, ledger), (merge_roadmap, roadmap)):
        assert write(path, decided(tmp_path / "r"))
        assert not write(path, decided(tmp_path / "r"))
        assert path.read_text().startswith("\ufeff")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_203_a_table_at_the_files_end_needs_no_line_end(tmp_path: Path, end: str) -> None:
    ledger = tmp_path / "L.md"
    ledger.write_bytes(end.join(table(COLUMNS, []).split("\n")).encode())
    assert append_ledger(ledger, decided(tmp_path / "r-1"))
    assert append_ledger(ledger, decided(tmp_path / "r-2"))
    assert [row[1] for row in rows(ledger)] == ["r-1", "r-2"]
    assert ledger.read_bytes().count(end.encode()) == ledger.read_bytes().count(b"\n") == 4


@pytest.mark.parametrize("after", ["# Notes | more\n", "- a | b\n", "```\na | b\n```\n", "> a | b\n", "---\n"])
def test_a_203_what_follows_a_table_at_once_stays_after_it(tmp_path: Path, after: str) -> None:
    ledger = tmp_path / "L.md"
    ledger.write_text(f"{table(COLUMNS, [])}\n{after}")
    assert append_ledger(ledger, decided(tmp_path / "r"))
    assert ledger.read_text().endswith(f"| api |\n{after}")
    assert len(rows(ledger)) == 1


def test_a_203_a_table_in_a_list_stays_in_it(tmp_path: Path) -> None:
    ledger = tmp_path / "L.md"
    ledger.write_text("- Decisions\n\n" + "".join(f"  {line}\n" for line in table(COLUMNS, []).split("\n")))
    assert append_ledger(ledger, decided(tmp_path / "r"))
    assert len(rows(ledger)) == 1


def test_a_203_an_empty_file_becomes_a_ledger_and_keeps_its_permissions(tmp_path: Path) -> None:
    ledger = tmp_path / "L.md"
    ledger.touch(0o600)
    assert append_ledger(ledger, decided(tmp_path / "r-1"))
    assert append_ledger(ledger, decided(tmp_path / "r-2"))
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600
    assert len(rows(ledger)) == 2
    assert names(tmp_path) == ["L.md"]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"# Decision Ledger\n", "has no table"),
        (b"\n", "has no table"),
        (TABLE.replace("Scope", "Area").encode(), "has no table"),
        (TABLE.split("\n")[0].encode(), "has no table"),
        (TABLE.replace("---", "x").encode(), "has no table"),
        (f"```\n{TABLE}\n```\n".encode(), "has no table"),
        (f"~~~~ md\n{TABLE}\n~~~\n{TABLE}".encode(), "has no table"),
        ("".join(f"    {line}\n" for line in TABLE.split("\n")).encode(), "has no table"),
        (f"{TABLE}\n\n{TABLE}\n".encode(), "has 2 tables"),
        (TABLE.encode("utf-16"), "not UTF-8"),
        (TABLE.encode() + b"\n| \xff |\n", "not UTF-8"),
    ],
)
def test_a_203_what_is_no_ledger_is_refused_and_kept(tmp_path: Path, content: bytes, match: str) -> None:
    ledger = tmp_path / "L.md"
    ledger.write_bytes(content)
    both_refuse(check_ledger, append_ledger, ledger, match)


def test_a_203_what_is_no_file_of_its_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "real.md").write_text(TABLE + "\n")
    (tmp_path / "link.md").symlink_to("real.md")
    (tmp_path / "dangling.md").symlink_to("nowhere.md")
    os.mkfifo(tmp_path / "pipe")
    read_only = tmp_path / "read-only.md"
    read_only.write_text(TABLE + "\n")
    read_only.chmod(0o444)
    for name, match in [
        ("folder", "not a file"),
        ("link.md", "is a link"),
        ("dangling.md", "is a link"),
        ("pipe", "not a file"),
        ("read-only.md", "read-only"),
        ("real.md/L.md", "no writable folder"),
    ]:
        both_refuse(check_ledger, append_ledger, tmp_path / name, match)
    assert not (tmp_path / "nowhere.md").exists()
    refused(lambda: append_ledger(tmp_path / ("x" * 300), decided(tmp_path)), "cannot be read: File name too long")


def test_a_203_a_failed_write_leaves_the_ledger_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "L.md"
    append_ledger(ledger, decided(tmp_path / "r-1"))
    before = ledger.read_bytes()

    def full(target: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(userfiles, "write_atomically", full)
    refused(lambda: append_ledger(ledger, decided(tmp_path / "r-2")), "No space left")
    assert ledger.read_bytes() == before
    assert names(tmp_path) == ["L.md"]


def test_a_203_a_ledger_in_use_is_waited_for_and_then_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(userfiles, "_WAIT_SECONDS", 0.1)
    ledger = tmp_path / "L.md"
    with userfiles.alone(ledger):
        refused(lambda: append_ledger(ledger, decided(tmp_path / "r")), "in use by another run")
    assert append_ledger(ledger, decided(tmp_path / "r"))


APPENDER = """
import sys
from pathlib import Path
from roundtable_local.aftermath import Decided, append_ledger, merge_roadmap
folder, name = Path(sys.argv[1]), sys.argv[2]
for number in range(6):
    entry = Decided(slug=name, verdict="split", summary="s", artifact=str(folder / f"{name}-{number}"), date="2026-03-01")
    assert append_ledger(folder / "L.md", entry)
    assert merge_roadmap(folder / "ROADMAP.md", entry)
"""


def test_a_203_runs_at_once_all_get_their_rows_and_bullets(tmp_path: Path) -> None:
    (tmp_path / "ROADMAP.md").write_text(f"{ANCHOR}\n")
    runs = ["a", "b", "c"]
    processes = [subprocess.Popen([sys.executable, "-c", APPENDER, str(tmp_path), name]) for name in runs]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    expected = {f"{name}-{number}" for name in runs for number in range(6)}
    assert sorted(row[1] for row in rows(tmp_path / "L.md")) == sorted(expected)
    assert len(bullets(tmp_path / "ROADMAP.md")) == len(expected)
    assert names(tmp_path) == ["L.md", "ROADMAP.md"]


# --- the roadmap


def test_a_204_one_bullet_is_added_below_the_anchor(tmp_path: Path) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_text(f"# Roadmap\n\n{ANCHOR}\n\n## Later\n")
    check_roadmap(roadmap)
    assert merge_roadmap(roadmap, decided(tmp_path / "roundtables" / "r-1"))
    assert not merge_roadmap(roadmap, decided(tmp_path / "roundtables" / "r-1", summary="other"))
    assert merge_roadmap(roadmap, decided(tmp_path / "roundtables" / "r-2", summary=""))
    link = "[rest-vs-queue](roundtables/r-{0}/REPORT.md): split."
    assert roadmap.read_text() == (
        f"# Roadmap\n\n{ANCHOR}\n"
        f"- 2026-03-01 {link.format(1)} 3 of 4 passed. <!-- r-1 -->\n"
        f"- 2026-03-01 {link.format(2)} <!-- r-2 -->\n"
        "\n## Later\n"
    )
    assert names(tmp_path) == ["ROADMAP.md"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("listed", "after"),
    [
        ("- a\n", ""),
        ("- a\n", "# H\n"),
        ("\n- a\n* b\n+ c\n", "\ntext\n"),
        ("- a\n  wrapped\n  - below\n\n  paragraph\n- b\n", "\n\n> quote\n"),
        ("- a\nwrapped\n", "---\n"),
        ("- a\n  ```\n  - code\n  ```\n", "\n* * *\n"),
        ("- a\n\n- b\n", "<!-- end -->\n- c\n"),
        ("- a\n", "1. one\n"),
    ],
)
def test_a_204_it_comes_after_the_bullets_that_are_there(tmp_path: Path, listed: str, after: str, end: str) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    head, tail = (text.replace("\n", end).encode() for text in (f"  {ANCHOR}  \n{listed}", after))
    roadmap.write_bytes(head + tail)
    assert merge_roadmap(roadmap, decided(tmp_path / "r"))
    data = roadmap.read_bytes()
    assert data.startswith(head + b"- 2026-03-01 [")
    assert data.endswith(f"<!-- r -->{end}".encode() + tail)
    assert data.count(b"\n") == data.count(end.encode())
    assert not merge_roadmap(roadmap, decided(tmp_path / "r"))


@pytest.mark.parametrize("after", ["text\n", "## H\n", "1. one\n", "* * *\n"])
def test_a_204_a_first_bullet_takes_nothing_of_what_follows(tmp_path: Path, after: str) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_text(f"{ANCHOR}\n{after}")
    assert merge_roadmap(roadmap, decided(tmp_path / "r-1"))
    assert merge_roadmap(roadmap, decided(tmp_path / "r-2"))
    lines = roadmap.read_text().split("\n")
    assert [line[:2] for line in lines[1:4]] == ["- ", "- ", ""]
    assert roadmap.read_text().endswith(f"\n\n{after}")
    assert [text.split(":")[0] for text in bullets(roadmap)][:2] == ["2026-03-01 rest-vs-queue"] * 2


def test_a_204_an_anchor_at_the_files_end_needs_no_line_end(tmp_path: Path) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_bytes(b"x\r\n" + ANCHOR.encode())
    assert merge_roadmap(roadmap, decided(tmp_path / "r"))
    assert roadmap.read_bytes().startswith(b"x\r\n" + ANCHOR.encode() + b"\r\n- 2026")


def test_a_204_a_bullet_that_was_moved_is_not_added_again(tmp_path: Path) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_text(f"{ANCHOR}\n")
    merge_roadmap(roadmap, decided(tmp_path / "r"))
    anchor, bullet = roadmap.read_text().splitlines()
    roadmap.write_text(f"# Done\n{bullet.replace('3 of 4 passed', 'edited')}\n\n{anchor}\n")
    assert not merge_roadmap(roadmap, decided(tmp_path / "r"))
    assert merge_roadmap(roadmap, decided(tmp_path / "r", task_id="other"))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_204_hostile_text_stays_in_its_bullet(tmp_path: Path, text: str) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_text(f"{ANCHOR}\n\nend\n")
    entry = decided(tmp_path / "r", task_id=f"t{text}", slug=f"s{text}", summary=f"x {text}", date=f"d{text}")
    assert merge_roadmap(roadmap, entry)
    assert not merge_roadmap(roadmap, entry)
    assert merge_roadmap(roadmap, decided(tmp_path / "r-2"))
    seen = text.replace("\ud800", "?")
    first, second = bullets(roadmap)
    assert first == one_line(f"{one_line('d' + seen)} {one_line('s' + seen)}: split. {one_line('x ' + seen)}")
    assert second.startswith("2026-03-01 rest-vs-queue: split.")
    html = READER.render(roadmap.read_text("utf-8"))
    assert "<script>" not in html
    assert re.findall('href="(.*?)"', html) == ["r/REPORT.md", "r-2/REPORT.md"]


def test_a_204_a_task_cannot_end_its_comment(tmp_path: Path) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_text(f"{ANCHOR}\n")
    assert merge_roadmap(roadmap, decided(tmp_path / "r", task_id="a--b ---> c"))
    assert roadmap.read_text().endswith(" <!-- a-%2Db%20-%2D%2D%3E%20c -->\n")


def test_a_204_text_of_another_bullet_is_never_taken_for_the_key(tmp_path: Path) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_text(f"{ANCHOR}\n")
    assert merge_roadmap(roadmap, decided(tmp_path / "r-1", summary="[x](r-2/REPORT.md) <!-- r-2 -->"))
    assert merge_roadmap(roadmap, decided(tmp_path / "r-2"))


@pytest.mark.parametrize("name", PLACES)
def test_a_204_links_lead_to_the_report(tmp_path: Path, name: str) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_text(f"{ANCHOR}\n")
    assert merge_roadmap(roadmap, decided(tmp_path / name / "r (1)"))
    assert not merge_roadmap(roadmap, decided(tmp_path / name / "r (1)"))
    link = userfiles.unquoted(re.search(r"\]\((.*?)\): ", roadmap.read_text())[1])  # type: ignore[index]
    assert link == f"{name}/r (1)/REPORT.md"
    assert READER.render(roadmap.read_text()).count("<a href=") == 1


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("# Roadmap\n", "does not say where"),
        ("", "does not say where"),
        (f"```\n{ANCHOR}\n```\n", "does not say where"),
        (f"    {ANCHOR}\n", "does not say where"),
        (f"text {ANCHOR}\n", "does not say where"),
        (f"{ANCHOR}\n\n{ANCHOR}\n", "2 times"),
    ],
)
def test_a_204_a_roadmap_without_one_anchor_is_refused(tmp_path: Path, content: str, match: str) -> None:
    roadmap = tmp_path / "ROADMAP.md"
    roadmap.write_text(content)
    both_refuse(check_roadmap, merge_roadmap, roadmap, match)


def test_a_204_a_missing_roadmap_is_refused_with_the_line_to_add(tmp_path: Path) -> None:
    both_refuse(check_roadmap, merge_roadmap, tmp_path / "ROADMAP.md", "there is no roadmap")
    both_refuse(check_roadmap, merge_roadmap, tmp_path / "docs" / "ROADMAP.md", "there is no roadmap")
    with pytest.raises(AftermathError) as caught:
        check_roadmap(tmp_path / "ROADMAP.md")
    assert ANCHOR in caught.value.fix
    (tmp_path / "ROADMAP.md").symlink_to("x")
    both_refuse(check_roadmap, merge_roadmap, tmp_path / "ROADMAP.md", "is a link")


# --- commits


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder outside any repository, an identity, and no configuration but the tests' own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Tester")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "tester@example.org")
    (tmp_path / ".gitconfig").write_text("[core]\nfsync = none\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.delenv("EMAIL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape")


@pytest.fixture
def repository(home: Path) -> Path:
    """A repository with one commit."""
    path = home / "project"
    git(home, "init", "--template=", "--quiet", "-b", "main", str(path))
    (path / "a.txt").write_text("a\n")
    (path / "b.txt").write_text("b\n")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "-m", "first")
    return path


def state(path: Path) -> dict[str, str]:
    """Everything of a repository that a refusal must leave alone."""
    return {
        "head": (path / ".git" / "HEAD").read_text(),
        "refs": git(path, "for-each-ref"),
        "index": git(path, "ls-files", "--stage", "--debug", "-z") if (path / ".git" / "index").exists() else "",
        "status": git(path, "status", "--porcelain", "-uall", "--ignored"),
    }


def committed(path: Path) -> set[str]:
    """Names in the last commit."""
    return {name for name in git(path, "show", "--format=", "--name-only", "-z", "HEAD").split("\0") if name}


FILES = {"REPORT.md", "round1/cto.md", "journal.jsonl"}


def test_a_200_exactly_the_run_directory_is_committed_once(repository: Path) -> None:
    run = run_directory(repository / "roundtables")
    (repository / "other.txt").write_text("untracked\n")
    check_commit(repository / "roundtables")
    made = commit(run, None, "roundtable: rest-vs-queue")
    assert made == git(repository, "rev-parse", "HEAD").strip()
    assert git(repository, "log", "-1", "--format=%B").strip() == "roundtable: rest-vs-queue"
    assert committed(repository) == {f"roundtables/{run.name}/{name}" for name in FILES}
    before = state(repository)
    assert commit(run, None, "roundtable: rest-vs-queue") is None
    assert state(repository) == before
    assert "?? other.txt" in before["status"]


def test_a_200_the_ledger_goes_along_and_what_changed_is_committed_again(repository: Path) -> None:
    run = run_directory(repository / "roundtables")
    ledger = repository / "docs" / "DECISIONS.md"
    append_ledger(ledger, decided(run))
    assert commit(run, ledger, "one")
    assert committed(repository) == {f"roundtables/{run.name}/{name}" for name in FILES} | {"docs/DECISIONS.md"}
    assert commit(run, ledger, "two") is None
    (run / "REPORT.md").write_text("# Again\n")
    (run / "new.md").write_text("new\n")
    (run / "round1" / "cto.md").unlink()
    append_ledger(ledger, decided(run, task_id="t"))
    assert commit(run, ledger, "three")
    assert committed(repository) == {
        f"roundtables/{run.name}/{name}" for name in ("REPORT.md", "new.md", "round1/cto.md")
    } | {"docs/DECISIONS.md"}


def test_a_200_what_the_user_staged_and_changed_is_left_exactly_so(repository: Path) -> None:
    (repository / "a.txt").write_text("staged\n")
    git(repository, "add", "a.txt")
    (repository / "a.txt").write_text("staged\nand changed\n")
    (repository / "b.txt").unlink()
    (repository / "new.txt").write_text("new, staged\n")
    (repository / "hinted.txt").write_text("intent to add\n")
    (repository / "moved.txt").write_text("untracked\n")
    git(repository, "add", "new.txt")
    git(repository, "add", "--intent-to-add", "hinted.txt")
    run = run_directory(repository / "roundtables")
    places = ("--", ".", ":!roundtables")
    views = [("diff", "--cached", *places), ("diff", *places), ("status", "--porcelain", *places)]
    views.append(("ls-files", "--stage", *places))
    before = [git(repository, *view) for view in views]
    assert commit(run, None, "roundtable: x")
    assert [git(repository, *view) for view in views] == before
    assert committed(repository) == {f"roundtables/{run.name}/{name}" for name in FILES}
    assert commit(run, None, "roundtable: x") is None
    assert [git(repository, *view) for view in views] == before


def test_a_200_what_the_user_staged_of_the_run_itself_is_committed(repository: Path) -> None:
    run = run_directory(repository / "roundtables")
    git(repository, "add", str(run / "REPORT.md"))
    (run / "REPORT.md").write_text("# Later\n")
    assert commit(run, None, "x")
    assert git(repository, "show", f"HEAD:roundtables/{run.name}/REPORT.md") == "# Later\n"
    assert committed(repository) == {f"roundtables/{run.name}/{name}" for name in FILES}


def test_a_200_a_repository_without_commits_gets_its_first(home: Path) -> None:
    git(home, "init", "--template=", "--quiet", "-b", "main", "new")
    (home / "new" / "mine.txt").write_text("mine\n")
    git(home / "new", "add", "mine.txt")
    run = run_directory(home / "new" / "roundtables")
    made = commit(run, None, "roundtable: x")
    assert made == git(home / "new", "rev-parse", "main").strip()
    assert committed(home / "new") == {f"roundtables/{run.name}/{name}" for name in FILES}
    assert git(home / "new", "diff", "--cached", "--name-status") == "A\tmine.txt\n"
    assert commit(run, None, "roundtable: x") is None


@pytest.mark.parametrize("place", PLACES[:6] + PLACES[-2:])
def test_a_200_names_mean_themselves(repository: Path, place: str) -> None:
    (repository / "a1b[c]?").mkdir()
    (repository / "a1b[c]?" / "x").write_text("not asked for\n")
    run = run_directory(repository / place, "r 1 *")
    check_commit(run.parent, repository / place / "L.md")
    append_ledger(repository / place / "L.md", decided(run))
    assert commit(run, repository / place / "L.md", "roundtable: 한국어 'x'")
    assert committed(repository) == {f"{place}/r 1 */{name}" for name in FILES} | {f"{place}/L.md"}
    assert commit(run, repository / place / "L.md", "again") is None
    assert git(repository, "log", "-1", "--format=%s").strip() == "roundtable: 한국어 'x'"


def test_a_200_a_repository_in_a_folder_of_another_is_its_own(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "init", "--template=", "--quiet", "-b", "main", "inner")
    run = run_directory(repository / "inner" / "deep" / "roundtables")
    monkeypatch.chdir(repository / "inner" / "deep")
    outer = git(repository, "rev-parse", "HEAD")
    check_commit(Path("roundtables"))
    assert commit(Path("roundtables") / run.name, None, "x")
    assert committed(repository / "inner") == {f"deep/roundtables/{run.name}/{name}" for name in FILES}
    assert git(repository, "rev-parse", "HEAD") == outer
    run_directory(repository / "roundtables")
    ledger = repository / "inner" / "L.md"
    append_ledger(ledger, decided(run))
    refused(lambda: commit(repository / "roundtables" / run.name, ledger, "x"), "does not lie in the git repository")
    refused(lambda: check_commit(repository / "roundtables", ledger), "does not lie in the git repository")


def test_a_200_a_worktree_gets_the_commit_on_its_branch(repository: Path) -> None:
    tree = repository.parent / "tree"
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(tree))
    main = git(repository, "rev-parse", "main")
    run = run_directory(tree / "roundtables")
    made = commit(run, None, "x")
    assert made == git(repository, "rev-parse", "side").strip()
    assert git(repository, "rev-parse", "main") == main
    assert git(repository, "status", "--porcelain") == ""
    assert commit(run, None, "x") is None


def test_a_200_an_environment_of_another_repository_does_not_lead_astray(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository.parent / "other"
    git(repository.parent, "init", "--template=", "--quiet", "-b", "main", str(other))
    run = run_directory(repository / "roundtables")
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(other / ".git"))
        patch.setenv("GIT_WORK_TREE", str(other))
        patch.setenv("GIT_INDEX_FILE", str(other / "index"))
        assert commit(run, None, "x")
    assert committed(repository) == {f"roundtables/{run.name}/{name}" for name in FILES}
    assert names(other) == [".git"]


@pytest.mark.parametrize("rule", ["/roundtables/", "roundtables/*", "*\n!.gitignore", "roundtables/**"])
def test_a_200_an_ignored_run_directory_is_refused(repository: Path, rule: str) -> None:
    (repository / ".gitignore").write_text(f"{rule}\n")
    run = run_directory(repository / "roundtables")
    before = state(repository)
    refused(lambda: commit(run, None, "x"), r"ignored by \.gitignore")
    refused(lambda: check_commit(repository / "roundtables"), r"ignored by \.gitignore")
    assert state(repository) == before


def test_a_200_single_ignored_files_stay_out_but_not_all_of_them(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.jsonl\nL.md\n!important.jsonl\n")
    run = run_directory(repository / "roundtables")
    append_ledger(repository / "L.md", decided(run))
    refused(lambda: commit(run, repository / "L.md", "x"), r"L\.md is ignored")
    refused(lambda: check_commit(run.parent, repository / "L.md"), r"L\.md is ignored")
    assert commit(run, None, "x")
    assert committed(repository) == {f"roundtables/{run.name}/{name}" for name in FILES - {"journal.jsonl"}}
    second = repository / "roundtables" / "second"
    second.mkdir()
    (second / "journal.jsonl").touch()
    refused(lambda: commit(second, None, "x"), "all files of .* are ignored")


def test_a_200_folders_outside_any_work_tree_are_refused(home: Path, repository: Path) -> None:
    outside = run_directory(home / "outside")
    refused(lambda: commit(outside, None, "x"), "not in the work tree.*not a git repository")
    refused(lambda: check_commit(home / "outside" / "not" / "yet"), "not in the work tree")
    (repository / "linked").symlink_to(home / "outside")
    refused(lambda: commit(repository / "linked" / outside.name, None, "x"), "not in the work tree")
    refused(lambda: commit(run_directory(repository / ".git" / "roundtables"), None, "x"), "not in the work tree")
    refused(lambda: commit(repository, None, "x"), "does not lie in the git repository")
    refused(lambda: commit(repository / "missing", None, "x"), "is not a folder")
    run = run_directory(repository / "roundtables")
    refused(lambda: commit(run, repository / "missing.md", "x"), "no ledger")
    append_ledger(home / "L.md", decided(run))
    refused(lambda: commit(run, home / "L.md", "x"), "does not lie in")


def test_a_200_without_git_it_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_directory(repository / "roundtables")
    monkeypatch.setenv("PATH", str(repository / "nothing"))
    refused(lambda: commit(run, None, "x"), "git is not installed")
    refused(lambda: check_commit(repository), "git is not installed")


@pytest.mark.parametrize("name", ["AUTHOR", "COMMITTER"])
def test_a_200_without_an_identity_it_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    run = run_directory(repository / "roundtables")
    monkeypatch.delenv(f"GIT_{name}_EMAIL")
    before = state(repository)
    refused(lambda: commit(run, None, "x"), "does not know who commits")
    refused(lambda: check_commit(repository), "does not know who commits")
    assert state(repository) == before
    git(repository, "config", "user.email", "me@example.org")
    git(repository, "config", "user.name", "Me")
    assert commit(run, None, "x")


def test_a_200_a_detached_head_is_refused(repository: Path) -> None:
    run = run_directory(repository / "roundtables")
    git(repository, "checkout", "--quiet", "--detach")
    before = state(repository)
    refused(lambda: commit(run, None, "x"), "is detached")
    assert state(repository) == before


@pytest.mark.parametrize("work", ["merge", "rebase", "cherry-pick", "revert", "conflict"])
def test_a_200_work_in_progress_is_not_disturbed(repository: Path, work: str) -> None:
    git(repository, "checkout", "--quiet", "-b", "side")
    (repository / "a.txt").write_text("side\n")
    git(repository, "commit", "--quiet", "-am", "side")
    git(repository, "checkout", "--quiet", "main")
    (repository / "a.txt").write_text("main\n")
    if work == "conflict":
        git(repository, "stash")
        git(repository, "merge", "--quiet", "side")
        starts = ["stash", "pop"]
    else:
        git(repository, "commit", "--quiet", "-am", "main")
        (repository / "a.txt").write_text("later\n")
        git(repository, "commit", "--quiet", "-am", "later")
        starts = [work, "HEAD~1" if work == "revert" else "side"]
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, *starts)
    run = run_directory(repository / "roundtables")
    before = state(repository)
    expected = "unresolved conflicts" if work == "conflict" else f"a {work} is in progress"
    refused(lambda: commit(run, None, "x"), expected)
    refused(lambda: check_commit(run.parent), expected)
    assert state(repository) == before


def test_a_200_a_cherry_pick_with_commits_left_is_in_progress_too(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "side")
    for text in ("one\n", "two\n"):
        (repository / "a.txt").write_text(text)
        git(repository, "commit", "--quiet", "-am", text)
    git(repository, "checkout", "--quiet", "main")
    (repository / "a.txt").write_text("main\n")
    git(repository, "commit", "--quiet", "-am", "main")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "cherry-pick", "main..side")
    git(repository, "commit", "--quiet", "-am", "resolved")
    run = run_directory(repository / "roundtables")
    refused(lambda: commit(run, None, "x"), "a cherry-pick or revert is in progress")


def test_a_200_what_is_interrupted_after_the_commit_is_not_taken_back(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_directory(repository / "roundtables")
    change = committing._Repository._change

    def interrupted(self: committing._Repository, *arguments: str) -> None:
        change(self, *arguments)
        if arguments[0] == "commit":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(committing._Repository, "_change", interrupted)
        commit(run, None, "x")
    assert committed(repository) == {f"roundtables/{run.name}/{name}" for name in FILES}
    assert git(repository, "diff", "--cached", "--name-status") == ""
    assert commit(run, None, "x") is None


def hook(repository: Path, name: str, script: str) -> None:
    path = repository / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_200_hooks_run_as_usual(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    hook(
        repository,
        "pre-commit",
        'echo "$LC_ALL ${GIT_LITERAL_PATHSPECS-unset}" > ../seen; git diff --cached --name-only >> ../seen',
    )
    hook(repository, "commit-msg", 'echo "Checked: yes" >> "$1"')
    hook(repository, "post-commit", "sleep 30 &\necho $! > ../left")
    (repository / "a.txt").write_text("staged\n")
    git(repository, "add", "a.txt")
    run = run_directory(repository / "roundtables")
    assert commit(run, None, "roundtable: x")
    os.kill(int((repository.parent / "left").read_text()), 9)  # what the hook left running was not waited for
    seen = (repository.parent / "seen").read_text().splitlines()
    assert seen == ["C.UTF-8 unset", *sorted(f"roundtables/{run.name}/{name}" for name in FILES)]
    assert "Checked: yes" in git(repository, "log", "-1", "--format=%B")
    assert git(repository, "diff", "--cached", "--name-only") == "a.txt\n"


def test_a_200_a_hook_that_objects_leaves_index_and_tree_as_they_were(repository: Path) -> None:
    hook(repository, "pre-commit", "echo 'reports need a licence' >&2; exit 1")
    run = run_directory(repository / "roundtables")
    (repository / "a.txt").write_text("staged\n")
    git(repository, "add", "a.txt", str(run / "journal.jsonl"))
    (run / "journal.jsonl").write_text("{}\n{}\n")
    before = state(repository)
    refused(lambda: commit(run, None, "x"), "git commit failed.*reports need a licence")
    after = state(repository)
    assert {name: after[name] for name in ("head", "refs", "status")} == {
        name: before[name] for name in ("head", "refs", "status")
    }
    assert git(repository, "ls-files").split() == ["a.txt", "b.txt", f"roundtables/{run.name}/journal.jsonl"]


def test_a_200_an_index_in_use_is_refused(repository: Path) -> None:
    run = run_directory(repository / "roundtables")
    (repository / ".git" / "index.lock").touch()
    refused(lambda: commit(run, None, "x"), r"git add failed.*index\.lock")
    (repository / ".git" / "index.lock").unlink()
    assert commit(run, None, "x")


COMMITTER = """
import sys
from pathlib import Path
from roundtable_local.repository import commit
root, name = Path(sys.argv[1]), sys.argv[2]
for number in range(3):
    assert commit(root / f"{name}-{number}", None, f"roundtable: {name}")
"""


def test_a_200_runs_at_once_all_get_their_commits(repository: Path) -> None:
    root = repository / "roundtables"
    for name in ("a", "b"):
        for number in range(3):
            run_directory(root, f"{name}-{number}")
    processes = [subprocess.Popen([sys.executable, "-c", COMMITTER, str(root), name]) for name in ("a", "b")]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert git(repository, "rev-list", "--count", "HEAD").strip() == "7"
    assert all(f"{name}" in git(repository, "ls-files") for name in ("a-2/REPORT.md", "b-2/REPORT.md"))
    assert not list((repository / ".git").glob("*.lock"))


def test_a_200_a_message_is_one_line_and_no_option(repository: Path) -> None:
    assert commit(run_directory(repository / "roundtables"), None, "--amend\n# x")
    assert git(repository, "log", "-1", "--format=%B").strip() == "--amend # x"
    assert git(repository, "rev-list", "--count", "HEAD").strip() == "2"
