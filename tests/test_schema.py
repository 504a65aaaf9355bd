"""Reply types become grammars and replies are judged by them again (A2, B1, B4 to B6, B8, I12)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from roundtable_local.protocols.supermajority.replies import (
    Ballot,
    Disagreements,
    Merged,
    Opposing,
    Reply,
    RoundOne,
    RoundTwo,
    Summary,
)
from roundtable_local.schema import FILL, InvalidReply, Schema, canonical, grammar, largest, parse
from roundtable_local.steps import Count, Keys, Length, Narrowing, Values
from tests.helpers import any_ask, draw, fill, supermajority_asks

REPLIES = (RoundOne, RoundTwo, Merged, Disagreements, Ballot, Summary)
KEYWORDS = {"type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "enum", "anyOf",
            "minLength", "maxLength"}  # fmt: skip
"""The subset that every back-end honours (B5, B6)."""

Text = Annotated[str, Field(min_length=2, max_length=40)]


class Part(Reply):
    title: Text
    enum: Literal["x", "yy"]


class Left(Reply):
    why: Text
    pick: Literal["a", "b"]


class Right(Reply):
    why: Text
    pick: Literal["c"]
    more: Text


class Sample(Reply):
    """Has a field of every kind, and fields named like keywords."""

    reason: Text
    description: Text
    choice: str
    parts: list[Part] = Field(min_length=1, max_length=3)
    notes: dict[str, Text]
    sides: dict[str, Left | Right]
    default: Literal["only"] = "only"


NARROW: dict[str, Narrowing] = {
    "choice": Values(("blue", "red")),
    "notes": Keys(("zoe", "adam")),
    "sides": Keys(("R1",)),
}


def sample(**changes: Any) -> dict[str, Any]:
    return {
        "reason": "because", "description": "words", "choice": "red", "parts": [{"title": "one", "enum": "x"}],
        "notes": {"zoe": "hello", "adam": "there"}, "sides": {"R1": {"why": "so it is", "pick": "a"}}, "default": "only",
        **changes,
    }  # fmt: skip


def nodes(schema: Schema) -> list[Schema]:
    children = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    children += [schema["items"]] if "items" in schema else []
    return [schema, *(node for child in children for node in nodes(child))]


# --- grammars


def test_b8_properties_keep_the_order_of_the_type() -> None:
    schema = grammar(Sample, NARROW)
    assert list(schema["properties"]) == ["reason", "description", "choice", "parts", "notes", "sides", "default"]
    assert schema["required"] == list(schema["properties"])
    assert list(schema["properties"]["notes"]["properties"]) == ["zoe", "adam"]
    assert list(schema["properties"]["parts"]["items"]["properties"]) == ["title", "enum"]


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        (Opposing, ["rationale", "vote", "confidence", "dissent"]),  # A-g25
        (RoundOne, ["key_findings", "concerns", "recommendations", "strongest_disagreement"]),
        (Merged, ["points", "challenges", "title", "description", "another"]),
    ],
)
def test_b8_ag25_reasons_stand_before_choices(kind: type[BaseModel], order: list[str]) -> None:
    assert list(grammar(kind, {})["properties"]) == order


def test_b8_the_order_holds_in_the_raw_text_of_drawn_ballots() -> None:
    ballots = [asked.ask for asked in supermajority_asks() if asked.ask.reply is Ballot]
    assert len(ballots) >= 10
    for seed, ask in enumerate(ballots):
        votes = json.loads(draw(canonical(grammar(ask.reply, ask.narrow)), seed))["votes"]
        ids = ask.narrow["votes"]
        assert isinstance(ids, Keys)
        assert tuple(votes) == ids.required
        assert all(list(line) == ["rationale", "vote", "confidence", "dissent"] for line in votes.values())


def test_references_are_inlined_and_only_known_keywords_are_left() -> None:
    for asked in supermajority_asks():
        text = canonical(grammar(asked.ask.reply, asked.ask.narrow))
        assert "$ref" not in text
        assert "$defs" not in text
        for node in nodes(json.loads(text)):
            assert node.keys() <= KEYWORDS
            if node.get("type") == "object":
                assert node["additionalProperties"] is False


def test_fields_named_like_keywords_stay() -> None:
    properties = grammar(Sample, NARROW)["properties"]
    assert {"description", "default"} <= properties.keys()
    assert properties["parts"]["items"]["properties"]["title"] == {"type": "string", "minLength": 2, "maxLength": 40}
    assert properties["default"] == {"enum": ["only"]}


def test_values_narrow_a_string() -> None:
    assert grammar(Sample, NARROW)["properties"]["choice"] == {"enum": ["blue", "red"]}


def test_values_narrow_an_enum_to_what_it_allows() -> None:
    schema = grammar(Sample, {**NARROW, "parts.*.enum": Values(("yy", "zzz"))})
    assert schema["properties"]["parts"]["items"]["properties"]["enum"] == {"enum": ["yy"]}


def test_keys_make_every_key_required_in_order() -> None:
    notes = grammar(Sample, NARROW)["properties"]["notes"]
    assert notes["required"] == ["zoe", "adam"]
    assert notes["additionalProperties"] is False
    assert grammar(Sample, {**NARROW, "notes": Keys(())})["properties"]["notes"]["properties"] == {}


def test_count_narrows_a_list() -> None:
    parts = grammar(Sample, {**NARROW, "parts": Count(2, 2)})["properties"]["parts"]
    assert (parts["minItems"], parts["maxItems"]) == (2, 2)


def test_length_narrows_a_text_and_no_other() -> None:
    properties = grammar(Sample, {**NARROW, "reason": Length(12)})["properties"]
    assert (properties["reason"]["minLength"], properties["reason"]["maxLength"]) == (2, 12)
    assert properties["description"]["maxLength"] == 40
    assert grammar(Sample, NARROW)["properties"]["reason"]["maxLength"] == 40


def test_length_never_widens_a_text() -> None:
    assert grammar(Sample, {**NARROW, "reason": Length(41)})["properties"]["reason"]["maxLength"] == 40


def test_length_narrows_texts_in_lists_and_mappings() -> None:
    properties = grammar(Sample, {**NARROW, "parts.*.title": Length(7), "notes.*": Length(9)})["properties"]
    assert properties["parts"]["items"]["properties"]["title"]["maxLength"] == 7
    assert [note["maxLength"] for note in properties["notes"]["properties"].values()] == [9, 9]


@given(st.floats(0, 1), st.integers(2, 60), st.integers(2, 60), st.integers(0, 60))
def test_a_narrowed_length_shrinks_in_proportion_and_never_below_its_own_least(
    share: float, least: int, most: int, own: int
) -> None:
    narrow = {**NARROW, "reason": Length(most, own)}
    full, middle, low = (
        grammar(Sample, narrow, shrink, least)["properties"]["reason"]["maxLength"] for shrink in (1.0, share, 0.0)
    )
    assert (full, low) == (min(most, 40), min(max(least, own), most, 40))
    assert low <= middle <= full


def test_a_text_over_its_narrowed_length_is_invalid() -> None:
    schema = grammar(Sample, {**NARROW, "reason": Length(7)})
    assert isinstance(parse(Sample, schema, canonical(sample())), Sample)
    with pytest.raises(InvalidReply, match="reason"):
        parse(Sample, schema, canonical(sample(reason="because!")))


@pytest.mark.parametrize(
    ("allowed", "picks"),
    [(("a", "c"), [["a"], ["c"]]), (("b",), [["b"]]), (("c",), [["c"]]), (("a", "b"), [["a", "b"]])],
)
def test_branches_that_narrowing_makes_impossible_fall_out(allowed: tuple[str, ...], picks: list[list[str]]) -> None:
    schema = grammar(Sample, {**NARROW, "sides.*.pick": Values(allowed)})
    branches = schema["properties"]["sides"]["properties"]["R1"]["anyOf"]
    assert [branch["properties"]["pick"]["enum"] for branch in branches] == picks


def test_a142_an_off_menu_vote_cannot_be_written() -> None:
    narrow: dict[str, Narrowing] = {"votes": Keys(("R1",)), "votes.*.vote": Values(("AGREE", "DISAGREE", "ABSTAIN"))}
    branches = grammar(Ballot, narrow)["properties"]["votes"]["properties"]["R1"]["anyOf"]
    assert [branch["properties"]["vote"]["enum"] for branch in branches] == [["AGREE", "ABSTAIN"], ["DISAGREE"]]


@pytest.mark.parametrize(
    "narrow",
    [
        {"choise": Values(("a",))},
        {"parts.enum": Values(("x",))},
        {"parts.*.size": Values(("x",))},
        {"sides.R1.pick": Values(("a",))},
        {"deep.*.er": Count(1, 1)},
        {"parts.*.length": Length(9)},
    ],
)
def test_a_path_that_is_not_in_the_type_is_a_key_error(narrow: dict[str, Narrowing]) -> None:
    with pytest.raises(KeyError):
        grammar(Sample, {**NARROW, **narrow})


def test_a_mapping_without_keys_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="needs Keys"):
        grammar(Ballot, {})


@given(st.floats(0, 1), st.integers(2, 60))
def test_bounds_shrink_in_proportion_and_never_below_the_least(share: float, least: int) -> None:
    bounds = [
        [node["maxLength"] for node in nodes(grammar(Sample, NARROW, shrink, least)) if "maxLength" in node]
        for shrink in (0.0, share, 1.0)
    ]
    assert set(bounds[2]) == {40}
    assert set(bounds[0]) == {min(least, 40)}
    assert all(low <= middle <= high for low, middle, high in zip(*bounds, strict=True))
    assert all(
        node["minLength"] <= node["maxLength"]
        for node in nodes(grammar(Sample, NARROW, share, least))
        if "minLength" in node
    )


def test_a_grammar_is_the_caller_s_own() -> None:
    """Changing one must not change the next."""
    grammar(Sample, NARROW)["properties"].clear()
    changed = grammar(RoundOne, {})
    changed["properties"]["concerns"]["items"]["maxLength"] = 1
    changed["properties"]["strongest_disagreement"]["properties"]["role"]["type"] = "number"
    assert "reason" in grammar(Sample, NARROW)["properties"]
    assert canonical(grammar(RoundOne, {})) != canonical(changed)


# --- the largest reply


@given(st.integers(0, 999), st.integers(0, 2**32), st.floats(0, 1))
def test_no_reply_is_longer_than_the_largest(number: int, seed: int, shrink: float) -> None:
    ask = any_ask(number)
    schema = grammar(ask.reply, ask.narrow, shrink, 24)
    most = len(canonical(largest(schema, {}, len)))
    assert len(draw(canonical(schema), seed)) <= most
    assert len(canonical(fill(schema, random.Random(seed), ("word", "옳다")))) <= most


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_reply_is_a_valid_reply(seed: int) -> None:
    for asked in supermajority_asks(seed):
        schema = grammar(asked.ask.reply, asked.ask.narrow)
        value = largest(schema, {}, len)
        jsonschema.Draft202012Validator(schema).validate(value)
        assert isinstance(asked.ask.reply.model_validate(value), asked.ask.reply)


def test_the_largest_reply_fills_every_list_and_string_and_takes_the_longest_choice() -> None:
    value = largest(grammar(Sample, NARROW), {}, len)
    assert value["reason"] == FILL * 40
    assert value["choice"] == "blue"
    assert [part["enum"] for part in value["parts"]] == ["yy", "yy", "yy"]
    assert value["sides"]["R1"] == {"why": FILL * 40, "pick": "c", "more": FILL * 40}


def test_a_preferred_choice_steers_the_largest_reply() -> None:
    value = largest(grammar(Sample, NARROW), {"choice": "red", "parts.*.enum": "x", "sides.R1.pick": "b"}, len)
    assert value["choice"] == "red"
    assert [part["enum"] for part in value["parts"]] == ["x", "x", "x"]
    assert value["sides"]["R1"] == {"why": FILL * 40, "pick": "b"}
    assert largest(grammar(Sample, NARROW), {"choice": "green"}, len)["choice"] == "blue"


@pytest.mark.parametrize("path", ["sides.*.pick", "sides.R1.pick"])
@pytest.mark.parametrize(
    ("pick", "keys"), [("a", ["why", "pick"]), ("b", ["why", "pick"]), ("c", ["why", "pick", "more"])]
)
def test_d4_preferences_take_the_same_paths_as_narrowing(path: str, pick: str, keys: list[str]) -> None:
    """`*` stands for the keys of a narrowed mapping too, or a branch of the debate is never rehearsed."""
    narrow = {**NARROW, "sides": Keys(("R1", "R2"))}
    sides = largest(grammar(Sample, narrow), {path: pick}, len)["sides"]
    assert (sides["R1"]["pick"], list(sides["R1"])) == (pick, keys)
    assert (sides["R2"]["pick"] == pick) == ("*" in path or pick == "c")


# --- judging replies


def judged(value: Any) -> BaseModel:
    text = value if isinstance(value, str) else canonical(value)
    return parse(Sample, grammar(Sample, NARROW), text)


def test_a_good_reply_is_read_whatever_its_white_space() -> None:
    assert judged(sample()) == judged(json.dumps(sample(), indent=2))
    reply = judged(sample(reason='"quoted"\n\\ and 한국어 🚀'))
    assert isinstance(reply, Sample)
    assert reply.reason == '"quoted"\n\\ and 한국어 🚀', "B4: escapes are part of bounded strings"


GOOD = canonical(sample())
BAD: dict[str, tuple[str, str]] = {
    "prose": ("I cannot evaluate this.", "not valid JSON"),
    "prose before": (f"Sure! {GOOD}", "not valid JSON"),
    "prose after": (f"{GOOD} I hope this helps.", "not valid JSON"),
    "fenced": (f"```json\n{GOOD}\n```", "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "a thought, cut off": ("<think>I choose A because", "not valid JSON"),
    "truncated": (GOOD[:-20], "not valid JSON"),
    "truncated in a string": (GOOD[:20], "not valid JSON"),
    "white space run away": ("{" + "\n" * 5000, "not valid JSON"),
    "raw newline in a string": (GOOD.replace("because", "be\ncause"), "not valid JSON"),
    "single quotes": (GOOD.replace('"', "'"), "not valid JSON"),
    "key twice": (GOOD.replace('"choice":"red"', '"choice":"red","choice":"blue"'), "appears twice"),
    "key twice, deep down": (GOOD.replace('"pick":"a"', '"pick":"b","pick":"a"'), "appears twice"),
    "NaN": (GOOD.replace('"because"', "NaN"), "NaN"),
    "-Infinity": (GOOD.replace('"because"', "-Infinity"), "Infinity"),
    "a huge number": (GOOD.replace('"because"', "1" * 5000), ""),
    "nested without end": ("[" * 100_000, ""),
    "not an object": ("[]", "reply"),
    "null": ("null", "reply"),
    "a vote alone": ('"AGREE"', "reply"),
    "extra field": (canonical(sample(extra=1)), "extra"),
    "extra field, deep down": (canonical(sample(parts=[{"title": "one", "enum": "x", "score": 9}])), "parts.0"),
    "missing field": (canonical({key: value for key, value in sample().items() if key != "reason"}), "reason"),
    "choice that is not offered": (canonical(sample(choice="green")), "choice"),
    "choice in other case": (canonical(sample(choice="RED")), "choice"),
    "choice as a list": (canonical(sample(choice=["red"])), "choice"),
    "unknown key": (canonical(sample(notes={"zoe": "hello", "adam": "there", "eve": "hi"})), "notes"),
    "missing key": (canonical(sample(notes={"zoe": "hello"})), "notes"),
    "too few items": (canonical(sample(parts=[])), "parts"),
    "too many items": (canonical(sample(parts=[{"title": "one", "enum": "x"}] * 4)), "parts"),
    "too long": (canonical(sample(reason="x" * 41)), "reason"),
    "too short": (canonical(sample(reason="x")), "reason"),
    "wrong type": (canonical(sample(reason=5)), "reason"),
    "true for a string": (canonical(sample(reason=True)), "reason"),
    "neither branch": (canonical(sample(sides={"R1": {"why": "so it is", "pick": "c"}})), "sides.R1"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD.keys())
def test_a2_b1_a_bad_reply_is_invalid_with_a_reason_and_never_a_crash(text: str, reason: str) -> None:
    with pytest.raises(InvalidReply) as caught:
        judged(text)
    message = str(caught.value)
    assert reason in message
    assert 0 < len(message) < 400
    assert "\n" not in message


def test_bounds_count_characters_not_bytes() -> None:
    for text in ("한" * 40, "🚀" * 40):
        assert isinstance(judged(sample(reason=text)), Sample)
        assert isinstance(judged(json.dumps(sample(reason=text))), Sample)


def test_the_type_s_own_checks_come_after_the_grammar() -> None:
    def even(text: str) -> str:
        if len(text) % 2:
            raise ValueError("must be even")
        return text

    class Checked(Reply):
        word: Annotated[str, Field(max_length=10), AfterValidator(even)]

    with pytest.raises(InvalidReply, match=r"^word: must be even$"):
        parse(Checked, grammar(Checked, {}), '{"word":"odd"}')


def test_blank_prose_is_refused() -> None:
    schema = grammar(Disagreements, {})
    with pytest.raises(InvalidReply, match="blank"):
        parse(Disagreements, schema, canonical({"key_disagreements": [" " * 20]}))


@pytest.mark.parametrize("text", [r"half \ud83d of it", r"\udfff and \ud800", r"\ude00\ud83d"])
def test_i12_lone_surrogates_never_leave_the_parser(text: str) -> None:
    """JSON escapes can spell them, a grammar allows it, and no prompt or file can hold them."""
    try:
        reply = judged(GOOD.replace("because", text))
    except InvalidReply:
        return
    assert reply.model_dump_json().encode()
    assert isinstance(reply, Sample)
    assert reply.reason.encode()


@given(st.text())
def test_any_text_is_a_reply_or_invalid(text: str) -> None:
    with pytest.raises(InvalidReply):
        judged(text)


@given(st.dictionaries(st.sampled_from(["b", "a", "한"]), st.text() | st.lists(st.integers())))
def test_canonical_json_reads_back_and_keeps_order_and_characters(value: Mapping[str, Any]) -> None:
    text = canonical(value)
    assert list(json.loads(text)) == list(value)
    assert json.loads(text) == value
    assert canonical({"가": 1}) == '{"가":1}'


# --- the engine's grammar


@pytest.mark.engine
@pytest.mark.parametrize("shrink", [0.0, 0.5, 1.0])
def test_b5_b11_llguidance_accepts_every_grammar_of_a_debate(shrink: float) -> None:
    llguidance = pytest.importorskip("llguidance")
    asks = [asked.ask for seed in range(3) for asked in supermajority_asks(seed)]
    assert {ask.reply for ask in asks} >= set(REPLIES)
    for schema in {canonical(grammar(ask.reply, ask.narrow, shrink, 24)) for ask in asks}:
        compiled = llguidance.LLMatcher.grammar_from_json_schema(schema, defaults={"whitespace_flexible": False})
        assert llguidance.LLMatcher.validate_grammar(compiled) == ""
