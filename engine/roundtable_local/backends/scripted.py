"""A deterministic backend without a model: replies from a script, or drawn from the grammar by seed.

Public, for tests, dry runs and faults that a real engine cannot be made to have. A script maps
"turn/ask" or "turn/ask/attempt" to a reply: an object is the JSON reply itself, a string is raw text,
and {"text": ..., "finish_reason": ...} is a generation. What the script leaves out is drawn.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roundtable_local.backends.base import Generation, OnDone, Request, Stop
from roundtable_local.errors import BackendError, ConfigError
from roundtable_local.schema import Schema, canonical
from roundtable_local.yamlfiles import NotYamlError, parse_yaml

_WORDS = Path(__file__).parent / "scripted_model" / "words.txt"
_MOST_IDS = 3
_FILLED = 0.6
"""Share of a string's bound that drawn prose fills."""
_THOUGHT = 120
"""Characters that a drawn thought has at most."""


class ScriptedBackend:
    """Replies from `script`; the rest drawn from each request's schema by its seed.

    Args:
        script: replies by label.
    """

    def __init__(self, script: Mapping[str, Any] | None = None) -> None:
        self._script = dict(script or {})
        self._words = _WORDS.read_text("utf-8").split()
        self.labels: list[list[str]] = []
        """Labels of every call so far, for tests."""

    @classmethod
    def from_file(cls, path: Path) -> ScriptedBackend:
        """Read a script from YAML or JSON.

        Raises:
            ConfigError: the file cannot be read, is not a mapping, or holds values that JSON has not.
        """
        try:
            script = parse_yaml(path.read_text("utf-8-sig"))
        except (OSError, UnicodeDecodeError, NotYamlError) as error:
            raise ConfigError(f"{path} cannot be read as a script of replies: {error}", "write YAML or JSON") from error
        if not isinstance(script, dict):
            raise ConfigError(f"{path} is not a mapping of replies", 'write "turn/ask: reply" per entry')
        try:
            canonical(script)
        except (TypeError, ValueError) as error:  # YAML has dates, bytes and sets, and replies are JSON
            raise ConfigError(f"{path} holds what no reply can: {error}", "put dates and the like in quotes") from error
        return cls(script)

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        """Answer every request, in order; see `Backend.generate`."""
        self.labels.append([request.label for request in requests])
        generations = []
        for index, request in enumerate(requests):
            generation = Generation("", [], "abort") if stop() else self._answer(request)
            generations.append(generation)
            on_done(index, generation)
        return generations

    def describe(self) -> Mapping[str, Any]:
        """Name only: there is nothing else."""
        return {"backend": "scripted"}

    def close(self) -> None:
        """There is nothing to free."""

    def _answer(self, request: Request) -> Generation:
        short = request.label.rsplit("/", 1)[0]
        scripted = self._script.get(request.label, self._script.get(short))
        if scripted is None:
            if request.schema is None and request.stop:
                return _generation(
                    f"{self._draw_prose(_THOUGHT, random.Random(request.seed))} {request.stop[0]}", "stop"
                )
            if request.schema is None:
                raise BackendError(
                    f"{request.label}: no scripted reply and no schema to draw one from", "add it to the script"
                )
            return _generation(canonical(self._draw(json.loads(request.schema), random.Random(request.seed))), "stop")
        if isinstance(scripted, Mapping) and "finish_reason" in scripted:
            return _generation(str(scripted.get("text", "")), scripted["finish_reason"])
        return _generation(scripted if isinstance(scripted, str) else canonical(scripted), "stop")

    def _draw(self, schema: Schema, dice: random.Random) -> Any:
        if "anyOf" in schema:
            first, *rest = schema["anyOf"]
            return self._draw(dice.choice([first, first, *rest]), dice)
        if "enum" in schema:
            return dice.choice(schema["enum"])
        if schema["type"] == "object":
            return {key: self._draw(value, dice) for key, value in schema["properties"].items()}
        if schema["type"] == "array":
            return self._draw_list(schema, dice)
        return self._draw_prose(schema["maxLength"], dice)

    def _draw_list(self, schema: Schema, dice: random.Random) -> list[Any]:
        if "enum" in schema["items"]:  # ids: few and no repeats, as a careful writer would name them
            ids = schema["items"]["enum"]
            return dice.sample(ids, min(len(ids), dice.randint(schema["minItems"], min(schema["maxItems"], _MOST_IDS))))
        length = dice.randint(schema["minItems"], schema["maxItems"])
        return [self._draw(schema["items"], dice) for _ in range(length)]

    def _draw_prose(self, bound: int, dice: random.Random) -> str:
        text = dice.choice(self._words)
        while len(text) < bound * _FILLED:
            text += " " + dice.choice(self._words)
        return text[: bound - 1].rstrip().capitalize() + "."


def _generation(text: str, finish_reason: Any) -> Generation:
    return Generation(text, list(text.encode("utf-8", "replace")), finish_reason, None)
