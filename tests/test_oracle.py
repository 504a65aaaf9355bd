"""Where an Oracle's minutes go (O-010 to O-012)."""

from __future__ import annotations

from pathlib import Path

import pytest

from roundtable_local.oracle import find_psi, free_name

WARNING = "⚠️ Not in oracle repo (no CLAUDE.md + ψ/ at git root). Writing to pwd."


def oracle(root: Path) -> Path:
    (root / "ψ").mkdir(parents=True)
    (root / "CLAUDE.md").write_text("# Oracle\n")
    return root


def test_the_git_root_comes_first(tmp_path: Path) -> None:
    root = oracle(tmp_path / "repo")
    (root / ".git").mkdir()
    deep = oracle(root / "deep")
    assert find_psi(deep) == (root / "ψ", "")


def test_else_the_folder_itself(tmp_path: Path) -> None:
    root = oracle(tmp_path / "plain")
    assert find_psi(root) == (root / "ψ", "")
    (tmp_path / ".git").mkdir()  # a work tree without ψ
    assert find_psi(root) == (root / "ψ", "")


def test_psi_may_be_a_link_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mind").mkdir()
    (tmp_path / "ψ").symlink_to(tmp_path / "mind")
    (tmp_path / "CLAUDE.md").write_text("# Oracle\n")
    assert find_psi(tmp_path) == (tmp_path / "ψ", "")


@pytest.mark.parametrize("missing", ["CLAUDE.md", "ψ"])
def test_without_both_the_warning_is_given(tmp_path: Path, missing: str) -> None:
    root = oracle(tmp_path / "half")
    (root / missing).rmdir() if missing == "ψ" else (root / missing).unlink()
    assert find_psi(root) == (root / "ψ", WARNING)


@pytest.mark.parametrize("taken", ["lab/round-table/x.md", "lab/round-table/x.json", "inbox/decisions/x.md"])
def test_a_name_that_is_taken_gets_a_number(tmp_path: Path, taken: str) -> None:
    assert free_name(tmp_path, "x") == "x"
    (tmp_path / taken).parent.mkdir(parents=True)
    (tmp_path / taken).write_text("there")
    assert free_name(tmp_path, "x") == "x-2"
