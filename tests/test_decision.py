"""Decision files and questions: encodings, front matter, topics and slugs (I5, I6, I8, A-190, A-g12, A-g20, A-g24)."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roundtable_local.config import engine_settings
from roundtable_local.decision import Decision, parse_decision, read_decision, slugify
from roundtable_local.errors import DecisionError, UsageError

SLUGS = engine_settings().slug
LF = "---\ntopic: Where to keep state\nsettings:\n  words: 300\n---\n# Heading\n\nFirst line.\nSecond line, 한국어.\n"


def parse(text: str) -> Decision:
    return parse_decision(text, "decision.md", SLUGS)


def read(path: Path, data: bytes) -> Decision:
    path.write_bytes(data)
    return read_decision(str(path), SLUGS)


# --- encodings and line ends


VARIANTS = {
    "lf": LF.encode(),
    "crlf": LF.replace("\n", "\r\n").encode(),
    "cr": LF.replace("\n", "\r").encode(),
    "bom": b"\xef\xbb\xbf" + LF.encode(),
    "bom+crlf": b"\xef\xbb\xbf" + LF.replace("\n", "\r\n").encode(),
    "trailing blanks on the rules": LF.replace("---\n", "--- \t\n").encode(),
    "no newline at the end": LF.rstrip("\n").encode(),
}


@pytest.mark.parametrize("data", VARIANTS.values(), ids=VARIANTS.keys())
def test_i8_line_ends_and_byte_order_marks_make_no_difference(tmp_path: Path, data: bytes) -> None:
    decision = read(tmp_path / "decision.md", data)
    assert decision.front == {"topic": "Where to keep state", "settings": {"words": 300}}
    assert decision.topic == "Where to keep state"
    assert decision.slug == "where-to-keep-state"
    assert decision.text == "# Heading\n\nFirst line.\nSecond line, 한국어."
    assert decision.warnings == ()
    assert decision.sha256 == parse(LF).sha256


@pytest.mark.parametrize("end", ["---", "---\n", "...\n", "---\n\n \n"])
def test_i8_front_matter_alone_is_nothing_to_decide(end: str) -> None:
    with pytest.raises(DecisionError, match="no text to decide"):
        parse(f"---\ntopic: Where to keep state\n{end}")


def test_i8_a_closing_rule_at_the_end_of_the_file_closes_the_front_matter(tmp_path: Path) -> None:
    """The same front matter is seen whether or not a newline follows it: nothing of it becomes the problem's text."""
    for data in (b"---\ntopic: x\n---", b"\xef\xbb\xbf---\r\ntopic: x\r\n---"):
        with pytest.raises(DecisionError, match="no text to decide"):
            read(tmp_path / "decision.md", data)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_i8_utf_16_is_refused_with_the_position(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(DecisionError, match=r"byte \d+") as caught:
        read(tmp_path / "decision.md", "# Should we?".encode(encoding))
    assert "UTF-8" in caught.value.fix


def test_i8_binary_is_refused_with_the_position(tmp_path: Path) -> None:
    with pytest.raises(DecisionError, match="NUL at byte 6"):
        read(tmp_path / "decision.md", b"\x89PNG\r\n\0\0\0\rIHDR")


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (b"caf\xe9 or tea?", "byte 3, line 1"),
        (b"# One\nTwo\nca\xfff\xe9", "byte 12, line 3"),
        (b"# One\r\ncut off \xed\x95", "byte 15, line 2"),
        (b"\xef\xbb\xbf# One\r\nTw\xff", "byte 12, line 2"),
        (b"\xef\xbb\xbf\n\xff", "byte 4, line 2"),
    ],
)
def test_i8_a_bad_byte_is_refused_with_its_position_in_the_file(tmp_path: Path, data: bytes, position: str) -> None:
    with pytest.raises(DecisionError) as caught:
        read(tmp_path / "decision.md", data)
    assert position in caught.value.message
    assert "UTF-8" in caught.value.fix


@pytest.mark.parametrize(
    "data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf \r\n", b"---\n---\n", b"---\n\n---"]
)
def test_an_empty_decision_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DecisionError, match=r"empty|no text"):
        read(tmp_path / "decision.md", data)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DecisionError, match="folder"):
        read_decision(str(tmp_path), SLUGS)


# --- front matter


@pytest.mark.parametrize("front", ["---\n---\n", "---\n\n---\n", "---\n# a comment\n---\n"])
def test_i8_empty_front_matter_is_front_matter(front: str) -> None:
    decision = parse(f"{front}# Should we?\n\nText.")
    assert (decision.front, decision.text, decision.topic) == ({}, "# Should we?\n\nText.", "Should we?")


def test_i8_broken_front_matter_is_refused_with_its_line() -> None:
    with pytest.raises(DecisionError, match="line 3"):
        parse("---\ntopic: fine\nsettings: a: b\nwords: 3\n---\nBody.")


@pytest.mark.parametrize(
    "value",
    [
        "2026-02-30",
        "2026-13-01",
        "2026-01-01 25:61:00",
        "!!int abc",
        "!!float x",
        "1" * 5000,
        "[" * 600,
        "!!timestamp no",
    ],
    ids=lambda value: value[:12],
)
def test_i8_values_that_yaml_cannot_read_are_refused_not_a_crash(value: str) -> None:
    with pytest.raises(DecisionError):
        parse(f"---\ntopic: fine\nreviewed: {value}\n---\nBody.")


def test_foreign_keys_are_kept_and_left_out_of_the_text() -> None:
    """A-g20, A-g23."""
    decision = parse("---\nstatus: draft\nowner: 김\n---\nBody.")
    assert decision.front == {"status": "draft", "owner": "김"}
    assert decision.text == "Body."


def test_prose_between_rules_is_text_with_a_warning() -> None:
    text = "---\nA foreword in prose.\n---\nThe matter itself."
    decision = parse(text)
    assert decision.text == text
    assert decision.front == {}
    assert len(decision.warnings) == 1
    assert "read as text" in decision.warnings[0]


def test_the_topic_of_prose_between_rules_is_prose_not_a_rule() -> None:
    decision = parse("---\nA foreword in prose.\n---\nThe matter itself.")
    assert decision.topic == "A foreword in prose."
    assert decision.slug == "foreword-in-prose"


def test_a_rule_further_down_is_no_front_matter() -> None:
    decision = parse("Text first.\n\n---\ntopic: no\n---\n")
    assert decision.front == {}
    assert decision.topic == "Text first."


def test_i12_lone_surrogates_do_not_reach_the_text_or_the_topic() -> None:
    """They come from undecodable bytes on the command line and from YAML escapes, and no file can hold them."""
    for text in ("Should we \udcff this?", '---\ntopic: "half \\ud83d"\n---\nShould we?'):
        decision = parse(text)
        assert decision.text.encode()
        assert decision.topic.encode()
        assert len(decision.sha256) == 64


@given(
    st.lists(
        st.sampled_from(["---", "...", "\n", "\r", "# ", "a: ", "[", "```", "x ", "\ufeff", "'"]) | st.text(max_size=6)
    )
)
def test_any_text_is_a_decision_or_refused(parts: list[str]) -> None:
    try:
        decision = parse("".join(parts))
    except DecisionError:
        return
    assert decision.text.strip()
    assert decision.topic.strip()
    assert "\n" not in decision.topic
    assert "\r" not in decision.text


# --- topic


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("---\ntopic:   From the  front \n---\n# Heading\nLine", "From the front"),
        ("---\ntitle: A title\n---\n# Heading", "A title"),
        ("---\ntopic: A topic\ntitle: A title\n---\n# Heading", "A topic"),
        ("---\ntopic: 2026\n---\n# Heading", "Heading"),
        ("---\ntopic: ''\n---\n# Heading", "Heading"),
        ("Intro.\n\n## Second level ##\n\n# First", "Second level"),
        ("# C# or F#", "C# or F#"),
        ("#hashtag\nis no heading", "#hashtag"),
        ("\n\n  First   line \nsecond", "First line"),
        ("```\n# A comment in code\n```\n# The heading", "The heading"),
        ("~~~sh\n# A comment in code\n~~~\n# The heading", "The heading"),
        ("Intro\n\n    # indented code\n\n# The heading", "The heading"),
        ("```\n# only code\n```", "```"),
    ],
)
def test_the_topic_is_front_matter_then_heading_then_first_line(text: str, topic: str) -> None:
    assert parse(text).topic == topic


@pytest.mark.parametrize(
    "fence",
    [
        "````\n```\n# in code\n```\n````",
        "```\n~~~\n# in code\n```",
        "~~~\n```\n# in code\n~~~",
        "```\n``` not a closing fence\n# in code\n```",
        "Some text, then\n```in line``` code",
    ],
)
def test_headings_inside_any_code_fence_are_ignored(fence: str) -> None:
    """A fence ends with its own character, at least as often, and nothing after it."""
    assert parse(f"{fence}\n\n# The heading\n").topic == "The heading"


def test_a_long_topic_is_never_cut() -> None:
    topic = "가" * 300
    decision = parse(f"# {topic}\n")
    assert decision.topic == topic
    assert decision.text == f"# {topic}"


# --- question or file


def test_an_existing_path_is_a_file_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("should we").write_text("# From the file", "utf-8")
    decision = read_decision("should we", SLUGS)
    assert (decision.topic, decision.source) == ("From the file", "should we")


@pytest.mark.parametrize("argument", ["Should we use it?", "move\tnow", "Rename a.md to b?", "See notes.md now"])
def test_white_space_without_a_text_suffix_is_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    monkeypatch.chdir(tmp_path)
    decision = read_decision(argument, SLUGS)
    assert (decision.text, decision.source) == (argument, "question")


@pytest.mark.parametrize(
    "argument", ["decision", "decision.md", "my decision.md", "My Notes.TXT", "no/such/file.md", "/no/such dir/x.rst"]
)
def test_anything_else_is_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no file"):
        read_decision(argument, SLUGS)


@pytest.mark.parametrize("argument", ["", "  \n"])
def test_an_empty_argument_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        read_decision(argument, SLUGS)


def test_a_very_long_question_is_a_question_and_a_very_long_word_a_missing_file() -> None:
    question = "Should we " + "really " * 20_000 + "do it?"
    assert read_decision(question, SLUGS).text == question
    with pytest.raises(UsageError):
        read_decision("x" * 100_000, SLUGS)


def test_i5_a_nul_in_the_argument_is_no_crash() -> None:
    with pytest.raises(UsageError):
        read_decision("a\0b", SLUGS)
    assert read_decision("should we x\0b", SLUGS).slug == "x-b"


# --- slug


@pytest.mark.parametrize(
    ("topic", "slug"),
    [
        ("Should we use microservices or monolith?", "microservices-vs-monolith"),  # A-190, word for word
        ("Postgres versus SQLite", "postgres-vs-sqlite"),
        ("Should we?", "should-we"),
        ("What to use for storage", "what-to-use-for-storage"),
        ("Don’t we need Kafka's log?", "dont-we-need-kafkas-log"),
        ("../../x", "x"),
        ("/etc/passwd", "etc-passwd"),
        ("..\\..\\windows", "windows"),
        ("x\0b", "x-b"),
        ("CON", "con"),
        ("nul.", "nul"),
        ("--rm -rf", "rm-rf"),
        ("snake_case", "snake-case"),
        ("마이크로서비스 or 모놀리스?", "마이크로서비스-vs-모놀리스"),
        ("Größe 2.0", "größe-2-0"),
    ],
)
def test_a190_ag12_slugs(topic: str, slug: str) -> None:
    assert slugify(topic, SLUGS) == slug


def test_ag12_a_slug_is_cut_at_forty_characters_without_a_trailing_hyphen() -> None:
    assert slugify("abcdefghij " * 6, SLUGS) == "abcdefghij-abcdefghij-abcdefghij-abcdefg"
    assert slugify("x" * 39 + " yyy", SLUGS) == "x" * 39


def test_i6_ag24_three_hundred_hangul_syllables_fit_a_file_name() -> None:
    one, other = slugify("가" * 300, SLUGS), slugify("가" * 299 + "나", SLUGS)
    for slug in (one, other):
        assert len(slug.encode()) <= 80
        assert re.fullmatch(r"가+-[0-9a-f]{6}", slug)
    assert one != other, "topics that begin alike are told apart"


def test_i6_ag24_the_hash_stays_within_forty_characters() -> None:
    slug = slugify("é" * 39 + "한", SLUGS)
    assert len(slug.encode()) <= 80
    assert len(slug) <= 40


@pytest.mark.parametrize("topic", ["🚀🚀", "???", "___", "—", "\u200b"])
def test_ag24_an_empty_slug_is_decision_and_a_hash(topic: str) -> None:
    assert re.fullmatch(r"decision-[0-9a-f]{8}", slugify(topic, SLUGS))
    assert slugify(topic, SLUGS) != slugify(topic + "!", SLUGS)


@pytest.mark.parametrize(
    ("topic", "first", "words"), [("İstanbul or Ankara", "i", 3), ("हिन्दी", "ह", 1), ("தமிழ் or हिन्दी", "த", 3)]
)
def test_ag24_marks_that_belong_to_letters_do_not_break_words(topic: str, first: str, words: int) -> None:
    slug = slugify(topic, SLUGS)
    assert (slug[0], len(slug.split("-"))) == (first, words)


@given(
    st.text()
    | st.lists(st.sampled_from(["../", "한", "é", "a", "\0", " or ", "-", "_", "\\", "𠀀", "ﬁ", "İ", "."])).map("".join)
)
@example("é" * 40 + "한")
@example("한" * 26 + "é")
@example("a" + "한" * 60)
def test_i5_i6_a_slug_is_one_short_file_name(topic: str) -> None:
    slug = slugify(topic, SLUGS)
    assert all(slug.split("-")), slug
    assert all(unicodedata.category(character)[0] in "LNM" for character in slug.replace("-", "")), slug
    assert not set(slug) & set("/\\.\0:")
    assert slug == slug.lower() == slug.strip("-")
    assert len(slug) <= 40
    assert len(slug.encode()) <= 80
    assert slugify(topic, SLUGS) == slug
