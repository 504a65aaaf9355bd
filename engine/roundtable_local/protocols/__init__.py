"""The protocols, one room each; a room is only entered when its protocol is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from roundtable_local.errors import UsageError
from roundtable_local.seats import Table
from roundtable_local.settings import Strict
from roundtable_local.steps import Debate, Question, WorstCase

NAMES = ("supermajority", "confidence", "panel", "divergence")


@dataclass(frozen=True)
class Protocol:
    """What a room offers.

    Args:
        name: as given to `--protocol`; also the name of its settings file, roster and prompt folder.
        settings: type of its settings.
        debate: makes the generator.
        worst_cases: branches to rehearse.
        most_dissenters: how many structured dissenters its settings allow; None where it has no overlays.
        fallback: smaller settings and a warning for a debate that does not fit, or None; gets the table and the reason.
        intake: looks at the table before anything runs: refuses it, or returns it as the debate needs it, with notices;
            gets the table and a function that counts a text's tokens.
        gate: questions to settle before the engine starts.
        announce: lines for the user before the debate begins.
        takes: what a user may give beside the decision: seats, context, personas, codebase, oracle-root, panel.
        whole: whether the decision is judged as it stands, front matter and all, and holds no settings.
        mirrored: top folders of the run directory that are also written below `--oracle-root`.
    """

    name: str
    settings: type[Strict]
    debate: Callable[[Table[Any]], Debate]
    worst_cases: Callable[[Table[Any]], tuple[WorstCase, ...]]
    most_dissenters: Callable[[Any], int] | None = None
    fallback: Callable[[Table[Any], str], tuple[Any, str] | None] = lambda table, reason: None
    intake: Callable[[Table[Any], Callable[[str], int]], tuple[Table[Any], tuple[str, ...]]] = lambda table, count: (table, ())  # fmt: skip
    gate: Callable[[Table[Any]], tuple[Question, ...]] = lambda table: ()
    announce: Callable[[Table[Any]], tuple[str, ...]] = lambda table: ()
    takes: frozenset[str] = frozenset()
    whole: bool = False
    mirrored: tuple[str, ...] = ()


def find(name: str) -> Protocol:
    """The protocol of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in NAMES:
        raise UsageError(f"there is no protocol {name!r}", f"choose one of: {', '.join(NAMES)}")
    protocol: Protocol = import_module(f"{__name__}.{name}.debate").PROTOCOL
    return protocol
