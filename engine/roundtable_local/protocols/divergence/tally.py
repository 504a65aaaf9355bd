"""What became of every claim: counted by id, after the last round (R-014, R-016, R-018, R-g1 to R-g3). Pure.

A rejection never removes a claim: it is printed with it, void or not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from roundtable_local.protocols.divergence.replies import Ground, Kind


class Category(StrEnum):
    """R-g3."""

    CONSENSUS = "consensus"
    OPEN = "open"
    MINORITY = "minority"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Stated:
    """A claim as it was stated, with the id that code gave it."""

    id: str
    author: str
    because: str
    text: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """One persona's rejection of a claim."""

    claim: str
    seat: str
    grounds: tuple[Ground, ...]
    void: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """A claim after the last round.

    Args:
        claim: as stated.
        holders: who holds it, in roster order: its author unless withdrawn, and who supports it.
        rejections: with their grounds, void ones as well.
        category: see `Category`.
    """

    claim: Stated
    holders: tuple[str, ...]
    rejections: tuple[Rejected, ...]
    category: Category


def settle(
    claims: Sequence[Stated],
    holding: Mapping[str, Iterable[str]],
    rejections: Sequence[Rejected],
    roster: Sequence[str],
    agreeing: Iterable[str],
) -> tuple[Settled, ...]:
    """Every claim with its category.

    Args:
        claims: in the order they were stated.
        holding: ids of the claims that each persona holds at the end.
        rejections: all of them.
        roster: all personas in order.
        agreeing: the personas whose agreement is a consensus: all that spoke but the devil's advocate (R-g1); with
            nobody in it there is none.
    """
    held = {slug: frozenset(ids) for slug, ids in holding.items()}
    wanted = frozenset(agreeing)
    settled = []
    for claim in claims:
        holders = tuple(slug for slug in roster if claim.id in held.get(slug, frozenset()))
        against = tuple(each for each in rejections if each.claim == claim.id)
        category = _category(holders, wanted)
        if category is Category.CONSENSUS:  # the devil's advocate leaves a claim that all others come to hold
            holders = tuple(slug for slug in holders if slug in wanted)
        settled.append(Settled(claim, holders, against, category))
    return tuple(settled)


def _category(holders: Sequence[str], agreeing: frozenset[str]) -> Category:
    if not holders:
        return Category.WITHDRAWN
    if agreeing and agreeing <= set(holders):
        return Category.CONSENSUS
    return Category.MINORITY if len(holders) == 1 else Category.OPEN


def is_void(grounds: Sequence[Ground], needed: int) -> bool:
    """Whether a rejection has too few distinct grounds (R-014, R-g2).

    A ground is another one only if it is of another kind and says something else: strict protection of minorities.
    """
    return distinct(grounds) < needed


def distinct(grounds: Sequence[Ground]) -> int:
    """How many grounds differ both in kind and in what they say."""
    texts = {words(ground.text) for ground in grounds} - {""}
    kinds_of = {text: sorted({each.kind for each in grounds if words(each.text) == text}) for text in texts}
    return _matched(sorted(texts), kinds_of, frozenset())


def _matched(texts: Sequence[str], kinds_of: Mapping[str, Sequence[Kind]], used: frozenset[Kind]) -> int:
    """The most texts that can each have a kind of their own."""
    if not texts:
        return 0
    first, *rest = texts
    with_first = [1 + _matched(rest, kinds_of, used | {kind}) for kind in kinds_of[first] if kind not in used]
    return max([_matched(rest, kinds_of, used), *with_first])


def words(text: str) -> str:
    """Letters and digits alone, so that a ground reworded by case or punctuation is the same."""
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))
