"""Before the debate: inline quorum, long proposals, long artifacts, settings (M-003, M-004, M-016, M-034, M-g3, M-g9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from roundtable_local.decision import QUESTION
from roundtable_local.protocols.panel.debate import PROTOCOL
from roundtable_local.protocols.panel.intake import intake
from roundtable_local.seats import Fact
from roundtable_local.steps import Refused
from tests.panel.tables import FACTS, settings, table

APPROACH = "## Approach\n\nWrap it, see:\n\n```\n## Success criteria\n```\n\n### Steps\n\nOne."
CRITERIA = "## Success criteria\n\nAll files import."
PROPOSAL = f"# Proposal\n\nLong.\n\n{APPROACH}\n\n{CRITERIA}\n\n## Approach\n\nAnother."


def words(text: str) -> int:
    return len(text.split())


def took(
    proposal: str = PROPOSAL, decision: str = "# Pick one\n\nA or B.", **changes: Any
) -> tuple[str, tuple[str, ...]]:
    """Text of the proposal as the panel will see it, and the notices."""
    fact = Fact(kind="proposal", title="proposal.md", text=proposal)
    seated, notices = intake(table(decision, facts=(fact,), **{"proposal_tokens": 5, **changes}), words)
    return seated.facts[0].text, notices


# --- inline quorum


@pytest.mark.parametrize(
    ("argument", "text", "quorum"),
    [
        ("Wrap or refactor? — quorum 3/3", "Wrap or refactor?", "3/3"),
        ("Wrap or refactor? - quorum 2/3", "Wrap or refactor?", "2/3"),
        ("Wrap or refactor? -- Quorum: 3 / 3.", "Wrap or refactor?", "3/3"),
        ("Wrap or refactor?–quorum 3/3\n", "Wrap or refactor?", "3/3"),
        ("Wrap?\n\nA or B. — quorum 3/3", "Wrap?\n\nA or B.", "3/3"),
        ("Does it need a quorum 3/3", "Does it need a quorum 3/3", "2/3"),
        ("Use a sub-quorum 3/3", "Use a sub-quorum 3/3", "2/3"),
        ("With — quorum 3/3 or without?", "With — quorum 3/3 or without?", "2/3"),
    ],
)
def test_a_question_may_end_in_its_quorum_m_004(argument: str, text: str, quorum: str) -> None:
    seated, notices = intake(table(argument, source=QUESTION), words)
    assert (seated.decision.text, seated.settings.quorum) == (text, quorum)
    assert seated.decision.topic == text.split("\n", maxsplit=1)[0]
    assert bool(notices) is (text != argument.strip())


def test_the_inline_quorum_goes_before_the_settings_m_004_m_063() -> None:
    seated, notices = intake(table("Wrap it? — quorum 2/3", source=QUESTION, quorum="3/3"), words)
    assert seated.settings.quorum == "2/3"
    assert notices == ("quorum 2/3, as the decision asks (M-004)",)


@pytest.mark.parametrize("ratio", ["1/3", "0/3", "3/2", "2/4", "33/3"])
def test_other_quorums_are_refused_m_g3(ratio: str) -> None:
    with pytest.raises(Refused, match=f"{ratio} is no quorum") as caught:
        intake(table(f"Wrap it? — quorum {ratio}", source=QUESTION), words)
    assert caught.value.fix == "ask for quorum 2/3 or 3/3"


def test_a_quorum_without_a_decision_is_refused_m_004() -> None:
    with pytest.raises(Refused, match="nothing to decide"):
        intake(table("— quorum 3/3", source=QUESTION), words)


def test_the_text_of_a_file_is_not_read_for_a_quorum_m_003() -> None:
    seated, notices = intake(table("Writes need this: — quorum 3/3"), words)
    assert (seated.decision.text, seated.settings.quorum, notices) == ("Writes need this: — quorum 3/3", "2/3", ())


# --- long proposals


@pytest.mark.parametrize(
    ("focus", "decision", "section"),
    [
        ("auto", "Pick an approach.", APPROACH),
        ("auto", "Is it DONE?", CRITERIA),
        ("auto", "Completion check\n\nof the importer", CRITERIA),
        ("auto", "Verified enough?", CRITERIA),
        ("auto", "Is it an abandoned undone task?", APPROACH),
        ("approach", "Is it done?", APPROACH),
        ("success-criteria", "Pick an approach.", CRITERIA),
    ],
)
def test_the_section_that_the_decision_is_about_m_016_m_g9(focus: str, decision: str, section: str) -> None:
    text, notices = took(decision=decision, focus=focus)
    assert text == section
    name = "## Approach" if section == APPROACH else "## Success criteria"
    assert notices == (
        f"proposal.md has {words(PROPOSAL)} tokens, more than 5: only its section {name} is shown, "
        f"{words(section)} tokens (focus {focus}, M-016)",
    )


def test_a_proposal_within_the_limit_is_shown_whole_m_016() -> None:
    exact = words(PROPOSAL)
    assert took(proposal_tokens=exact) == (PROPOSAL, ())
    assert took(proposal_tokens=exact - 1)[0] == APPROACH


def test_other_facts_have_no_limit_m_016() -> None:
    facts = tuple(fact.model_copy(update={"text": PROPOSAL}) for fact in FACTS if fact.kind != "proposal")
    seated, notices = intake(table(facts=facts, proposal_tokens=5), words)
    assert (seated.facts, notices) == (facts, ())


@pytest.mark.parametrize(
    "heading", ["# APPROACH", "## approach ##", "###   **Approach:**", "   ## Approach", "#### _approach_"]
)
def test_forms_of_the_heading_m_016(heading: str) -> None:
    assert took(f"# Before\n\nx x x x x\n\n{heading}\n\nThis.\n")[0] == f"{heading}\n\nThis.".strip()


def test_the_criteria_heading_may_have_a_hyphen_m_016() -> None:
    assert took("a b c d e\n\n## Success-Criteria\nx", focus="success-criteria")[0] == "## Success-Criteria\nx"


@pytest.mark.parametrize(
    "proposal",
    [
        "no headings at all in here, only prose",
        "    ## Approach\n\nindented code is no heading, this is prose",
        "##Approach\n\nno blank, no heading, only prose here",
        "```\n## Approach\n\nfenced\n```\nand some more words",
        "~~~~ md\n## Approach\n~~~\n```\nstill fenced, never closed here",
        "## Approaches\n\nand some more words, but another heading",
        "## Approach\n\n## Next\n\nthe section is empty, which is none",
    ],
)
def test_without_the_section_the_run_is_refused_and_nothing_is_cut_m_016(proposal: str) -> None:
    with pytest.raises(Refused, match="no section ## Approach to show instead") as caught:
        took(proposal)
    assert caught.value.fix == "give it a section ## Approach, or shorten it"


def test_the_fix_names_the_focus_that_would_work_m_g9() -> None:
    with pytest.raises(Refused) as caught:
        took(f"one two three four five\n\n{CRITERIA}")
    assert caught.value.fix == "name --focus success-criteria, or shorten it"


@given(
    st.lists(st.sampled_from(["## Approach", "# A", "### B", "```", "~~~", "text", "", "> ## Approach"]), max_size=12)
)
def test_a_section_is_a_part_of_the_proposal_that_begins_with_its_heading_m_016(lines: list[str]) -> None:
    proposal = "\n".join(["six words make this too long", *lines])
    try:
        text, _ = took(proposal)
    except Refused:
        return
    assert text in proposal
    assert text.split("\n")[0] == "## Approach"
    assert text.count("\n") >= 1


# --- long artifacts


def test_an_artifact_that_no_draft_could_replace_is_refused_with_numbers_m_034() -> None:
    seated, _ = intake(table("x" * 12_000), words)
    assert len(seated.decision.text) == 12_000
    with pytest.raises(Refused, match="has 12,001 characters; a revised draft of it may have 12,000") as caught:
        intake(table("x" * 12_001), words)
    assert "shorten it by 1 characters" in caught.value.fix
    assert "--set votes=1" in caught.value.fix
    intake(table("x" * 12_001, votes=1), words)


# --- settings


def test_shipped_settings_m_004_m_016_m_035() -> None:
    shipped = settings()
    assert (shipped.quorum, shipped.votes, shipped.focus, shipped.proposal_tokens) == ("2/3", 2, "auto", 2000)
    assert shipped.escalation == "ask"


@pytest.mark.parametrize(
    "changes",
    [
        {"quorum": "1/3"},  # M-g3
        {"quorum": "0/3"},
        {"quorum": 2},
        {"votes": 3},  # M-035
        {"votes": 0},
        {"focus": "goals"},
        {"escalation": "never"},
        {"proposal_tokens": 0},
        {"draft": {"factor": 1.25, "minimum": 1200, "maximum": 12001}},
        {"draft": {"factor": 1.25, "minimum": 1200, "maximum": 1199}},
        {"draft": {"factor": 0.9, "minimum": 1200, "maximum": 12000}},
        {"quorums": "2/3"},
    ],
)
def test_other_settings_are_errors_m_035_m_g3(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(**changes)


def test_the_room_takes_tables_in_m_016() -> None:
    assert PROTOCOL.intake is intake
