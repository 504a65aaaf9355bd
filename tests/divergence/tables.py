"""Tables and replies for tests of the divergence protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roundtable_local.config import engine_settings, read_yaml
from roundtable_local.decision import parse_decision
from roundtable_local.protocols.divergence.debate import debate
from roundtable_local.protocols.divergence.settings import DivergenceSettings
from roundtable_local.seats import Fact, Roster, Seat, Table
from roundtable_local.shipped import shipped
from roundtable_local.steps import Keys, Replies, Turn
from tests.halls import Hall

DEVIL = "critic-devil"
OTHERS = ("architect", "implementer", "user-advocate")
DECISION = "# Should we split the order system?\n\nOne application, two teams."
THREE = [{"text": "it was measured twice", "kind": "evidence"}, {"text": "it costs a year", "kind": "cost"},
         {"text": "nobody can build it", "kind": "feasibility"}]  # fmt: skip


def settings(**changes: Any) -> DivergenceSettings:
    """The shipped settings, changed."""
    return DivergenceSettings.model_validate(read_yaml(shipped("configs") / "protocols" / "divergence.yaml") | changes)


def roster() -> tuple[Seat, ...]:
    return Roster.model_validate(read_yaml(shipped("configs") / "rosters" / "divergence.yaml")).seats


def table(
    seats: tuple[Seat, ...] | None = None, *, text: str = DECISION, language: str = "English", **changes: Any
) -> Table[DivergenceSettings]:
    """The personas around a decision."""
    decision = parse_decision(text, "decision.md", engine_settings().slug)
    facts = (Fact(kind="context", title="load.md", text="900 orders an hour"),)
    return Table(seats or roster(), decision, settings(**changes), "2026-03-01", facts=facts, language=language)


def person(slug: str, *, devil: bool = False) -> Seat:
    return Seat(slug=slug, name=slug.title(), soul=f"The soul of {slug}.", source=f"{slug}.md", devils_advocate=devil)


class Script:
    """Answers every turn by hand-written replies.

    Args:
        stances: (seat, claim id) -> stance in both rounds, SUPPORT where missing; a list is the grounds of a rejection.
        withdrawn: ids of claims that their authors withdraw in round 2.
        scenarios: how many failure scenarios the devil's advocate names per turn; one where missing.
        added: seats that add a claim in round 1.
        losing: per turn, the seats whose replies are lost.
    """

    def __init__(
        self,
        stances: Mapping[tuple[str, str], Any] | None = None,
        *,
        withdrawn: tuple[str, ...] = (),
        scenarios: Mapping[str, int] | None = None,
        added: tuple[str, ...] = (),
        losing: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.stances = stances or {}
        self.withdrawn = withdrawn
        self.scenarios = scenarios or {}
        self.added = added
        self.losing = losing or {}

    def __call__(self, turn: Turn) -> Replies:
        lost = dict.fromkeys(self.losing.get(turn.name, []), "the reply was empty")
        values = {}
        for ask in turn.asks:
            if ask.id not in lost:
                keys = {path: rule.required for path, rule in ask.narrow.items() if isinstance(rule, Keys)}
                values[ask.id] = ask.reply.model_validate(self.value(turn.name, ask.id, keys, ask.reply.__name__))
        return Replies(values, lost)

    def value(self, turn: str, slug: str, keys: Mapping[str, tuple[str, ...]], kind: str) -> dict[str, Any]:
        """The reply of one seat."""
        if turn == "report":
            return {
                "executive_summary": ["They differ on the order."],
                "disputes": {claim: f"they weigh {claim} differently" for claim in keys["disputes"]},
                "recommended_actions": ["Measure first."],
                "limits": ["Nobody asked the users."],
            }
        scenarios = [
            {"scenario": f"{turn} failure {number}", "consequence": f"{turn} consequence {number}"}
            for number in range(self.scenarios.get(turn, 1))
        ]
        claim = {"because": f"{slug} has reasons", "claim": f"{slug} holds this"}
        if kind in {"Analysis", "DevilAnalysis"}:
            said: dict[str, Any] = {"analysis": f"{slug} analyses alone", "claims": [claim]}
            return said | ({"failure_scenarios": scenarios} if kind == "DevilAnalysis" else {})
        own = {
            each: {
                "reason": f"{slug} on its own",
                "stance": "WITHDRAW" if "2" in turn and each in self.withdrawn else "HOLD",
            }
            for each in keys["own"]
        }
        added = {"new_claims": [claim] if slug in self.added else []} if turn.startswith("round1") else {}
        if slug == DEVIL or "objections" in keys:
            objections = {each: f"{slug} objects to {each}" for each in keys["objections"]}
            final = {"final_dissent": "It will fail all the same."} if turn.startswith("round2") else {}
            return {"failure_scenarios": scenarios, "objections": objections, "own": own} | added | final
        stances = {each: self.stance(slug, each) for each in keys["stances"]}
        return {"reflection": f"{slug} reflects", "stances": stances, "own": own} | added

    def stance(self, slug: str, claim: str) -> dict[str, Any]:
        """One stance."""
        given = self.stances.get((slug, claim), "SUPPORT")
        if isinstance(given, list):
            return {"grounds": given, "stance": "REJECT"}
        return {"reason": f"{slug} on {claim}", "stance": given}


def hold(script: Script | None = None, seated: Table[DivergenceSettings] | None = None) -> Hall:
    """A debate, driven to its outcome."""
    return Hall(debate(seated or table()), script or Script())
