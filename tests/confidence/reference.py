"""A second statement of rules O-050 to O-074, in the plainest words. It imports nothing of the package.

`inspect` and `vote` take the text of a state file and give the exit code and the exact standard output. `random_state`
makes state files to compare the package with.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

AGGREGATORS = ["weighted", "majority", "unanimity-or-escalate"]
VALUES = ["honesty", "safety", "consent"]


class BadInput(Exception):
    """The state file is one that the rules do not apply to: exit 1."""


def inspect(text: str) -> tuple[int, str]:
    """What follows the round just held. O-050 to O-056 say how, O-057 what exit 1 is for."""
    try:
        return 0, _inspect(_read(text)) + "\n"
    except BadInput:
        return 1, ""


def vote(text: str) -> tuple[int, str]:
    """What the vote decides. O-060 to O-073 say how, O-074 what is not looked at."""
    try:
        code, lines = _vote(_read(text))
    except BadInput:
        return 1, ""
    return code, "".join(line + "\n" for line in lines)


# What both read


def _read(text: str) -> dict[str, Any]:
    """O-057, O-060: what makes a file bad input for both."""
    try:
        state = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except ValueError as error:
        raise BadInput("not JSON") from error
    if not isinstance(state, dict):
        raise BadInput("not an object")
    agents = state.get("agents")
    if not isinstance(agents, list):
        raise BadInput("agents is missing or not a list")
    if len(agents) < 3:
        raise BadInput("fewer than 3 agents")
    names: list[str] = []
    for agent in agents:
        if not isinstance(agent, dict):
            raise BadInput("an agent is not an object")
        name = agent.get("name")
        if not isinstance(name, str) or name.strip() == "":
            raise BadInput("a name is missing, not a string or blank")
        if name in names:
            raise BadInput("two agents have one name")
        names.append(name)
    return state


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """O-057, O-060: a key twice in one object is bad."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError("a key twice")
        result[key] = value
    return result


def _constant(name: str) -> Any:
    """O-057, O-060: NaN, Infinity and -Infinity are not JSON."""
    raise ValueError(name)


def _integer(value: Any) -> int | None:
    """O-052, O-061: 7 and 7.0 are the integer 7; true is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def _confidence(value: Any) -> int | None:
    """O-052, O-061: an integer from 1 to 10."""
    number = _integer(value)
    if number is None or number < 1 or number > 10:
        return None
    return number


def _flat(text: str) -> str:
    """O-056, O-071: on one line, a run of white space as one blank."""
    return " ".join(text.split())


# inspect


def _inspect(state: dict[str, Any]) -> str:
    """O-051 to O-056."""
    agents = state["agents"]

    # O-052: the last round is the largest number of rounds recorded.
    last = 0
    for agent in agents:
        rounds = agent.get("rounds")
        if not isinstance(rounds, list):
            raise BadInput("rounds is missing or not a list")
        for entry in rounds:
            if not isinstance(entry, dict):
                raise BadInput("a round is not an object")
            if _integer(entry.get("round")) is None:
                raise BadInput("a round's number is not an integer")
        last = max(last, len(rounds))
    if last == 0:
        raise BadInput("no agent has any round")

    # O-052: each agent's first entry of that round.
    names: list[str] = []
    positions: list[str] = []
    confidences: list[int] = []
    unmoved: list[bool] = []
    for agent in agents:
        used: dict[str, Any] | None = None
        for entry in agent["rounds"]:
            if used is None and _integer(entry["round"]) == last:
                used = entry
        if used is None:
            raise BadInput("an agent lacks the last round")
        position = used.get("position")
        if not isinstance(position, str) or position.strip() == "":
            raise BadInput("a position is not a string or blank")
        confidence = _confidence(used.get("confidence"))
        if confidence is None:
            raise BadInput("a confidence is not an integer from 1 to 10")
        update = used.get("self_update")
        if update is not None and not isinstance(update, str):
            raise BadInput("a self_update is not a string")
        names.append(agent["name"])
        positions.append(position)
        confidences.append(confidence)
        unmoved.append(update is not None and update.strip().lower() == "no change")

    # O-053: EARLY-STOP, in any round.
    if all(position == positions[0] for position in positions) and all(number >= 8 for number in confidences):
        return f'EARLY-STOP: all hold "{_flat(positions[0])}" at ≥8 after round {last} — go straight to round 4'

    # O-054: SKIP-ROUND-3, only after round 2.
    if last == 2 and all(unmoved):
        return "SKIP-ROUND-3: nobody moved in round 2 — confirm that no new evidence arrived, then vote"

    # O-055: EXPERT-DEFERENCE, only after rounds 2 and 3. Positions are not compared.
    if last in (2, 3):
        certain = [name for name, number in zip(names, confidences, strict=True) if number == 10]
        low = [name for name, number in zip(names, confidences, strict=True) if number <= 3]
        if len(certain) == 1 and len(low) == len(names) - 1:
            return (
                f"EXPERT-DEFERENCE: only {_flat(certain[0])} is certain (10), the rest ≤3"
                " — ask the human whether to go straight to the vote"
            )

    # O-050, O-056: CONTINUE; there is no round 5.
    if last >= 4:
        raise BadInput("there is no round 5")
    return f"CONTINUE: round {last} still divided — run round {last + 1}"


# vote


def _vote(state: dict[str, Any]) -> tuple[int, list[str]]:
    """O-060 to O-073."""
    agents = state["agents"]
    options, aggregator, keywords = _settings(state)
    _check_shapes(agents)
    problems = _problems(agents, options)
    if problems:
        return 2, ["RE-PROMPT", *problems]

    # From here on every agent has a valid vote.
    names: list[str] = [agent["name"] for agent in agents]
    votes: list[str] = [agent["final"]["vote"] for agent in agents]
    confidences: list[int] = [int(agent["final"]["confidence"]) for agent in agents]
    rationales: list[str] = []
    notes: list[str] = []
    for agent in agents:
        rationale = _flat(agent["final"].get("rationale") or "")
        rationales.append(rationale or "(no rationale given)")
        notes.append(agent.get("dissent_note") or "")
    seats = range(len(agents))

    # O-062, O-063: the sums of confidence, and the score that ranks.
    sums: list[int] = []
    heads: list[int] = []
    for option in options:
        sums.append(sum(confidences[seat] for seat in seats if votes[seat] == option))
        heads.append(sum(1 for seat in seats if votes[seat] == option))
    scores = heads if aggregator == "majority" else sums

    left = _best(options, scores, votes, confidences, notes)
    winner = left[0] if len(left) == 1 else None
    total = sum(confidences)
    winner_sum = 0 if winner is None else sums[options.index(winner)]

    # O-066 to O-070: the reasons to escalate, cumulative.
    reasons: list[str] = []
    if winner is None:
        reasons.append(f"tie between {' and '.join(_flat(option) for option in left)} survives every tie-break")
    elif 5 * winner_sum < 3 * total:
        reasons.append(f"{_flat(winner)} holds {winner_sum} of {total} points of confidence, less than 60%")
    certain: list[str] = []
    for seat in seats:
        if confidences[seat] == 10 and votes[seat] not in certain:
            certain.append(votes[seat])
    if len(certain) > 1:
        sides = " and ".join(_flat(option) for option in certain)
        reasons.append(f"certainty (10) on opposite sides: {sides}")
    for seat in seats:
        cited = _cited(notes[seat], keywords)
        if cited is not None:
            reasons.append(f'{_flat(names[seat])} dissents for a value: "{cited}"')
    if aggregator == "unanimity-or-escalate":
        one_side = all(choice == votes[0] for choice in votes)
        if not one_side or not all(number >= 7 for number in confidences):
            reasons.append("not every seat is on one side at 7 or more")

    # O-071: the output, in this order.
    lines: list[str] = []
    if reasons or winner is None:
        lines.append("DECISION: ESCALATE")
    else:
        lines.append(f"DECISION: {_flat(winner)}")
    line = f"Aggregator: {aggregator}"
    for option, points in zip(options, sums, strict=True):
        line += f" · {_flat(option)}: {points}"
    lines.append(line)

    # O-072: the percentage, half up: floor(100 * sum / (10 * n) + 1/2).
    if winner is not None:
        whole = 10 * len(agents)
        percent = (2 * 100 * winner_sum + whole) // (2 * whole)
        lines.append(f"Weighted confidence: {winner_sum}/{whole} ({percent}%) for {_flat(winner)}")

    # O-073: the top dissent and the top hedger.
    dissent: int | None = None
    hedger: int | None = None
    for seat in seats:
        if winner is None or votes[seat] != winner:
            if dissent is None or confidences[seat] > confidences[dissent]:
                dissent = seat
        elif hedger is None or confidences[seat] < confidences[hedger]:
            hedger = seat
    if dissent is None:
        lines.append("Top dissent: none (no opposing votes)")
    else:
        who = f"{_flat(names[dissent])} ({_flat(votes[dissent])}, {confidences[dissent]})"
        lines.append(f"Top dissent: {who} — {rationales[dissent]}")
    if hedger is not None:
        lines.append(f"Top hedger: {_flat(names[hedger])} ({confidences[hedger]}) — {rationales[hedger]}")

    if reasons:
        lines.append("Escalate because:")
        for reason in reasons:
            lines.append(f"  {reason}")
        lines.append("The human decides.")
    return (3 if reasons else 0), lines


def _settings(state: dict[str, Any]) -> tuple[list[str], str, list[str]]:
    """O-060, O-062, O-069: the options, the aggregator and the keywords, or bad input."""
    options = state.get("options")
    if not isinstance(options, list) or len(options) == 0:
        raise BadInput("options is missing, not a list or empty")
    seen: list[str] = []
    for option in options:
        if not isinstance(option, str) or option.strip() == "":
            raise BadInput("an option is not a string or blank")
        if option in seen:
            raise BadInput("one option twice")
        seen.append(option)

    aggregator = state.get("aggregator")
    if aggregator is None:
        aggregator = "weighted"
    if not isinstance(aggregator, str) or aggregator not in AGGREGATORS:
        raise BadInput("an aggregator that does not exist")

    keywords = state.get("values_keywords")
    if keywords is None:
        keywords = VALUES
    if not isinstance(keywords, list):
        raise BadInput("values_keywords is not a list")
    for keyword in keywords:
        if not isinstance(keyword, str):
            raise BadInput("a keyword is not a string")
    return seen, aggregator, keywords


def _check_shapes(agents: list[dict[str, Any]]) -> None:
    """O-060: a dissent note or a rationale that is neither null nor a string is bad input."""
    for agent in agents:
        note = agent.get("dissent_note")
        if note is not None and not isinstance(note, str):
            raise BadInput("a dissent_note is not a string")
        final = agent.get("final")
        if isinstance(final, dict):
            rationale = final.get("rationale")
            if rationale is not None and not isinstance(rationale, str):
                raise BadInput("a rationale is not a string")


def _problems(agents: list[dict[str, Any]], options: list[str]) -> list[str]:
    """O-061: every problem of every agent, in roster order."""
    problems: list[str] = []
    for agent in agents:
        name = _flat(agent["name"])
        final = agent.get("final")
        if final is None:
            problems.append(f"  {name}: no final vote")
            continue
        if not isinstance(final, dict):
            problems.append(f"  {name}: final is not an object")
            continue
        choice = final.get("vote")
        if not isinstance(choice, str) or choice not in options:
            shown = json.dumps(choice, ensure_ascii=False)
            known = ", ".join(_flat(option) for option in options)
            problems.append(f"  {name}: vote {shown} is not one of: {known}")
        confidence = _confidence(final.get("confidence"))
        if confidence is None:
            shown = json.dumps(final.get("confidence"), ensure_ascii=False)
            problems.append(f"  {name}: confidence {shown} is not an integer from 1 to 10")
        elif confidence == 5:
            problems.append(f"  {name}: confidence 5 is forbidden in the vote")
    return problems


def _best(
    options: list[str], scores: list[int], votes: list[str], confidences: list[int], notes: list[str]
) -> list[str]:
    """O-064, O-065: the options that are left after the score and both tie-breaks."""
    left = [option for option, score in zip(options, scores, strict=True) if score == max(scores)]

    highest: list[int] = []
    for option in left:
        highest.append(
            max([0] + [number for choice, number in zip(votes, confidences, strict=True) if choice == option])
        )
    left = [option for option, number in zip(left, highest, strict=True) if number == max(highest)]

    dissents: list[int] = []
    for option in left:
        dissents.append(
            len([note for choice, note in zip(votes, notes, strict=True) if choice == option and note != ""])
        )
    return [option for option, number in zip(left, dissents, strict=True) if number == min(dissents)]


def _cited(note: str, keywords: list[str]) -> str | None:
    """O-069: the first keyword that is in the note, in lower case."""
    for keyword in keywords:
        if keyword != "" and keyword.lower() in note.lower():
            return keyword.lower()
    return None


# Random states


MISSING: Any = object()

NAMES = [
    "Ada",
    "ada",
    "Grace",
    "김민준",
    "이서연",
    "박 지우",
    "Zoë",
    "Zoe\u0308",
    "José Ñandú",
    "Łukasz",
    "Bo  Li",
    "  Max",
    "Eve\nof\tYork",
    'O\'Hara "Red"',
    "The Sceptic",
    "Søren\u00a0K",
]
OPTIONS = [
    "A",
    "B",
    "C",
    "go",
    "no go",
    "wait  a year",
    "찬성",
    "반대",
    "Café",
    'the "big" one',
    "yes, but",
    "Go",
    "A\nB",
]
POSITIONS = ["A", "B", "wait", "찬성", "반대", "Café  first", ' the "big"\none ', "a", "A "]
RATIONALES = [
    "Cheap and soon.",
    "  It is\n\tsafe   enough. ",
    "비용이 너무  높다.",
    "Déjà vu — again.",
    "",
    " \n ",
    None,
    MISSING,
]
NO_NOTES = [None, MISSING, "", None, MISSING]
PLAIN_NOTES = [
    "I would wait a month.",
    "비용이 너무 높다",
    " ",
    "Unsafe, perhaps. STRASSE",
    "Die Straße bleibt",
    "honest",
]
VALUE_NOTES = [
    "This is about HONESTY.",
    "dishonesty towards the donors",
    "Safety first, then consent",
    "No CONSENT was asked; Dishonesty",
    "biosafety",
    "정직하지 않다",
    "The cost! No informed consent.",
]
KEYWORDS = ["honesty", "Safety", "CONSENT", "정직", "cost", "", "Straße", "informed consent", "month", "É"]
UNMOVED = ["no change", "No change", "NO CHANGE", "  no change\n", "\tNo Change "]
MOVED = ["no change.", "no  change", "nochange", "Moved to B", "변화 없음", "", " ", None, MISSING, "no change at all"]

# Where a fault goes, the key, and what is written there. O-057, O-060: bad input.
FIELD_FAULTS: list[tuple[str, str, list[Any]]] = [
    ("state", "agents", [MISSING, None, {}, "Ada", []]),
    ("state", "options", [MISSING, None, "A", {}, 3, []]),
    ("state", "options", [["A", 3], ["A", None], ["A", " \n"], [""], ["A", "B", "A"], ["찬성", "찬성"]]),
    ("state", "aggregator", ["Weighted", "", "average", 3, False, ["weighted"], {}]),
    ("state", "values_keywords", ["honesty", {}, False, 0, ["honesty", 3], [None, "safety"], [["safety"]]]),
    ("agent", "name", [MISSING, None, "", " \n", 7, ["Ada"], True]),
    ("agent", "dissent_note", [3, 0, [], {}, False, True, ["honesty"]]),
    ("agent", "rounds", [MISSING, None, {}, "none", 2, []]),
    ("final", "rationale", [3, 0, [], {}, False, True]),
    ("entry", "round", [MISSING, None, "2", 2.5, True, [2], 99]),
    ("entry", "position", [MISSING, None, "", " \t", 3, ["A"], True]),
    ("entry", "confidence", [MISSING, None, 0, 11, -1, 7.5, "7", True, [7], 12.0]),
    ("entry", "self_update", [3, 0, False, [], {}]),
]
# O-061: votes to be asked for again.
BALLOT_FAULTS: list[tuple[str, str, list[Any]]] = [
    ("agent", "final", ["yes", "", [], 7, 0, True, False]),
    ("agent", "final", [MISSING, None, {}]),
    ("final", "vote", [MISSING, None, "", "Nobody", "아무도", " A", "b", 3, True, ["A"], {"vote": "é"}, 'x\n"y"']),
    ("final", "confidence", [MISSING, None, 0, 11, -3, 8.5, "8", "여덟", True, False, [8], {"a": 1}, 11.0, 0.0, ""]),
    ("final", "confidence", [5, 5.0]),
]
# O-057, O-060, O-061: what is more than one wrong value.
OTHER_FAULTS = [
    "one name twice",
    "too few agents",
    "agent is no object",
    "round is no object",
    "no rounds at all",
    "last round is missing",
    "vote and confidence",
    "top level",
    "not JSON",
    "key twice",
    "constant",
]


def random_state(dice: random.Random) -> str:
    """The text of a state file for O-050 to O-074: about 85 % are well-formed, the others have one or two faults."""
    state = _well_formed(dice)
    faults: list[str] = []
    if dice.random() < 0.15:
        for _ in range(dice.choice([1, 2])):
            pool = dice.choice(
                ["field", "field", "field", "field", "ballot", "ballot", "ballot", "other", "other", "other"]
            )
            if pool == "other":
                fault = dice.choice(OTHER_FAULTS)
                faults.append(fault)
                _break_other(dice, state, fault)
            else:
                place, key, values = dice.choice(FIELD_FAULTS if pool == "field" else BALLOT_FAULTS)
                _break_field(dice, state, place, key, values)
    text = json.dumps(state, ensure_ascii=dice.random() < 0.5, indent=dice.choice([None, None, 1]))
    for fault in faults:
        if fault == "top level":
            text = dice.choice([f"[{text}]", "null", "3", '"agents"', "[]", "true"])
        elif fault == "not JSON":
            text = dice.choice([text[:-1], text + "}", "", "agents: []", text.replace(":", "=", 1), text[:-1] + ",}"])
        elif fault == "key twice":
            text = dice.choice(
                [text.replace("{", '{"agents": [],', 1), text.replace('"name":', '"name": "X", "name":')]
            )
    return text


def _well_formed(dice: random.Random) -> dict[str, Any]:
    """A state that O-057, O-060 and O-061 find nothing wrong with, except that it may have 2 agents or 4 rounds."""
    count = dice.choice([3, 3, 3, 4, 4, 4, 5, 5, 6, 7])
    if dice.random() < 0.05:
        count = dice.choice([2, 9])
    options = dice.sample(OPTIONS, dice.choice([2, 2, 2, 2, 3, 3, 3, 4]))
    if dice.random() < 0.08:
        options = dice.sample(OPTIONS, dice.choice([1, 5]))

    rounds = _random_rounds(dice, count)
    ballots = _random_ballots(dice, options, count)
    note_pools = dice.choice(
        [
            [NO_NOTES],
            [NO_NOTES],
            [NO_NOTES],
            [NO_NOTES, PLAIN_NOTES],
            [NO_NOTES, PLAIN_NOTES],
            [NO_NOTES, NO_NOTES, VALUE_NOTES],
            [NO_NOTES, PLAIN_NOTES, VALUE_NOTES],
        ]
    )
    agents: list[dict[str, Any]] = []
    for name, entries, (choice, confidence) in zip(dice.sample(NAMES, count), rounds, ballots, strict=True):
        final: dict[str, Any] = {"vote": choice, "confidence": _random_number(dice, confidence)}
        _put(final, "rationale", dice.choice(RATIONALES))
        agent: dict[str, Any] = {"name": name, "soul": "calm", "rounds": entries, "final": final}
        _put(agent, "soul", dice.choice(["calm", "", None, MISSING, 3]))
        _put(agent, "dissent_note", dice.choice(dice.choice(note_pools)))
        agents.append(agent)

    state: dict[str, Any] = {"id": "r-1", "question": "Which?", "options": options, "agents": agents}
    _put(state, "id", dice.choice(["r-1", "r-1", None, MISSING, 3]))
    _put(state, "question", dice.choice(["Which?", "어느 것?", None, MISSING, []]))
    _put(
        state,
        "aggregator",
        dice.choice([MISSING, None, "weighted", "weighted", "majority", "majority", AGGREGATORS[2]]),
    )
    chance = dice.random()
    if chance < 0.1:
        state["values_keywords"] = None
    elif chance < 0.2:
        state["values_keywords"] = []
    elif chance < 0.45:
        state["values_keywords"] = dice.sample(KEYWORDS, dice.choice([1, 2, 3, 4]))
    return state


def _random_number(dice: random.Random, number: int) -> int | float:
    """O-052, O-061: 8 is sometimes written 8.0."""
    return float(number) if dice.random() < 0.1 else number


def _put(target: dict[str, Any], key: str, value: Any) -> None:
    """Sets a key, or takes it away."""
    if value is MISSING:
        target.pop(key, None)
    else:
        target[key] = copy.deepcopy(value)


def _random_rounds(dice: random.Random, count: int) -> list[list[dict[str, Any]]]:
    """O-051 to O-055: each agent's rounds, on both sides of every threshold."""
    last = dice.choice([1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4])
    positions = [dice.choice(POSITIONS) for _ in range(count)]
    confidences = [dice.randint(1, 10) for _ in range(count)]
    mood = dice.choice(["early", "early", "expert", "expert", "any", "any", "any"])
    odd = dice.randrange(count)
    if mood == "early":
        positions = [positions[0]] * count
        confidences = [dice.randint(8, 10) for _ in range(count)]
        chance = dice.random()
        if chance < 0.15:
            confidences[odd] = 7
        elif chance < 0.3:
            positions[odd] = dice.choice(POSITIONS)
    if mood == "expert":
        confidences = [dice.randint(1, 3) for _ in range(count)]
        confidences[odd] = 10
        if dice.random() < 0.3:
            confidences[dice.randrange(count)] = dice.choice([3, 4, 9, 10])
    updates: list[Any] = [dice.choice(UNMOVED + MOVED) for _ in range(count)]
    if dice.random() < 0.4:
        updates = [dice.choice(UNMOVED) for _ in range(count)]
        if dice.random() < 0.25:
            updates[odd] = dice.choice(MOVED)

    rounds: list[list[dict[str, Any]]] = []
    for seat in range(count):
        entries: list[dict[str, Any]] = []
        for number in range(1, last):
            entries.append(_random_entry(dice, number, dice.choice(POSITIONS), dice.randint(1, 10), "started"))
            if dice.random() < 0.05:
                # Only the entry that is used is looked at closely.
                _put(entries[-1], dice.choice(["position", "confidence"]), dice.choice([MISSING, None, "", 0, True]))
        entries.append(_random_entry(dice, last, positions[seat], confidences[seat], updates[seat]))
        chance = dice.random()
        if chance < 0.04 and last > 1:
            # A second entry of the last round is not used, but counts as recorded.
            entries.pop(0)
            entries.append(_random_entry(dice, last, dice.choice(POSITIONS), dice.randint(1, 10), "again"))
        elif chance < 0.08 and last > 1 and seat > 0:
            entries.pop(0)
        elif chance < 0.12:
            dice.shuffle(entries)
        rounds.append(entries)
    return rounds


def _random_entry(dice: random.Random, number: int, position: str, confidence: int, update: Any) -> dict[str, Any]:
    """O-052: one recorded round."""
    entry: dict[str, Any] = {"round": _random_number(dice, number), "position": position}
    entry["confidence"] = _random_number(dice, confidence)
    _put(entry, "self_update", update)
    return entry


def _random_ballots(dice: random.Random, options: list[str], count: int) -> list[tuple[str, int]]:
    """O-062 to O-068: votes and confidences, with ties, exact 60 %, opposing 10s and unanimity."""
    mood = dice.choice(["any", "few", "one side", "one side", "tie", "sixty", "tens", "leader", "leader"])
    ballots: list[tuple[str, int]] = []
    for _ in range(200):
        pool = [1, 2, 3, 4, 6, 7, 8, 9, 10]
        if mood in ("few", "tie"):
            pool = dice.sample(pool, 2)
        elif mood == "one side":
            pool = dice.choice([[7, 8, 9, 10], [6, 7, 8], [7, 9]])
        elif mood == "tens":
            pool = [10, 10, 8, 3]
        ballots = [(dice.choice(options), dice.choice(pool)) for _ in range(count)]
        if mood == "one side":
            ballots = [(ballots[0][0], confidence) for _, confidence in ballots]
        elif mood == "leader":
            ballots = [(dice.choice([ballots[0][0]] * 3 + [choice]), confidence) for choice, confidence in ballots]
        sums = [sum(number for choice, number in ballots if choice == option) for option in options]
        if mood == "tie" and sums.count(max(sums)) == 1:
            continue
        if mood == "sixty" and 5 * max(sums) != 3 * sum(sums):
            continue
        break
    return ballots


def _break_field(dice: random.Random, state: dict[str, Any], place: str, key: str, values: list[Any]) -> None:
    """O-057, O-060, O-061: writes a wrong value, in a ballot sometimes for several agents."""
    if place == "state":
        _put(state, key, dice.choice(values))
        return
    agents = _agents(state)
    dice.shuffle(agents)
    several = key in ("final", "vote", "confidence") and place != "entry"
    for agent in agents[: dice.choice([1, 1, 2, 3]) if several else 1]:
        if place == "agent":
            _put(agent, key, dice.choice(values))
        if place == "final" and isinstance(agent.get("final"), dict):
            _put(agent["final"], key, dice.choice(values))
        if place == "entry" and isinstance(agent.get("rounds"), list) and agent["rounds"]:
            entry = dice.choice([agent["rounds"][-1], agent["rounds"][-1], agent["rounds"][0]])
            if isinstance(entry, dict):
                _put(entry, key, dice.choice(values))


def _break_other(dice: random.Random, state: dict[str, Any], fault: str) -> None:
    """O-057, O-060, O-061: the faults that are more than one wrong value."""
    agents = _agents(state)
    if len(agents) < 2:
        return
    first, second = dice.sample(agents, 2)
    if fault == "one name twice":
        _put(second, "name", first.get("name", MISSING))
    elif fault == "too few agents":
        state["agents"] = agents[: dice.choice([0, 1, 2])]
    elif fault == "agent is no object":
        state["agents"][dice.randrange(len(state["agents"]))] = dice.choice([None, "Ada", 3, []])
    elif fault == "round is no object":
        if isinstance(first.get("rounds"), list) and first["rounds"]:
            first["rounds"][dice.randrange(len(first["rounds"]))] = dice.choice([None, "A", 3, []])
    elif fault == "no rounds at all":
        for agent in agents:
            agent["rounds"] = []
    elif fault == "last round is missing":
        if isinstance(first.get("rounds"), list):
            first["rounds"] = first["rounds"][:-1]
    elif fault == "vote and confidence":
        if isinstance(first.get("final"), dict):
            first["final"]["vote"] = dice.choice(["Nobody", None, 3, "없음"])
            first["final"]["confidence"] = dice.choice([5, 5.0, 0, "8", None, 8.5])
    elif fault == "constant":
        target = dice.choice([state, first, second])
        target[dice.choice(["id", "soul", "question"])] = dice.choice([float("nan"), float("inf"), float("-inf")])


def _agents(state: dict[str, Any]) -> list[dict[str, Any]]:
    """A new list of the agents that are objects."""
    agents = state.get("agents")
    if not isinstance(agents, list):
        return []
    return [agent for agent in agents if isinstance(agent, dict)]
