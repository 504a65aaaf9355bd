"""docs/protocols.md covers every rule, and the files it names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "tests" / "fixtures" / "rules-supermajority.txt"
DOC = (ROOT / "docs" / "protocols.md").read_text("utf-8")


def test_every_rule_id_is_covered_once() -> None:
    covered = [
        rule
        for line in DOC.splitlines()
        if line.startswith("| A-")
        for rule in line.split("|")[1].replace(" ", "").split(",")
    ]
    assert sorted(covered) == RULES.read_text("utf-8").split()


def test_every_file_named_exists() -> None:
    named = set(re.findall(r"`([\w/.-]+\.(?:py|yaml|j2))`", DOC))
    assert named
    for name in named:
        inside = ROOT / "engine" / "roundtable_local" / re.sub(r"^supermajority/", "protocols/supermajority/", name)
        assert (ROOT / name).is_file() or inside.is_file(), name
