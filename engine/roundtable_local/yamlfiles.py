"""YAML text becomes data; whatever the parser raises becomes one error with a line number."""

from __future__ import annotations

from typing import Any

import yaml


class NotYamlError(ValueError):
    """Text that is not YAML, or holds a value that YAML cannot mean. `line` counts from 1 and may be unknown."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}")
        self.problem = problem
        self.line = line


def parse_yaml(text: str) -> Any:
    """The data that YAML text holds.

    Raises:
        NotYamlError: it holds none.
    """
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise NotYamlError(getattr(error, "problem", None) or "not YAML", mark.line + 1 if mark else None) from error
    except RecursionError as error:
        raise NotYamlError("nested too deeply", None) from error
    except (ValueError, AttributeError, TypeError, KeyError, OverflowError) as error:
        # the library's own constructors let these through, for example for the date 2026-02-30 or !!int x
        raise NotYamlError(f"a value cannot be read: {' '.join(str(error).split())[:120]}", None) from error
