"""A reply's pydantic type becomes the JSON schema it is decoded under, and is checked against again.

The grammar uses few keywords, all of which every back-end honours: object, array, string, enum, const,
anyOf. `$ref` is resolved and property order is kept, because reasoning must come before the choice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import jsonschema
from pydantic import BaseModel, ValidationError

from roundtable_local.jsonfiles import parse_json
from roundtable_local.steps import Count, Keys, Length, Narrowing, Values

Schema: TypeAlias = dict[str, Any]

FILL = "\ue000"
"""Stands for one character of a largest reply in a rehearsal; a private-use character no document needs."""

_DROPPED = {"title", "description", "default", "$defs"}


class InvalidReply(ValueError):
    """A reply that cannot be used; the message says why, to the seat and in the journal."""


def grammar(
    kind: type[BaseModel], narrow: Mapping[str, Narrowing], shrink: float = 1.0, min_characters: int = 0
) -> Schema:
    """JSON schema of a reply type, narrowed for one ask.

    Args:
        kind: the reply's type.
        narrow: per dotted field path, the values, keys, item counts or lengths allowed this time.
        shrink: 0 to 1; string bounds move from `min_characters` (0) to their full length (1).
        min_characters: the least that any string bound shrinks to.

    Raises:
        KeyError: a path of `narrow` is not in the type (a fault of the protocol).
    """
    unused = set(narrow)

    def walk(node: Schema, path: tuple[str, ...]) -> Schema:
        dotted = ".".join(path)
        rule = narrow.get(dotted)
        unused.discard(dotted)
        if "anyOf" in node:
            branches = [walk(branch, path) for branch in node["anyOf"]]
            return {"anyOf": [branch for branch in branches if not _impossible(branch)]}
        if isinstance(rule, Keys):
            values = node["additionalProperties"]
            return _object({key: walk(values, (*path, "*")) for key in rule.required})
        if node.get("type") == "object":
            if "properties" not in node:
                raise KeyError(f"{dotted}: a mapping needs Keys")
            return _object({key: walk(value, (*path, key)) for key, value in node["properties"].items()})
        if node.get("type") == "array":
            least, most = (
                (rule.least, rule.most) if isinstance(rule, Count) else (node.get("minItems", 0), node["maxItems"])
            )
            return {"type": "array", "items": walk(node["items"], (*path, "*")), "minItems": least, "maxItems": most}
        return _leaf(node, rule, shrink, min_characters)

    schema = walk(_inlined(kind), ())
    if unused:
        raise KeyError(f"{kind.__name__} has no field {sorted(unused)}")
    return schema


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _impossible(node: Schema) -> bool:
    """Whether no value can match, because narrowing left an enum empty."""
    if node.get("enum") == []:
        return True
    return any(_impossible(child) for child in node.get("properties", {}).values())


def _leaf(node: Schema, rule: Narrowing | None, shrink: float, min_characters: int) -> Schema:
    choices = node.get("enum", [node["const"]] if "const" in node else None)
    if isinstance(rule, Values):
        return {"enum": [value for value in rule.allowed if choices is None or value in choices]}
    if choices is not None:
        return {"enum": list(choices)}
    leaf = dict(node)
    if isinstance(rule, Length):  # never more than the type allows: its own check comes after
        leaf["maxLength"] = min(leaf["maxLength"], rule.most)
        min_characters = max(min_characters, rule.least)
    if "maxLength" in leaf and leaf["maxLength"] > min_characters:
        leaf["maxLength"] = min_characters + int((leaf["maxLength"] - min_characters) * shrink)
    return leaf


@cache
def _inlined(kind: type[BaseModel]) -> Schema:
    schema = kind.model_json_schema()
    definitions = schema.get("$defs", {})

    def walk(node: Any, names: bool = False) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return walk(definitions[node["$ref"].rsplit("/", 1)[-1]])
        return {key: walk(value, key == "properties") for key, value in node.items() if names or key not in _DROPPED}

    inlined: Schema = walk(schema)
    return inlined


def largest(schema: Schema, prefer: Mapping[str, str], size: Callable[[str], int], empty: Sequence[str] = ()) -> Any:
    """A value that no reply under the schema is longer than: strings and lists full, choices the longest.

    Args:
        schema: as `grammar` returns it.
        prefer: per dotted path, the choice to take where one steers the debate.
        size: length of a choice in tokens.
        empty: dotted paths of lists to leave as short as they may be.
    """
    wanted = {tuple(dotted.split(".")): value for dotted, value in prefer.items()}
    short = [tuple(dotted.split(".")) for dotted in empty]

    @cache
    def longest(choices: tuple[str, ...]) -> str:
        return max(choices, key=lambda value: size(str(value)), default="")

    def walk(node: Schema, path: tuple[str, ...]) -> Any:
        if "anyOf" in node:
            values = [walk(branch, path) for branch in node["anyOf"]]
            matching = [value for value in values if _holds(value, path, wanted)] or values
            return max(matching, key=lambda value: len(json.dumps(value, ensure_ascii=False)))
        if "enum" in node:
            choice = next((value for pattern, value in wanted.items() if _matches(pattern, path)), None)
            return next((each for each in node["enum"] if str(each) == choice), longest(tuple(node["enum"])))
        if node["type"] == "object":
            return {key: walk(value, (*path, key)) for key, value in node["properties"].items()}
        if node["type"] == "array":
            bound = "minItems" if any(_matches(pattern, path) for pattern in short) else "maxItems"
            return [walk(node["items"], (*path, "*")) for _ in range(node[bound])]
        return FILL * int(node["maxLength"])

    return walk(schema, ())


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a dotted pattern names the path; `*` stands for any item or key."""
    return len(pattern) == len(path) and all(one in {"*", other} for one, other in zip(pattern, path, strict=True))


def _holds(value: Any, path: tuple[str, ...], wanted: Mapping[tuple[str, ...], str]) -> bool:
    """Whether a branch of a union has the wanted choices among its own fields."""
    return all(
        value.get(pattern[-1], choice) == choice
        for pattern, choice in wanted.items()
        if len(pattern) == len(path) + 1 and _matches(pattern[:-1], path)
    )


def canonical(value: Any) -> str:
    """The one JSON form used for schemas, journals and hashes: compact, UTF-8 text, order kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse(kind: type[BaseModel], schema: Schema, text: str) -> BaseModel:
    """Read a reply's text: JSON, then its narrowed schema, then the type's own checks.

    Raises:
        InvalidReply: with the first reason, in words that help the seat to do better.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        raise InvalidReply(f"not valid JSON: {error}") from error
    problem = next(iter(jsonschema.Draft202012Validator(schema).iter_errors(value)), None)
    if problem is not None:
        where = ".".join(str(part) for part in problem.absolute_path) or "reply"
        raise InvalidReply(f"{where}: {problem.message[:200]}")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "reply"
        raise InvalidReply(f"{where}: {first['msg'].removeprefix('Value error, ')}") from error
