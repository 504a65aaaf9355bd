"""The lines that a panel leaves in a log (rules M-031, M-032, M-050, M-051, M-g2, M-g6, M-g7). Pure.

A log is a Markdown file that others write to as well, so every piece of model or user text is one escaped line.
"""

from __future__ import annotations

from collections.abc import Sequence

from roundtable_local.protocols.panel.replies import Concern, Severity
from roundtable_local.protocols.panel.tally import SKEPTIC, Follows, Result
from roundtable_local.report.markdown import inline
from roundtable_local.steps import Entry


def decisions_heading(date: str) -> str:
    """Where one line per vote goes (M-050)."""
    return f"## Panel decisions {date}"


def concerns_heading(date: str) -> str:
    """Where the Skeptic's concerns go that a decision went ahead against (M-032)."""
    return f"## Panel concerns {date}"


def load_bearing(concerns: Sequence[Concern]) -> list[Concern]:
    """The HIGH concerns, then the MEDIUM ones (M-032, M-034, M-040)."""
    return [each for level in (Severity.HIGH, Severity.MEDIUM) for each in concerns if each.severity is level]


def must_log_concerns(result: Result) -> bool:
    """Whether the decision goes ahead although the Skeptic dissented (M-032, M-g2)."""
    return result.follows is Follows.PROCEED and SKEPTIC in result.dissenters


def vote_line(result: Result, decision: str, outcome: str, concerns: Sequence[Concern], reason: str) -> str:
    """The one line of a vote (M-051, M-g2, M-g6, M-g7).

    Args:
        result: of the vote.
        decision: its name.
        outcome: what is done if the artifact goes ahead.
        concerns: the Skeptic's.
        reason: what the panel split on, where no concern says it.
    """
    titles = [each.title for each in load_bearing(concerns)]
    if result.follows is Follows.ESCALATE:
        invalid = f" ({', '.join(f'{seat} invalid' for seat in result.invalid)})" if result.invalid else ""
        about = inline("; ".join(titles) or reason)
        return f"- [escalated to user] {inline(decision)}: panel split {result.accepts}/3{invalid} on {about}"
    line = f"- [{', '.join(_tags(result))}] {inline(decision)}: {inline(outcome)}"
    if must_log_concerns(result):
        line += f" (concerns logged: {inline('; '.join(titles) or 'none')})"
    return line


def _tags(result: Result) -> list[str]:
    tags = [f"{result.accepts}/3 accept"]
    if result.follows is Follows.PROCEED:
        tags += [f"{seat} dissented" for seat in result.dissenters]
    tags += [f"{seat} invalid" for seat in result.invalid]
    return [*tags, "revising"] if result.follows is Follows.REVISE else tags


def concern_lines(decision: str, concerns: Sequence[Concern]) -> list[str]:
    """A line per HIGH and MEDIUM concern (M-032, M-g7)."""
    return [f"- [{each.severity}] {inline(decision)}: {inline(each.concern)}" for each in load_bearing(concerns)]


def user_line(decision: str, label: str) -> str:
    """The path that the user chose, as if the panel had accepted it (M-041, M-054)."""
    return f"- [user-directed] {inline(decision)}: {inline(label)}"


def log_file(entries: Sequence[Entry]) -> str:
    """panel-log.md: the same lines below the same headings."""
    headings = dict.fromkeys(entry.heading for entry in entries)
    sections = ["\n".join([heading, *(e.text for e in entries if e.heading == heading)]) for heading in headings]
    return "\n\n".join(sections) + "\n"
