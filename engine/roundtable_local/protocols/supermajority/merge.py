"""The moderator's synthesis, counted by code: who supports and who opposes follows from ids (A-121, A-g22)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roundtable_local.protocols.supermajority.replies import Merged, RoundTwo, Supplement


@dataclass(frozen=True, slots=True)
class Statement:
    """A numbered point or challenge of round 2. `target` is the challenged seat, empty for a point."""

    id: str
    seat: str
    text: str
    target: str = ""


@dataclass(frozen=True)
class Recommendation:
    """One recommendation for the vote; seats in table order, `mixed` ones both support and oppose it."""

    id: str
    title: str
    description: str
    points: tuple[Statement, ...]
    challenges: tuple[Statement, ...]
    supporters: tuple[str, ...]
    opponents: tuple[str, ...]
    mixed: tuple[str, ...]


@dataclass(frozen=True)
class Merge:
    """All recommendations, the points that none of them took up, and what was dropped on the way."""

    recommendations: tuple[Recommendation, ...]
    unmerged: tuple[Statement, ...]
    key_disagreements: tuple[str, ...]
    notices: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """R ids in order."""
        return tuple(each.id for each in self.recommendations)


def points_of(round_two: Mapping[str, RoundTwo]) -> dict[str, Statement]:
    """Every updated recommendation by its id, `{slug}.P1` and on."""
    return {
        (key := f"{slug}.P{number}"): Statement(key, slug, text)
        for slug, reply in round_two.items()
        for number, text in enumerate(reply.updated_recommendations, 1)
    }


def supplement_id(slug: str) -> str:
    """Id of a seat's supplementary challenge."""
    return f"{slug}.S1"


def challenges_of(
    round_two: Mapping[str, RoundTwo], supplements: Mapping[str, Supplement] | None = None
) -> dict[str, Statement]:
    """Every challenge issued by its id, `{slug}.C1` and on; supplementary ones last, as `{slug}.S1` (A-112)."""
    issued = {
        (key := f"{slug}.C{number}"): Statement(key, slug, each.challenge, each.to)
        for slug, reply in round_two.items()
        for number, each in enumerate(reply.challenges, 1)
    }
    for slug, reply in (supplements or {}).items():
        issued[supplement_id(slug)] = Statement(supplement_id(slug), slug, reply.flaw)
    return issued


def merge(
    written: Sequence[Merged],
    key_disagreements: Sequence[str],
    round_two: Mapping[str, RoundTwo],
    supplements: Mapping[str, Supplement] | None = None,
) -> Merge:
    """Count supporters and opponents of each recommendation.

    A point belongs to the first recommendation that names it; a seat with a point in a recommendation and a
    challenge against it is mixed and in neither count.
    """
    points, challenges = points_of(round_two), challenges_of(round_two, supplements)
    taken: dict[str, str] = {}
    notices: list[str] = []
    recommendations = []
    for number, merged in enumerate(written, 1):
        rid = f"R{number}"
        own: dict[str, Statement] = {}
        repeats: list[str] = []
        for point in merged.points:
            if point in taken:
                repeats.append(f"{point} (in {taken[point]})")
            else:
                taken[point] = rid
                own[point] = points[point]
        if repeats:
            notices.append(
                f"synthesis: points of {rid} that an earlier mention took are dropped: {', '.join(repeats)} (A-g22)"
            )
        against = {each: challenges[each] for each in merged.challenges}
        if len(against) < len(merged.challenges):
            notices.append(f"synthesis: challenges named twice in {rid} are counted once (A-g22)")
        recommendations.append(_recommendation(rid, merged.title, merged.description, own, against, list(round_two)))
    unmerged = tuple(point for key, point in points.items() if key not in taken)
    return Merge(tuple(recommendations), unmerged, tuple(key_disagreements), tuple(notices))


def _recommendation(
    rid: str,
    title: str,
    description: str,
    points: dict[str, Statement],
    challenges: dict[str, Statement],
    seats: list[str],
) -> Recommendation:
    pro = {each.seat for each in points.values()}
    contra = {each.seat for each in challenges.values()}
    return Recommendation(
        id=rid,
        title=title,
        description=description,
        points=tuple(points.values()),
        challenges=tuple(challenges.values()),
        supporters=tuple(slug for slug in seats if slug in pro - contra),
        opponents=tuple(slug for slug in seats if slug in contra - pro),
        mixed=tuple(slug for slug in seats if slug in pro & contra),
    )
