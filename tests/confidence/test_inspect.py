"""The inspector (O-050 to O-057)."""

from __future__ import annotations

from typing import Any

import pytest

from roundtable_local.protocols.confidence.statefile import BadState
from roundtable_local.protocols.confidence.tally import Signal, inspect
from tests.confidence.tables import RULES

Said = tuple[str, Any, Any]
"""Position, confidence, self-update."""


def state(*rounds: list[Said]) -> dict[str, Any]:
    agents = []
    for seat in range(len(rounds[0])):
        said = [
            {"round": number, "position": each[seat][0], "confidence": each[seat][1], "self_update": each[seat][2]}
            for number, each in enumerate(rounds, 1)
        ]
        agents.append({"name": f"seat{seat + 1}", "rounds": said})
    return {"agents": agents}


def line(*rounds: list[Said]) -> str:
    return inspect(state(*rounds), RULES).line


SPLIT: list[Said] = [("a", 6, None), ("b", 6, None), ("a", 6, None)]
SURE: list[Said] = [("a", 8, "moved"), ("a", 9, "moved"), ("a", 10, "moved")]
STILL: list[Said] = [("a", 6, " No Change "), ("b", 6, "no change"), ("a", 6, "NO CHANGE")]
EXPERT: list[Said] = [("a", 10, "moved"), ("b", 3, "moved"), ("a", 1, None)]


@pytest.mark.parametrize(
    ("rounds", "begins"),
    [
        ([SURE], 'EARLY-STOP: all hold "a" at ≥8 after round 1'),
        ([SPLIT, SURE], 'EARLY-STOP: all hold "a" at ≥8 after round 2'),
        ([SPLIT, SPLIT, SURE], 'EARLY-STOP: all hold "a" at ≥8 after round 3'),
        ([SPLIT, STILL], "SKIP-ROUND-3: nobody moved in round 2"),
        ([STILL], "CONTINUE: round 1 still divided — run round 2"),
        ([SPLIT, SPLIT, STILL], "CONTINUE: round 3 still divided — run round 4"),
        ([SPLIT, EXPERT], "EXPERT-DEFERENCE: only seat1 is certain (10), the rest ≤3"),
        ([SPLIT, SPLIT, EXPERT], "EXPERT-DEFERENCE: only seat1 is certain (10), the rest ≤3"),
        ([EXPERT], "CONTINUE: round 1 still divided — run round 2"),
        ([SPLIT, SPLIT], "CONTINUE: round 2 still divided — run round 3"),
        ([SPLIT, [("a", 7, "x"), ("a", 9, "x"), ("a", 10, "x")]], "CONTINUE: round 2"),
        ([SPLIT, [("a", 10, "x"), ("b", 10, "x"), ("a", 3, "x")]], "CONTINUE: round 2"),
        ([SPLIT, [("a", 10, "x"), ("b", 4, "x"), ("a", 3, "x")]], "CONTINUE: round 2"),
        ([SPLIT, [("a", 6, "no change."), ("b", 6, "no change"), ("a", 6, "no change")]], "CONTINUE: round 2"),
        ([SPLIT, [("a", 6, None), ("b", 6, "no change"), ("a", 6, "no change")]], "CONTINUE: round 2"),
    ],
)
def test_o_050_to_o_056(rounds: list[list[Said]], begins: str) -> None:
    assert line(*rounds).startswith(begins)


def test_o_051_precedence() -> None:
    both = [("a", 8, "no change"), ("a", 8, "no change"), ("a", 8, "no change")]
    assert inspect(state(SPLIT, both), RULES).signal is Signal.EARLY_STOP
    still = [("a", 10, "no change"), ("b", 1, "no change"), ("a", 3, "no change")]
    assert inspect(state(SPLIT, still), RULES).signal is Signal.SKIP_ROUND_3


def test_o_052_a_seat_without_an_answer_is_named() -> None:
    given = state(SPLIT, SPLIT)
    given["agents"][1]["rounds"].pop()
    with pytest.raises(BadState, match="seat2: no answer in round 2"):
        inspect(given, RULES)


def test_o_052_the_round_is_that_of_the_longest_list() -> None:
    given = state(SPLIT, SPLIT)
    given["agents"][0]["rounds"][1]["round"] = 3
    with pytest.raises(BadState, match="seat1: no answer in round 2"):
        inspect(given, RULES)


def test_o_005_there_is_no_fifth_round() -> None:
    with pytest.raises(BadState, match="O-005"):
        inspect(state(SPLIT, SPLIT, SPLIT, SPLIT), RULES)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"confidence": "7"}, 'seat1: round 1: confidence "7" is not an integer'),
        ({"confidence": True}, "seat1: round 1: confidence true"),
        ({"confidence": 11}, "seat1: round 1: confidence 11"),
        ({"confidence": None}, "seat1: round 1: confidence null"),
        ({"position": 3}, "seat1: round 1 has no position"),
        ({"self_update": 3}, "seat1: self_update must be text"),
        ({"round": "1"}, "seat1: every round must be an object"),
    ],
)
def test_o_057_what_cannot_be_read_is_named(fault: dict[str, Any], says: str) -> None:
    given = state(SPLIT)
    given["agents"][0]["rounds"][0] |= fault
    with pytest.raises(BadState, match=says):
        inspect(given, RULES)


def test_whole_numbers_may_be_written_with_a_point() -> None:
    given = state([("a", 8.0, None), ("a", 9.0, None), ("a", 10, None)])
    given["agents"][0]["rounds"][0]["round"] = 1.0
    assert inspect(given, RULES).signal is Signal.EARLY_STOP
