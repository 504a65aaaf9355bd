"""Round 3 and the wall before it: A-005 to A-008, A-130 to A-137, A-162, A-g19."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roundtable_local.codebase import Codebase, CodebaseSettings, read_codebase
from roundtable_local.config import read_yaml
from roundtable_local.shipped import shipped
from tests.supermajority.tables import Hall, Script, table
from tests.supermajority.test_debate import SLUGS, headings

SETTINGS = CodebaseSettings.model_validate(read_yaml(shipped("configs") / "codebase.yaml"))
SECRET_OF_THE_CODE = "zebra_ledger_rebalance"


def code(folder: Path, *, config_only: bool = False) -> Codebase:
    """A small project; one of its names is found nowhere else."""
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Use tabs.\n", "utf-8")
    (folder / "config.yaml").write_text("a: 1\n", "utf-8")
    if not config_only:
        for number in range(6):
            body = "".join(f"    total = split_order(title_{line}) + {line}\n" for line in range(12))
            text = f"def {SECRET_OF_THE_CODE}_{number}():\n{body}    return total\n"
            (folder / f"order_{number}.py").write_text(text, "utf-8")
    return read_codebase(folder, SETTINGS, lambda text: len(text) // 4 + 1)


@pytest.fixture(name="hall")
def _hall(tmp_path: Path) -> Hall:
    return Hall(table(codebase=code(tmp_path / "shop"), dissent=("futurist",)), Script())


def test_no_byte_of_the_code_reaches_the_theory_a_005_a_g19(tmp_path: Path, hall: Hall) -> None:
    without = Hall(table(dissent=("futurist",)), Script())
    for name in ("round1", "round2", "synthesis-R1", "synthesis-disagreements"):
        assert hall.turns[name] == without.turns[name]
        assert hall.turns[name].theory
    shown = "".join(block.text for block in hall.turns["round3"].context)
    assert SECRET_OF_THE_CODE in shown
    assert "Use tabs." in shown  # AGENTS.md belongs to round 3 (A-010, A-g23)


def test_round_3_comes_after_the_synthesis_and_before_the_vote_a_006(hall: Hall) -> None:
    names = list(hall.turns)
    assert names.index("synthesis-disagreements") < names.index("round3") < names.index("vote")
    titles = [block.title for block in hall.turns["round3"].context]
    assert titles == ["PROBLEM SPECIFICATION", "RECOMMENDATIONS", "CODEBASE", "TASK"]
    vote = hall.turns["vote"].context
    assert vote[:2] == hall.turns["round3"].context[:2]  # the vote's context is a prefix of what was computed


def test_a_seat_sees_its_own_round_2_and_then_its_own_round_3_a_132_a_140(hall: Hall) -> None:
    asks = {ask.id: ask.brief.text for ask in hall.turns["round3"].asks}
    assert "ROUND 2, empiricist:" in asks["empiricist"]
    assert "ROUND 2, futurist:" not in asks["empiricist"]
    ballots = {ask.id: ask.brief.text for ask in hall.turns["vote"].asks}
    assert "YOUR ROUND 3:\nR1 KEEP: empiricist on R1" in ballots["empiricist"]
    assert "futurist on R1" not in ballots["empiricist"]


def test_round_three_file_a_134_to_a_136(hall: Hall) -> None:
    expected = [
        "### Codebase Observations",
        "### Recommendations to KEEP (theory confirmed by reality)",
        "### Recommendations to MODIFY (theory needs adjustment)",
        "### Recommendations to CHALLENGE (evidence against theory)",
    ]
    assert headings(hall.files["round3/pragmatist.md"]) == ["## Pragmatist -- Round 3 (Reality Check)", *expected]
    assert headings(hall.files["round3/futurist.md"])[1:] == [*expected, "### Unstated Assumption"]
    assert (
        "- R1: Title 1 -- pragmatist on R1 -- recommend retry with a smaller step ("
        in hall.files["round3/pragmatist.md"]
    )


def test_evidence_is_narrowed_to_passages_that_were_shown_a_008_a_133(hall: Hall) -> None:
    allowed = hall.turns["round3"].asks[0].narrow["stances.*.evidence.*"].allowed  # type: ignore[union-attr]
    shown = re.findall(r"^\[?(S\d+)", hall.turns["round3"].context[2].text, re.MULTILINE)
    assert set(allowed) <= set(shown)
    assert allowed


def test_every_citation_exists(tmp_path: Path, hall: Hall) -> None:
    texts = [hall.files["REPORT.md"], *(hall.files[f"round3/{slug}.md"] for slug in SLUGS)]
    cited = set(
        re.findall(r"([\w/.]+\.(?:py|yaml|md)):(\d+)-(\d+)", "".join(text.replace("\\_", "_") for text in texts))
    )
    assert cited
    for path, start, end in cited:
        lines = (tmp_path / "shop" / path).read_text("utf-8").splitlines()
        assert 1 <= int(start) <= int(end) <= len(lines)


def test_the_report_says_how_far_it_stands_in_the_code_a_160_a_162(hall: Hall) -> None:
    report = hall.files["REPORT.md"]
    assert "**Rounds:** 3\n" in report
    assert "**Implementation status:** exists (10 of 10); evidence: " in report
    assert "Implementation status" not in Hall(table(), Script()).files["REPORT.md"]


def test_a_folder_with_only_configuration_is_greenfield_a_130_a_137(tmp_path: Path) -> None:
    hall = Hall(table(codebase=code(tmp_path / "shop", config_only=True)), Script())
    assert "round3" not in hall.turns
    assert "CODEBASE_CONTEXT.md" not in hall.files
    assert "**Rounds:** 2\n" in hall.files["REPORT.md"]
    assert any("no round 3" in notice for notice in hall.notices)


def test_a_seat_lost_in_round_3_casts_no_vote_a_g6(tmp_path: Path) -> None:
    hall = Hall(table(codebase=code(tmp_path / "shop")), Script(losing={"round3": ["empiricist"]}))
    assert "empiricist" not in [ask.id for ask in hall.turns["vote"].asks]
    assert "Supermajority: 6/9+" in hall.files["REPORT.md"]
