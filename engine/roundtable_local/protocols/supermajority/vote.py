"""The vote (A-140 to A-146) and the lightning round (A-153, A-g11)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from roundtable_local.prompts import render
from roundtable_local.protocols.supermajority.contexts import ROOM, brief, problem, recommendations, task
from roundtable_local.protocols.supermajority.files import vote_file
from roundtable_local.protocols.supermajority.merge import Merge
from roundtable_local.protocols.supermajority.replies import Ballot, Compromises, Vote
from roundtable_local.protocols.supermajority.state import State, no_files
from roundtable_local.protocols.supermajority.tally import Result, Tally, tally
from roundtable_local.steps import Ask, Block, Keys, Narrowing, Publish, Step, Turn, Values, publish

AUTHORS = ("synthesizer", "pragmatist")
"""Who proposes compromises; the first one's are numbered C1, the second one's C2 (A-153, A-g11)."""

STANDARD_VOTES = (Vote.AGREE, Vote.DISAGREE, Vote.ABSTAIN)
"""What every seat may vote; structured dissenters may vote DISSENT as well (A-142)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A compromise on the contested recommendation `origin`."""

    id: str
    origin: str
    author: str
    title: str
    description: str


@dataclass(frozen=True)
class Lightning:
    """The re-vote on compromises alone; the contested originals stay contested (A-g11)."""

    proposals: tuple[Proposal, ...]
    ballots: Mapping[str, Ballot]
    tally: Tally


def vote(state: State, merged: Merge) -> Generator[Step, Any, Tally]:
    """One ballot per seat on every recommendation."""
    state.ballots = yield from _cast(state, merged, "vote", merged.ids, (), "vote_task.j2", "votes/{}.md")
    ballots = {slug: ballot.votes for slug, ballot in state.ballots.items()}
    return tally(ballots, merged.ids, state.table.settings)


def lightning(state: State, merged: Merge, counted: Tally) -> Generator[Step, Any, Lightning | None]:
    """Compromises on contested recommendations and a re-vote on just these, once, where too few passed."""
    contested = counted.having(Result.CONTESTED)
    if len(counted.having(Result.PASSED)) >= state.table.settings.lightning_below:
        return None
    if not contested:
        skipped = "lightning round skipped: nothing is contested (A-g11)"
        yield from publish(Publish(notices=(skipped,)))
        return None
    proposals = yield from _proposals(state, merged, contested)
    if not proposals or not state.can_be_quorate():
        skipped = "lightning round skipped: no compromise was proposed, or too few seats are left to vote on it"
        yield from publish(Publish(notices=(skipped,)))
        return None
    text = render(f"{ROOM}/compromises.j2", compromises=proposals).text
    shown = (Block("COMPROMISES", text, "replies"),)
    ids = tuple(proposal.id for proposal in proposals)
    ballots = yield from _cast(state, merged, "revote", ids, shown, "revote_task.j2", "")
    return Lightning(
        proposals, ballots, tally({slug: each.votes for slug, each in ballots.items()}, ids, state.table.settings)
    )


def _proposals(state: State, merged: Merge, contested: list[str]) -> Generator[Step, Any, tuple[Proposal, ...]]:
    narrow: dict[str, Narrowing] = {"compromises": Keys(tuple(contested))}
    authors = [seat for slug in AUTHORS for seat in state.seats if seat.slug == slug]
    if not authors:
        return ()
    rules = task("compromise_task.j2", contested=contested)
    context = (problem(state), recommendations(state, merged), rules)
    asks = tuple(Ask(seat.slug, brief(state, seat), Compromises, narrow) for seat in authors)
    replies = yield from state.hold(Turn("compromise", context, asks), "the lightning round", no_files)
    given = replies.of(Compromises)
    return tuple(
        Proposal(f"{rid}-C{AUTHORS.index(slug) + 1}", rid, slug, each.title, each.description)
        for rid in contested
        for slug in given
        for each in [given[slug].compromises[rid]]
    )


def _cast(
    state: State, merged: Merge, name: str, ids: tuple[str, ...], shown: tuple[Block, ...], rules: str, path: str
) -> Generator[Step, Any, dict[str, Ballot]]:
    asks = []
    for seat in state.seats:
        own = state.round_three.get(seat.slug) if name == "vote" else None
        blocks = [Block("YOUR ROUND 3", render(f"{ROOM}/round3_reply.j2", reply=own).text, "replies")] if own else []
        allowed = (*STANDARD_VOTES, Vote.DISSENT) if seat.slug in state.dissenters else STANDARD_VOTES
        narrow: dict[str, Narrowing] = {"votes": Keys(ids), "votes.*.vote": Values(allowed)}
        asks.append(Ask(seat.slug, brief(state, seat, own=blocks), Ballot, narrow))
    context = (problem(state), recommendations(state, merged), *shown, task(rules, values=STANDARD_VOTES))

    def files(slug: str, ballot: Ballot) -> Mapping[str, str]:
        return {path.format(slug): vote_file(state.table.seat(slug), ballot, merged.recommendations)} if path else {}

    replies = yield from state.hold(Turn(name, context, tuple(asks)), f"the {name}", files)
    return replies.of(Ballot)
