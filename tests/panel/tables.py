"""Tables and replies for tests of the panel protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roundtable_local.config import engine_settings, read_yaml
from roundtable_local.decision import parse_decision
from roundtable_local.protocols.panel.debate import debate
from roundtable_local.protocols.panel.settings import PanelSettings
from roundtable_local.seats import Fact, Roster, Table
from roundtable_local.shipped import shipped
from roundtable_local.steps import Answer, Replies, Turn
from tests.halls import Hall

ARTIFACT = "# Wrap the old parser\n\nOption A: refactor it. Option B: wrap it. Recommended: B."
DATE = "2026-05-21"
SEATS = ("proponent", "skeptic", "arbiter")
FACTS = (
    Fact(kind="context", title="CONVENTIONS.md", text="Errors name their fix."),
    Fact(kind="proposal", title="proposal.md", text="## Approach\n\nWrap it."),
    Fact(kind="goal", title="goal", text="Ship the importer in June."),
)
CONCERNS = [
    {"part": "step 1", "concern": "The name is | a matter\nof taste.", "severity": "low", "title": "taste"},
    {
        "part": "step 4",
        "concern": "Two writers race for one file.",
        "severity": "medium",
        "title": "race risk in step 4",
    },
    {"part": "step 2", "concern": "Nothing tells how to go *back*.", "severity": "high", "title": "no way back"},
]

Triple = tuple[str | None, str | None, str | None]
"""Verdicts of proponent, skeptic and arbiter; None where the seat is lost."""

ACCEPTED: Triple = ("accept", "accept", "accept")
SPLIT: Triple = ("accept", "revise", "revise")


def settings(**changes: Any) -> PanelSettings:
    """The shipped settings, changed."""
    return PanelSettings.model_validate(read_yaml(shipped("configs") / "protocols" / "panel.yaml") | changes)


def table(
    text: str = ARTIFACT,
    *,
    facts: tuple[Fact, ...] = FACTS,
    source: str = "decision.md",
    language: str = "English",
    caveats: tuple[str, ...] = (),
    **changes: Any,
) -> Table[PanelSettings]:
    """The three seats around an artifact."""
    roster = Roster.model_validate(read_yaml(shipped("configs") / "rosters" / "panel.yaml"))
    decision = parse_decision(text, source, engine_settings().slug)
    return Table(roster.seats, decision, settings(**changes), DATE, facts=facts, language=language, caveats=caveats)


class Script:
    """Answers every turn by hand-written replies.

    Args:
        votes: verdicts of the first and of the second vote.
        concerns: the Skeptic's, in both.
    """

    def __init__(self, *votes: Triple, concerns: Sequence[dict[str, str]] = CONCERNS) -> None:
        self.votes = votes
        self.concerns = concerns

    def __call__(self, turn: Turn) -> Replies:
        values, lost = {}, {}
        for ask in turn.asks:
            value = self.value(turn.name, ask.id)
            if value is None:
                lost[ask.id] = "the reply was empty"
            else:
                values[ask.id] = ask.reply.model_validate(value)
        return Replies(values, lost)

    def value(self, turn: str, seat: str) -> dict[str, Any] | None:
        """One reply; None where it is lost."""
        if turn == "revision":
            return {"changes": ["Step 2 says how to go | back."], "artifact": "# Wrap it\n\n- with a *way* back\n"}
        if turn == "escalation":
            choices = [
                {"label": "Wrap it now", "consequence": "The old parser stays for a year."},
                {"label": "Refactor first", "consequence": "The importer ships in July."},
            ]
            return {"question": "Is a later importer worth a clean parser?", "choices": choices}
        number = int(turn.removeprefix("vote")[0])
        verdict = self.votes[number - 1][SEATS.index(seat)]
        if verdict is None:
            return None
        said: dict[str, dict[str, Any]] = {
            "proponent": {"points": [{"point": "It ships <b>soon</b>.", "evidence": "The goal names June."}]},
            "skeptic": {"concerns": list(self.concerns)},
            "arbiter": {"load_bearing": ["The race decides; taste does not."]},
        }
        outcome, reason = f"{seat} outcome {number}", f"{seat} reason {number}."
        return {**said[seat], "outcome": outcome, "reason": reason, "verdict": verdict}


def hall(*votes: Triple, answers: dict[str, Answer] | None = None, seated: Table[Any] | None = None) -> Hall:
    """A whole debate with these verdicts."""
    return Hall(debate(seated or table()), Script(*votes), answers)
