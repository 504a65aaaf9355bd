"""Tables, settings and replies for tests of the supermajority protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roundtable_local.config import engine_settings, read_yaml
from roundtable_local.decision import parse_decision
from roundtable_local.protocols.supermajority.debate import debate
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings
from roundtable_local.seats import Roster, Table
from roundtable_local.shipped import shipped
from roundtable_local.steps import Outcome, Publish, Replies, Turn

DECISION = "# Should we split the order system?\n\nOne application, two teams, twelve engineers."


def settings(**changes: Any) -> SupermajoritySettings:
    """The shipped settings, changed."""
    return SupermajoritySettings.model_validate(
        read_yaml(shipped("configs") / "protocols" / "supermajority.yaml") | changes
    )


def table(text: str = DECISION, **changes: Any) -> Table[SupermajoritySettings]:
    """The ten seats around a decision."""
    roster = Roster.model_validate(read_yaml(shipped("configs") / "rosters" / "supermajority.yaml"))
    decision = parse_decision(text, "decision.md", engine_settings().slug)
    return Table(roster.seats, decision, settings(**changes), "2026-03-01")


Answer = Callable[[Turn], Replies]


class Hall:
    """Drives a debate by hand: keeps turns, files, folders and notices."""

    def __init__(self, seated: Table[SupermajoritySettings], answer: Answer) -> None:
        self.turns: dict[str, Turn] = {}
        self.files: dict[str, str] = {}
        self.folders: list[str] = []
        self.notices: list[str] = []
        self.outcome = self._drive(seated, answer)

    def _drive(self, seated: Table[SupermajoritySettings], answer: Answer) -> Outcome:
        generator = debate(seated)
        sent: Any = None
        while True:
            try:
                step = generator.send(sent)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            sent = None
            if isinstance(step, Turn):
                self.turns[step.name] = step
                sent = answer(step)
            elif isinstance(step, Publish):
                self.files |= step.files
                self.folders += step.folders
                self.notices += step.notices


def round_one(target: str, slug: str = "seat") -> dict[str, Any]:
    """A round 1 reply that disagrees most with `target`."""
    return {
        "key_findings": [{"finding": f"{slug} finding {n}", "evidence": f"{slug} evidence {n}"} for n in (1, 2, 3)],
        "concerns": [f"{slug} concern {n}" for n in (1, 2)],
        "recommendations": [f"{slug} recommendation {n}" for n in (1, 2, 3, 4, 5)],
        "strongest_disagreement": {"role": target, "why": f"{slug} thinks {target} is wrong"},
    }


def round_two(targets: list[str], challengers: list[str], slug: str = "seat") -> dict[str, Any]:
    """A round 2 reply."""
    return {
        "challenges": [{"to": target, "challenge": f"{slug} challenges {target}"} for target in targets],
        "responses": {each: f"{slug} answers {each}" for each in challengers},
        "changed_since_round_1": f"{slug} changed nothing",
        "major_disagreements": [],
        "updated_recommendations": [f"{slug} final {n}" for n in (1, 2, 3)],
    }


def ballot(votes: dict[str, str], slug: str = "seat") -> dict[str, Any]:
    """A ballot; opposing votes carry a dissent."""
    lines = {}
    for rid, vote in votes.items():
        dissent = (
            f"{slug} dissents on {rid} because of | pipes and <b>tags</b>" if vote in {"DISAGREE", "DISSENT"} else ""
        )
        lines[rid] = {"rationale": f"{slug} on {rid}", "vote": vote, "confidence": "MEDIUM", "dissent": dissent}
    return {"votes": lines}


SUMMARY = {
    "executive_summary": ["First paragraph.", "Second paragraph.", "Third paragraph."],
    "risks": ["A risk to watch."],
    "research_gaps": ["A gap to close."],
}


class Script:
    """Answers every turn by hand-written replies; lets seats fail and votes vary.

    Args:
        votes: per R id, how many seats (from the first) agree; the rest disagree.
        losing: per turn, the slugs whose replies are lost.
    """

    def __init__(self, votes: dict[str, int] | None = None, losing: dict[str, list[str]] | None = None) -> None:
        self.votes = votes or {"R1": 10, "R2": 5, "R3": 1}
        self.losing = losing or {}

    def __call__(self, turn: Turn) -> Replies:
        lost = dict.fromkeys(self.losing.get(turn.name, []), "the reply was empty")
        slugs = [ask.id for ask in turn.asks]
        values = {
            ask.id: ask.reply.model_validate(self.value(turn, ask.id, slugs)) for ask in turn.asks if ask.id not in lost
        }
        return Replies(values, lost)

    def value(self, turn: Turn, slug: str, slugs: list[str]) -> dict[str, Any]:
        """The reply of one seat."""
        others = [other for other in slugs if other != slug]
        if turn.name == "round1":
            return round_one(others[0], slug)
        if turn.name == "round2":
            narrow = next(ask.narrow for ask in turn.asks if ask.id == slug)
            return round_two(others[:2], list(narrow["responses"].required), slug)  # type: ignore[union-attr]
        if turn.name.startswith("synthesis-R"):
            narrow = turn.asks[0].narrow
            number = int(turn.name.removeprefix("synthesis-R"))
            return {
                "points": list(narrow["points.*"].allowed[:4]),  # type: ignore[union-attr]
                "challenges": list(narrow["challenges.*"].allowed[:1]),  # type: ignore[union-attr]
                "title": f"Title {number}",
                "description": f"Description {number}",
                "another": "YES" if number < len(self.votes) else "NO",
            }
        if turn.name == "synthesis-disagreements":
            return {"key_disagreements": ["Whether to split at all."]}
        if turn.name == "vote":
            at = slugs.index(slug)
            return ballot({rid: "AGREE" if at < agree else "DISAGREE" for rid, agree in self.votes.items()}, slug)
        return SUMMARY
