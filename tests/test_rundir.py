"""The run directory: whole files, nothing outside it, one writer, names that are free (A-020, A-g12, I5, J3)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundtable_local.errors import OutputError
from roundtable_local.rundir import RunDirectory, check_root, make_run_directory
from tests.helpers import no_longer_than

ESCAPES = ["../x.md", "/etc/x.md", "a/../../x.md", "a/..", "..", "", ".", "/", "//x", "round1/../../x"]
TOO_LONG = "x" * 300


def listing(folder: Path) -> list[str]:
    """Everything in a folder but the lock."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.name != ".lock")


# --- writing


def test_files_are_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    with RunDirectory(tmp_path) as directory:
        directory.write("REPORT.md", "# Report\n한국어 🚀\n")
        directory.write("round1/pragmatist.md", "one\r\ntwo\n")
        directory.write("REPORT.md", "# Again\n")
        directory.folder("round3")
        directory.folder("round3")
    assert listing(tmp_path) == ["REPORT.md", "round1", "round1/pragmatist.md", "round3"]
    assert (tmp_path / "REPORT.md").read_bytes() == b"# Again\n"
    assert (tmp_path / "round1" / "pragmatist.md").read_bytes() == b"one\r\ntwo\n"


def test_files_can_be_read_by_others_as_the_umask_says(tmp_path: Path) -> None:
    with RunDirectory(tmp_path) as directory:
        directory.write("REPORT.md", "text")
    assert (tmp_path / "REPORT.md").stat().st_mode & 0o777 == 0o644


def test_the_same_bytes_are_not_written_again(tmp_path: Path) -> None:
    with RunDirectory(tmp_path) as directory:
        directory.write("REPORT.md", "text")
        before = (tmp_path / "REPORT.md").stat()
        directory.write("REPORT.md", "text")
        after = (tmp_path / "REPORT.md").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_i12_lone_surrogates_leave_a_valid_file(tmp_path: Path) -> None:
    with RunDirectory(tmp_path) as directory:
        directory.write("REPORT.md", "half \ud83d of it")
    assert (tmp_path / "REPORT.md").read_text("utf-8") == "half ? of it"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_j3_a_write_that_fails_leaves_the_old_file_and_no_part_of_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with RunDirectory(tmp_path) as directory:
        directory.write("REPORT.md", "old")
        with monkeypatch.context() as patched:
            patched.setattr(os if call == "fsync" else Path, call, full)
            with pytest.raises(OutputError, match="No space left") as caught:
                directory.write("REPORT.md", "new")
        assert caught.value.fix
    assert listing(tmp_path) == ["REPORT.md"]
    assert (tmp_path / "REPORT.md").read_text("utf-8") == "old"


def test_a_folder_in_the_place_of_a_file_and_a_file_in_the_place_of_a_folder_are_output_errors(tmp_path: Path) -> None:
    (tmp_path / "REPORT.md").mkdir()
    (tmp_path / "round1").write_text("a file", "utf-8")
    with RunDirectory(tmp_path) as directory:
        with pytest.raises(OutputError):
            directory.write("REPORT.md", "text")
        with pytest.raises(OutputError):
            directory.write("round1/pragmatist.md", "text")
        with pytest.raises(OutputError):
            directory.folder("round1")
    assert listing(tmp_path) == ["REPORT.md", "round1"]


# --- nothing outside


@pytest.mark.parametrize("name", ESCAPES)
def test_i5_paths_out_of_the_run_directory_are_refused(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "run"
    inside.mkdir()
    with RunDirectory(inside) as directory:
        with pytest.raises(ValueError, match="not a path inside"):
            directory.write(name, "text")
        with pytest.raises(ValueError, match="not a path inside"):
            directory.folder(name)
    assert listing(tmp_path) == ["run"]


@pytest.mark.parametrize("name", ["round1/x.md", "round1/deep/er/x.md"])
def test_i5_a_folder_that_is_a_link_out_of_the_run_directory_is_refused(tmp_path: Path, name: str) -> None:
    inside, outside = tmp_path / "run", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "round1").symlink_to(outside)
    with RunDirectory(inside) as directory:
        with pytest.raises(OutputError, match="link"):
            directory.write(name, "text")
        with pytest.raises(OutputError, match="link"):
            directory.folder(f"{name}/folder")
    assert listing(outside) == []


def test_i5_a_folder_that_is_itself_a_link_out_is_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "run", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "round1").symlink_to(outside)
    (inside / "round2").symlink_to(tmp_path / "nowhere")
    with RunDirectory(inside) as directory:
        for name in ("round1", "round2"):
            with pytest.raises(OutputError):
                directory.folder(name)


def test_i5_a_file_that_is_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "run", tmp_path / "outside.md"
    inside.mkdir()
    for content in ("secret", "text"):  # what it leads to may happen to be the same already
        outside.write_text(content, "utf-8")
        (inside / "REPORT.md").unlink(missing_ok=True)
        (inside / "REPORT.md").symlink_to(outside)
        with RunDirectory(inside) as directory:
            directory.write("REPORT.md", "text")
        assert outside.read_text("utf-8") == content
        assert (inside / "REPORT.md").read_text("utf-8") == "text"
        assert not (inside / "REPORT.md").is_symlink()


def test_a_run_directory_may_itself_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with RunDirectory(tmp_path / "link") as directory:
        directory.write("round1/x.md", "text")
    assert (tmp_path / "real" / "round1" / "x.md").read_text("utf-8") == "text"


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["..", ".", "a", "b.md", "", "/", "~", "a\\b"]), max_size=5).map("/".join))
def test_i5_no_name_leads_out(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "run"
        inside.mkdir()
        try:
            with RunDirectory(inside) as directory:
                directory.write(name, "text")
        except (ValueError, OutputError):
            pass
        assert [path.name for path in Path(folder).iterdir()] == ["run"]


# --- one writer


def test_j3_a_second_writer_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with RunDirectory(tmp_path) as directory:
        directory.write("REPORT.md", "text")
        with pytest.raises(OutputError, match="in use") as caught, RunDirectory(tmp_path):
            pass
        assert str(tmp_path) in caught.value.message
        directory.write("REPORT.md", "more")
        with pytest.raises(OutputError, match="in use"), RunDirectory(tmp_path):
            pass
    with RunDirectory(tmp_path) as directory:
        directory.write("REPORT.md", "later")
    assert listing(tmp_path) == ["REPORT.md"]


def test_j3_another_process_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom roundtable_local.rundir import RunDirectory\n"
        "with RunDirectory(Path(sys.argv[1])):\n    pass\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with RunDirectory(tmp_path):
        refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 1
    assert "is in use by another run" in refused.stderr
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def test_j3_the_lock_of_a_killed_run_does_not_stay(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    with RunDirectory(tmp_path) as directory:
        directory.write("REPORT.md", "text")
    assert listing(tmp_path) == ["REPORT.md"]


def test_the_lock_is_released_when_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), RunDirectory(tmp_path):
        raise ZeroDivisionError
    with RunDirectory(tmp_path):
        pass


# --- names and roots


def test_a020_ag12_names_have_the_date_and_a_number_where_taken(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "roundtables"
    made = [make_run_directory(root, "microservices-vs-monolith", "2026-03-01") for _ in range(3)]
    stem = "microservices-vs-monolith-20260301"
    assert [path.name for path in made] == [stem, f"{stem}-2", f"{stem}-3"]
    assert (
        make_run_directory(root, "microservices-vs-monolith", "2026-03-02").name == "microservices-vs-monolith-20260302"
    )
    made[1].rmdir()
    assert make_run_directory(root, "microservices-vs-monolith", "2026-03-01").name == f"{stem}-2"


def test_a_taken_name_may_be_a_file_or_a_link_to_nowhere(tmp_path: Path) -> None:
    (tmp_path / "x-20260301").write_text("a file", "utf-8")
    (tmp_path / "x-20260301-2").symlink_to(tmp_path / "nowhere")
    assert make_run_directory(tmp_path, "x", "2026-03-01") == tmp_path / "x-20260301-3"


@pytest.mark.parametrize("below", ["", "roundtables", "a/b/c"])
def test_a_root_that_can_be_written_passes_and_nothing_is_made(tmp_path: Path, below: str) -> None:
    check_root(tmp_path / below)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("below", ["file", "file/roundtables", "file/a/b"])
def test_a_root_at_or_below_a_file_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("text", "utf-8")
    with pytest.raises(OutputError, match="not a folder") as caught:
        check_root(tmp_path / below)
    assert str(tmp_path / below) in caught.value.message
    with no_longer_than(2), pytest.raises(OutputError):
        make_run_directory(tmp_path / below, "x", "2026-03-01")
    assert listing(tmp_path) == ["file"]


def test_a_root_where_nothing_can_be_made_is_refused() -> None:
    """Permission bits say yes here, even to root: it has to be tried."""
    with pytest.raises(OutputError, match="not writable") as caught:
        check_root(Path("/proc/roundtables"))
    assert "--out" in caught.value.message
    with no_longer_than(2), pytest.raises(OutputError):
        make_run_directory(Path("/proc"), "x", "2026-03-01")


def test_a_name_that_no_file_system_has_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        check_root(tmp_path / TOO_LONG)
    with no_longer_than(2), pytest.raises(OutputError):
        make_run_directory(tmp_path, TOO_LONG, "2026-03-01")
    with RunDirectory(tmp_path) as directory, pytest.raises(OutputError):
        directory.write(f"{TOO_LONG}/x.md", "text")
    assert listing(tmp_path) == []


def test_a_file_cannot_be_locked_as_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text", "utf-8")
    with pytest.raises(OutputError), RunDirectory(tmp_path / "file"):
        pass
    assert listing(tmp_path) == ["file"]
