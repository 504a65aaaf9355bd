"""docs/protocols.md covers every rule, and the files it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "tests" / "fixtures"
DOC = (ROOT / "docs" / "protocols.md").read_text("utf-8")


@pytest.mark.parametrize(("prefix", "protocol"), [("A-", "supermajority"), ("M-", "panel")])
def test_every_rule_id_is_covered_once(prefix: str, protocol: str) -> None:
    covered = [
        rule
        for line in DOC.splitlines()
        if line.startswith(f"| {prefix}")
        for rule in line.split("|")[1].replace(" ", "").split(",")
    ]
    assert sorted(covered) == (RULES / f"rules-{protocol}.txt").read_text("utf-8").split()


def test_every_file_named_exists() -> None:
    named = set(re.findall(r"`([\w/.-]+\.(?:py|yaml|j2))`", DOC))
    assert named
    package = ROOT / "engine" / "roundtable_local"
    for name in named:
        assert any((folder / name).is_file() for folder in (ROOT, package, package / "protocols")), name
