"""What sharing the prefix is worth in the transformers fallback: the same seats with one copy of it and with whole prompts.

    python scripts/bench_fallback.py --model tiny-cpu --seats 5 --prefix 1000 --tokens 60

Prints both times and their ratio, measured side by side in one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from roundtable_local.backends.base import Generation, Request, Sampling
from roundtable_local.backends.transformers_local import TransformersBackend
from roundtable_local.config import model_profile
from roundtable_local.prompts import render
from roundtable_local.tokens import Codec

TEXT = "The order system is one application with one database, and two teams release it together. "


def make_requests(codec: Codec, seats: int, prefix: int, tokens: int) -> list[Request]:
    """One request per seat: a shared beginning of `prefix` tokens, then the seat's own brief."""
    head = list(codec.frame.head) + list(codec.encode(TEXT * prefix))[:prefix]
    sampling = Sampling(0.8, 0.95, 0, 0.0, 0.3, 1.0)
    return [
        Request(f"bench/{seat}/1", codec.prompt(head, f"Seat {seat}: say what to do."), tokens, sampling, seat)
        for seat in range(seats)
    ]


def seconds(backend: TransformersBackend, requests: Sequence[Request]) -> float:
    """Of one cold call, or of one call per request where the list is given in parts."""
    backend.forget()
    began = time.perf_counter()
    generations: list[Generation] = backend.generate(requests, lambda index, generation: None, lambda: False)
    if any(generation.finish_reason not in {"stop", "length"} for generation in generations):
        raise SystemExit("a reply failed: the times mean nothing")
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-cpu")
    parser.add_argument("--seats", type=int, default=5)
    parser.add_argument("--prefix", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=60)
    options = parser.parse_args()
    profile = model_profile(options.model, {})
    backend = TransformersBackend(profile, profile.window)
    codec = Codec(Path(profile.path), render("system.j2").text)
    requests = make_requests(codec, options.seats, options.prefix, options.tokens)
    seconds(backend, requests[:1])  # warm-up
    shared = seconds(backend, requests)
    backend._shares = False
    backend._model.set_attn_implementation("sdpa")
    whole = seconds(backend, requests)
    print(
        f"{options.seats} seats, {options.prefix} shared tokens, {options.tokens} new ones each, {backend.describe()['dtype']}"
    )
    print(f"one copy of the prefix  {shared:6.1f} s")
    print(f"whole prompts, padded   {whole:6.1f} s")
    print(f"ratio                   {whole / shared:6.2f}")


if __name__ == "__main__":
    main()
