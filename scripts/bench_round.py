"""Measure what the order of a prompt's parts costs: one round of seats, three ways, on one engine.

Every seat reads the same decision and task; only its brief (role) is its own. The arms:

    a  shared context first, brief last, all seats in one generate call: how debates run
    b  role first: brief before the context, one generate call
    c  role first, one request at a time

The prompts are those of round 1 of a supermajority debate, made by the protocol and the tokenizer code that debates
use, and they run on the same vLLM backend. Every seat generates exactly `--tokens` tokens: replies are unconstrained
and the end-of-text token is ignored. A fourth arm runs `a` with one token a seat, which is its prefill; the remainder
of `a` is decode, which no order of parts can save.

Before each measurement the prefix cache is emptied. The arms take turns (a, b, c, prefill, a, b, ...), so that noise
hits all alike; the first repetition warms the engine up and is dropped. Shown are medians, the ratios of the medians,
and in brackets the least and largest ratio within one repetition.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from roundtable_local import protocols
from roundtable_local.backends.base import Generation, Request, Sampling
from roundtable_local.backends.vllm_offline import VllmBackend
from roundtable_local.config import engine_settings, model_profile, protocol_settings, read_yaml
from roundtable_local.decision import parse_decision
from roundtable_local.errors import BackendError, RoundtableError, UsageError, WindowError
from roundtable_local.model import read_model
from roundtable_local.prompts import render
from roundtable_local.seats import Roster, Table
from roundtable_local.settings import ModelProfile
from roundtable_local.shipped import shipped
from roundtable_local.steps import Block, Turn
from roundtable_local.tokens import Codec

EXAMPLE: Final = Path(__file__).resolve().parent.parent / "examples" / "modular-monolith.md"
PROTOCOL: Final = "supermajority"
DATE: Final = "2026-03-01"


class ExactBackend(VllmBackend):
    """The product's backend, but every reply has exactly the tokens asked for."""

    def _sampling(self, request: Request) -> Any:
        values = super()._sampling(request)
        values.ignore_eos = True
        return values


@dataclass(frozen=True)
class Arm:
    """One way to run the round."""

    name: str
    prompts: Sequence[Sequence[int]]
    max_tokens: int
    at_once: bool


@dataclass(frozen=True)
class Sample:
    """One measurement of an arm; `computed` are the prompt tokens that the prefix cache did not save."""

    seconds: float
    prompt: int
    computed: int
    generated: int


def decision_text(codec: Codec, tokens: int) -> str:
    """Text of `tokens` tokens, or the few less where words end: the example's lines, shuffled with a fixed seed."""
    lines = [line.lstrip("# ") for line in EXAMPLE.read_text("utf-8").splitlines() if line.strip()]
    dice = random.Random(1)
    paragraphs: list[str] = []
    size = 0
    while size < tokens:
        number = len(paragraphs) + 1
        paragraphs.append(f"Note {number}. " + " ".join(dice.sample(lines, k=min(6, len(lines)))))
        size += codec.count(paragraphs[-1])
    words = "\n\n".join(paragraphs).split(" ")
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if codec.count(" ".join(words[:middle])) <= tokens:
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low]).strip()


def first_turn(decision: str, seats: int) -> Turn:
    """Round 1 of a supermajority debate about this text, with the first seats of the roster."""
    protocol = protocols.find(PROTOCOL)
    roster = Roster.model_validate(read_yaml(shipped("configs") / "rosters" / f"{PROTOCOL}.yaml"))
    if seats > len(roster.seats):
        raise UsageError(f"--seats {seats}: the roster has {len(roster.seats)} seats", "name that many or fewer")
    settings = protocol_settings(PROTOCOL, protocol.settings, config={}, decision={}, command_line={})
    problem = parse_decision(decision, "decision.md", engine_settings().slug)
    steps = protocol.debate(Table(roster.seats[:seats], problem, settings, DATE))
    return next(step for step in steps if isinstance(step, Turn))


def make_arms(codec: Codec, options: argparse.Namespace) -> dict[str, Arm]:
    """The arms by letter; "p" is the prefill of "a"."""
    turn = first_turn(decision_text(codec, options.decision_tokens), options.seats)
    context, tail = codec.context(turn.context), codec.frame.tail
    roles = [ask.brief.text for ask in turn.asks]
    shared = [codec.prompt(context, role) for role in roles]
    role_first = [[*codec.context((Block("", role, "instructions"), *turn.context)), *tail] for role in roles]
    return {
        "a": Arm("shared first, one call", shared, options.tokens, True),
        "b": Arm("role first, one call", role_first, options.tokens, True),
        "c": Arm("role first, one at a time", role_first, options.tokens, False),
        "p": Arm("shared first, 1 token a seat", shared, 1, True),
    }


def check_window(arms: Mapping[str, Arm], window: int) -> None:
    """Refuse a round that does not fit, before the engine starts."""
    need = max(len(prompt) + arm.max_tokens for arm in arms.values() for prompt in arm.prompts)
    if need > window:
        fix = "lower --decision-tokens or --tokens"
        raise WindowError(f"the longest prompt and reply need {need:,} tokens; the window is {window:,}", fix)


def measure(backend: VllmBackend, arm: Arm, sampling: Sampling) -> Sample:
    """Run an arm once, from an empty prefix cache."""
    requests = [
        Request(f"round/{seat}/1", prompt, arm.max_tokens, sampling, seat) for seat, prompt in enumerate(arm.prompts)
    ]
    calls = [requests] if arm.at_once else [[request] for request in requests]
    backend.reset_cache()
    began = time.perf_counter()
    generations = [each for call in calls for each in backend.generate(call, _ignore, _never)]
    seconds = time.perf_counter() - began
    return _sample(requests, generations, seconds)


def _ignore(index: int, generation: Generation) -> None:
    """Nothing is done with a reply."""


def _never() -> bool:
    return False


def _sample(requests: Sequence[Request], generations: Sequence[Generation], seconds: float) -> Sample:
    cached = [each.cached_tokens for each in generations]
    known = [each for each in cached if each is not None]
    if len(known) < len(cached):
        raise BackendError("the engine does not tell which prompt tokens were cached", "use another version of vLLM")
    if known[0]:
        raise BackendError("the prefix cache was not empty when a measurement began", "use another version of vLLM")
    for request, generation in zip(requests, generations, strict=True):
        if len(generation.token_ids) != request.max_tokens:
            told = f"{request.label}: {len(generation.token_ids)} tokens instead of {request.max_tokens}"
            raise BackendError(f"{told} ({generation.finish_reason})", "use another version of vLLM")
    prompt = sum(len(request.prompt_ids) for request in requests)
    return Sample(seconds, prompt, prompt - sum(known), sum(len(each.token_ids) for each in generations))


def repeat(
    backend: VllmBackend, arms: Mapping[str, Arm], sampling: Sampling, repetitions: int
) -> dict[str, list[Sample]]:
    """All arms in turn, `repetitions` times and once before that for nothing."""
    samples: dict[str, list[Sample]] = {key: [] for key in arms}
    for number in range(repetitions + 1):
        label = f"repetition {number}/{repetitions}" if number else "warm-up"
        for key, arm in arms.items():
            sample = measure(backend, arm, sampling)
            say(f"{label}: {arm.name}: {sample.seconds:.2f} s, {sample.computed:,} prompt tokens computed")
            if number:
                samples[key].append(sample)
    return samples


def middle_of(samples: Sequence[Sample]) -> Sample:
    """Medians of an arm's measurements."""
    return Sample(
        median(each.seconds for each in samples),
        round(median(each.prompt for each in samples)),
        round(median(each.computed for each in samples)),
        round(median(each.generated for each in samples)),
    )


def report(samples: Mapping[str, Sequence[Sample]], arms: Mapping[str, Arm]) -> str:
    """The table, the ratios, and what bounds them."""
    middle = {key: middle_of(each) for key, each in samples.items()}
    lines = [f"{'':<33}{'seconds':>9}{'prompt tokens':>15}{'computed':>10}{'generated':>11}{'tokens/s':>10}"]
    for key, row in middle.items():
        name = f"{key}  {arms[key].name}"
        rate = row.generated / row.seconds
        lines.append(
            f"{name:<33}{row.seconds:>9.2f}{row.prompt:>15,}{row.computed:>10,}{row.generated:>11,}{rate:>10.1f}"
        )
    lines += ["", *(_ratio(samples, key) for key in ("b", "c")), "", *_bounds(middle)]
    return "\n".join(lines)


def _ratio(samples: Mapping[str, Sequence[Sample]], key: str) -> str:
    over = median(each.seconds for each in samples[key]) / median(each.seconds for each in samples["a"])
    single = [one.seconds / base.seconds for one, base in zip(samples[key], samples["a"], strict=True)]
    return f"{key}/a  {over:.2f}  ({min(single):.2f} to {max(single):.2f})"


def _bounds(middle: Mapping[str, Sample]) -> list[str]:
    ours, prefill, theirs = middle["a"], middle["p"], middle["b"]
    decode = ours.seconds - prefill.seconds
    return [
        f"Of a's {ours.seconds:.2f} s, {prefill.seconds:.2f} s are prefill with one token a seat; the other "
        f"{decode:.2f} s ({decode / ours.seconds:.0%}) are decode, which no ordering can save.",
        f"b computes {theirs.computed / ours.computed:.2f} times the prompt tokens of a. With a's decode time taken off "
        f"both, b/a is {(theirs.seconds - decode) / prefill.seconds:.2f}.",
    ]


def describe(profile: ModelProfile, backend: VllmBackend, options: argparse.Namespace) -> str:
    """What was measured, and on what."""
    versions = ", ".join(f"{name} {number}" for name, number in backend.describe()["versions"].items())
    return (
        f"{options.seats} seats, decision of {options.decision_tokens:,} tokens, {options.tokens} tokens generated a seat, "
        f"median of {options.repeat}\nmodel {Path(profile.path).name}; {versions}; {os.cpu_count()} CPUs\n"
    )


def say(message: str) -> None:
    """One line of progress."""
    print(f"bench: {message}", file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> None:
    """Prepare, measure and print."""
    profile = model_profile(options.model, {})
    model = read_model(Path(profile.path), weights=True)
    codec = Codec(model.path, render("system.j2").text)
    window = min(profile.window, model.window or profile.window)
    arms = make_arms(codec, options)
    check_window(arms, window)
    say("starting the engine")
    with closing(ExactBackend(profile, window)) as backend:
        samples = repeat(backend, arms, Sampling(**profile.sampling.model_dump()), options.repeat)
        print(describe(profile, backend, options))
    print(report(samples, arms))


def positive(text: str) -> int:
    """An argument that is a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def main() -> int:
    """Read the command line, and put every failure in one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--model", default="tiny-cpu", help="profile, profile file or model folder (%(default)s)")
    parser.add_argument("--seats", type=positive, default=10, help="seats of the round (%(default)s)")
    parser.add_argument(
        "--decision-tokens", type=positive, default=3500, metavar="N", help="tokens of the decision (%(default)s)"
    )
    parser.add_argument(
        "--tokens", type=positive, default=100, metavar="N", help="tokens each seat generates (%(default)s)"
    )
    parser.add_argument(
        "--repeat", type=positive, default=3, metavar="N", help="repetitions after the warm-up (%(default)s)"
    )
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
