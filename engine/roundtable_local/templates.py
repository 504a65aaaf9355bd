"""A model's chat template: where it lies, and how it is rendered as transformers would render it.

Templates are the model's own Jinja; they run in a sandbox, and what they ask the clock for is the run's date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from roundtable_local.errors import ModelError

_PLACES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")


@dataclass(frozen=True)
class TemplateUse:
    """How a run wants the chat template.

    Args:
        date: ISO date for templates that ask for one; "" refuses those that do.
        file: the template itself, in place of the model's own.
        variables: what the template is given besides messages, such as enable_thinking.
        reasoning_tags: pairs of tags, for templates that leave a thought open where the reply begins.
        answer_openings: what a reply must begin with, by the end of the template's own text; for models that write in
            channels.
    """

    date: str = ""
    file: Path | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    reasoning_tags: Sequence[tuple[str, str]] = ()
    answer_openings: Mapping[str, str] = field(default_factory=dict)


class _Generation(Extension):
    """`{% generation %}` marks what is trained on; here its body is just text."""

    tags = {"generation"}  # noqa: RUF012 - the library's own form

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def read_template(folder: Path, config: Mapping[str, Any], use: TemplateUse) -> jinja2.Template:
    """The chat template of a model folder.

    Args:
        folder: the model's folder.
        config: its tokenizer_config.json.
        use: how the run wants it.

    Raises:
        ModelError: there is none, it cannot be read, or it is not Jinja.
    """
    source = _text(use.file) if use.file else _source(folder, config)
    if not isinstance(source, str) or not source.strip():
        places = ", ".join(_PLACES)
        raise ModelError(
            f"{use.file or folder} has no chat template (looked for {places})",
            "copy chat_template.jinja into it, name one with --chat-template FILE, or use the model's instruct version",
        )
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
    )
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _clock(use.date)}
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    try:
        return environment.from_string(source)
    except Exception as error:  # compiling also runs into limits of Python: nesting, digits of a number
        name = use.file or folder
        raise ModelError(f"the chat template of {name} is not valid Jinja: {error}", "copy it again") from error


def _source(folder: Path, config: Mapping[str, Any]) -> Any:
    source = config.get("chat_template")
    if (folder / _PLACES[0]).is_file():
        source = _text(folder / _PLACES[0])
    elif (folder / _PLACES[1]).is_file():
        source = _named(folder / _PLACES[1])
    if isinstance(source, list):  # several named templates: transformers takes the one called default
        named = [each for each in source if isinstance(each, Mapping)]
        source = next((each.get("template") for each in named if each.get("name") == "default"), None)
    return source


def _named(path: Path) -> Any:
    try:
        data = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}", "copy the model's folder again") from error
    return data.get("chat_template") if isinstance(data, dict) else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read: {error}", "copy it again, as UTF-8 text") from error


def _clock(day: str) -> Any:
    def strftime_now(form: str) -> str:
        if not day:
            raise jinja2.TemplateError("it asks for the date, and none is given")
        return date.fromisoformat(day).strftime(form)

    return strftime_now


def _refuse(message: str) -> str:
    raise jinja2.TemplateError(message)
