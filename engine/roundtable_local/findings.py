"""What an examination says, one line per thing found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: what it is about, what was found, and for a problem what to do."""

    level: Level
    about: str
    text: str
    remedy: str = ""


def gib(size: float) -> str:
    """A size in bytes, for people."""
    return f"{size / 2**30:.1f} GiB"
