"""journal.jsonl: what a killed run leaves, damage, and text of every kind (I12, J3)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundtable_local.errors import JournalError
from roundtable_local.journal import Journal
from roundtable_local.steps import Answer


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def reply(ask: str = "pragmatist", attempt: int = 1, text: str = "{}") -> dict[str, Any]:
    return {"turn": "round1", "ask": ask, "attempt": attempt, "text": text}


def write(path: Path, *replies: dict[str, Any]) -> None:
    journal = Journal(path)
    if not journal.events:
        journal.append("start", inputs={}, fingerprint={}, place={})
    for each in replies:
        journal.append("reply", **each)
    journal.close()


def reread(path: Path) -> list[dict[str, Any]]:
    journal = Journal(path)
    journal.close()
    return journal.events


def test_what_was_appended_is_read_again_in_order(path: Path) -> None:
    write(path, reply(), reply("futurist"), reply(attempt=2, text='{"a":1}'))
    journal = Journal(path)
    assert [event["event"] for event in journal.events] == ["start", "reply", "reply", "reply"]
    assert journal.start is journal.events[0]
    found = journal.reply("round1", "pragmatist", 2)
    assert found is not None
    assert found["text"] == '{"a":1}'
    assert journal.reply("round1", "pragmatist", 3) is None
    assert len(journal.of("reply")) == 3
    journal.close()


def test_every_line_is_one_json_object_with_a_time_and_utf_8_text(path: Path) -> None:
    """I12: readable, not escaped."""
    write(path, reply(text="한국어 🚀"))
    lines = path.read_bytes().decode().split("\n")
    assert lines.pop() == ""
    assert all(json.loads(line)["at"].endswith("+00:00") for line in lines)
    assert "한국어 🚀" in lines[1]


def test_events_are_known_before_and_after_reading_alike(path: Path) -> None:
    journal = Journal(path)
    journal.append("start", inputs={}, fingerprint={}, place={})
    journal.append("reply", **reply(text="\u2028 \x85 \x0b \r \n\\"))
    journal.append("answer", name="deadlock", value="yes", by="Ada", why="")
    journal.append("answer", name="deadlock", value="no", by="Ada", why="")
    journal.close()
    assert reread(path) == journal.events
    assert journal.answers() == {"deadlock": Answer("no", "Ada")}


@pytest.mark.parametrize("cut", [1, 2, 10, 40])
def test_j3_a_torn_last_line_is_dropped_and_appended_to_correctly(path: Path, cut: int) -> None:
    write(path, reply(), reply("futurist"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert [event.get("ask") for event in reread(path)] == [None, "pragmatist"]
    write(path, reply("futurist", text="again"))
    assert [event.get("text") for event in reread(path)] == [None, "{}", "again"]
    assert path.read_bytes().count(b"\n") == 3


def test_j3_every_cut_leaves_the_whole_lines_before_it(path: Path) -> None:
    write(path, reply(text='한 \\ " \u2028'), reply("futurist"))
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        events = reread(path)
        assert len(events) == whole[:length].count(b"\n")
        assert path.read_bytes() == b"".join(line + b"\n" for line in whole[:length].split(b"\n")[:-1])


@pytest.mark.parametrize("tail", [b"\0" * 64, b"\xff\xfe\n", b"{\n", b"[]\n", b'"text"\n', b"\n", b"\0\0\0\0\n"])
def test_j3_a_last_line_that_is_no_event_is_dropped(path: Path, tail: bytes) -> None:
    write(path, reply())
    good = path.read_bytes()
    path.write_bytes(good + tail)
    assert len(reread(path)) == 2
    assert path.read_bytes() == good


DAMAGED = [
    b'{"event": "reply", "tu',
    b"",
    b"[]",
    b"\xff\xfe\xfa",
    b"\0\0\0\0",
    b'{"at": 1}',
    b'{"event": "reply"}',
    b"{}{}",
]


@pytest.mark.parametrize("line", DAMAGED)
def test_j3_a_damaged_line_before_the_last_is_an_error_and_changes_nothing(path: Path, line: bytes) -> None:
    write(path, reply(), reply("futurist"))
    lines = path.read_bytes().split(b"\n")
    lines[1] = line
    damaged = b"\n".join(lines)
    path.write_bytes(damaged)
    with pytest.raises(JournalError, match="line 2 is damaged") as caught:
        Journal(path)
    assert str(path) in caught.value.message
    assert path.read_bytes() == damaged


def test_j3_a_damaged_line_before_a_torn_one_is_an_error(path: Path) -> None:
    write(path, reply())
    path.write_bytes(path.read_bytes() + b'{"event"\n{"event": "re')
    with pytest.raises(JournalError, match="line 3 is damaged"):
        Journal(path)


@pytest.mark.parametrize("events", [[], ["reply"]])
def test_a_journal_without_a_start_is_no_run_s(path: Path, events: list[str]) -> None:
    journal = Journal(path)
    for event in events:
        journal.append(event, **reply())
    with pytest.raises(JournalError, match="does not begin"):
        _ = journal.start
    journal.close()


def test_i12_other_line_separators_inside_text_end_no_line(path: Path) -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    write(path, reply(text=text))
    assert reread(path)[1]["text"] == text


def test_i12_lone_surrogates_leave_a_valid_file_and_are_read_as_they_were_kept(path: Path) -> None:
    """What the run goes on with must be what a resumed run will read."""
    journal = Journal(path)
    journal.append("start", inputs={}, fingerprint={}, place={})
    journal.append("reply", **reply(text="half \ud83d of \udc00 it"))
    kept = journal.events
    journal.close()
    assert path.read_bytes().decode("utf-8")
    assert reread(path) == kept


@settings(max_examples=100)
@given(st.lists(st.text(), max_size=4))
def test_any_text_is_read_as_it_was_written(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        write(path, *(reply(str(number), text=text) for number, text in enumerate(texts)))
        assert [event["text"] for event in reread(path)[1:]] == texts
