"""YAML files and `--set` values become frozen settings.

Precedence: command line, decision file, config file, protocol default. Unknown keys are errors
wherever they are ours to define.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
from pydantic import BaseModel, ValidationError

from roundtable_local.errors import ConfigError, ModelError, RoundtableError, UsageError
from roundtable_local.settings import EngineSettings, ModelProfile
from roundtable_local.shipped import names, shipped
from roundtable_local.yamlfiles import NotYamlError, parse_yaml

SettingsT = TypeVar("SettingsT", bound=BaseModel)

MODEL_PREFIX = "model."
"""`--set model.window=4096` changes the model profile; other keys change the protocol's settings."""


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file whose top level is a mapping.

    Raises:
        ConfigError: unreadable, not YAML, or not a mapping.
    """
    try:
        data = parse_yaml(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})", "save it as UTF-8") from error
    except NotYamlError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}", "mend the line it names") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a mapping of settings", "write one `key: value` per line")
    return data


def engine_settings() -> EngineSettings:
    """configs/engine.yaml as shipped."""
    path = shipped("configs") / "engine.yaml"
    return validate(EngineSettings, read_yaml(path), str(path), ConfigError)


def protocol_settings(
    name: str,
    kind: type[SettingsT],
    *,
    config: Mapping[str, Any],
    decision: Mapping[str, Any],
    command_line: Mapping[str, Any],
) -> SettingsT:
    """A protocol's settings after all layers.

    Args:
        name: the protocol; its defaults are configs/protocols/NAME.yaml.
        kind: the protocol's settings type.
        config: `settings:` of the user's config file.
        decision: `settings:` of the decision file.
        command_line: nested values of `--set`.

    Raises:
        ConfigError: a file has an unknown key or a wrong value.
        UsageError: `--set` has.
    """
    path = shipped("configs") / "protocols" / f"{name}.yaml"
    layers: list[tuple[Mapping[str, Any], str, type[RoundtableError]]] = [
        (read_yaml(path), str(path), ConfigError),
        (config, "the config file", ConfigError),
        (decision, "the decision file's settings", ConfigError),
        (command_line, "--set", UsageError),
    ]
    merged: dict[str, Any] = {}
    for layer, source, error in layers:  # each layer is checked on its own, so that the message names its source
        merged = merge(merged, layer)
        settings = validate(kind, merged, source, error)
    return settings


def model_profile(argument: str, overrides: Mapping[str, Any]) -> ModelProfile:
    """The profile behind `--model`: a shipped name, a profile file, or a model's folder.

    A bare folder runs with the values of configs/models/default.yaml. Hub names are refused: nothing is
    ever downloaded.

    Raises:
        UsageError: no such profile, file or folder, or an unknown key in `--set model.*`.
        ConfigError: a profile file has unknown keys or wrong values.
    """
    folder = shipped("configs") / "models"
    path = _path(argument)
    if path is None:
        raise _unknown_model(argument)
    if path.is_dir():
        source = folder / "default.yaml"
        data = read_yaml(source) | {"path": str(path.resolve())}
    elif path.suffix in {".yaml", ".yml"} and path.is_file():
        source, data = path, read_yaml(path)
    elif argument in names("configs", "models") and argument != "default":
        source = folder / f"{argument}.yaml"
        data = read_yaml(source)
    else:
        raise _unknown_model(argument)
    profile = validate(ModelProfile, data, str(source), ConfigError)
    if overrides:
        profile = validate(ModelProfile, merge(data, overrides), "--set", UsageError)
    template = profile.chat_template
    return profile.model_copy(
        update={
            "path": str(_model_folder(profile.path, source.parent)),
            "chat_template": str((source.parent / Path(template).expanduser()).resolve()) if template else None,
        }
    )


def _path(argument: str) -> Path | None:
    """The argument as a path; None where no file system could have it (too long, NUL, unknown home)."""
    try:
        path = Path(argument).expanduser()
        path.exists()
    except (OSError, ValueError, RuntimeError):
        return None
    return path


def _unknown_model(argument: str) -> RoundtableError:
    known = ", ".join(name for name in names("configs", "models") if name != "default")
    if argument.lower().endswith(".gguf"):
        return ModelError(
            f"{argument}: GGUF files are not supported", "convert it to a folder with safetensors weights"
        )
    fix = f"name a folder with a model, a profile file (.yaml), or one of: {known}"
    if argument.count("/") == 1 and not argument.startswith((".", "/", "~")):
        return UsageError(
            f"{argument!r} looks like a hub name; models are local folders and nothing is downloaded", fix
        )
    return UsageError(f"there is no model {argument!r}", fix)


def _model_folder(path: str, base: Path) -> Path:
    cache = platformdirs.user_cache_path("roundtable-local", appauthor=False)
    path = path.replace("{cache}", str(cache)).replace("{package}", str(Path(__file__).resolve().parent))
    return (base / Path(path).expanduser()).resolve()


def parse_set(assignments: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`--set key=value` assignments as (protocol values, model values), dotted keys nested.

    Values are read as YAML, so `3`, `0.2`, `true` and `[a, b]` have their types.

    Raises:
        UsageError: not of the form KEY=VALUE.
    """
    protocol: dict[str, Any] = {}
    model: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(f"--set {assignment!r} is not KEY=VALUE", "for example --set recommendations.most=5")
        try:
            value = parse_yaml(text)
        except NotYamlError as error:
            raise UsageError(
                f"--set {key}: {text!r} is not a YAML value", "put strings with : or # in quotes"
            ) from error
        target, dotted = (model, key.removeprefix(MODEL_PREFIX)) if key.startswith(MODEL_PREFIX) else (protocol, key)
        *parents, leaf = dotted.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
            if not isinstance(target, dict):
                raise _whole_and_parts(key)
        if leaf in target and (isinstance(value, dict) or isinstance(target[leaf], dict)):
            raise _whole_and_parts(key)
        target[leaf] = value
    return protocol, model


def _whole_and_parts(key: str) -> UsageError:
    return UsageError(f"--set {key} is given as a whole and in parts", "set either the whole or its parts")


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid upon `base`; mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def validate(
    kind: type[SettingsT], data: Mapping[str, Any], source: str, error_type: type[RoundtableError]
) -> SettingsT:
    """`data` as settings; the first problem becomes one line that names the key and its like.

    Raises:
        RoundtableError: of `error_type`, where a key is unknown, missing or has a wrong value.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            known = _keys_at(kind, problem["loc"][:-1])
            close = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
            fix = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
            raise error_type(f"{source}: unknown key {key!r}", fix) from error
        reason = problem["msg"].removeprefix("Value error, ")
        raise error_type(f"{source}: {key or 'settings'}: {reason}", "correct the value") from error


def _keys_at(kind: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    for part in path:
        field = kind.model_fields.get(str(part))
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return []
        kind = field.annotation
    return list(kind.model_fields)
