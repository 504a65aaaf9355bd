"""Templates become prompt text, each with the hash of the template it came from."""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from roundtable_local.shipped import shipped
from roundtable_local.steps import Prompt


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(shipped("prompts")),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - prompts, not HTML; control tokens are defused in `tokens`
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _template(name: str) -> tuple[Template, str]:
    source = (shipped("prompts") / name).read_bytes()
    return _environment().get_template(name), hashlib.sha256(source).hexdigest()


def render(name: str, **values: Any) -> Prompt:
    """Render prompts/NAME; every variable that the template names must be given.

    Raises:
        jinja2.UndefinedError: a variable is missing (a fault of ours).
    """
    template, sha256 = _template(name)
    return Prompt(template.render(values).strip(), name, sha256)


def template_hashes(folder: str) -> dict[str, str]:
    """sha256 of every template that a protocol can use: its folder's and the shared ones."""
    root = shipped("prompts")
    paths = sorted(root.glob("*.j2")) + sorted((root / folder).glob("*.j2"))
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
