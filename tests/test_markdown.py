"""Text of models and users in Markdown: parsed back by a Markdown reader it reads as written, and is text alone (I1, I2)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from roundtable_local.report.markdown import bullets, document, inline, numbered, one_line, table

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
FRAGMENTS = [
    "\\", "`", "``", "*", "**", "_", "__", "~", "~~", "|", "||", "<", ">", "<b>", "</script>", "<!--", "<?", "&amp;", "&#60;",
    "&#x3c;", "&lt", ";", "[a](javascript:alert(1))", "![a](x)", "[a]: /u", "[", "]", "(", ")", "!", "#", "# ", "###### ", "- ",
    "+ ", "* ", "1. ", "12) ", "1", ".", "=", "===", "---", "- - -", "***", "```", "~~~", "> ", ":-:", ":", "<https://x.y>",
    "<a@b.c>", "snake_case", "__init__", "a*b", "한국어", "🚀", "é", "\u0301", "\u00a0", "\u2028", "\u2029", "\u202e", "\x85", "\n",
    "\r\n", "\t", "    ", " ", "\0", "\x1b[31m", "²", "x", "Word", "'", '"',
]  # fmt: skip
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=10).map("".join)
PLAIN = {"text", "text_special"}
NASTY = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[click](javascript:alert(1))", "</style></script>",
    "# not a heading", "- not a list", "1. not a list", "> not a quote", "a | b", "*bold* _it_ **x** __y__ ~~z~~ `code`",
    "__init__ and __all__", "trailing \\", "&lt;b&gt; &#60; &amp", "<https://example.org>", "![alt](x.png)", "===", "---", "+",
    "2)", "[x]: /y", "```", "~~~", "a\nb\r\nc", "_ _ _", "###", "#!", "C #", "a__b__c", "_a_b_", "__",
]  # fmt: skip


def text_of(tokens: list[Token]) -> str:
    """The text of one paragraph, heading or cell; fails on anything but text in it."""
    assert all(token.type in PLAIN for token in tokens), [token.type for token in tokens]
    return "".join(token.content for token in tokens)


def paragraphs(markdown: str) -> list[str]:
    """Texts of a document that holds paragraphs alone."""
    tokens = READER.parse(markdown)
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"] * (len(tokens) // 3)
    return [text_of(token.children or []) for token in tokens if token.type == "inline"]


# --- one line of prose


@given(texts)
@example("__init__")
@example("a \\")
@example("_ _ _")
@example("C #")
def test_i2_escaped_text_is_one_paragraph_that_reads_as_written(text: str) -> None:
    assert paragraphs(inline(text)) == ([one_line(text)] if one_line(text) else [])


@pytest.mark.parametrize("text", NASTY)
def test_i2_nothing_becomes_structure(text: str) -> None:
    assert paragraphs(inline(text)) == [one_line(text)]
    html = READER.render(inline(text))
    assert re.fullmatch(r"<p>[^<>]*</p>\n", html), html


@given(texts)
def test_one_line_has_no_line_ends_controls_or_reordering(text: str) -> None:
    line = one_line(text)
    assert line == line.strip() == one_line(line)
    assert len(line.splitlines()) <= 1
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]|\s\s", line)
    assert [word for word in text.split() if word.isalnum() and word.isascii()] == [
        word for word in line.split() if word.isalnum() and word.isascii()
    ] or re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("Plain prose, with (brackets) and 3.5 %.", "Plain prose, with (brackets) and 3.5 %."),
        ("Keep snake_case, e-mail and C#.", "Keep snake_case, e-mail and C#."),
        ("2 > 1 & 1 < 2!", "2 > 1 & 1 \\< 2!"),
        ("한국어 문장입니다.", "한국어 문장입니다."),
    ],
)
def test_plain_prose_stays_as_it_is(text: str, escaped: str) -> None:
    assert inline(text) == escaped


@pytest.mark.parametrize("wrap", ["**Topic:** {}", "### R1: {}", "#### {}", "Seat: {} (end)"])
@given(texts)
@example("C #")
@example("Move to ##")
@example("#")
def test_i2_text_reads_as_written_where_a_report_puts_it(wrap: str, text: str) -> None:
    """After a bold label, in a heading, inside a sentence."""
    tokens = READER.parse(wrap.format(inline(text)))
    assert len(tokens) == 3
    label = re.sub(r"^#+ |\*\*", "", wrap)
    seen = "".join(token.content for token in tokens[1].children or [] if token.type in PLAIN)
    assert " ".join(seen.split()) == " ".join(label.format(one_line(text)).split())
    kinds = {token.type for token in tokens[1].children or []}
    assert kinds <= PLAIN | {"strong_open", "strong_close"}


# --- lists


def items(markdown: str, kind: str) -> list[str]:
    tokens = READER.parse(markdown)
    assert (tokens[0].type, tokens[-1].type) == (f"{kind}_list_open", f"{kind}_list_close")
    assert all(
        token.type in {"list_item_open", "list_item_close", "paragraph_open", "paragraph_close", "inline"}
        for token in tokens[1:-1]
    )
    found: list[str] = []
    for token in tokens:
        if token.type == "list_item_open":
            found.append("")
        elif token.type == "inline":
            found[-1] += text_of(token.children or [])
    return found


@pytest.mark.parametrize(("render", "kind"), [(bullets, "bullet"), (numbered, "ordered")])
@given(st.lists(texts, min_size=1, max_size=12))
def test_i2_list_items_read_as_written(render: Callable[[list[str]], str], kind: str, lines: list[str]) -> None:
    assert items(render(lines), kind) == [one_line(line) for line in lines]


# --- tables


def cells(markdown: str) -> list[list[str]]:
    tokens = READER.parse(markdown)
    assert (tokens[0].type, tokens[-1].type) == ("table_open", "table_close")
    rows: list[list[str]] = []
    for at, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in {"th_open", "td_open"}:
            rows[-1].append(text_of(tokens[at + 1].children or []))
    return rows


@given(st.lists(st.tuples(texts, texts, texts), max_size=5))
@example([("a|b", "c\nd", "e\\"), ("`f`", "\\|", "\\\\|`"), ("", "", "")])
@example([("`a|b`", "|", "||")])
def test_i1_every_row_parses_to_as_many_cells_as_the_head_and_each_reads_as_written(
    rows: list[tuple[str, str, str]],
) -> None:
    parsed = cells(table(("Recommendation", "Vote", "Reason"), rows))
    assert parsed[0] == ["Recommendation", "Vote", "Reason"]
    assert parsed[1:] == [[one_line(cell) for cell in row] for row in rows]


@pytest.mark.parametrize("nasty", ["a | b", "a\nb", "a \\", "`a", "`a|b`", "\\|", "|", "<br>", "| - | - |"])
def test_i1_a_head_may_hold_them_too(nasty: str) -> None:
    parsed = cells(table((nasty, "Vote"), [(nasty, nasty)]))
    assert parsed == [[one_line(nasty), "Vote"], [one_line(nasty), one_line(nasty)]]


# --- documents


def test_a_document_has_one_blank_line_between_parts_and_one_newline_at_its_end() -> None:
    assert document("# A", "", "text\n", "\n\n", "- b") == "# A\n\ntext\n\n- b\n"


@given(st.lists(texts, min_size=1, max_size=5))
def test_i2_paragraphs_of_a_document_stay_apart(lines: list[str]) -> None:
    assert paragraphs(document(*(inline(line) for line in lines))) == [
        one_line(line) for line in lines if one_line(line)
    ]
