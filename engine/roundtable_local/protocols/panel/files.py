"""The run directory's files up to the report, rendered by code from replies (M-020 to M-023, M-034). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from roundtable_local.protocols.panel.replies import Concern, Critique, Defense, Judgement, Output
from roundtable_local.protocols.panel.state import Vote
from roundtable_local.protocols.panel.tally import SEATS
from roundtable_local.report.markdown import document, inline, numbered

NO_CONCERNS = "No concerns."


def vote_files(vote: Vote) -> Mapping[str, str]:
    """vote1/{seat}.md or vote2/{seat}.md of every seat that replied."""
    outputs = {seat: vote.outputs.of(seat) for seat in SEATS}
    return {f"vote{vote.number}/{seat}.md": output_file(output) for seat, output in outputs.items() if output}


def output_file(output: Output) -> str:
    """An output with the headings of its seat (M-020 to M-022), and the verdict's line (M-023)."""
    return document(*_body(output), "## Verdict", f"{output.verdict}: {inline(output.reason)}")


def _body(output: Output) -> tuple[str, str]:
    match output:
        case Defense():
            return "## Defense", numbered(f"{each.point} (Evidence: {each.evidence})" for each in output.points)
        case Critique():
            return "## Critique", numbered(concern_text(each) for each in output.concerns) or NO_CONCERNS
        case Judgement():
            return "## Reasoning", numbered(output.load_bearing)


def concern_text(concern: Concern) -> str:
    """A concern in one line, its severity first (M-021)."""
    return f"{concern.severity}: {concern.title} ({concern.part}): {concern.concern}"


def revised_file(artifact: str) -> str:
    """revised.md: the draft that the second vote judges, word for word. It is a whole document, so nothing is escaped."""
    return artifact + "\n"
