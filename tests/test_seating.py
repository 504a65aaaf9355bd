"""Souls and facts come from somewhere real, whole, or are refused by name (O-021, O-022, O-024)."""

from __future__ import annotations

from pathlib import Path

import pytest

from roundtable_local.config import engine_settings
from roundtable_local.errors import SeatError, UsageError
from roundtable_local.seating import read_facts, read_souls
from roundtable_local.seats import Seat

SLUGS = engine_settings().slug


def souls(*paths: Path, persons: tuple[str, ...] = ()) -> tuple[Seat, ...]:
    return read_souls([str(path) for path in paths], persons, SLUGS)


def write(path: Path, text: str | bytes = "A soul.\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("finance.md", "finance"),
        ("resonance_mira.md", "mira"),
        ("mira/SKILL.md", "mira"),
        ("noor/CLAUDE.md", "noor"),
        ("재무.md", "재무"),
    ],
)
def test_o_022_a_files_name_is_the_seats(tmp_path: Path, file: str, name: str) -> None:
    (seat,) = souls(write(tmp_path / file))
    assert (seat.name, seat.slug, seat.soul, seat.source) == (name, name, "A soul.", str(tmp_path / file))


def test_o_021_a_file_is_read_whole_and_front_matter_may_name_the_seat(tmp_path: Path) -> None:
    text = "---\nname: Mira of Finance\ndevils_advocate: true\n---\n# Mira\n\nShe counts twice."
    (seat,) = souls(write(tmp_path / "x.md", text.replace("\n", "\r\n")))
    assert (seat.name, seat.slug, seat.soul) == ("Mira of Finance", "mira-of-finance", text)
    assert seat.devils_advocate


def test_a_folder_seats_its_text_files_in_order(tmp_path: Path) -> None:
    for name in ("b.md", "a.txt", "c.markdown", "notes.pdf"):
        write(tmp_path / name)
    (tmp_path / "d.md").mkdir()
    assert [seat.name for seat in souls(tmp_path)] == ["a", "b", "c"]


def test_a_roster_file_seats_its_seats(tmp_path: Path) -> None:
    roster = write(
        tmp_path / "roster.yaml", "seats:\n  - {slug: ops, name: Operations, perspective: nights, duty: ask}\n"
    )
    (seat,) = souls(roster)
    assert (seat.slug, seat.perspective, seat.source) == ("ops", "nights", str(roster))


def test_o_022_a_person_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "a.md")
    seats = souls(tmp_path / "a.md", persons=("Ada Lovelace: asks: what if?",))
    assert [seat.slug for seat in seats] == ["a", "ada-lovelace"]
    assert seats[1].soul == "Ada Lovelace: asks: what if?"


@pytest.mark.parametrize("text", ["Ada", ": asks", "Ada: ", ""])
def test_o_022_a_person_needs_name_and_habit(text: str) -> None:
    with pytest.raises(UsageError, match="NAME: ONE HABIT"):
        souls(persons=(text,))


def test_o_021_a_missing_soul_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nobody\.md.*none is invented"):
        souls(tmp_path / "nobody.md")


@pytest.mark.parametrize("data", [b"", b" \n", b"\xff\xfeA\x00", b"a\x00b", b"\xe9"])
def test_o_021_an_unreadable_soul_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SeatError, match=r"soul\.md"):
        souls(write(tmp_path / "soul.md", data))
    with pytest.raises(SeatError, match=r"soul\.md"):
        read_facts([tmp_path / "soul.md"])


def test_o_021_front_matter_alone_is_no_soul(tmp_path: Path) -> None:
    with pytest.raises(SeatError, match="says nothing of it"):
        souls(write(tmp_path / "mira.md", "---\nname: Mira\n---\n\n"))


def test_a_folders_readme_and_hidden_files_are_no_souls(tmp_path: Path) -> None:
    for name in ("a.md", "README.md", "index.md", ".b.md"):
        write(tmp_path / name)
    assert [seat.name for seat in souls(tmp_path)] == ["a"]


@pytest.mark.parametrize(
    "seats",
    [
        "{slug: a, name: Ada}, {slug: b, name: Ada}", "{slug: a, name: ' '}", "{slug: moderator, name: Mo}",
        "{slug: '', name: Ada}", "{slug: a/../b, name: Ada}",
    ],
)  # fmt: skip
def test_a_roster_file_is_held_to_the_same_names(tmp_path: Path, seats: str) -> None:
    with pytest.raises(SeatError):
        souls(write(tmp_path / "roster.yaml", f"seats: [{seats}]\n"))


def test_a_foreign_model_in_front_matter_is_left_alone(tmp_path: Path) -> None:
    (seat,) = souls(write(tmp_path / "agent.md", "---\nname: Agent\nmodel: sonnet\n---\nCounts twice.\n"))
    assert seat.model == ""


@pytest.mark.parametrize("path", ["x" * 5000, "~nosuchuser/x.md", "a\0b.md"])
def test_i10_odd_paths_are_usage_errors(path: str) -> None:
    with pytest.raises(UsageError):
        read_souls([path], [], SLUGS)
    if not path.startswith("~"):
        with pytest.raises(UsageError):
            read_facts([Path(path)])


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SeatError, match="holds no persona files"):
        souls(tmp_path)


def test_two_seats_of_one_name_are_refused_with_both_files(tmp_path: Path) -> None:
    with pytest.raises(SeatError, match=r"b/mira\.md and .*a/mira\.md both seat 'mira'"):
        souls(write(tmp_path / "a" / "mira.md"), write(tmp_path / "b" / "mira.md"))


def test_the_moderators_name_is_taken(tmp_path: Path) -> None:
    with pytest.raises(SeatError, match="does not vote"):
        souls(write(tmp_path / "Moderator.md"))


def test_o_024_facts_are_whole_texts_by_file_name(tmp_path: Path) -> None:
    (fact,) = read_facts([write(tmp_path / "costs.md", "\ufeff# Costs\r\n\r\n12 a year\n")])
    assert (fact.kind, fact.title, fact.text) == ("context", "costs.md", "# Costs\n\n12 a year")
    with pytest.raises(UsageError, match=r"no file .*nothing\.md"):
        read_facts([tmp_path / "nothing.md"])
