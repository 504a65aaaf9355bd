"""Lines below dated headings in the user's logs, and which scratchpads are in use (M-050, M-052, M-053, M-055)."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from roundtable_local.errors import OutputError
from roundtable_local.logbook import add, added, in_flight, is_post_promote

HEADING = "## Panel decisions 2026-05-21"
LINE = "- [3/3 accept] scope check: single unit"
ROOT = os.geteuid() == 0


def after(tmp_path: Path, before: str | bytes | None, text: str = LINE, heading: str = HEADING) -> str:
    path = tmp_path / "scratchpad.md"
    if before is not None:
        path.write_bytes(before if isinstance(before, bytes) else before.encode())
    add(path, heading, text)
    return path.read_bytes().decode()


# --- where the lines go


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (None, f"{HEADING}\n{LINE}\n"),
        ("", f"{HEADING}\n{LINE}\n"),
        ("\n", f"\n{HEADING}\n{LINE}\n"),
        ("    ", f"    \n{HEADING}\n{LINE}\n"),
        ("# Pad\n", f"# Pad\n\n{HEADING}\n{LINE}\n"),
        ("# Pad", f"# Pad\n\n{HEADING}\n{LINE}\n"),
        ("# Pad\n\n", f"# Pad\n\n{HEADING}\n{LINE}\n"),
        ("\ufeff# Pad\r\nA\r\n", f"\ufeff# Pad\r\nA\r\n\r\n{HEADING}\r\n{LINE}\r\n"),
        (f"{HEADING}\n- old\n", f"{HEADING}\n- old\n{LINE}\n"),
        (f"{HEADING}\n- old", f"{HEADING}\n- old\n{LINE}\n"),
        (f"{HEADING}\r\n- old", f"{HEADING}\r\n- old\r\n{LINE}\r\n"),
        (f"\ufeff{HEADING}\n- old\n", f"\ufeff{HEADING}\n- old\n{LINE}\n"),
        (f"{HEADING}\n", f"{HEADING}\n{LINE}\n"),
        (f"{HEADING}\n\n\n", f"{HEADING}\n{LINE}\n\n\n"),
        (f"  {HEADING}  \n- old\n\n## Next\nx\n", f"  {HEADING}  \n- old\n{LINE}\n\n## Next\nx\n"),
        (f"{HEADING}\n- old\n# Next\n", f"{HEADING}\n- old\n{LINE}\n# Next\n"),
        (f"{HEADING}\n- old\n\n### Part\n\n- more\n\n## Next\n", f"{HEADING}\n- old\n\n### Part\n\n- more\n{LINE}\n\n## Next\n"),
        (f"{HEADING}\n```\n## Code\n```\n## Next\n", f"{HEADING}\n```\n## Code\n```\n{LINE}\n## Next\n"),
        (f"```\n{HEADING}\n```\n", f"```\n{HEADING}\n```\n\n{HEADING}\n{LINE}\n"),
        (f"    {HEADING}\n", f"    {HEADING}\n\n{HEADING}\n{LINE}\n"),
        ("## Panel decisions 2026-05-20\n- old\n", f"## Panel decisions 2026-05-20\n- old\n\n{HEADING}\n{LINE}\n"),
        (f"{HEADING}, again\n", f"{HEADING}, again\n\n{HEADING}\n{LINE}\n"),
        (f"{HEADING}\n- old\n## Next\n```\nopen\n", f"{HEADING}\n- old\n{LINE}\n## Next\n```\nopen\n"),
    ],
)  # fmt: skip
def test_lines_go_to_the_end_of_their_heading_s_section_m_050_m_052(
    tmp_path: Path, before: str | None, expected: str
) -> None:
    assert after(tmp_path, before) == expected


def test_several_lines_stay_together_m_032(tmp_path: Path) -> None:
    assert (
        after(tmp_path, f"{HEADING}\r\n- a\r\n\r\n# Z\r\n", "- b\n- c")
        == f"{HEADING}\r\n- a\r\n- b\r\n- c\r\n\r\n# Z\r\n"
    )


def test_the_heading_is_made_once_and_folders_are_too_m_050(tmp_path: Path) -> None:
    path = tmp_path / ".minerva" / "work" / "unit" / "scratchpad.md"
    for line in ("- a", "- b"):
        add(path, HEADING, line)
        add(path, "## Panel concerns 2026-05-21", f"{line} concern")
    assert path.read_text("utf-8") == (
        f"{HEADING}\n- a\n- b\n\n## Panel concerns 2026-05-21\n- a concern\n- b concern\n"
    )
    assert [each.name for each in path.parent.iterdir()] == ["scratchpad.md"], "no lock or temporary file stays"


pieces = st.sampled_from(
    ["text", "- item", "", "# A", "## B", HEADING, "### C", "```", "~~~", "> q", "\ufeff", "  ", "한국어"]
)
ends = st.sampled_from(["\n", "\r\n"])


@given(st.lists(st.tuples(pieces, ends), max_size=10), st.booleans())
def test_what_stands_there_stays_and_the_lines_are_a_list_below_the_heading(
    parts: list[tuple[str, str]], cut: bool
) -> None:
    before = "".join(map("".join, parts))
    before = before.rstrip("\r\n") if cut else before
    try:
        text = added(before, HEADING, [LINE], "x.md")
    except OutputError:
        assert "```" in before or "~~~" in before
        return
    at = text.index(LINE)
    head = text[:at]
    assert [*head.split(), *text[at + len(LINE) :].split()] == [
        *before.split(), *([] if _has_heading(before) else HEADING.split()),
    ]  # fmt: skip
    tokens = MarkdownIt("commonmark").parse(text)
    assert any(token.type == "inline" and LINE[2:] in token.content for token in tokens), "not in code"
    again = added(text, HEADING, ["- second"], "x.md")
    assert again.count(HEADING) == text.count(HEADING), "the heading is found the next time"


def _has_heading(text: str) -> bool:
    tokens = MarkdownIt("commonmark").parse(text.removeprefix("\ufeff"))
    return any(
        token.type == "heading_open" and tokens[index + 1].content == HEADING.lstrip("# ") and token.tag == "h2"
        for index, token in enumerate(tokens)
    )


# --- refused


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (b"\xff\xfe# \x00P\x00", "not UTF-8"),
        (b"caf\xe9\n", "not UTF-8"),
        (b"# Pad\n\x00\n", "NUL"),
        (b"# Pad\n```\nopen\n", "fenced code"),
        (f"{HEADING}\n~~~\nopen\n\n".encode(), "fenced code"),
    ],
)
def test_what_cannot_be_added_to_is_refused_and_stays_as_it_was(tmp_path: Path, before: bytes, message: str) -> None:
    with pytest.raises(OutputError, match=message) as caught:
        after(tmp_path, before)
    assert caught.value.fix
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("scratchpad.md", before)]


def test_links_and_folders_are_refused(tmp_path: Path) -> None:
    real = tmp_path / "real.md"
    real.write_text("# Real\n", "utf-8")
    (tmp_path / "link.md").symlink_to(real)
    (tmp_path / "loose.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "folder.md").mkdir()
    for name in ("link.md", "loose.md", "folder.md"):
        with pytest.raises(OutputError) as caught:
            add(tmp_path / name, HEADING, LINE)
        assert caught.value.fix
    assert real.read_text("utf-8") == "# Real\n"
    assert not (tmp_path / "nowhere.md").exists()


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pad.md"
    path.write_text("# Pad\n", "utf-8")
    path.chmod(0o444)
    with pytest.raises(OutputError, match="read-only"):
        add(path, HEADING, LINE)


def test_text_that_no_file_can_hold_is_replaced(tmp_path: Path) -> None:
    assert after(tmp_path, None, "- a \ud800 b") == f"{HEADING}\n- a ? b\n"


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "pad.md"
    path.write_text("# Pad\n", "utf-8")
    path.chmod(0o640)
    add(path, HEADING, LINE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_writers_at_the_same_time_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "pad.md"
    threads = [threading.Thread(target=add, args=(path, HEADING, f"- line {number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = path.read_text("utf-8").splitlines()
    assert lines[0] == HEADING
    assert sorted(lines[1:]) == [f"- line {number}" for number in range(8)]


# --- scratchpads


@pytest.mark.parametrize(
    "line",
    [
        "Summarized at minerva:promote on 2026-05-21 — see archive/.",
        "summarized at PROMOTE",
        "> **Summarized at minerva:promote on 2026-05-21**",
        "Promoted 2026-05-21",
        "promoted: 2026-05-21",
        "promoted on 2026-05-21 to main",
        "> > __Promoted__ 2026-05-21",
        "**Promoted 2026-05-21**",
        "Promoted2026-05-21",
        "<!-- post-promote -->",
        "<!--POST-PROMOTE: see archive -->",
        "> <!-- post-promote",
        "# Promoted 2026-05-21",
        "### Promote (2026-05-21)",
        "###### promoted — 2026-05-21",
        ">## Promoted 2026-05-21",
        "  ## Promote 2026-05-21",
        "**# Promoted 2026-05-21",
    ],
)
def test_forms_of_the_marker_m_055(line: str) -> None:
    assert is_post_promote(line)
    assert is_post_promote(f"# Pad\n\n{line}\n\n- more\n")
    assert is_post_promote(f"# Pad\r\n{line}\r\n")
    assert is_post_promote(f"\ufeff{line}")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# Pad",
        "Not yet summarized at minerva:promote",
        "Summarized at the meeting",
        "Summarized at\nminerva:promote",
        "Promoted",
        "Promoted soon",
        "Promoted\n2026-05-21",
        "<!--\npost-promote -->",
        "Promoted at last 2026-05-21",  # more than four characters before the date
        "Promoted in 20260521",
        "Promoted 26-05-21",
        "To be promoted 2026-05-21",
        "- Promoted 2026-05-21",
        "Promote 2026-05-21",  # only a heading may say so
        "# Promotes 2026-05-21",
        "####### Promoted 2026-05-21",
        "#Promoted 2026-05-21",
        "<!-- pre-promote -->",
        "See <!-- post-promote -->",
        "post-promote",
    ],
)
def test_what_is_no_marker_m_055(line: str) -> None:
    assert not is_post_promote(f"# Pad\n\n{line}\n\n- more\n")


def scratchpad(project: Path, unit: str, text: str) -> Path:
    path = project / ".minerva" / "work" / unit / "scratchpad.md"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    return path


def test_scratchpads_in_use_in_order_m_052(tmp_path: Path) -> None:
    second, first = scratchpad(tmp_path, "b-unit", "# Pad\n"), scratchpad(tmp_path, "a-unit", "")
    scratchpad(tmp_path, "done", "# Pad\n\nPromoted 2026-05-21\n")
    scratchpad(tmp_path, "deep/unit", "# Pad\n")
    scratchpad(tmp_path, ".archive", "# Pad\n")
    (tmp_path / ".minerva" / "work" / "empty").mkdir()
    (tmp_path / ".minerva" / "work" / "folder" / "scratchpad.md").mkdir(parents=True)
    (tmp_path / ".minerva" / "work" / "scratchpad.md").write_text("# Pad\n", "utf-8")
    assert in_flight(tmp_path) == [first, second]


def test_without_units_there_are_none_m_053(tmp_path: Path) -> None:
    assert in_flight(tmp_path) == []
    assert in_flight(tmp_path / "nowhere") == []


def test_a_scratchpad_that_is_no_utf_8_is_read_all_the_same_m_052(tmp_path: Path) -> None:
    path = scratchpad(tmp_path, "unit", "")
    path.write_bytes(b"caf\xe9\n")
    assert in_flight(tmp_path) == [path]
    path.write_bytes(b"caf\xe9\nPromoted 2026-05-21\n")
    assert in_flight(tmp_path) == []


@pytest.mark.skipif(ROOT, reason="root may read everything")
def test_a_scratchpad_that_cannot_be_read_is_an_error_m_052(tmp_path: Path) -> None:
    scratchpad(tmp_path, "unit", "").chmod(0)
    with pytest.raises(OutputError, match="cannot be read"):
        in_flight(tmp_path)
