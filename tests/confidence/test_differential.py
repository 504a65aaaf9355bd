"""The package against the second statement of the rules, on random state files (O-050 to O-074)."""

from __future__ import annotations

import random

from roundtable_local.protocols.confidence.statefile import BadState, load_state
from roundtable_local.protocols.confidence.tally import inspect, vote
from tests.confidence import reference
from tests.confidence.tables import RULES

STATES = 20_000


def inspected(text: str) -> tuple[int, str]:
    try:
        return 0, inspect(load_state(text), RULES).line + "\n"
    except BadState:
        return 1, ""


def voted(text: str) -> tuple[int, str]:
    try:
        counted = vote(load_state(text), RULES)
    except BadState:
        return 1, ""
    return (2 if counted.problems else 0 if counted.decided else 3), counted.block + "\n"


def test_the_package_agrees_with_the_second_statement_of_the_rules() -> None:
    codes: set[tuple[str, int]] = set()
    for seed in range(STATES):
        text = reference.random_state(random.Random(seed))
        for name, ours, theirs in (("inspect", inspected, reference.inspect), ("vote", voted, reference.vote)):
            expected = theirs(text)
            assert ours(text) == expected, f"{name}, seed {seed}: {text}"
            codes.add((name, expected[0]))
    assert codes == {("inspect", 0), ("inspect", 1), *(("vote", code) for code in (0, 1, 2, 3))}
