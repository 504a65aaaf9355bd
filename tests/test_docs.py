"""docs/protocols.md covers every rule, and the files it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roundtable_local import protocols

ROOT = Path(__file__).resolve().parent.parent
RULES = {"A-": "supermajority", "O-": "confidence", "M-": "panel", "R-": "divergence"}
DOC = (ROOT / "docs" / "protocols.md").read_text("utf-8")


@pytest.mark.parametrize(("prefix", "protocol"), RULES.items())
def test_every_rule_id_is_covered_once(prefix: str, protocol: str) -> None:
    covered = [
        rule
        for line in DOC.splitlines()
        if line.startswith(f"| {prefix}")
        for rule in line.split("|")[1].replace(" ", "").split(",")
    ]
    rules = ROOT / "tests" / "fixtures" / f"rules-{protocol}.txt"
    assert sorted(covered) == rules.read_text("utf-8").split()


def test_every_file_named_exists() -> None:
    named = set(re.findall(r"`([\w/.-]+\.(?:py|yaml|j2))`", DOC))
    assert named
    for name in named:
        inside = (
            ROOT / "engine" / "roundtable_local" / re.sub(rf"^({'|'.join(protocols.NAMES)})/", r"protocols/\1/", name)
        )
        assert (ROOT / name).is_file() or inside.is_file(), name
