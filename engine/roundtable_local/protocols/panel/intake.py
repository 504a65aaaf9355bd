"""What happens to the table before anything runs: the inline quorum and proposals that are too long. Pure.

Nothing is cut silently: a proposal is shown whole, or one named section of it is, or the run is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, get_args

from roundtable_local.decision import QUESTION, STDIN, Decision
from roundtable_local.protocols.panel.settings import PanelSettings, Quorum
from roundtable_local.protocols.panel.state import PanelTable
from roundtable_local.report.markdown import prose_lines
from roundtable_local.seats import Fact
from roundtable_local.steps import Refused

Section = Literal["approach", "success-criteria"]
Count = Callable[[str], int]

_SECTIONS: Mapping[Section, str] = {"approach": "## Approach", "success-criteria": "## Success criteria"}
_QUORUM = re.compile(
    r"(?:\s*[—–(]|\s+--?)\s*quorum[ \t]*[:=]?[ \t]*(\d+)[ \t]*/[ \t]*(\d+)[ \t]*\)?[.?!]?\s*\Z", re.IGNORECASE
)
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")


def intake(table: PanelTable, count: Count) -> tuple[PanelTable, tuple[str, ...]]:
    """The table as the panel needs it, and notices (M-004, M-016, M-g3, M-g9).

    Raises:
        Refused: a quorum that is none, an artifact too long to be revised, or a long proposal without the section.
    """
    table, notices = _inline_quorum(table)
    _check_length(table.decision, table.settings)
    facts = []
    for fact in table.facts:
        fitting, said = _fitting(fact, table, count)
        facts.append(fitting)
        notices += said
    return replace(table, facts=tuple(facts)), tuple(notices)


def _inline_quorum(table: PanelTable) -> tuple[PanelTable, list[str]]:
    """A question may end in its quorum, as in "Wrap it? — quorum 3/3" (M-004); it goes before the settings."""
    decision = table.decision
    found = _QUORUM.search(decision.text) if decision.source in {QUESTION, STDIN} else None
    if found is None:
        return table, []
    wanted = f"{found[1]}/{found[2]}"
    quorum: Quorum | None = next((each for each in get_args(Quorum) if each == wanted), None)
    if quorum is None:
        raise Refused(f"{wanted} is no quorum of a panel", "ask for quorum 2/3 or 3/3")
    if "quorum" in table.given and quorum != table.settings.quorum:
        raise Refused(
            f"the decision asks for quorum {quorum} and the command line for {table.settings.quorum}",
            "leave one of them out",
        )
    text = decision.text[: found.start()]
    if not text.strip():
        raise Refused("the decision names a quorum and nothing to decide", "write the decision before the quorum")
    named = replace(decision, text=text, topic=_QUORUM.sub("", decision.topic) or text)
    settings = table.settings.model_copy(update={"quorum": quorum})
    return replace(table, decision=named, settings=settings), [f"quorum {quorum}, as the decision asks (M-004)"]


def _check_length(decision: Decision, settings: PanelSettings) -> None:
    """An artifact that could not be written anew cannot be revised either (M-034)."""
    length, most = len(decision.text), settings.draft.maximum
    if settings.votes > 1 and length > most:
        raise Refused(
            f"the artifact has {length:,} characters; a revised draft of it may have {most:,}",
            f"shorten it by {length - most:,} characters, judge its parts one by one, or allow no revision: --set votes=1",
        )


def _fitting(fact: Fact, table: PanelTable, count: Count) -> tuple[Fact, list[str]]:
    """A proposal over the limit is replaced by the section that the decision is about (M-016, M-g9)."""
    limit, tokens = table.settings.proposal_tokens, count(fact.text)
    if fact.kind != "proposal" or tokens <= limit:
        return fact, []
    wanted = _wanted(table)
    section = _section(fact.text, wanted)
    if section is None:
        other = next(name for name in _SECTIONS if name != wanted)
        hint = f"name --focus {other}" if _section(fact.text, other) else f"give it a section {_SECTIONS[wanted]}"
        raise Refused(
            f"{fact.title} has {tokens:,} tokens, more than {limit:,}, and no section {_SECTIONS[wanted]} to show instead",
            f"{hint}, or shorten it",
        )
    said = (
        f"{fact.title} has {tokens:,} tokens, more than {limit:,}: only its section {_SECTIONS[wanted]} is shown, "
        f"{count(section):,} tokens (focus {table.settings.focus}, M-016)"
    )
    return fact.model_copy(update={"text": section}), [said]


def _wanted(table: PanelTable) -> Section:
    """The section that the setting names, else the one that the artifact's words call for (M-g9)."""
    if table.settings.focus != "auto":
        return table.settings.focus
    words = "|".join(map(re.escape, table.settings.completion_words))
    completes = words and re.search(rf"\b(?:{words})\b", table.decision.text, re.IGNORECASE)
    return "success-criteria" if completes else "approach"


def _section(text: str, wanted: Section) -> str | None:
    """The first section of that name with text in it, from its heading up to the next of its level or above."""
    lines = text.splitlines()
    headings = list(_headings(lines))
    for index, (start, level, title) in enumerate(headings):
        if title != _name(_SECTIONS[wanted].lstrip("# ")):
            continue
        later = headings[index + 1 :]
        end = next((line for line, other, _ in later if other <= level), len(lines))
        if any(line.strip() for line in lines[start + 1 : end]):
            return "\n".join(lines[start:end]).strip()
    return None


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Line, level and plain name of every ATX heading outside fenced code."""
    for index in prose_lines(lines):
        if heading := _HEADING.match(lines[index]):
            yield index, len(heading[1]), _name(heading[2] or "")


def _name(title: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", title)).casefold()
