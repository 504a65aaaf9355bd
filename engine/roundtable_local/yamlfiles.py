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
        data = yaml.safe_load(text)
        if _contains_itself(data, set(), set()):
            raise NotYamlError("a value contains itself", None)
        return data
    except NotYamlError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise NotYamlError(getattr(error, "problem", None) or "not YAML", mark.line + 1 if mark else None) from error
    except RecursionError as error:
        raise NotYamlError("nested too deeply", None) from error
    except (ValueError, AttributeError, TypeError, LookupError, OverflowError) as error:
        # the library's own constructors let these through, for example for the date 2026-02-30 or !!int x
        raise NotYamlError(f"a value cannot be read: {' '.join(str(error).split())[:120]}", None) from error


def _contains_itself(value: Any, above: set[int], done: set[int]) -> bool:
    """Whether an alias leads back to a list or mapping around it: nothing that walks the data would ever end.

    Args:
        value: the data.
        above: ids of the lists and mappings around it.
        done: ids of those that were looked through, so that many aliases of one value cost no more than one.
    """
    if not isinstance(value, list | dict) or id(value) in done:
        return False
    if id(value) in above:
        return True
    above.add(id(value))
    children = value.values() if isinstance(value, dict) else value
    found = any(_contains_itself(child, above, done) for child in children)
    above.discard(id(value))
    done.add(id(value))
    return found
