"""What becomes of claims, and what a rejection is worth (R-014 to R-018, R-g1 to R-g3)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundtable_local.protocols.divergence.replies import Ground, Kind
from roundtable_local.protocols.divergence.tally import Category, Stated, distinct, is_void, settle

ROSTER = ("architect", "critic-devil", "implementer", "user-advocate")
OTHERS = ("architect", "implementer", "user-advocate")
CLAIM = Stated("architect.C1", "architect", "reasons", "the claim")


def ground(text: str, kind: str) -> Ground:
    return Ground(text=text, kind=Kind(kind))


def category(*holders: str, agreeing: tuple[str, ...] = OTHERS) -> Category:
    (settled,) = settle([CLAIM], {slug: ["architect.C1"] for slug in holders}, [], ROSTER, agreeing)
    left = {"critic-devil"} if settled.category is Category.CONSENSUS else set()  # it leaves what all agree on
    assert settled.holders == tuple(slug for slug in ROSTER if slug in holders and slug not in left)
    return settled.category


@pytest.mark.parametrize(
    ("holders", "expected"),
    [
        ((), "withdrawn"),
        (("architect",), "minority"),
        (("implementer",), "minority"),  # its author withdrew it, another holds it
        (("critic-devil",), "minority"),  # R-g1: a unique claim of the devil's advocate
        (("architect", "implementer"), "open"),
        (("architect", "critic-devil"), "open"),
        (OTHERS, "consensus"),  # R-g1: the devil's advocate is not asked
        (ROSTER, "consensus"),
    ],
)
def test_r_g3_categories(holders: tuple[str, ...], expected: str) -> None:
    assert category(*holders) == expected


def test_r_g1_consensus_is_among_those_at_the_table() -> None:
    assert category("architect", "implementer", agreeing=("architect", "implementer")) is Category.CONSENSUS
    assert category("architect", agreeing=()) is Category.MINORITY


@pytest.mark.parametrize(
    ("grounds", "count"),
    [
        ([], 0),
        ([("a b c", "cost")], 1),
        ([("a b c", "cost"), ("d e f", "cost"), ("g h i", "cost")], 1),  # one kind is one ground
        ([("a b c", "cost"), ("A, b c!", "risk"), ("a  b c", "scope")], 1),  # one text is one ground
        ([("a b c", "cost"), ("d e f", "risk")], 2),
        ([("a b c", "cost"), ("d e f", "risk"), ("g h i", "scope")], 3),
        ([("a b c", "cost"), ("a b c", "risk"), ("d e f", "cost"), ("g h i", "scope")], 3),  # in any order
        ([("근거 하나", "cost"), ("근거 둘", "risk"), ("근거 셋", "scope")], 3),
        ([("!!! ...", "cost"), ("???", "risk"), ("—", "scope")], 0),
    ],
)
def test_r_014_r_g2_distinct_grounds(grounds: list[tuple[str, str]], count: int) -> None:
    listed = [ground(f"{text:8}" if len(text) < 8 else text, kind) for text, kind in grounds]
    assert distinct(listed) == count
    assert is_void(listed, 3) is (count < 3)


Grounds = st.lists(
    st.tuples(
        st.sampled_from(["too slow", "TOO SLOW!", "too dear", "too late", "too wide"]), st.sampled_from(list(Kind))
    ),
    max_size=5,
)


@given(Grounds, st.randoms())
def test_r_g2_the_order_of_grounds_does_not_matter(grounds: list[tuple[str, Kind]], dice: random.Random) -> None:
    listed = [ground(text, kind) for text, kind in grounds]
    shuffled = listed.copy()
    dice.shuffle(shuffled)
    assert distinct(listed) == distinct(shuffled)
    assert distinct(listed) <= min(len({kind for _, kind in grounds}), len(grounds))


@given(st.lists(st.sets(st.sampled_from(ROSTER)), min_size=1, max_size=6), st.randoms())
def test_r_g3_neither_order_of_claims_nor_of_replies_matters(held: list[set[str]], dice: random.Random) -> None:
    claims = [Stated(f"architect.C{number}", "architect", "x", "y") for number in range(len(held))]
    holding = {slug: [f"architect.C{number}" for number, who in enumerate(held) if slug in who] for slug in ROSTER}
    one = settle(claims, holding, [], ROSTER, OTHERS)
    items = list(holding.items())
    dice.shuffle(items)
    shuffled = claims.copy()
    dice.shuffle(shuffled)
    two = settle(shuffled, dict(items), [], ROSTER, OTHERS)
    assert sorted(one, key=lambda each: each.claim.id) == sorted(two, key=lambda each: each.claim.id)
    assert sum(each.category is Category.MINORITY for each in one) == sum(
        len(who) == 1 for who in held
    )  # exactly one, whoever it is
