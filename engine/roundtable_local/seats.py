"""Who sits at the table: seats and the rosters they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from roundtable_local.codebase import Codebase
from roundtable_local.decision import Decision
from roundtable_local.settings import Strict

SettingsT = TypeVar("SettingsT", bound=BaseModel)


class Seat(Strict):
    """One seat of the table.

    Args:
        slug: its id in files, grammars and prompts.
        name: as people read it.
        perspective: the lens of a role.
        duty: what a role must do.
        soul: the text of a persona file, whole, or the one line about a real person (O-021, O-022).
        source: where the soul was read from.
        devils_advocate: whether the seat must oppose (R-015).
        model: the model it runs on, named as for `--model`; "" for the run's own.
        adapter: absolute path of its LoRA adapter; "" for none.
    """

    slug: str
    name: str
    perspective: str = ""
    duty: str = ""
    soul: str = ""
    source: str = ""
    devils_advocate: bool = False
    model: str = ""
    adapter: str = ""


class Fact(Strict):
    """Something that every seat may use, gathered before the debate.

    Args:
        kind: what it is to the debate: its goal, the proposal it belongs to, or other context.
        title: where it comes from, as a person would name it.
        text: whole.
    """

    kind: Literal["goal", "proposal", "context"]
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run's files lie, for those that name one another.

    Args:
        home: absolute path of the folder; "" in rehearsals.
        name: file name of the minute, without suffix.
    """

    home: str = ""
    name: str = ""


class Roster(Strict):
    """configs/rosters/*.yaml: the seats of a protocol, in their order."""

    seats: tuple[Seat, ...]


class Persona(Strict):
    """configs/personas.yaml: a voice a seat may speak with (A-050 to A-052, A-g1)."""

    id: str
    name: str
    prompt_block: str
    bias: str = ""
    anti_patterns: str = ""
    tone: str = ""


class PersonaFile(Strict):
    """The whole of configs/personas.yaml."""

    personas: tuple[Persona, ...]


@dataclass(frozen=True)
class Overlays:
    """What some seats are told beside their role: persona by role slug, and the structured dissenters in order."""

    personas: Mapping[str, Persona] = field(default_factory=dict)
    dissenters: tuple[str, ...] = ()


def assign_personas(
    wanted: Mapping[str, str], seats: Sequence[Seat], known: Sequence[Persona]
) -> tuple[dict[str, Persona], tuple[str, ...]]:
    """Personas by role slug, and a warning for every unknown id or role, which is ignored (A-053, A-057).

    Args:
        wanted: persona id by role slug, command line and decision file merged.
        seats: the roster.
        known: the personas that ship.
    """
    by_id, slugs = {persona.id: persona for persona in known}, {seat.slug for seat in seats}
    assigned: dict[str, Persona] = {}
    warnings: list[str] = []
    for slug, persona in wanted.items():
        if slug not in slugs:
            warnings.append(f"personas: there is no role {slug!r}; it is ignored (A-057)")
        elif persona not in by_id:
            warnings.append(f"personas: there is no persona {persona!r} for {slug}; it is ignored (A-057)")
        else:
            assigned[slug] = by_id[persona]
    return assigned, tuple(warnings)


def choose_dissenters(
    wanted: Sequence[str], seats: Sequence[Seat], most: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Structured dissenters, and warnings: unknown roles are dropped, repeats too, then the cap holds (A-070 to A-075, A-g13).

    Args:
        wanted: role slugs in the order command line, alias, decision file.
        seats: the roster.
        most: the cap (A-074).
    """
    slugs = {seat.slug for seat in seats}
    warnings = [f"dissent: there is no role {slug!r}; it is ignored (A-075)" for slug in wanted if slug not in slugs]
    kept = [slug for slug in dict.fromkeys(wanted) if slug in slugs]
    if len(kept) > most:
        warnings.append(f"dissent: at most {most} seats; {', '.join(kept[most:])} stay ordinary seats (A-074)")
    return tuple(kept[:most]), tuple(warnings)


@dataclass(frozen=True)
class Table(Generic[SettingsT]):
    """All that a protocol is given.

    Args:
        seats: the voting seats in roster order.
        decision: what is to be decided.
        settings: the protocol's settings.
        date: ISO date of the run, taken once.
        answers: answers given beforehand, by question name.
        overlays: personas and structured dissenters.
        codebase: the project's code for the reality check; None where there is none.
        caveats: sentences every report must carry, for example about the model's size.
        facts: what was gathered for the debate, in the order given.
        given: names of the settings that the command line, or a caller, set.
        language: the language that seats write in, by its English name.
        place: where the run's files lie.
    """

    seats: tuple[Seat, ...]
    decision: Decision
    settings: SettingsT
    date: str
    answers: Mapping[str, str] = field(default_factory=dict)
    overlays: Overlays = Overlays()
    codebase: Codebase | None = None
    caveats: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    given: frozenset[str] = frozenset()
    language: str = "English"
    place: Place = Place()

    def seat(self, slug: str) -> Seat:
        """The seat of that slug; KeyError where there is none."""
        for seat in self.seats:
            if seat.slug == slug:
                return seat
        raise KeyError(slug)
