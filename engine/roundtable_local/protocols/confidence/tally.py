"""The inspector and the vote: state in, verdict and exact lines out (O-050 to O-074). Pure.

What a seat has to say again is listed whole (O-061); what makes a state unusable is `BadState`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from roundtable_local.protocols.confidence.settings import ConfidenceSettings
from roundtable_local.protocols.confidence.statefile import (
    BadState,
    State,
    agents_of,
    aggregator_of,
    answer_in,
    confidence_of,
    keywords_of,
    options_of,
    rounds_of,
    shown,
    text_of,
)
from roundtable_local.report.markdown import one_line

_DEFERRING_ROUNDS = (2, 3)  # O-055
_SKIPPING_ROUND = 2  # O-054
_LAST_ROUND = 3  # O-005: the fourth is the vote
_NO_CHANGE = "no change"  # O-040, O-054


class Signal(StrEnum):
    """What the inspector says (O-050)."""

    EARLY_STOP = "EARLY-STOP"
    SKIP_ROUND_3 = "SKIP-ROUND-3"
    EXPERT_DEFERENCE = "EXPERT-DEFERENCE"
    CONTINUE = "CONTINUE"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the inspector says after a round, as a signal and as its exact line (O-056)."""

    signal: Signal
    line: str


@dataclass(frozen=True, slots=True)
class Ballot:
    """One seat's final vote, checked."""

    name: str
    vote: str
    confidence: int
    rationale: str
    dissent: str


@dataclass(frozen=True)
class Vote:
    """What a vote came to.

    Args:
        problems: name and problem of every ballot that must be cast again (O-061); nothing is counted then.
        aggregator: how the options were ranked (O-062).
        sums: points of confidence by option, in option order.
        ballots: the votes in roster order.
        winner: None where a tie survived (O-064).
        reasons: why a human must decide (O-066), in words; empty where the table decided.
    """

    problems: tuple[tuple[str, str], ...] = ()
    aggregator: str = ""
    sums: Mapping[str, int] | None = None
    ballots: tuple[Ballot, ...] = ()
    winner: str | None = None
    reasons: tuple[str, ...] = ()

    @property
    def decided(self) -> bool:
        """Whether the table decided."""
        return not self.problems and not self.reasons

    @property
    def block(self) -> str:
        """The exact lines, without a line feed at the end (O-061, O-071)."""
        if self.problems:
            return "\n".join(["RE-PROMPT", *(f"  {one_line(name)}: {problem}" for name, problem in self.problems)])
        return "\n".join([*self._head(), *self._escalation()])

    def _head(self) -> list[str]:
        sums, winner = self.sums or {}, self.winner
        lines = [
            f"DECISION: {one_line(winner) if winner is not None and self.decided else 'ESCALATE'}",
            " · ".join(
                [f"Aggregator: {self.aggregator}", *(f"{one_line(option)}: {sum_}" for option, sum_ in sums.items())]
            ),
        ]
        if winner is not None:
            most = 10 * len(self.ballots)
            lines.append(
                f"Weighted confidence: {sums[winner]}/{most} ({percent(sums[winner], most)}%) for {one_line(winner)}"
            )
        lines.append(self._top_dissent())
        if winner is not None:
            hedger = min((each for each in self.ballots if each.vote == winner), key=lambda each: each.confidence)
            lines.append(f"Top hedger: {one_line(hedger.name)} ({hedger.confidence}) — {said(hedger.rationale)}")
        return lines

    def _top_dissent(self) -> str:
        against = [each for each in self.ballots if each.vote != self.winner]
        if not against:
            return "Top dissent: none (no opposing votes)"
        top = max(against, key=lambda each: each.confidence)  # the first of equals: roster order (O-073)
        return f"Top dissent: {one_line(top.name)} ({one_line(top.vote)}, {top.confidence}) — {said(top.rationale)}"

    def _escalation(self) -> list[str]:
        if not self.reasons:
            return []
        return ["Escalate because:", *(f"  {reason}" for reason in self.reasons), "The human decides."]


def inspect(state: State, rules: ConfidenceSettings) -> Inspection:
    """What to do after the last recorded round (O-050 to O-057).

    Raises:
        BadState: too few seats, a seat without an answer in that round, or an answer of the wrong form.
    """
    agents = agents_of(state, rules)
    recorded = {name: rounds_of(name, agent) for name, agent in agents.items()}
    last = max(len(rounds) for rounds in recorded.values())
    answers = {name: answer_in(name, rounds, last) for name, rounds in recorded.items()}
    positions = [position for position, _, _ in answers.values()]
    confidences = [confidence for _, confidence, _ in answers.values()]
    if len(set(positions)) == 1 and min(confidences) >= rules.early_stop:
        held = f'all hold "{one_line(positions[0])}" at ≥{rules.early_stop} after round {last}'
        return Inspection(Signal.EARLY_STOP, f"EARLY-STOP: {held} — go straight to round 4")
    if last == _SKIPPING_ROUND and all(update.strip().lower() == _NO_CHANGE for _, _, update in answers.values()):
        line = "SKIP-ROUND-3: nobody moved in round 2 — confirm that no new evidence arrived, then vote"
        return Inspection(Signal.SKIP_ROUND_3, line)
    experts = [name for name, (_, confidence, _) in answers.items() if confidence == rules.expert]
    others = [confidence for confidence in confidences if confidence != rules.expert]
    if last in _DEFERRING_ROUNDS and len(experts) == 1 and max(others) <= rules.doubtful:
        certain = f"only {one_line(experts[0])} is certain ({rules.expert}), the rest ≤{rules.doubtful}"
        line = f"EXPERT-DEFERENCE: {certain} — ask the human whether to go straight to the vote"
        return Inspection(Signal.EXPERT_DEFERENCE, line)
    if last > _LAST_ROUND:
        raise BadState(f"round {last} is recorded and there is no round after the fourth: vote (O-005)")
    return Inspection(Signal.CONTINUE, f"CONTINUE: round {last} still divided — run round {last + 1}")


def vote(state: State, rules: ConfidenceSettings) -> Vote:
    """Validate all ballots, then count them (O-060 to O-073).

    Args:
        state: its aggregator and values_keywords, where given, go before those of the rules.
        rules: thresholds.

    Raises:
        BadState: too few seats, or a part of the state that is no ballot is of the wrong form.
    """
    agents = agents_of(state, rules)
    options = options_of(state)
    aggregator = aggregator_of(state, rules)
    keywords = keywords_of(state, rules)
    for name, agent in agents.items():
        text_of(name, "dissent_note", agent.get("dissent_note"))
        if isinstance(agent.get("final"), dict):
            text_of(name, "rationale", agent["final"].get("rationale"))
    problems = tuple((name, each) for name, agent in agents.items() for each in _problems(agent, options, rules))
    if problems:
        return Vote(problems)
    ballots = tuple(_ballot(name, agent) for name, agent in agents.items())
    sums = {option: sum(each.confidence for each in ballots if each.vote == option) for option in options}
    heads = Counter(each.vote for each in ballots)
    score: Callable[[str], int] = heads.__getitem__ if aggregator == "majority" else sums.__getitem__
    leading = _leading(options, score, ballots)
    winner = leading[0] if len(leading) == 1 else None
    reasons = _reasons(leading, sums, ballots, aggregator, keywords, rules)
    return Vote((), aggregator, sums, ballots, winner, tuple(reasons))


def percent(part: int, whole: int) -> int:
    """Rounded half up, in integers (O-072)."""
    return (200 * part + whole) // (2 * whole)


def said(rationale: str) -> str:
    """A rationale as the block shows it."""
    return one_line(rationale) or "(no rationale given)"


def _leading(options: Sequence[str], score: Callable[[str], int], ballots: Sequence[Ballot]) -> list[str]:
    """The options at the top after the tie-breaks: highest single confidence, then fewest dissent notes (O-064, O-065)."""

    def highest(option: str) -> int:
        return max((each.confidence for each in ballots if each.vote == option), default=0)

    def notes(option: str) -> int:
        return sum(bool(each.dissent) for each in ballots if each.vote == option)

    leading = list(options)
    for rank in (score, highest, lambda option: -notes(option)):
        top = max(rank(option) for option in leading)
        leading = [option for option in leading if rank(option) == top]
    return leading


def _reasons(
    leading: Sequence[str],
    sums: Mapping[str, int],
    ballots: Sequence[Ballot],
    aggregator: str,
    keywords: Sequence[str],
    rules: ConfidenceSettings,
) -> list[str]:
    """All reasons to escalate, cumulative (O-062, O-066 to O-070)."""
    reasons = []
    total = sum(sums.values())
    if len(leading) > 1:
        reasons.append(f"tie between {' and '.join(map(one_line, leading))} survives every tie-break")
    elif rules.share.denominator * sums[leading[0]] < rules.share.numerator * total:
        held = f"{one_line(leading[0])} holds {sums[leading[0]]} of {total} points of confidence"
        reasons.append(f"{held}, less than {percent(rules.share.numerator, rules.share.denominator)}%")
    certain = list(dict.fromkeys(each.vote for each in ballots if each.confidence == rules.certain))
    if len(certain) > 1:
        sides = " and ".join(map(one_line, certain))
        reasons.append(f"certainty ({rules.certain}) on opposite sides: {sides}")
    for each in ballots:
        cited = [word for word in keywords if word and word in each.dissent.lower()]
        if cited:
            reasons.append(f'{one_line(each.name)} dissents for a value: "{one_line(cited[0])}"')
    if aggregator == "unanimity-or-escalate":
        united = len({each.vote for each in ballots}) == 1
        if not united or min(each.confidence for each in ballots) < rules.unanimous:
            reasons.append(f"not every seat is on one side at {rules.unanimous} or more")
    return reasons


def _problems(agent: State, options: Sequence[str], rules: ConfidenceSettings) -> list[str]:
    """What a seat has to vote again for (O-061)."""
    final = agent.get("final")
    if final is None:
        return ["no final vote"]
    if not isinstance(final, dict):
        return ["final is not an object"]
    found = []
    choice, given = final.get("vote"), final.get("confidence")
    if choice not in options:
        found.append(f"vote {shown(choice)} is not one of: {', '.join(map(one_line, options))}")
    confidence = confidence_of(given)
    if confidence is None:
        found.append(f"confidence {shown(given)} is not an integer from 1 to 10")
    elif confidence == rules.forbidden:
        found.append(f"confidence {rules.forbidden} is forbidden in the vote")
    return found


def _ballot(name: str, agent: State) -> Ballot:
    final = agent["final"]
    confidence = confidence_of(final["confidence"]) or 0  # checked before: never None
    return Ballot(name, final["vote"], confidence, final.get("rationale") or "", agent.get("dissent_note") or "")
