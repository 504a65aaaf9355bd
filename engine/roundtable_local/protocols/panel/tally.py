"""Verdicts in, result out (rules M-030 to M-036, M-g1, M-g2, M-g4, M-g6). Pure: no model, no file, no clock.

Only accepts are counted, out of three whatever was lost: a verdict that failed twice is no accept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from roundtable_local.protocols.panel.replies import Verdict
from roundtable_local.protocols.panel.settings import Quorum

PROPONENT, SKEPTIC, ARBITER = "proponent", "skeptic", "arbiter"
SEATS = (PROPONENT, SKEPTIC, ARBITER)

_REJECTS = 2  # M-g4


class Follows(StrEnum):
    """What a vote leads to."""

    PROCEED = "proceed"
    REVISE = "revise"
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True)
class Result:
    """What a vote came to.

    Args:
        accepts: out of three.
        verdict: of the panel; below the quorum it is for display only (M-g4).
        dissenters: seats with another verdict than accept, in order.
        invalid: seats without a valid verdict, in order (M-g6).
        follows: what comes next.
    """

    accepts: int
    verdict: Verdict
    dissenters: tuple[str, ...]
    invalid: tuple[str, ...]
    follows: Follows


def count(verdicts: Mapping[str, Verdict | None], quorum: Quorum, *, last: bool) -> Result:
    """Count one vote.

    Args:
        verdicts: of all three seats; None where a seat gave none (M-g6).
        quorum: how many must accept.
        last: whether no other vote may follow (M-035).
    """
    accepts = sum(verdict is Verdict.ACCEPT for verdict in verdicts.values())
    rejects = sum(verdict is Verdict.REJECT for verdict in verdicts.values())
    reached = accepts >= int(quorum.partition("/")[0])
    invalid = tuple(seat for seat in SEATS if verdicts[seat] is None)
    failed = Verdict.REJECT if rejects >= _REJECTS else Verdict.REVISE
    return Result(
        accepts=accepts,
        verdict=Verdict.ACCEPT if reached else failed,
        dissenters=tuple(seat for seat in SEATS if verdicts[seat] in {Verdict.REVISE, Verdict.REJECT}),
        invalid=invalid,
        follows=_follows(reached, last=last, skeptic_lost=SKEPTIC in invalid),
    )


def _follows(reached: bool, *, last: bool, skeptic_lost: bool) -> Follows:
    """M-030, M-033 to M-036; any second failure escalates (M-g1), and a first that leaves nothing to revise by (M-g6)."""
    if reached:
        return Follows.PROCEED
    return Follows.ESCALATE if last or skeptic_lost else Follows.REVISE
