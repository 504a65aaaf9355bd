"""What seats are shown: blocks of the shared context, then the brief (M-013 to M-015, M-017, M-018)."""

from __future__ import annotations

from roundtable_local.prompts import render
from roundtable_local.protocols.panel.log import load_bearing
from roundtable_local.protocols.panel.replies import Critique, Defense, Verdict
from roundtable_local.protocols.panel.state import PanelTable, State, Vote
from roundtable_local.protocols.panel.tally import PROPONENT
from roundtable_local.steps import Block, Origin, Prompt

ROOM = "panel"
KINDS = ("goal", "proposal", "context")
"""Order of the facts in CONTEXT (M-015)."""

ORDINALS = {1: "FIRST", 2: "SECOND"}


def shared(state: State, artifact: str) -> tuple[Block, Block]:
    """What every prompt begins with, byte for byte (M-013, M-014); a revised artifact replaces the first (M-g5)."""
    facts = [fact for kind in KINDS for fact in state.table.facts if fact.kind == kind]
    origin: Origin = "moderator" if state.revision else "decision"
    context = Block("CONTEXT", render(f"{ROOM}/context.j2", facts=facts).text, "facts")
    return Block("ARTIFACT", artifact, origin), context


def arguments(defense: Defense | None, critique: Critique | None) -> tuple[Block, Block]:
    """Both outputs whole, for the Arbiter alone (M-011, M-017, M-022); a lost one says so (M-g6)."""
    return (
        Block("PROPONENT'S DEFENSE", render(f"{ROOM}/defense.j2", reply=defense).text, "replies"),
        Block("SKEPTIC'S CRITIQUE", render(f"{ROOM}/critique.j2", reply=critique).text, "replies"),
    )


def against(vote: Vote) -> Block:
    """What a vote left to deal with: load-bearing critiques, the Arbiter's reasoning, the Proponent's own doubt (M-034, M-040)."""
    outputs = vote.outputs
    doubt = outputs.defense if outputs.verdicts[PROPONENT] is not Verdict.ACCEPT else None
    text = render(
        f"{ROOM}/against.j2",
        critique=outputs.critique,
        concerns=load_bearing(outputs.concerns),
        judgement=outputs.judgement,
        doubt=doubt,
    ).text
    return Block(f"{ORDINALS[vote.number]} VOTE", text, "replies")


def brief(table: PanelTable, slug: str) -> Prompt:
    """The role brief of one seat (M-018, M-020 to M-023)."""
    return render(f"{ROOM}/seat.j2", seat=table.seat(slug), language=table.language)


def revision_brief(table: PanelTable) -> Prompt:
    """What the moderator is told to revise, and how far (M-034)."""
    return render(f"{ROOM}/revision.j2", language=table.language)


def escalation_brief(state: State) -> Prompt:
    """What the moderator is told to ask of the user (M-040)."""
    return render(f"{ROOM}/escalation.j2", language=state.table.language, votes=len(state.votes))
