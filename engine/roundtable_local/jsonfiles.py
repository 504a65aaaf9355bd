"""One way to read JSON from models, people and programs: no key twice, no NaN, no depth that ends the parser."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str) -> Any:
    """The data that JSON text holds.

    Raises:
        ValueError: it is not JSON, says a key twice in one object, or has what JSON has not (NaN, Infinity).
    """
    try:
        return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return found


def _no_constant(literal: str) -> Any:
    raise ValueError(f"{literal} is not JSON")
