"""The artifacts of a debate (R-011, R-g7): one file per persona and phase, one writer each, and outcomes.json. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from roundtable_local.protocols.divergence.replies import (
    Analysis,
    Closing,
    DevilAnalysis,
    DevilDiscussion,
    Discussion,
    FinalDissent,
    Own,
    Rejection,
    Scenario,
    Stance,
)
from roundtable_local.protocols.divergence.state import State
from roundtable_local.protocols.divergence.tally import Settled
from roundtable_local.report.markdown import bullets, document, inline

SKILL = "roundtable-divergence"
_BMP = 0xFFFF
"""YAML takes every character above this one as it is."""


def header(state: State) -> str:
    """The header fields of every artifact (R-051, R-g7), as YAML front matter."""
    fields = {"skill": SKILL, "date": state.table.date, "query": state.table.decision.topic}
    return "\n".join(["---", *(f"{key}: {_quoted(value)}" for key, value in fields.items()), "---"])


def _quoted(text: str) -> str:
    """A JSON string, which is a YAML string too once the characters that YAML does not allow are escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() or ord(each) > _BMP else f"\\u{ord(each):04x}" for each in quoted)


def phase_file(state: State, phase: str, slug: str, reply: BaseModel) -> str:
    """What one persona said in one phase, whole."""
    parts = [header(state), f"# {inline(state.name_of(slug))}: {phase}"]
    if isinstance(reply, Analysis | DevilAnalysis):
        parts.append(inline(reply.analysis))
    if isinstance(reply, Closing):
        parts += [inline(reply.reflection), *_stances(reply.stances)]
    if isinstance(reply, DevilAnalysis | DevilDiscussion | FinalDissent):
        parts += [
            "## Failure scenarios",
            bullets([scenario_line(each) for each in reply.failure_scenarios] or ["None."]),
        ]
    if isinstance(reply, DevilDiscussion | FinalDissent):
        parts += [
            "## Objections",
            bullets([f"{claim}: {text}" for claim, text in reply.objections.items()] or ["None."]),
        ]
    if isinstance(reply, Closing | DevilDiscussion | FinalDissent):
        parts += _own(reply.own)
    if isinstance(reply, FinalDissent):
        parts += ["## Final dissent", inline(reply.final_dissent)]
    if isinstance(reply, Analysis | DevilAnalysis | Discussion | DevilDiscussion):
        letter = "C" if isinstance(reply, Analysis | DevilAnalysis) else "N"
        stated = [each for each in state.claims if each.id.startswith(f"{slug}.{letter}")]
        parts += [
            "## Claims",
            bullets([f"{each.id}: {each.text} Because: {each.because}" for each in stated] or ["None."]),
        ]
    return document(*parts)


def scenario_line(each: Scenario) -> str:
    """A failure scenario with its consequence."""
    return f"{each.scenario} Then: {each.consequence}"


def _stances(stances: Mapping[str, Stance]) -> Sequence[str]:
    lines = []
    for claim, stance in stances.items():
        if isinstance(stance, Rejection):
            grounds = "; ".join(f"({ground.kind}) {ground.text}" for ground in stance.grounds)
            lines.append(f"REJECT {claim}: {grounds}")
        else:
            lines.append(f"{stance.stance} {claim}: {stance.reason}")
    return ["## Stances", bullets(lines or ["None."])]


def _own(own: Mapping[str, Own]) -> Sequence[str]:
    return [
        "## Own claims",
        bullets([f"{each.stance} {claim}: {each.reason}" for claim, each in own.items()] or ["None."]),
    ]


def outcomes_file(state: State) -> str:
    """outcomes.json: every claim with what became of it, and the final dissent."""
    last = state.round2.get(state.devil.slug)
    data = {
        "skill": SKILL,
        "date": state.table.date,
        "query": state.table.decision.topic,
        "claims": [_claim(state, each) for each in state.settled()],
        "final_dissent": last.final_dissent if isinstance(last, FinalDissent) else None,
        "failure_scenarios": [each.model_dump(mode="json") for each in (state.scenarios() or [[]])[-1]],
        "lost": state.lost,
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _claim(state: State, each: Settled) -> Mapping[str, Any]:
    said = state.latest(state.devil.slug)
    objections = said.objections if isinstance(said, DevilDiscussion | FinalDissent) else {}
    return {
        "id": each.claim.id,
        "author": each.claim.author,
        "claim": each.claim.text,
        "because": each.claim.because,
        "category": each.category,
        "holders": list(each.holders),
        "rejections": [
            {"by": one.seat, "void": one.void, "grounds": [ground.model_dump(mode="json") for ground in one.grounds]}
            for one in each.rejections
        ],
        "objection": objections.get(each.claim.id),
    }
