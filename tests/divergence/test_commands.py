"""`run --protocol divergence` by the command line: what it refuses, seats of the user's own, languages (R-030, R-031)."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from roundtable_local.cli import app

ROOT = Path(__file__).resolve().parent.parent.parent


def run(out: Path, decision: str, *arguments: str) -> Result:
    common = ["--protocol", "divergence", "--backend", "scripted", "--date", "2026-03-01", "--out", str(out)]
    return CliRunner().invoke(app, ["run", decision, *common, *arguments], env={"COLUMNS": "200"})


def souls(folder: Path, count: int, devils: int) -> str:
    folder.mkdir()
    for number in range(count):
        front = "---\ndevils_advocate: true\n---\n" if number < devils else ""
        (folder / f"p{number}.md").write_text(f"{front}Persona {number} counts.\n", "utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("count", "devils", "says"),
    [(2, 1, "3 to 5 personas"), (6, 1, "3 to 5 personas"), (4, 0, "not 0"), (4, 2, "not 2")],
)
def test_r_031_r_g4_personas_are_checked_before_anything_runs(
    tmp_path: Path, count: int, devils: int, says: str
) -> None:
    result = run(tmp_path / "out", "Should we?", "--seats", souls(tmp_path / "souls", count, devils))
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "setting",
    [
        "max_rounds=3", "max_rounds=1", "minority_protection=none", "devil_advocate=optional", "grounds=2",
        "marker=consensus",
    ],
)  # fmt: skip
def test_r_031_r_g4_what_is_fixed_cannot_be_set(tmp_path: Path, setting: str) -> None:
    result = run(tmp_path / "out", "Should we?", "--set", setting)
    assert result.exit_code == 2
    assert setting.split("=", maxsplit=1)[0] in result.stderr
    assert not (tmp_path / "out").exists()


def test_ones_own_personas(tmp_path: Path) -> None:
    result = run(tmp_path / "out", "Should we?", "--seats", souls(tmp_path / "souls", 3, 1))
    assert result.exit_code == 0, result.output
    (directory,) = (tmp_path / "out").iterdir()
    assert {path.stem for path in (directory / "phase0").iterdir()} == {"p0", "p1", "p2"}
    assert f"- p0 (devil's advocate): persona read from {tmp_path / 'souls'}" in (directory / "REPORT.md").read_text(
        "utf-8"
    )


def test_a_korean_decision_gets_korean_headings_and_language_overrides_it(tmp_path: Path) -> None:
    decision = str(ROOT / "examples" / "order-system.ko.md")
    assert run(tmp_path / "ko", decision).exit_code == 0
    (korean,) = (tmp_path / "ko").iterdir()
    assert "\n## 보존된 소수의견\n" in (korean / "REPORT.md").read_text("utf-8")
    assert run(tmp_path / "en", decision, "--language", "English").exit_code == 0
    (english,) = (tmp_path / "en").iterdir()
    assert "\n## Minority Opinions\n" in (english / "REPORT.md").read_text("utf-8")


@pytest.mark.parametrize("language", ["korean", "ko", "한국어", "ko-KR"])
def test_r_g6_a_language_may_be_named_in_several_ways(tmp_path: Path, language: str) -> None:
    assert run(tmp_path, "Should we?", "--language", language).exit_code == 0
    (directory,) = tmp_path.iterdir()
    assert "\n## 보존된 소수의견\n" in (directory / "REPORT.md").read_text("utf-8")


def test_fewer_claims_where_the_window_is_small(tmp_path: Path) -> None:
    result = run(tmp_path / "out", "Should we split it?", "--set", "model.window=7000", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "personas state at most 2 claims in phase 0, not 3" in result.stdout
    refused = run(tmp_path / "out", "Should we split it?", "--set", "model.window=2000")
    assert refused.exit_code == 1
    assert "does not fit the model's window" in refused.stderr
