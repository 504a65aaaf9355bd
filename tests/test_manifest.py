"""Checksums of a model folder: every difference is named."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from roundtable_local.cli import app
from roundtable_local.errors import ModelError
from roundtable_local.manifest import compare, make_manifest
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
    assert invoke("manifest", "org/name").exit_code == 1
    assert invoke("manifest", str(tmp_path / "none")).exit_code == 1
