"""Where an Oracle keeps its minutes: the ψ folder of a repository (O-010 to O-012)."""

from __future__ import annotations

from pathlib import Path

PSI = "ψ"
_FALLBACK = "⚠️ Not in oracle repo (no CLAUDE.md + ψ/ at git root). Writing to pwd."


def find_psi(folder: Path) -> tuple[Path, str]:
    """The ψ folder for a folder, and the warning of O-010 where it is no Oracle's.

    It is that of the git work tree around the folder if that has CLAUDE.md and ψ/ (a folder or a link to one), else
    the folder's own, which is made where it is missing.
    """
    folder = folder.resolve()
    top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    for root in (top, folder):
        if root is not None and (root / "CLAUDE.md").is_file() and (root / PSI).is_dir():
            return root / PSI, ""
    return folder / PSI, _FALLBACK


def free_name(psi: Path, name: str) -> str:
    """The name, with -2, -3 ... where a minute, state or decision of that name is there already (O-011)."""
    number, free = 1, name
    while any(each.exists() for each in _files(psi, free)):
        number += 1
        free = f"{name}-{number}"
    return free


def _files(psi: Path, name: str) -> tuple[Path, ...]:
    table = psi / "lab" / "round-table"
    return (table / f"{name}.md", table / f"{name}.json", psi / "inbox" / "decisions" / f"{name}.md")
