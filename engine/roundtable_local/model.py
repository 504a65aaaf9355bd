"""What a model folder says of itself, read from config.json and safetensors headers; no weights are loaded."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roundtable_local.errors import ModelError

Header = dict[str, dict[str, Any]]

_WINDOW_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_WEIGHTS = "*.safetensors"
_INDEX = "model.safetensors.index.json"
_POINTER = b"version "
"""The first bytes of a file that Git LFS has not fetched."""
_NAMED = 3  # files that a message names
REFUSED_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.gguf")
"""Weights in forms that are never loaded: pickles can run code, GGUF needs an engine of its own."""
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
    config = read_config(path, needed=weights)
    headers = read_headers(path, needed=weights)
    return ModelFolder(path, own_window(config), count_parameters(headers), _fingerprints(path))


def read_config(path: Path, *, needed: bool) -> dict[str, Any]:
    """A model folder's config.json; empty where there is none and none is needed.

    Raises:
        ModelError: no folder, no config.json although it is needed, or a damaged one.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - unlike Path's, false for a name no file system can have
        if os.path.exists(path):  # noqa: PTH110
            raise ModelError(
                f"{path} is a file, not a model's folder", "name the folder that holds config.json and weights"
            )
        fix = "copy the model there, or name another with --model; `make demo` fetches the tiny one"
        raise ModelError(f"the model folder {path} does not exist", fix)
    config_path = path / "config.json"
    if config_path.is_file():
        return _json_object(config_path)
    if needed:
        raise ModelError(f"{path} has no config.json", "name the folder of a model in Hugging Face format")
    return {}


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What config.json says of the language model: models that also see or hear nest it."""
    nested = config.get("text_config")
    return nested if isinstance(nested, dict) else config


def own_window(config: Mapping[str, Any]) -> int | None:
    """The model's own context window in tokens; None where config.json does not say."""
    text = text_part(config)
    return next((text[key] for key in _WINDOW_KEYS if _is_size(text.get(key)) and text[key]), None)


def read_headers(folder: Path, *, needed: bool = False) -> dict[str, Header]:
    """Headers of the safetensors files that make up a folder's weights, by file name.

    Where an index lists the files, others beside them (the same weights in another form) are none of the model's.

    Raises:
        ModelError: one is missing, cut off, or cannot be read; or there is none although they are needed.
    """
    shards = {shard.name: shard for shard in sorted(folder.glob(_WEIGHTS))}
    if needed and not shards:
        raise _no_weights(folder)
    if shards and (folder / _INDEX).is_file():
        listed = _listed(folder / _INDEX)
        if missing := sorted(listed - shards.keys()):
            message = f"{folder} lacks {len(missing)} of its {len(listed)} weight files: {', '.join(missing[:_NAMED])}"
            raise ModelError(message + (", ..." if len(missing) > _NAMED else ""), "copy the model's folder again")
        shards = {name: shard for name, shard in shards.items() if name in listed}
    return {name: _header(shard) for name, shard in shards.items()}


def count_parameters(headers: Mapping[str, Header]) -> int | None:
    """Number of weights; None without any file."""
    if not headers:
        return None
    return sum(math.prod(tensor["shape"]) for header in headers.values() for tensor in header.values())


def _no_weights(folder: Path) -> ModelError:
    found = sorted(path.name for pattern in REFUSED_WEIGHTS for path in folder.glob(pattern))
    beside = f", only {', '.join(found[:_NAMED])}" if found else ""
    return ModelError(
        f"{folder} has no safetensors weights{beside}",
        "convert the weights to safetensors; pickles and GGUF are refused",
    )


def _json_object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}", "copy the model's folder again") from error
    return data


def _listed(index: Path) -> set[str]:
    files = _json_object(index).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise ModelError(f"{index} has no weight_map of file names", "copy the model's folder again")
    return set(files.values())


def _header(shard: Path) -> Header:
    """Tensors by name: dtype, shape and where they lie."""
    fix = "copy the model's folder again"
    try:
        size = shard.stat().st_size
        with shard.open("rb") as file:
            first = file.read(8)
            if first == _POINTER:
                raise ModelError(f"{shard} is a Git LFS pointer, not the weights", "run `git lfs pull`, then copy them")
            (length,) = struct.unpack("<Q", first)
            if length > min(_HEADER_MOST, size):
                raise ValueError("its header is longer than the file")
            header: Header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            if not _is_shape(tensor["shape"]) or not (_is_shape(tensor["data_offsets"]) and tensor["data_offsets"]):
                raise ValueError(f"{name} has no shape, or no place in the file")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise ModelError(f"{shard} is not a readable safetensors file", fix) from error
    full = 8 + length + max((tensor["data_offsets"][-1] for tensor in header.values()), default=0)
    if full > size:
        raise ModelError(f"{shard} is cut off: it has {size:,} of {full:,} bytes", fix)
    return header


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(_is_size(size) for size in value)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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
