"""A state, as a run writes it and as people edit it: the JSON object of O-025 and O-045, read loosely. Pure.

What makes a state unusable is `BadState` and names the seat and the fault; what a seat has to say again is for `tally`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from roundtable_local.jsonfiles import parse_json
from roundtable_local.protocols.confidence.settings import AGGREGATORS, ConfidenceSettings
from roundtable_local.report.markdown import one_line

State = Mapping[str, Any]


class BadState(ValueError):
    """A state that cannot be judged; names the seat and the fault (O-057, O-060)."""


def load_state(text: str) -> State:
    """The state that JSON text holds.

    Raises:
        BadState: it is not JSON (NaN and Infinity are not), has a key twice, or is no object.
    """
    try:
        state = parse_json(text)
    except ValueError as error:
        raise BadState(f"not valid JSON: {error}") from error
    if not isinstance(state, dict):
        raise BadState("the state must be a JSON object")
    return state


def agents_of(state: State, rules: ConfidenceSettings) -> dict[str, State]:
    """Seats by name, in roster order."""
    agents = state.get("agents")
    if not isinstance(agents, list):
        raise BadState("agents must be a list of seats")
    if len(agents) < rules.least_seats:
        raise BadState(f"{len(agents)} seats are no quorum: at least {rules.least_seats} are needed (O-020)")
    named: dict[str, State] = {}
    for number, agent in enumerate(agents, 1):
        if not isinstance(agent, dict):
            raise BadState(f"agent {number} is not an object")
        name = agent.get("name")
        if not isinstance(name, str) or not name.strip():
            raise BadState(f"agent {number} has no name")
        if name in named:
            raise BadState(f"two agents are named {name!r}")
        named[name] = agent
    return named


def options_of(state: State) -> tuple[str, ...]:
    """The options, in their order."""
    options = state.get("options")
    if not isinstance(options, list) or not options:
        raise BadState("options must be a list of names")
    if not all(isinstance(option, str) and option.strip() for option in options):
        raise BadState("every option must be a name")
    if len(set(options)) != len(options):
        raise BadState("an option is listed twice")
    return tuple(options)


def aggregator_of(state: State, rules: ConfidenceSettings) -> str:
    """How the state's votes are counted; the rules' own way where it does not say (O-023)."""
    aggregator = state.get("aggregator")
    if aggregator is None:
        return rules.aggregator
    if aggregator not in AGGREGATORS:
        raise BadState(f"aggregator {shown(aggregator)} is not one of: {', '.join(AGGREGATORS)}")
    return str(aggregator)


def keywords_of(state: State, rules: ConfidenceSettings) -> list[str]:
    """The words that stand for values, in lower case (O-066, O-069)."""
    keywords = state.get("values_keywords")
    if keywords is None:
        keywords = list(rules.values_keywords)
    if not isinstance(keywords, list) or not all(isinstance(word, str) for word in keywords):
        raise BadState("values_keywords must be a list of words")
    return [word.lower() for word in keywords]


def rounds_of(name: str, agent: State) -> list[State]:
    """A seat's recorded rounds."""
    rounds = agent.get("rounds")
    if not isinstance(rounds, list):
        raise BadState(f"{name}: rounds must be a list")
    for each in rounds:
        if not isinstance(each, dict) or _whole(each.get("round")) is None:
            raise BadState(f"{name}: every round must be an object with its number in `round`")
    return rounds


def answer_in(name: str, rounds: Sequence[State], last: int) -> tuple[str, int, str]:
    """Position, confidence and self-update of a seat in the last round (O-052)."""
    if last == 0:
        raise BadState("no seat has recorded a round")
    entry = next((each for each in rounds if _whole(each["round"]) == last), None)
    if entry is None:
        raise BadState(f"{name}: no answer in round {last}")
    position, confidence = entry.get("position"), confidence_of(entry.get("confidence"))
    if not isinstance(position, str) or not position.strip():
        raise BadState(f"{name}: round {last} has no position")
    if confidence is None:
        raise BadState(
            f"{name}: round {last}: confidence {shown(entry.get('confidence'))} is not an integer from 1 to 10"
        )
    return position, confidence, text_of(name, "self_update", entry.get("self_update"))


def text_of(name: str, key: str, value: Any) -> str:
    """Text that may be missing; empty then."""
    if value is not None and not isinstance(value, str):
        raise BadState(f"{name}: {key} must be text")
    return value or ""


def _whole(value: Any) -> int | None:
    """An integer, also one written as 8.0, as where the rules come from; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value)


def confidence_of(value: Any) -> int | None:
    """A confidence on the scale of O-043."""
    whole = _whole(value)
    return whole if whole is not None and 1 <= whole <= 10 else None


def shown(value: Any) -> str:
    """A value as it stands in the file."""
    return one_line(json.dumps(value, ensure_ascii=False))
