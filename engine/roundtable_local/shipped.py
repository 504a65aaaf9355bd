"""Where the files that ship with the package lie: configs/ and prompts/, in a checkout or installed."""

from __future__ import annotations

from pathlib import Path

from roundtable_local.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent.parent


def shipped(kind: str) -> Path:
    """Folder of shipped files, `kind` being "configs" or "prompts".

    A wheel carries them inside the package; a checkout has them at its top.

    Raises:
        ConfigError: neither place has the folder, so the installation is broken.
    """
    for folder in (_PACKAGE / kind, _CHECKOUT / kind):
        if folder.is_dir():
            return folder
    raise ConfigError(
        f"the installation has no {kind}/ folder", "reinstall roundtable-local from its wheel or checkout"
    )


def names(kind: str, subfolder: str, suffix: str = ".yaml") -> list[str]:
    """Sorted stems of the shipped files in one folder, for example the names of all model profiles."""
    return sorted(path.stem for path in (shipped(kind) / subfolder).glob(f"*{suffix}"))
