"""The loop that runs every debate, and what it does for each kind of step.

`run`, `resume`, `report` and `verify` are this loop: replies come from the journal where they are there, and from
the backend where they are missing.
"""

from __future__ import annotations

import hashlib
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from roundtable_local import logbook
from roundtable_local.audience import Human, Listener, Silent, answering, check_answer
from roundtable_local.backends.base import Backend, Generation, Request
from roundtable_local.budget import REASON_CHARACTERS, Budget
from roundtable_local.desks import Desks
from roundtable_local.errors import (
    InterruptedRunError,
    JournalError,
    ReplyLostError,
    SuspendedError,
    WindowError,
)
from roundtable_local.journal import Journal
from roundtable_local.metrics import PromptTrie, summarise
from roundtable_local.prompts import render
from roundtable_local.reasoning import Thinking
from roundtable_local.rundir import Mirror, RunDirectory
from roundtable_local.schema import InvalidReply, canonical, parse
from roundtable_local.steps import Answer, Ask, Debate, Entry, Outcome, Publish, Question, Replies, Turn

_SEED_BITS = 63


def conduct(debate: Debate, room: Room) -> Outcome:
    """Drive a debate to its outcome."""
    sent: Any = None
    while True:
        try:
            step = debate.send(sent)
        except StopIteration as end:
            outcome: Outcome = end.value
            room.close(outcome)
            return outcome
        if isinstance(step, Turn):
            sent = room.hold(step)
        elif isinstance(step, Question):
            sent = room.ask(step)
        else:
            room.publish(step)
            sent = None


def seed_of(run_seed: int, decision_sha256: str, turn: str, ask: str, attempt: int) -> int:
    """Sampling seed of one request: the same for the same run, whoever else is in the batch."""
    key = canonical([run_seed, decision_sha256, turn, ask, attempt]).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) >> (64 - _SEED_BITS)


def prompt_hash(ids: Sequence[int]) -> str:
    """sha256 of a prompt's token ids, each as four bytes, little-endian."""
    words = array("I", ids)
    if sys.byteorder == "big":
        words.byteswap()
    return hashlib.sha256(words.tobytes()).hexdigest()


@dataclass
class Room:
    """What a debate runs in: budget, sampling, directory, journal and engine.

    Args:
        desks: the models that seats run on.
        attempts: how often a reply is asked for before it is lost.
        seed: the run's seed.
        decision_sha256: part of every request's seed.
        directory: the locked run directory.
        journal: its journal.
        backend: the engine; None where only the journal may speak.
        human: what a human said beforehand.
        mirror: gets a copy of some files.
        log_file: the user's log that entries go to; without one they are shown.
        listener: who watches.
        stop: asked while generating; true ends the run, resumably.
        log: lines that LOG.md begins with.
    """

    desks: Desks
    attempts: int
    seed: int
    decision_sha256: str
    directory: RunDirectory
    journal: Journal
    backend: Backend | None = None
    human: Human = field(default_factory=Human)
    mirror: Mirror | None = None
    log_file: Path | None = None
    listener: Listener = field(default_factory=Silent)
    stop: Callable[[], bool] = lambda: False
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._prompts_of: dict[tuple[str, str | None], PromptTrie] = {}
        self._clock = time.perf_counter()
        self._generating = 0.0
        self._replaying = bool(self.journal.of("reply"))

    def hold(self, turn: Turn) -> Replies:
        """Have a turn answered: one generate call, and one more for the replies that failed in form.

        Raises:
            ReplyLostError: a required reply failed twice.
            WindowError: a prompt does not fit; nothing was generated.
            InterruptedRunError: the user stopped the run.
        """
        values: dict[str, BaseModel] = {}
        failed = {ask.id: "" for ask in turn.asks}
        attempt = 0
        while asks := [ask for ask in turn.asks if ask.id in failed and attempt < self._tries(ask)]:
            attempt += 1
            requests = {ask.id: self._request(turn, ask, attempt, failed[ask.id]) for ask in asks}
            problems = self._think(turn.name, asks, attempt, requests)
            said = [ask for ask in asks if ask.id not in problems]
            generations = self._generations(turn.name, said, attempt, [requests[ask.id] for ask in said])
            for ask, generation in zip(said, generations, strict=True):
                try:
                    values[ask.id] = judge(ask, self.desks.of(ask.seat).budget, generation)
                    del failed[ask.id]
                except InvalidReply as problem:
                    problems[ask.id] = str(problem)
            for ask in asks:
                if ask.id in problems:
                    failed[ask.id] = problems[ask.id]
                    fate = "lost" if attempt == self._tries(ask) else "asked again"
                    self._note(f"{turn.name}/{ask.id}: reply {attempt} {fate}: {problems[ask.id]}")
        self._settled(turn.name)
        for ask in turn.asks:
            if ask.required and ask.id in failed:
                raise ReplyLostError(
                    f"the debate cannot go on without {turn.name}/{ask.id}: {failed[ask.id]}",
                    f"roundtable-local resume {self.directory.path} asks again; a larger model or another --seed may help",
                )
        return Replies({ask.id: values[ask.id] for ask in turn.asks if ask.id in values}, failed)

    def ask(self, question: Question) -> Answer:
        """A human's answer: journalled, given on the command line, at the terminal, or the default.

        Raises:
            UsageError: it is not among the choices, or nobody signed it.
            SuspendedError: there is none.
        """
        if (known := self.journal.answers().get(question.name)) is not None:
            return known
        answer = self.human.says(question) or self.listener.ask(question)
        if answer is None and question.default is not None:
            answer = Answer(question.default)
        if answer is None:
            self._write_metrics()
            raise SuspendedError(
                f"question {question.name!r} waits for an answer: {' '.join(question.parts)}",
                f"roundtable-local resume {self.directory.path} {answering(question)}",
            )
        check_answer(question, answer)
        self.journal.append("answer", name=question.name, value=answer.value, by=answer.by, why=answer.why)
        return answer

    def publish(self, step: Publish) -> None:
        """Write files and folders, and add notices to LOG.md."""
        for folder in step.folders:
            self.directory.folder(folder)
        for name, text in step.files.items():
            self.directory.write(name, text)
            if self.mirror is not None:
                self.mirror.write(name, text)
        for notice in step.notices:
            self._note(notice)
        for entry in step.entries:
            self._enter(entry)
        self._write_log()

    def close(self, outcome: Outcome) -> None:
        """Journal the outcome, once, and write what a run leaves beside the protocol's files."""
        self._write_log()
        if not self.journal.of("end"):
            self.journal.append("end", **asdict(outcome))
        self._write_metrics()

    def _write_metrics(self) -> None:
        self.directory.write("metrics.json", summarise(self.journal.events))

    def _enter(self, entry: Entry) -> None:
        """An entry goes to the log once: it is journalled when it stands there, so a replay writes none."""
        if self.backend is None or entry.key in {event["key"] for event in self.journal.of("entry")}:
            return
        if self.log_file is None:
            self.listener.entry(entry)
        else:
            self._log(entry, self.log_file)
        self.journal.append("entry", key=entry.key)

    def _log(self, entry: Entry, log: Path) -> None:
        """Add an entry to the log, once even where the run was killed in between: others may write the same lines."""
        there = logbook.count(log, entry.heading, entry.text)
        begun = [event["there"] for event in self.journal.of("entry-begins") if event["key"] == entry.key]
        if begun and there > begun[-1]:
            return
        self.journal.append("entry-begins", key=entry.key, there=there)
        logbook.add(log, entry.heading, entry.text)

    def _tries(self, ask: Ask) -> int:
        """A seat's reply has its attempts and is lost; one that the debate needs has them again with every resume."""
        return self.attempts * (1 + len(self.journal.of("resume"))) if ask.required else self.attempts

    def _think(self, turn: str, asks: Sequence[Ask], attempt: int, requests: dict[str, Request]) -> dict[str, str]:
        """Let seats of a reasoning model think, and extend their requests by the closed thoughts.

        A seat that is asked again thinks no more. Returns why a thought is no use, by ask: half a thought is no answer.
        """
        minds = {ask.id: mind for ask in asks if (mind := self.desks.of(ask.seat).thinking) is not None}
        problems: dict[str, str] = {}
        thoughts: dict[str, str] = dict.fromkeys(minds, "")
        free = [ask for ask in asks if attempt == 1 and ask.id in minds and minds[ask.id].budget]
        wanted = [self._thought_request(turn, ask, requests[ask.id], minds[ask.id]) for ask in free]
        for ask, generation in zip(free, self._generations(f"{turn}/thought", free, attempt, wanted), strict=True):
            thought = minds[ask.id].read(generation.text, generation.finish_reason == "stop")
            if thought is None:
                problems[ask.id] = f"the thought was cut off at {len(generation.token_ids)} tokens"
            else:
                thoughts[ask.id] = thought
        for name, mind in minds.items():
            extended = mind.extended(requests[name].prompt_ids, thoughts[name])
            requests[name] = replace(requests[name], prompt_ids=extended)
        return problems

    def _thought_request(self, turn: str, ask: Ask, request: Request, thinking: Thinking) -> Request:
        return replace(
            request,
            label=f"{turn}/thought/{ask.id}/1",
            prompt_ids=(*request.prompt_ids, *thinking.opening),
            max_tokens=thinking.budget,
            seed=seed_of(self.seed, self.decision_sha256, f"{turn}/thought", ask.id, 1),
            schema=None,
            stop=(thinking.end,),
        )

    def _request(self, turn: Turn, ask: Ask, attempt: int, reason: str) -> Request:
        desk = self.desks.of(ask.seat)
        brief = ask.brief.text
        if attempt > 1:
            brief += "\n\n" + render("reask.j2", reason=reason[:REASON_CHARACTERS]).text
        form, budget = desk.budget.form(ask), desk.budget
        ids = budget.codec.prompt(budget.codec.context(turn.context), brief)
        if len(ids) + budget.thought_tokens + form.max_tokens > budget.window:
            raise WindowError(
                f"{turn.name}/{ask.id} needs {len(ids):,} tokens of prompt and {form.max_tokens:,} of reply; "
                f"the model's window is {budget.window:,}",
                "shorten the decision or use a model with a larger window",
            )
        seed = seed_of(self.seed, self.decision_sha256, turn.name, ask.id, attempt)
        return Request(
            f"{turn.name}/{ask.id}/{attempt}", ids, form.max_tokens, desk.sampling, seed, form.schema_json,
            adapter=self.desks.adapters.get(ask.seat), model=desk.model,
        )  # fmt: skip

    def _generations(
        self, turn: str, asks: Sequence[Ask], attempt: int, requests: Sequence[Request]
    ) -> list[Generation]:
        """One generation per request, in order: from the journal where it is there, else from one generate call."""
        found: dict[int, Generation] = {}
        for index, (ask, request) in enumerate(zip(asks, requests, strict=True)):
            if (event := self.journal.reply(turn, ask.id, attempt)) is not None:
                found[index] = _recalled(event, request)
        missing = [index for index in range(len(requests)) if index not in found]
        if missing:
            asked = [(asks[index].id, requests[index]) for index in missing]
            for index, generation in zip(missing, self._call(turn, attempt, asked), strict=True):
                found[index] = generation
        return [found[index] for index in range(len(requests))]

    def _call(self, turn: str, attempt: int, asked: Sequence[tuple[str, Request]]) -> list[Generation]:
        if self.backend is None:
            raise JournalError(
                f"the journal has no reply for {asked[0][1].label}", "finish the run first: roundtable-local resume"
            )
        self._replaying = False
        self.listener.turn(turn, len(asked), attempt)
        done = 0

        def on_done(index: int, generation: Generation) -> None:
            nonlocal done
            done += 1
            ask, request = asked[index]
            self._journal_reply(turn, ask, attempt, request, generation)
            self.listener.reply(turn, ask, done, len(asked), generation)

        ideal = self._ideal([request for _, request in asked])
        began = time.perf_counter()
        generations = self.backend.generate([request for _, request in asked], on_done, self.stop)
        seconds = time.perf_counter() - began
        self._generating += seconds
        if any(generation.finish_reason == "abort" for generation in generations):
            raise InterruptedRunError(f"stopped in turn {turn}", f"roundtable-local resume {self.directory.path}")
        self._journal_call(turn, attempt, [request for _, request in asked], generations, seconds, ideal)
        return generations

    def _ideal(self, requests: Sequence[Request]) -> int:
        """Tokens that had to be computed; models and adapters share no cache."""
        by_weights: dict[tuple[str, str | None], list[Sequence[int]]] = {}
        for request in requests:
            by_weights.setdefault((request.model, request.adapter), []).append(request.prompt_ids)
        return sum(
            self._prompts_of.setdefault(weights, PromptTrie()).add(prompts) for weights, prompts in by_weights.items()
        )

    def _journal_reply(self, turn: str, ask: str, attempt: int, request: Request, generation: Generation) -> None:
        if generation.finish_reason == "abort":
            return
        self.journal.append(
            "reply", turn=turn, ask=ask, attempt=attempt, seed=request.seed, prompt_sha256=prompt_hash(request.prompt_ids),
            prompt_tokens=len(request.prompt_ids), cached_tokens=generation.cached_tokens, max_tokens=request.max_tokens,
            generated_tokens=len(generation.token_ids), finish_reason=generation.finish_reason, text=generation.text,
        )  # fmt: skip

    def _journal_call(
        self,
        turn: str,
        attempt: int,
        requests: Sequence[Request],
        generations: Sequence[Generation],
        seconds: float,
        ideal: int,
    ) -> None:
        prompt = sum(len(request.prompt_ids) for request in requests)
        known = [generation.cached_tokens for generation in generations if generation.cached_tokens is not None]
        cached = sum(known) if len(known) == len(generations) else None
        self.journal.append(
            "call", turn=turn, attempt=attempt, asks=len(requests), seconds_generate=round(seconds, 4), prompt_tokens=prompt,
            cached_tokens=cached, computed_tokens=None if cached is None else prompt - cached, ideal_tokens=ideal,
            generated_tokens=sum(len(generation.token_ids) for generation in generations),
        )  # fmt: skip

    def _settled(self, turn: str) -> None:
        now = time.perf_counter()
        outside, self._clock, self._generating = now - self._clock - self._generating, now, 0.0
        if not self._replaying:
            self.journal.append("turn", turn=turn, seconds_outside=round(outside, 4))

    def _note(self, text: str) -> None:
        self.log.append(text)
        if not self._replaying:
            self.listener.notice(text)

    def _write_log(self) -> None:
        self.directory.write("LOG.md", "# Log\n\n" + "".join(f"- {' '.join(line.split())}\n" for line in self.log))


def judge(ask: Ask, budget: Budget, generation: Generation) -> BaseModel:
    """The reply that a generation holds.

    Raises:
        InvalidReply: truncated, empty, or not of the form asked for; never guessed at.
    """
    if generation.finish_reason == "error":
        raise InvalidReply("the engine returned an error instead of a reply")
    if not generation.text.strip():
        raise InvalidReply("the reply was empty")
    if generation.finish_reason == "length":
        raise InvalidReply(f"the reply was cut off at {len(generation.token_ids)} tokens: be shorter")
    return parse(ask.reply, budget.form(ask).schema, generation.text)


def _recalled(event: Mapping[str, Any], request: Request) -> Generation:
    if event["prompt_sha256"] != prompt_hash(request.prompt_ids):
        raise JournalError(
            f"{request.label}: the prompt is not the one that the journalled reply answers",
            "the decision, settings, prompts or model changed since: start a new run",
        )
    return Generation(event["text"], [0] * event["generated_tokens"], event["finish_reason"], event["cached_tokens"])
