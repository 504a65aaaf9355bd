"""REPORT.md (R-018, R-019, R-054, R-057): the minority section always stands, and nothing open is settled. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from roundtable_local.protocols.divergence.files import header, scenario_line
from roundtable_local.protocols.divergence.replies import Closing, DevilDiscussion, FinalDissent, Open, Support
from roundtable_local.protocols.divergence.settings import Headings
from roundtable_local.protocols.divergence.state import State
from roundtable_local.protocols.divergence.tally import Category, Rejected, Settled
from roundtable_local.report.markdown import bullets, document, inline

_Render = Callable[[Settled], list[str]]


def report_file(state: State) -> str:
    """The whole report; sections without content say so in one word."""
    heads = state.table.settings.headings_for(state.table.language)
    said = state.synthesis
    return document(
        header(state),
        f"# {heads.title}: {inline(state.table.decision.topic)}",
        "\n>\n".join(_notices(state, heads)),
        f"## {heads.summary}",
        "\n\n".join(inline(each) for each in said.executive_summary) if said else heads.none,
        f"## {heads.panel}",
        bullets(_panel(state, heads)),
        f"## {heads.agreements}",
        *(_section(state.of(Category.CONSENSUS), heads, lambda each: _agreed(state, heads, each))),
        f"## {heads.disputes}",
        *(_section(state.of(Category.OPEN), heads, lambda each: _unsettled(state, heads, each))),
        f"## {heads.minority}",
        *(_section(state.of(Category.MINORITY), heads, lambda each: _unsettled(state, heads, each))),
        f"## {heads.dissent}",
        *_dissent(state, heads),
        f"## {heads.actions}",
        bullets(said.recommended_actions) if said else heads.none,
        f"## {heads.limits}",
        bullets([*(said.limits if said else ()), *_limits(state, heads)]) or heads.none,
    )


def _notices(state: State, heads: Headings) -> list[str]:
    """What a reader must know first: caveats, who is missing, and that the debate stopped."""
    lines = [f"> **{heads.caveat}:** {inline(caveat)}" for caveat in state.table.caveats]
    lines += [f"> **{heads.lost}:** {inline(f'{state.name_of(slug)}, {why}')}" for slug, why in state.lost.items()]
    if not state.is_quorate():
        least = state.table.settings.least_personas
        lines.append(f"> **{heads.stopped}:** {heads.left} {len(state.seats)}, {heads.needed} {least} (R-031)")
    return lines


def _panel(state: State, heads: Headings) -> Iterator[str]:
    for seat in state.table.seats:
        says_so = not seat.devils_advocate or seat.name.casefold() == heads.devil.casefold()
        yield f"{seat.name}{'' if says_so else f' ({heads.devil})'}: {seat.perspective or f'{heads.soul} {seat.source}'}"


def _section(settled: Sequence[Settled], heads: Headings, render: _Render) -> list[str]:
    return [part for each in settled for part in render(each)] or [heads.none]


def _agreed(state: State, heads: Headings, each: Settled) -> list[str]:
    lines = [*_for(state, heads, each), *_against(state, heads, each), *_undecided(state, heads, each)]
    return [_heading(each), inline(f"{heads.because}: {each.claim.because}"), bullets(lines)]


def _unsettled(state: State, heads: Headings, each: Settled) -> list[str]:
    """Conclusion, for, against, reason (R-057); the conclusion is the marker, for there is none (R-019)."""
    apart = state.synthesis.disputes.get(each.claim.id, "") if state.synthesis else ""
    reason = [*_undecided(state, heads, each), *([f"{heads.apart}: {apart}"] if apart else [])]
    return [
        _heading(each),
        f"**{state.table.settings.marker}**",
        inline(f"{heads.because}: {each.claim.because}"),
        bullets([*_for(state, heads, each), *_against(state, heads, each), *reason]),
    ]


def _heading(each: Settled) -> str:
    return f"### {inline(each.claim.id)}: {inline(each.claim.text)}"


def _for(state: State, heads: Headings, each: Settled) -> Iterator[str]:
    """Who holds it, with the reason given last."""
    for slug in each.holders:
        said, claim = state.latest(slug), each.claim.id
        stance = said.stances.get(claim) if isinstance(said, Closing) else None
        own = said.own.get(claim) if said else None
        reason = own.reason if own else stance.reason if isinstance(stance, Support) else each.claim.because
        yield f"{heads.supports}: {state.name_of(slug)}: {reason}"


def _against(state: State, heads: Headings, each: Settled) -> Iterator[str]:
    for one in each.rejections:
        void = f" ({heads.void})" if one.void else ""
        yield f"{heads.opposes}: {state.name_of(one.seat)}{void}: {_grounds(one)}"
    said = state.latest(state.devil.slug)
    objection = said.objections.get(each.claim.id) if isinstance(said, DevilDiscussion | FinalDissent) else None
    if objection:
        yield f"{heads.opposes}: {state.devil.name}: {objection}"


def _undecided(state: State, heads: Headings, each: Settled) -> Iterator[str]:
    """Who leaves it open and why, and why its author let go of it."""
    for seat in state.table.seats:
        said = state.latest(seat.slug)
        stance = said.stances.get(each.claim.id) if isinstance(said, Closing) else None
        own = said.own.get(each.claim.id) if said else None
        if isinstance(stance, Open):
            yield f"{heads.undecided}: {seat.name}: {stance.reason}"
        if own and own.stance == "WITHDRAW":
            yield f"{heads.withdrawn}: {seat.name}: {own.reason}"


def _grounds(one: Rejected) -> str:
    return "; ".join(f"({ground.kind}) {ground.text}" for ground in one.grounds)


def _dissent(state: State, heads: Headings) -> list[str]:
    last = state.round2.get(state.devil.slug)
    if not isinstance(last, FinalDissent):
        return [heads.none]
    scenarios = [f"{heads.fails}: {scenario_line(each)}" for each in last.failure_scenarios]
    return [inline(last.final_dissent), bullets(scenarios)]


def _limits(state: State, heads: Headings) -> Iterator[str]:
    """What a reader must know beside the moderator's limits: what was withdrawn, and a dissent without substance."""
    for each in state.of(Category.WITHDRAWN):
        yield f"{heads.withdrawn}: {each.claim.id}: {each.claim.text}"
    for phase in state.weak:
        yield f"{heads.weak}: {phase} (R-056)"
