"""Everything about a run that is known before a model is loaded: inputs, settings, seats, budget, fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import roundtable_local
from roundtable_local import protocols
from roundtable_local.backends import fallback_for
from roundtable_local.budget import Budget, Rehearsal, rehearse
from roundtable_local.codebase import Codebase, CodebaseSettings, read_codebase
from roundtable_local.config import engine_settings, merge, model_profile, protocol_settings, read_yaml, validate
from roundtable_local.decision import Decision, parse_decision, slugify, whole_decision
from roundtable_local.desks import Desk, Desks
from roundtable_local.errors import ConfigError, DecisionError, UsageError, WindowError
from roundtable_local.inputs import Inputs
from roundtable_local.language import UNKNOWN, language_of, named
from roundtable_local.model import ModelFolder, read_files, read_model
from roundtable_local.oracle import find_psi
from roundtable_local.prompts import render, template_hashes
from roundtable_local.reasoning import Thinking
from roundtable_local.schema import canonical
from roundtable_local.seating import read_souls
from roundtable_local.seats import (
    Overlays,
    PersonaFile,
    Place,
    Roster,
    Seat,
    Table,
    assign_personas,
    choose_dissenters,
)
from roundtable_local.settings import EngineSettings, ModelProfile, Strict
from roundtable_local.shipped import shipped
from roundtable_local.steps import Refused
from roundtable_local.templates import template_use
from roundtable_local.tokens import Codec

_OUR_KEYS = {"topic", "title", "protocol", "settings", "personas", "dissent", "codebase"}


@dataclass(frozen=True)
class Plan:
    """A run, ready to begin."""

    inputs: Inputs
    protocol: protocols.Protocol
    engine: EngineSettings
    desks: Desks
    table: Table[Any]
    rehearsal: Rehearsal
    warnings: tuple[str, ...]
    fingerprint: Mapping[str, str]

    @property
    def profile(self) -> ModelProfile:
        """Of the run's own model."""
        return self.desks.own.profile

    @property
    def model(self) -> ModelFolder:
        """Of the run's own model."""
        return self.desks.own.folder

    @property
    def backend(self) -> str:
        """Name of the engine of the run's own model."""
        return self.backend_of(self.desks.own)

    def backend_of(self, desk: Desk) -> str:
        """Name of the engine that a model runs on."""
        return _backend(self.inputs, desk.profile)


def make_plan(inputs: Inputs) -> Plan:
    """Settle all settings, read the model's folder, and rehearse.

    Raises:
        RoundtableError: whatever of it cannot be used, with its fix.
    """
    engine = engine_settings()
    protocol = protocols.find(inputs.protocol)
    read = whole_decision if protocol.whole else parse_decision
    decision = read(inputs.text, inputs.source, engine.slug)
    if inputs.topic:
        decision = replace(decision, topic=inputs.topic, slug=slugify(inputs.topic, engine.slug))
    settings = _settings(protocol, decision, inputs)
    if not inputs.model:
        fix = "--model PATH for a model's folder, --model tiny-cpu to try the machinery, --backend scripted for none"
        raise UsageError("no model is named", fix)
    _refuse_untaken(protocol, inputs)
    seats = _with_models(inputs.seats or _roster(protocol.name, engine), inputs)
    own = _desk("", model_profile(inputs.model, merge(inputs.config.model_settings, inputs.set_model)), inputs, engine)
    desks = _desks(own, seats, inputs, engine)
    codec = own.budget.codec
    overlays, notes = _overlays(protocol, settings, decision, inputs, seats)
    codebase = _read_codebase(inputs, codec)
    table = Table(
        seats,
        decision,
        settings,
        inputs.date,
        overlays=overlays,
        codebase=codebase,
        caveats=_caveats(desks, inputs, engine),
        facts=inputs.facts,
        given=frozenset(inputs.set_protocol),
        language=named(inputs.language) if inputs.language else language_of(decision.text),
        place=Place(name=f"{inputs.date}_{decision.slug}"),
    )
    try:
        table, taken = protocol.intake(table, codec.count)
    except Refused as error:
        raise UsageError(error.message, error.fix) from error
    if table.decision.topic != decision.topic:  # what stood in it beside the topic is no part of the name
        table = replace(table, decision=replace(table.decision, slug=slugify(table.decision.topic, engine.slug)))
    table, desks, rehearsal, fallback = _rehearse_all(protocol, table, desks)
    if inputs.oracle_root and (elsewhere := find_psi(Path(inputs.oracle_root))[1]):
        notes = (*notes, elsewhere)
    warnings = (*notes, *taken, *_warnings(decision, codec, rehearsal), *fallback)
    if inputs.backend is None and (stand_in := _backend(inputs, own.profile)) != own.profile.backend:
        warnings = (*warnings, f"{own.profile.backend} is not installed: {stand_in} stands in for it, and is slower")
    fingerprint = _fingerprint(inputs, protocol.name, table, desks, engine)
    return Plan(inputs, protocol, engine, desks, table, rehearsal, warnings, fingerprint)


def _with_models(seats: tuple[Seat, ...], inputs: Inputs) -> tuple[Seat, ...]:
    """The seats with the models and adapters that the config file names for them."""
    named = inputs.config.seats
    if unknown := set(named) - {seat.slug for seat in seats}:
        known = ", ".join(seat.slug for seat in seats)
        raise ConfigError(
            f"the config file's `seats:` names no seat of the table: {sorted(unknown)[0]}", f"seats: {known}"
        )
    return tuple(
        seat.model_copy(update={key: value for key, value in named[seat.slug].model_dump().items() if value})
        if seat.slug in named
        else seat
        for seat in seats
    )


def _backend(inputs: Inputs, profile: ModelProfile) -> str:
    """The engine of a model: the one asked for, or the profile's, or what stands in for it."""
    return inputs.backend or fallback_for(profile.backend)


def _desk(name: str, profile: ModelProfile, inputs: Inputs, engine: EngineSettings) -> Desk:
    """A model, its tokenizer and its budget."""
    backend = _backend(inputs, profile)
    model = read_model(Path(profile.path), weights=backend != "scripted")
    codec = Codec(
        model.path,
        render("system.j2").text,
        template_use(profile, engine, inputs.date, None if name else inputs.chat_template),
    )
    thinking = _thinking(profile, codec)
    budget = Budget(
        codec,
        min(profile.window, model.window or profile.window),
        profile.tokens_per_character,
        engine.budget,
        thought_tokens=thinking.tokens if thinking else 0,
    )
    return Desk(name, profile, model, budget, thinking)


def _desks(own: Desk, seats: tuple[Seat, ...], inputs: Inputs, engine: EngineSettings) -> Desks:
    """The models and adapters that seats name beside the run's own model."""
    others: dict[str, Desk] = {}
    on: dict[str, str] = {}
    for seat in seats:
        if not seat.model:
            continue
        profile = model_profile(seat.model, {})
        if profile.path != own.profile.path:
            others.setdefault(seat.model, _desk(seat.model, profile, inputs, engine))
            on[seat.slug] = seat.model
    return Desks(own, others, on, {seat.slug: seat.adapter for seat in seats if seat.adapter})


def _rehearse_all(
    protocol: protocols.Protocol, table: Table[Any], desks: Desks
) -> tuple[Table[Any], Desks, Rehearsal, tuple[str, ...]]:
    """Rehearse with every model; all replies are held to what the tightest of them allows."""
    warnings: tuple[str, ...] = ()
    found = []
    for desk in desks.all:
        table, rehearsal, notes = _rehearse(protocol, table, desk.budget)
        warnings += notes
        found.append(rehearsal)
    tightest = min(found, key=lambda each: each.budget.shrink)
    desks = desks.shrunk(tightest.budget.shrink)
    return table, desks, tightest, warnings


def _thinking(profile: ModelProfile, codec: Codec) -> Thinking | None:
    """How seats think; a thought that the chat template opens is closed at once where the profile asks for none."""
    reasoning, opened = profile.reasoning, codec.frame.opens_thought
    if reasoning is not None:
        return Thinking(reasoning.start, reasoning.end, reasoning.budget, opened is not None, codec, reasoning.padding)
    return Thinking(*opened, 0, True, codec) if opened else None


def _rehearse(
    protocol: protocols.Protocol, table: Table[Any], budget: Budget
) -> tuple[Table[Any], Rehearsal, tuple[str, ...]]:
    """Rehearse; while the protocol has a smaller way to hold the debate, fall back to it with its warning (A-171)."""
    warnings: tuple[str, ...] = ()
    while True:
        try:
            seated = table
            found = rehearse(lambda: protocol.debate(seated), protocol.worst_cases(seated), budget)  # noqa: B023
            return table, found, warnings
        except WindowError as error:
            smaller = protocol.fallback(table, error.message)
            if smaller is None:
                raise
            settings, warning = smaller
            table, warnings = replace(table, settings=settings), (*warnings, warning)


def _read_codebase(inputs: Inputs, codec: Codec) -> Codebase | None:
    if inputs.codebase is None:
        return None
    path = shipped("configs") / "codebase.yaml"
    settings = validate(CodebaseSettings, read_yaml(path), str(path), ConfigError)
    # runs are no part of the project, and this one would change what `resume` compares with
    exclude = [Path(inputs.out)] if inputs.out else []
    return read_codebase(Path(inputs.codebase), settings, codec.count, exclude)


def _overlays(
    protocol: protocols.Protocol, settings: Strict, decision: Decision, inputs: Inputs, seats: tuple[Seat, ...]
) -> tuple[Overlays, tuple[str, ...]]:
    """Personas and dissenters of command line and decision file; the command line wins (A-053 to A-057, A-070 to A-075)."""
    in_file, listed = decision.front.get("personas") or {}, decision.front.get("dissent") or []
    notes: list[str] = []
    if not isinstance(in_file, Mapping):
        notes.append("the decision file's `personas:` is not a list of `role: persona` lines; it is ignored (A-057)")
        in_file = {}
    if isinstance(listed, str):
        listed = [each.strip() for each in listed.split(",")]
    if not isinstance(listed, list):
        notes.append("the decision file's `dissent:` is not a list of roles; it is ignored (A-075)")
        listed = []
    wanted = {str(slug): str(persona) for slug, persona in in_file.items()} | dict(inputs.personas)
    dissent = [*inputs.dissent, *(str(slug) for slug in listed)]
    if not wanted and not dissent:
        return Overlays(), tuple(notes)
    if protocol.most_dissenters is None:
        return Overlays(), (
            *notes,
            f"personas and dissent are not known to the {protocol.name} protocol; they are ignored",
        )
    path = shipped("configs") / "personas.yaml"
    known = validate(PersonaFile, read_yaml(path), str(path), ConfigError).personas
    assigned, of_personas = assign_personas(wanted, seats, known)
    dissenters, of_dissent = choose_dissenters(dissent, seats, protocol.most_dissenters(settings))
    return Overlays(assigned, dissenters), (*notes, *of_personas, *of_dissent)


def _settings(protocol: protocols.Protocol, decision: Decision, inputs: Inputs) -> Strict:
    front = decision.front.get("settings") or {}
    if not isinstance(front, Mapping):
        raise DecisionError(
            "the decision file's `settings:` is not a mapping", "write one `key: value` per line below it"
        )
    return protocol_settings(
        protocol.name,
        protocol.settings,
        config=inputs.config.settings,
        decision=front,
        command_line=inputs.set_protocol,
    )


def _roster(name: str, engine: EngineSettings) -> tuple[Seat, ...]:
    """The seats that ship with a protocol: a roster file, or a folder of souls."""
    folder = shipped("configs") / "rosters"
    if (folder / name).is_dir():
        seats = read_souls([str(folder / name)], [], engine.slug)
        named = {seat.slug: f"configs/rosters/{name}/{Path(seat.source).name}" for seat in seats}
        return tuple(seat.model_copy(update={"source": named[seat.slug]}) for seat in seats)
    path = folder / f"{name}.yaml"
    return validate(Roster, read_yaml(path), str(path), ConfigError).seats


def _refuse_untaken(protocol: protocols.Protocol, inputs: Inputs) -> None:
    given = {
        "seats": inputs.seats,
        "context": inputs.facts,
        "codebase": inputs.codebase,
        "language": inputs.language,
        "oracle-root": inputs.oracle_root,
        "log": inputs.log,
        "goal or proposal": any(fact.kind != "context" for fact in inputs.facts),
    }
    for what, value in given.items():
        if value and what not in protocol.takes:
            raise UsageError(
                f"the {protocol.name} protocol takes no {what}",
                f"leave it out, or use another protocol: {', '.join(protocols.NAMES)}",
            )


def _caveats(desks: Desks, inputs: Inputs, engine: EngineSettings) -> tuple[str, ...]:
    """What every report must say of the models behind it (H7)."""
    if all(_backend(inputs, desk.profile) == "scripted" for desk in desks.all):
        return (
            "The replies behind this report were scripted: no model took part, so it proves the machinery, not the argument.",
        )
    distinct = len({desk.profile.path for desk in desks.all})
    caveats = ["All seats ran on one and the same model: their agreement is not that of independent minds."]
    if distinct > 1:
        caveats = [
            f"{distinct} distinct models stand behind the seats: those of one model are not independent minds. "
            f"On other models than the moderator: {', '.join(f'{seat} ({name})' for seat, name in desks.seats.items())}."
        ]
    if desks.adapters:
        caveats.append(f"Seats with an adapter of their own: {', '.join(desks.adapters)}.")
    smallest = min((each.folder.parameters for each in desks.all if each.folder.parameters is not None), default=None)
    if smallest is not None and smallest < engine.small_model_parameters:
        caveats.append(
            f"The model has {smallest / 1e6:,.0f} million parameters. A model this small proves the machinery, "
            "not the argument: do not act on what it says."
        )
    budgets = {desk.thinking.budget for desk in desks.all if desk.thinking and desk.thinking.budget}
    if budgets:
        caveats.append(
            f"Before each reply a seat could think for up to {max(budgets)} tokens; what it thought stands in the journal, "
            "and neither the other seats nor this report saw it."
        )
    return tuple(caveats)


def _warnings(decision: Decision, codec: Codec, rehearsal: Rehearsal) -> tuple[str, ...]:
    warnings = list(decision.warnings)
    warnings += [
        f"{decision.source}: unknown front-matter key {key!r} is ignored"
        for key in decision.front
        if key not in _OUR_KEYS
    ]
    if spelled := codec.spells_control(decision.text):
        warnings.append(
            f"{decision.source} spells control tokens of the model ({', '.join(spelled)}); they are read as plain text"
        )
    density, planned = codec.count(decision.text) / len(decision.text), rehearsal.budget.tokens_per_character
    if language_of(decision.text) != UNKNOWN and density > planned:
        warnings.append(
            f"this model needs about {density:.1f} tokens per character of {language_of(decision.text)}, and replies are "
            f"planned with {planned}: if many are cut off, --set model.tokens_per_character={density:.1f}"
        )
    if rehearsal.budget.shrink < 1:
        share = f"{rehearsal.budget.shrink:.0%}"
        warnings.append(
            f"replies are held to {share} of their full length so that the worst case fits {rehearsal.budget.window:,} tokens"
        )
    return tuple(warnings)


def _fingerprint(
    inputs: Inputs, protocol: str, table: Table[Any], desks: Desks, engine: EngineSettings
) -> dict[str, str]:
    """What a resumed run must have in common with its start, by field."""
    parts: dict[str, Any] = {
        "decision": inputs.text,
        "protocol settings": table.settings.model_dump(mode="json"),
        "personas and dissent": [
            {slug: persona.model_dump() for slug, persona in table.overlays.personas.items()},
            list(table.overlays.dissenters),
        ],
        "codebase": [table.codebase.sha256, table.codebase.settings.model_dump(mode="json")]
        if table.codebase
        else None,
        "engine settings": engine.model_dump(mode="json"),
        "model profile": desks.own.profile.model_dump(mode="json"),
        "other models": [
            [name, desk.profile.model_dump(mode="json"), desk.folder.files] for name, desk in desks.others.items()
        ],
        "adapters": [[seat, read_files(Path(folder))] for seat, folder in desks.adapters.items()],
        "deterministic and remote code": [inputs.deterministic, inputs.trust_remote_code],
        "seats and facts": [
            [seat.model_dump() for seat in table.seats],
            [fact.model_dump() for fact in table.facts],
            table.language,
        ],
        "model files": desks.own.folder.files,
        "chat template": _read_bytes_hash(inputs.chat_template or desks.own.profile.chat_template),
        "prompt templates": template_hashes(protocol),
        "seed, date and backend": [inputs.seed, inputs.date, inputs.backend],
        "scripted replies": _read_bytes_hash(inputs.replies),
        "version": roundtable_local.__version__,
    }
    return {name: hashlib.sha256(canonical(_sorted(part)).encode()).hexdigest() for name, part in parts.items()}


def _read_bytes_hash(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read", "check the path given to --replies or --chat-template") from error


def _sorted(part: Any) -> Any:
    """Sets come out of JSON dumps in any order; sort them so that hashes are stable."""
    if isinstance(part, Mapping):
        return {key: _sorted(value) for key, value in sorted(part.items())}
    if isinstance(part, list) and all(isinstance(item, str) for item in part):
        return sorted(part)
    return part
