"""What a model folder says of itself, read from config.json and safetensors headers; no weights are loaded."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roundtable_local.errors import ModelError

_WINDOW_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_WEIGHTS = "*.safetensors"
_HEADER_MOST = 100_000_000  # the format's own limit
_HASHED_WHOLE = (
    64 * 2**20
)  # larger files (weights) are told apart by size and their first part: hashing 100 GB takes minutes


@dataclass(frozen=True)
class ModelFolder:
    """One local model.

    Args:
        path: its folder.
        window: its own context window in tokens; None where it does not say.
        parameters: number of weights; None without safetensors files.
        files: fingerprint per file: sha256, for large files of their size and first 64 MiB.
    """

    path: Path
    window: int | None
    parameters: int | None
    files: dict[str, str]


def read_model(path: Path, *, weights: bool) -> ModelFolder:
    """Read a model folder.

    Args:
        path: the folder.
        weights: whether the engine will need config.json and weights.

    Raises:
        ModelError: folder, config.json or weights are missing or damaged.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - unlike Path's, false for a name no file system can have
        if os.path.exists(path):  # noqa: PTH110
            raise ModelError(
                f"{path} is a file, not a model's folder", "name the folder that holds config.json and weights"
            )
        fix = "copy the model there, or name another with --model; `make demo` fetches the tiny one"
        raise ModelError(f"the model folder {path} does not exist", fix)
    config_path = path / "config.json"
    config: dict[str, Any] = {}
    if config_path.is_file():
        try:
            config = json.loads(config_path.read_text("utf-8"))
            if not isinstance(config, dict):
                raise ValueError("not a JSON object")
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"{config_path} is not valid JSON: {error}", "copy the model's folder again") from error
    elif weights:
        raise ModelError(f"{path} has no config.json", "name the folder of a model in Hugging Face format")
    shards = sorted(path.glob(_WEIGHTS))
    if weights and not shards:
        raise ModelError(
            f"{path} has no safetensors weights", "convert the weights to safetensors; pickles and GGUF are refused"
        )
    nested = config.get("text_config")
    text: dict[str, Any] = nested if isinstance(nested, dict) else config
    window = next((text[key] for key in _WINDOW_KEYS if _is_size(text.get(key)) and text[key]), None)
    headers = read_headers(path)
    parameters = sum(_parameters(header) for header in headers.values()) if headers else None
    return ModelFolder(path, window, parameters, _fingerprints(path))


def read_headers(folder: Path) -> dict[str, dict[str, Any]]:
    """Headers of a folder's safetensors files, by file name.

    Raises:
        ModelError: one cannot be read.
    """
    return {shard.name: _header(shard) for shard in sorted(folder.glob(_WEIGHTS))}


def _header(shard: Path) -> dict[str, Any]:
    try:
        with shard.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(_HEADER_MOST, shard.stat().st_size):
                raise ValueError("its header is longer than the file")
            header: dict[str, Any] = json.loads(file.read(length))
        for name, tensor in header.items():
            if name != "__metadata__" and not _is_shape(tensor["shape"]):
                raise ValueError(f"{name} has no shape")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise ModelError(f"{shard} is not a readable safetensors file", "copy the model's folder again") from error
    return header


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(_is_size(size) for size in value)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parameters(header: dict[str, Any]) -> int:
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def read_files(folder: Path) -> dict[str, str]:
    """Fingerprints of a folder's files, for what is not a whole model.

    Raises:
        ModelError: it is no folder, or a file cannot be read.
    """
    return _fingerprints(folder)


def _fingerprints(folder: Path) -> dict[str, str]:
    try:
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
        return {path.name: _fingerprint(path) for path in files}
    except OSError as error:
        message = f"{error.filename or folder} cannot be read: {error.strerror}"
        raise ModelError(message, "change its permissions, or copy the model's folder again") from error


def _fingerprint(path: Path) -> str:
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file:
        if size > _HASHED_WHOLE:
            digest.update(f"{size}:".encode())
        digest.update(file.read(_HASHED_WHOLE))
    return digest.hexdigest()
