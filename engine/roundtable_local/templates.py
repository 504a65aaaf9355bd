"""A model's chat template: where it lies, and how it is rendered as transformers would render it.

Templates are the model's own Jinja; they run in a sandbox, and what they ask the clock for is the run's date.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from roundtable_local.errors import ConfigError, ModelError
from roundtable_local.settings import EngineSettings, ModelProfile

_PLACES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
_SLOT = "\ue001content\ue002"
_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_OURS = frozenset({"messages", "tools", "documents", "add_generation_prompt"})


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


@dataclass(frozen=True)
class Wrapping:
    """Text that a template puts around the one user message.

    Args:
        head: before the user's text; holds the system message.
        tail: after it, up to where the reply begins.
        system_folded: whether the template takes no system message, so that it opens the user's text.
    """

    head: str
    tail: str
    system_folded: bool


def template_use(profile: ModelProfile, engine: EngineSettings, date: str, file: str | None = None) -> TemplateUse:
    """Thinking on or off is decided here alone: for the template, the answer's opening and the closing of thoughts (A3).

    Args:
        profile: of the model.
        engine: tags and openings.
        date: ISO date of the run.
        file: a template named for the run, before the profile's.
    """
    thinks, chosen = profile.reasoning is not None, file or profile.chat_template
    return TemplateUse(
        date=date,
        file=Path(chosen) if chosen else None,
        variables={"enable_thinking": thinks, **profile.template_variables},
        reasoning_tags=engine.reasoning_tags,
        answer_openings={} if thinks else engine.answer_openings,
    )


class ChatTemplate:
    """The chat template of a model folder, or the file that a run names in its place.

    Args:
        folder: the model's folder.
        config: its tokenizer_config.json.
        use: how the run wants it.

    Raises:
        ModelError: there is none, it cannot be read, or it is not Jinja.
        ConfigError: a variable is one that the engine itself sets.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], use: TemplateUse) -> None:
        if taken := sorted(_OURS & use.variables.keys()):
            raise ConfigError(f"template_variables may not set {', '.join(taken)}", "remove it: the engine sets it")
        self._name = f"the chat template of {use.file or folder}"
        special = {name: token_text(config.get(name)) for name in _TOKEN_NAMES}
        self._given: dict[str, Any] = {name: text for name, text in special.items() if text}
        self._given |= {"tools": None, "documents": None, "add_generation_prompt": True, **use.variables}
        source = _source(folder, config, use.file)
        try:
            self._template = _environment(use.date).from_string(source)
        except Exception as error:  # compiling also runs into limits of Python: nesting, digits of a number
            message = f"{self._name} is not valid Jinja: {_said(error)}"
            raise ModelError(message, "copy it again, or name another with --chat-template FILE") from error

    def wrap(self, system: str) -> Wrapping:
        """Text around the one user message, the system message standing in it exactly once.

        Templates differ in what they take: a system message or none, content as a string or as a list of parts (models
        that also see images). What they take is found out by trying, the usual first.

        Args:
            system: text of the system message, not blank.

        Raises:
            ModelError: the template takes it in no way.
        """
        problems = []
        for parts, folded in itertools.product((False, True), repeat=2):
            text, problem = self._rendered(_messages(system, folded=folded, parts=parts), system)
            if not problem:
                head, tail = text.split(_SLOT)
                return Wrapping(head, tail, folded)
            problems.append(problem)
        raise self._unusable(problems[1])  # of the plainest message: one user's, a string

    def _rendered(self, messages: list[dict[str, Any]], system: str) -> tuple[str, str]:
        """The whole prompt, and what is wrong with it, "" for nothing."""
        try:
            text = self._template.render(messages=messages, **self._given)
        except _ForbiddenError as error:
            raise self._unusable(f"cannot be used: {_said(error)}") from error
        except Exception as error:  # a template may fail in any way where it does not expect a message
            return "", f"fails: {_said(error)}"
        return text, _problem(text, system)

    def _unusable(self, problem: str) -> ModelError:
        return ModelError(f"{self._name} {problem}", "name one that takes a user's message with --chat-template FILE")


def token_text(token: Any) -> str:
    """Text of a special token in tokenizer_config.json, where it is a string or an object; "" for none."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else ""


class _ForbiddenError(jinja2.TemplateError):
    """The template does what no template may; that is not a matter of the messages it is given."""


class _Generation(Extension):
    """`{% generation %}` marks what is trained on; here its body is just text."""

    tags = {"generation"}  # noqa: RUF012 - the library's own form

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)  # what is set inside stays inside, as in transformers


def _environment(day: str) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _Generation],
        loader=jinja2.FunctionLoader(_load),
    )
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _clock(day)}
    environment.filters["tojson"] = _tojson
    del environment.globals["lipsum"], environment.filters["random"]  # a prompt must come out the same every time
    return environment


def _messages(system: str, *, folded: bool, parts: bool) -> list[dict[str, Any]]:
    turns = [("user", f"{system}\n\n{_SLOT}")] if folded else [("system", system), ("user", _SLOT)]
    return [{"role": role, "content": [{"type": "text", "text": text}] if parts else text} for role, text in turns]


def _problem(text: str, system: str) -> str:
    """What is wrong with a rendered prompt; templates may change white space, and nothing else."""
    if text.count(_SLOT) != 1:
        return "does not repeat the user's text once"
    found = "".join(text.split()).count("".join(system.split()))
    return "" if found == 1 else "does not repeat the system message once"


def _source(folder: Path, config: Mapping[str, Any], file: Path | None) -> str:
    source = config.get("chat_template")
    for path in (file,) if file else (folder / _PLACES[0], folder / _PLACES[1]):
        if file or path.is_file():
            source = _named(path) if path.suffix == ".json" else _text(path)
            break
    if isinstance(source, list):  # several named templates: transformers takes the one called default
        named = [each for each in source if isinstance(each, Mapping)]
        source = next((each.get("template") for each in named if each.get("name") == "default"), None)
    if isinstance(source, str) and source.strip():
        return source
    if file:
        raise ModelError(f"{file} has no chat template in it", "name another file with --chat-template FILE")
    raise ModelError(
        f"{folder} has no chat template (looked for {', '.join(_PLACES)})",
        "copy chat_template.jinja into it, name one with --chat-template FILE, or use the model's instruct version",
    )


def _named(path: Path) -> Any:
    try:
        data = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}", "copy it again: it is not JSON") from error
    return data.get("chat_template") if isinstance(data, dict) else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read: {error}", "copy it again, as UTF-8 text") from error


def _said(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return f"line {error.lineno}: {text}" if isinstance(error, jinja2.TemplateSyntaxError) else text


def _clock(day: str) -> Callable[[str], str]:
    def strftime_now(format: str) -> str:  # the argument's name is part of what templates may use
        if not day:
            raise _ForbiddenError("it asks for the date, and none is given")
        return date.fromisoformat(day).strftime(format)

    return strftime_now


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes HTML; the arguments are those that transformers offers, in its order."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _load(name: str) -> str:
    raise _ForbiddenError(f"it loads the file {name!r}, which no template may")


def _refuse(message: str) -> str:
    raise jinja2.TemplateError(message)
