"""Measure what the fallback saves by keeping the seats' shared context as one copy.

One round of seats of a supermajority debate on the transformers engine, two ways in turn: with the context shared, and
with a plain padded batch that repeats it for every seat (`engine: {shared_prefix: false}`). Every seat generates
exactly `--tokens` tokens: replies are unconstrained and the end-of-text token is ignored. Each measurement starts from
an empty cache; the first repetition warms up and is dropped. Shown are medians and their ratio, and how many seats
said the same both ways (all, in float32).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

from bench_round import decision_text, first_turn, positive, say
from roundtable_local.backends.base import Generation, Request, Sampling
from roundtable_local.backends.transformers_local import TransformersBackend
from roundtable_local.config import model_profile
from roundtable_local.errors import RoundtableError, WindowError
from roundtable_local.model import read_model
from roundtable_local.prompts import render
from roundtable_local.settings import ModelProfile
from roundtable_local.tokens import Codec


class ExactBackend(TransformersBackend):
    """The product's backend, but every reply has exactly the tokens asked for."""

    def __init__(self, profile: ModelProfile, window: int, *, share: bool, dtype: str) -> None:
        engine = {"dtype": dtype, "shared_prefix": share}
        super().__init__(profile.model_copy(update={"engine": engine}), window)
        self._stops = frozenset()


def make_requests(codec: Codec, options: argparse.Namespace, sampling: Sampling) -> list[Request]:
    """One request a seat."""
    turn = first_turn(decision_text(codec, options.decision_tokens), options.seats)
    context = codec.context(turn.context)
    return [
        Request(f"round/{seat}/1", codec.prompt(context, ask.brief.text), options.tokens, sampling, seat)
        for seat, ask in enumerate(turn.asks)
    ]


def measure(backend: TransformersBackend, requests: Sequence[Request]) -> tuple[float, list[Generation]]:
    """Seconds and replies of one call, from an empty cache."""
    backend.reset_cache()
    began = time.perf_counter()
    replies = backend.generate(requests, lambda index, generation: None, lambda: False)
    return time.perf_counter() - began, replies


def run(options: argparse.Namespace) -> None:
    """Prepare, measure and print."""
    profile = model_profile(options.model, {})
    model = read_model(Path(profile.path), weights=True)
    codec = Codec(model.path, render("system.j2").text)
    window = min(profile.window, model.window or profile.window)
    requests = make_requests(codec, options, Sampling(**profile.sampling.model_dump()))
    need = max(len(request.prompt_ids) for request in requests) + options.tokens
    if need > window:
        raise WindowError(f"prompt and reply need {need:,} tokens; the window is {window:,}", "lower --decision-tokens")
    seconds: dict[str, list[float]] = {"shared": [], "repeated": []}
    same = []
    with ExitStack() as stack:
        arms = {}
        for name in seconds:
            say(f"loading the model ({name})")
            backend = ExactBackend(profile, window, share=name == "shared", dtype=options.dtype)
            arms[name] = stack.enter_context(closing(backend))
        for number in range(options.repeat + 1):
            replies = {}
            for name, backend in arms.items():
                took, replies[name] = measure(backend, requests)
                say(f"{f'repetition {number}' if number else 'warm-up'}: {name}: {took:.2f} s")
                seconds[name] += [took] if number else []
            pairs = zip(replies["shared"], replies["repeated"], strict=True)
            same.append(sum(one.token_ids == other.token_ids for one, other in pairs))
        told = arms["shared"].describe()
    prompt = sum(len(request.prompt_ids) for request in requests)
    computed = prompt - sum(reply.cached_tokens or 0 for reply in replies["shared"])
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    print(f"{options.seats} seats, {prompt:,} prompt tokens, {options.tokens} tokens generated a seat, {options.dtype}")
    print(f"model {model.path.name}; {versions}\nshared prefix: {told['shared_prefix']}\n")
    for name, computed_tokens in (("shared", computed), ("repeated", prompt)):
        print(f"{name:<9}{median(seconds[name]):>8.2f} s   {computed_tokens:>7,} prompt tokens computed")
    print(f"ratio    {median(seconds['repeated']) / median(seconds['shared']):>8.2f}")
    print(f"the same reply both ways: {min(same)} of {options.seats} seats")


def main() -> int:
    """Read the command line, and put every failure in one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--model", default="tiny-cpu", help="profile, profile file or model folder (%(default)s)")
    parser.add_argument("--seats", type=positive, default=5, help="seats of the round (%(default)s)")
    parser.add_argument(
        "--decision-tokens", type=positive, default=800, metavar="N", help="tokens of the decision (%(default)s)"
    )
    parser.add_argument("--tokens", type=positive, default=60, metavar="N", help="tokens a seat (%(default)s)")
    parser.add_argument("--repeat", type=positive, default=3, metavar="N", help="after the warm-up (%(default)s)")
    parser.add_argument("--dtype", default="float32", help="of weights and cache (%(default)s)")
    try:
        run(parser.parse_args())
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except RoundtableError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
