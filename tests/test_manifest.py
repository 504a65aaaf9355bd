"""Checksums of a model folder: every difference is named."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from roundtable_local.cli import app
from roundtable_local.errors import ModelError
from roundtable_local.manifest import compare, make_manifest, read_manifest
from tests.helpers import write_folder


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    path = write_folder(tmp_path / "model", {"config.json": "{}", "b.safetensors": b"weights", "이름.txt": "text"})
    write_folder(path / "sub", {"a.json": "[]"})
    return path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", *arguments], env={"COLUMNS": "200"})


def test_the_form_is_that_of_sha256sum(folder: Path) -> None:
    text = make_manifest(folder)
    names = [line.split("  ", 1)[1] for line in text.splitlines()]
    assert names == ["b.safetensors", "config.json", "sub/a.json", "이름.txt"]
    assert f"{hashlib.sha256(b'weights').hexdigest()}  b.safetensors\n" in text
    done = subprocess.run(["sha256sum", "--check", "--quiet", "-"], input=text, text=True, cwd=folder, check=False)
    assert done.returncode == 0


def test_an_untouched_folder_is_as_listed(folder: Path) -> None:
    assert compare(folder, make_manifest(folder)) == []


def test_every_difference_is_named(folder: Path) -> None:
    manifest = make_manifest(folder)
    (folder / "b.safetensors").write_bytes(b"Weights")
    (folder / "sub" / "a.json").unlink()
    (folder / "extra.py").write_text("import os")
    assert compare(folder, manifest) == ["changed: b.safetensors", "missing: sub/a.json", "not listed: extra.py"]


@pytest.mark.parametrize("text", ["", "\n", "not a line\n", "abc  config.json\n", f"{'0' * 64}  a\n{'0' * 64}  a\n"])
def test_what_is_no_manifest_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(ModelError):
        compare(folder, text)


def test_links_may_not_lead_out(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="leads out of the folder"):
        make_manifest(folder)


def test_links_inside_are_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "config.json")
    assert compare(folder, make_manifest(folder)) == []


def test_links_to_folders_inside_are_followed(folder: Path) -> None:
    (folder / "link").symlink_to("sub")
    manifest = make_manifest(folder)
    assert "  link/a.json\n" in manifest
    (folder / "link").unlink()
    assert compare(folder, manifest) == ["missing: link/a.json"]


@pytest.mark.parametrize(
    ("link", "target", "expected"),
    [
        ("gone", "nowhere", "leads nowhere"),
        ("circle", "circle", "leads nowhere"),
        ("sub/up", "..", "lies in"),
        ("sub/out", "../..", "leads out of the folder"),
        ("sub/other", "../../model2", "leads out of the folder"),
    ],
)
def test_links_that_lead_astray_are_named(folder: Path, link: str, target: str, expected: str) -> None:
    write_folder(folder.parent / "model2", {"x": ""})
    (folder / link).symlink_to(target)
    with pytest.raises(ModelError, match=expected) as caught:
        make_manifest(folder)
    assert link in caught.value.message


def test_what_is_no_file_is_named(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(ModelError, match="pipe is neither a file nor a folder"):
        make_manifest(folder)


def test_a_folder_that_cannot_be_listed_is_never_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.scandir

    def refuse(path: Path) -> Any:
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ModelError, match="sub cannot be read: Permission denied"):
        make_manifest(folder)


@pytest.mark.parametrize("name", ["a\nb", "a\rb", os.fsdecode(b"\xff")], ids=ascii)
def test_names_that_no_line_can_hold_are_refused(folder: Path, name: str) -> None:
    (folder / name).write_text("x")
    with pytest.raises(ModelError, match="name"):
        make_manifest(folder)


NAMES = st.text(st.characters(exclude_characters="/\n\r\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(names=st.sets(NAMES.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=5), content=st.binary())
def test_any_name_is_listed_and_found_again(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("names")
    for name in names:
        (folder / name).write_bytes(content)
    manifest = make_manifest(folder)
    assert compare(folder, manifest) == []
    for name in names:
        (folder / name).write_bytes(content + b".")
    assert compare(folder, manifest) == sorted(f"changed: {name}" for name in names)


@pytest.mark.parametrize("name", ["back\\slash", "back\\new", "two  blanks", "*star", "\u2028line", "이름"])
def test_sha256sum_reads_our_lines_and_we_read_its(folder: Path, name: str) -> None:
    (folder / name).write_text("x")
    manifest = make_manifest(folder)
    checked = subprocess.run(["sha256sum", "--check", "--quiet", "-"], input=manifest.encode(), cwd=folder, check=False)
    assert checked.returncode == 0
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    for mode in ("--text", "--binary"):
        for before in ("", "./"):
            command = ["sha256sum", mode, "--", *(f"{before}{each}" for each in files)]
            theirs = subprocess.run(command, capture_output=True, cwd=folder, check=True).stdout.decode()
            assert compare(folder, theirs) == []


def test_manifests_that_went_through_another_system_are_read(folder: Path, tmp_path: Path) -> None:
    carried = tmp_path / "model.sha256"
    text = make_manifest(folder)
    shouted = "".join(f"{line[:64].upper()}{line[64:]}\r\n" for line in text.splitlines())
    carried.write_bytes(b"\xef\xbb\xbf" + shouted.encode())
    assert compare(folder, read_manifest(carried)) == []
    assert compare(folder, shouted) == []
    carried.write_bytes(text.encode("utf-16"))
    with pytest.raises(ModelError, match="not UTF-8"):
        read_manifest(carried)


def test_a_manifest_that_lies_in_the_folder_is_not_a_stranger(folder: Path) -> None:
    inside = folder / "model.sha256"
    assert invoke("manifest", str(folder), "--out", str(inside)).exit_code == 0
    assert invoke("verify", str(folder), "--manifest", str(inside)).exit_code == 0
    assert compare(folder, read_manifest(inside)) == ["not listed: model.sha256"]


def test_large_files_are_said_before_they_are_read(folder: Path) -> None:
    seen: list[tuple[str, int]] = []
    make_manifest(folder, lambda name, size: seen.append((name, size)))
    assert ("b.safetensors", 7) in seen
    with (folder / "large.bin").open("wb") as file:
        file.truncate(2**29)  # a hole: it takes no room
    result = invoke("manifest", str(folder))
    assert "reading large.bin (0.5 GiB)" in result.stderr
    assert "b.safetensors" not in result.stderr


def test_the_commands(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.sha256"
    assert invoke("manifest", str(folder), "--out", str(out)).exit_code == 0
    assert invoke("manifest", str(folder)).stdout == out.read_text("utf-8")
    assert invoke("manifest", str(folder), "--out", str(out)).exit_code == 2  # never overwritten
    assert invoke("verify", str(folder), "--manifest", str(out)).exit_code == 0
    (folder / "config.json").write_text("{ }")
    changed = invoke("verify", str(folder), "--manifest", str(out))
    assert changed.exit_code == 1
    assert "changed: config.json" in changed.stdout
    assert invoke("verify", str(folder), "--manifest", str(tmp_path / "none")).exit_code == 2
    (tmp_path / "empty").write_text("")
    empty = invoke("verify", str(folder), "--manifest", str(tmp_path / "empty"))
    assert empty.exit_code == 1
    assert "models manifest" in empty.stderr
    assert invoke("manifest", str(folder), "--out", str(tmp_path / "no" / "where")).exit_code == 1
    assert invoke("manifest", "org/name").exit_code == 1
    assert invoke("manifest", str(tmp_path / "none")).exit_code == 1
