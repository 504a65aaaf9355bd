"""Tables, settings and replies for tests of the supermajority protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roundtable_local.codebase import Codebase
from roundtable_local.config import engine_settings, read_yaml
from roundtable_local.decision import parse_decision
from roundtable_local.protocols.supermajority.debate import debate
from roundtable_local.protocols.supermajority.settings import SupermajoritySettings
from roundtable_local.seats import Overlays, PersonaFile, Roster, Table, assign_personas
from roundtable_local.shipped import shipped
from roundtable_local.steps import Outcome, Publish, Replies, Turn

DECISION = "# Should we split the order system?\n\nOne application, two teams, twelve engineers."


def settings(**changes: Any) -> SupermajoritySettings:
    """The shipped settings, changed."""
    return SupermajoritySettings.model_validate(
        read_yaml(shipped("configs") / "protocols" / "supermajority.yaml") | changes
    )


def table(
    text: str = DECISION,
    *,
    personas: dict[str, str] | None = None,
    dissent: tuple[str, ...] = (),
    codebase: Codebase | None = None,
    **changes: Any,
) -> Table[SupermajoritySettings]:
    """The ten seats around a decision."""
    roster = Roster.model_validate(read_yaml(shipped("configs") / "rosters" / "supermajority.yaml"))
    decision = parse_decision(text, "decision.md", engine_settings().slug)
    known = PersonaFile.model_validate(read_yaml(shipped("configs") / "personas.yaml")).personas
    assigned, _ = assign_personas(personas or {}, roster.seats, known)
    overlays = Overlays(assigned, dissent)
    return Table(roster.seats, decision, settings(**changes), "2026-03-01", overlays=overlays, codebase=codebase)


ALL = [seat["slug"] for seat in read_yaml(shipped("configs") / "rosters" / "supermajority.yaml")["seats"]]

Answer = Callable[[Turn], Replies]


class Hall:
    """Drives a debate by hand: keeps turns, files, folders and notices."""

    def __init__(self, seated: Table[SupermajoritySettings], answer: Answer) -> None:
        self.turns: dict[str, Turn] = {}
        self.files: dict[str, str] = {}
        self.writes: list[str] = []
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
                self.writes.append(f"ask {step.name} {len(step.asks)}")
                sent = answer(step)
            elif isinstance(step, Publish):
                self.files |= step.files
                self.writes += step.files
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


def round_two(
    targets: list[str], challengers: list[str], slug: str = "seat", *, disagrees: bool = True
) -> dict[str, Any]:
    """A round 2 reply."""
    return {
        "challenges": [{"to": target, "challenge": f"{slug} challenges {target}"} for target in targets],
        "responses": {each: f"{slug} answers {each}" for each in challengers},
        "changed_since_round_1": f"{slug} changed nothing",
        "major_disagreements": [f"{slug} disagrees on the order"] if disagrees else [],
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


def stances(rids: list[str], passage: str, slug: str = "seat") -> dict[str, Any]:
    """A round 3 reply: keep the first recommendation, modify the second, challenge the rest."""
    lines: dict[str, Any] = {}
    for number, rid in enumerate(rids):
        line: dict[str, Any] = {"reason": f"{slug} on {rid}", "evidence": [passage]}
        if number == 0:
            line |= {"stance": "KEEP", "status": "EXISTS", "retry": "a smaller step"}
        elif number == 1:
            line |= {"stance": "MODIFY", "status": "PARTIAL", "modification": f"{slug} modifies {rid}"}
        else:
            line |= {"stance": "CHALLENGE", "status": "NOT_ATTEMPTED"}
        lines[rid] = line
    return {"observations": [{"observation": f"{slug} observes", "evidence": passage}], "stances": lines}


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
        content: how many seats (from the first) name no major disagreement.
        revote: how many seats agree to each compromise.
    """

    def __init__(
        self,
        votes: dict[str, int] | None = None,
        losing: dict[str, list[str]] | None = None,
        content: int = 0,
        revote: int = 0,
    ) -> None:
        self.votes = votes or {"R1": 10, "R2": 5, "R3": 1}
        self.losing = losing or {}
        self.content = content
        self.revote = revote

    def __call__(self, turn: Turn) -> Replies:
        lost = dict.fromkeys(self.losing.get(turn.name, []), "the reply was empty")
        slugs = [ask.id for ask in turn.asks] if len(turn.asks) > 1 else ALL  # one at a time, others sit there too
        values = {
            ask.id: ask.reply.model_validate(self.value(turn, ask.id, slugs)) for ask in turn.asks if ask.id not in lost
        }
        return Replies(values, lost)

    def value(self, turn: Turn, slug: str, slugs: list[str]) -> dict[str, Any]:
        """The reply of one seat."""
        ask = next(ask for ask in turn.asks if ask.id == slug)
        allowed = {path: getattr(rule, "allowed", getattr(rule, "required", ())) for path, rule in ask.narrow.items()}
        value = self._value(turn, slug, slugs, allowed)
        if "unstated_assumption" in ask.reply.model_fields:
            value["unstated_assumption"] = f"{slug} assumes: | quoted <b> text"
        return {key: value[key] for key in ask.reply.model_fields}

    def _value(self, turn: Turn, slug: str, slugs: list[str], allowed: dict[str, Any]) -> dict[str, Any]:
        others = [other for other in slugs if other != slug]
        if turn.name == "round1":
            return round_one(others[0], slug)
        if turn.name in {"round2", "round2-challenges"}:
            disagrees = slugs.index(slug) >= self.content
            return round_two(others[:2], list(allowed.get("responses", ())), slug, disagrees=disagrees)
        if turn.name == "supplement":
            return {"flaw": f"{slug} flaw", "missed": f"{slug} missed", "wrong_assumption": f"{slug} assumption"}
        if turn.name.startswith("synthesis-R"):
            return self._merged(int(turn.name.removeprefix("synthesis-R")), allowed)
        if turn.name == "synthesis-disagreements":
            return {"key_disagreements": ["Whether to split at all."]}
        if turn.name == "round3":
            return stances(list(allowed["stances"]), allowed["observations.*.evidence"][0], slug)
        if turn.name == "compromise":
            compromise = {"description": f"{slug} proposes less", "title": f"Less by {slug}"}
            return {"compromises": dict.fromkeys(allowed["compromises"], compromise)}
        if turn.name in {"vote", "revote"}:
            against = "DISSENT" if "DISSENT" in allowed["votes.*.vote"] else "DISAGREE"
            agree = self.votes if turn.name == "vote" else dict.fromkeys(allowed["votes"], self.revote)
            return ballot(
                {rid: "AGREE" if slugs.index(slug) < number else against for rid, number in agree.items()}, slug
            )
        return SUMMARY

    def _merged(self, number: int, allowed: dict[str, Any]) -> dict[str, Any]:
        return {
            "points": list(allowed["points.*"][:4]),
            "challenges": list(allowed["challenges.*"][:1]),
            "title": f"Title {number}",
            "description": f"Description {number}",
            "another": "YES" if number < len(self.votes) else "NO",
        }
