"""A decision file, or a question from the command line, becomes a `Decision`."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

from roundtable_local.errors import DecisionError, UsageError
from roundtable_local.report.markdown import prose_lines
from roundtable_local.settings import SlugSettings
from roundtable_local.yamlfiles import NotYamlError, parse_yaml

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".text", ".rst", ".adoc", ".org", ".yaml", ".yml", ".json"})
QUESTION = "question"
"""Source of a decision that was asked on the command line."""

STDIN = "standard input"
"""Source of a decision that was piped in, with `-` as its name."""

_BLOCK = re.compile(r"^(personas|dissent):[ \t]*$")
_ENTRY = {
    "personas": re.compile(r"^[ \t]*(?:-[ \t]+)?([\w-]+):[ \t]*([\w-]+)[ \t]*$"),
    "dissent": re.compile(r"^[ \t]*-[ \t]+([\w-]+)[ \t]*$"),
}
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
_RULE = re.compile(r"^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Decision:
    """What is to be decided.

    Args:
        text: the problem's body as the seats read it (A-g20): front matter taken out, line feeds only.
        topic: one line that names the decision; never cut.
        slug: file-name form of the topic (A-190, A-g12, A-g24).
        source: the file's path as given, or "question".
        front: the decision file's front matter, parsed, our keys and foreign ones alike.
        warnings: what the reader of the file should know, one line each.
    """

    text: str
    topic: str
    slug: str
    source: str
    front: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Hash of the body: what seeds and fingerprints depend on."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_decision(argument: str, slugs: SlugSettings, *, whole: bool = False) -> Decision:
    """Read a decision from a file's path or a quoted question; `whole` as `whole_decision` says.

    An existing path is a file; an argument with white space and no text-file suffix is a question;
    anything else is a missing file.

    Raises:
        UsageError: the argument is neither.
        DecisionError: the file is empty, binary, not UTF-8, or its front matter is broken.
    """
    if not argument.strip():
        raise UsageError("the decision is empty", 'name a file or ask a question in quotes: "Should we ...?"')
    path, parse = Path(argument), whole_decision if whole else parse_decision
    try:
        exists = path.exists()
    except (OSError, ValueError):  # longer than a file name can be, or with a NUL: not a path
        exists = False
    if exists:
        return parse(read_text(path), str(path), slugs)
    if re.search(r"\s", argument.strip()) and path.suffix.lower() not in TEXT_SUFFIXES:
        return parse(argument, QUESTION, slugs)
    raise UsageError(f"there is no file {argument!r}", "check the path, or put a question in quotes")


def parse_decision(text: str, source: str, slugs: SlugSettings) -> Decision:
    """Parse decoded text: line ends, front matter, topic and slug.

    Raises:
        DecisionError: nothing to decide is left, or the front matter is broken.
    """
    text = _plain(text)
    front, body, warnings = _split_front_matter(text, source)
    if source != QUESTION:
        blocks, body = _take_blocks(body)
        front = blocks | front
    body = body.strip()
    if not body:
        raise DecisionError(f"{source} holds no text to decide on", "write the decision and its context into it")
    topic = _topic(front, body)
    return Decision(body, topic, slugify(topic, slugs), source, front, tuple(warnings))


def whole_decision(text: str, source: str, slugs: SlugSettings) -> Decision:
    """A text that is judged as it stands: front matter and lists of settings are part of it.

    Raises:
        DecisionError: it is empty.
    """
    text = _plain(text).strip()
    if not text:
        raise DecisionError(f"{source} holds no text to decide on", "write what is to be judged into it")
    body = text
    if (match := _FRONT_MATTER.match(text)) and text[match.end() :].strip():
        body = text[match.end() :].strip()  # the topic is the first heading or line of what people read
    topic = _topic({}, body)
    return Decision(text, topic, slugify(topic, slugs), source)


def slugify(topic: str, settings: SlugSettings) -> str:
    """File-name form of a topic: lower case, hyphens, Unicode letters and digits (A-190, A-g12, A-g24).

    At most `max_characters` characters and `max_bytes` UTF-8 bytes, cut on a character. Where bytes
    were cut a short hash tells apart topics that begin alike. An empty slug becomes "decision-" and a hash.
    """
    digest = hashlib.sha256(topic.encode("utf-8", "surrogatepass")).hexdigest()
    words = _words(topic)
    words = [settings.replace.get(word, word) for word in words]
    kept = words[next((i for i, word in enumerate(words) if word not in settings.stopwords), 0) :]
    slug = "-".join(kept)[: settings.max_characters].rstrip("-")
    if len(slug.encode()) > settings.max_bytes:
        suffix = f"-{digest[: settings.hash_characters]}"
        head = slug[: settings.max_characters - len(suffix)].encode()[: settings.max_bytes - len(suffix)]
        slug = head.decode("utf-8", "ignore").rstrip("-") + suffix
    return slug or f"decision-{digest[:8]}"


def _words(topic: str) -> list[str]:
    """Lower-case words of letters and digits; marks that belong to a letter stay with it."""
    plain = unicodedata.normalize("NFC", topic)
    plain = _unapostrophe(unicodedata.normalize("NFC", "".join(_lower(character) for character in plain)))
    word_like = "".join(character if unicodedata.category(character)[0] in "LNM" else " " for character in plain)
    return [word for word in (_without_leading_marks(each) for each in word_like.split()) if word]


def _without_leading_marks(word: str) -> str:
    return "".join(dropwhile(lambda character: unicodedata.category(character)[0] == "M", word))


def _lower(character: str) -> str:
    """Lower case in one step; the dotted capital I becomes a plain i, not an i with a loose dot."""
    return character.lower().replace("i\u0307", "i")


def _unapostrophe(text: str) -> str:
    return re.sub(r"(?<=\w)['\u2019](?=\w)", "", text)


def read_text(path: Path) -> str:
    """The text of a file, byte order mark and line ends as they are.

    Raises:
        DecisionError: a folder, unreadable, empty, binary or not UTF-8.
    """
    if path.is_dir():
        raise DecisionError(f"{path} is a folder", "name a text file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DecisionError(f"{path} cannot be read: {error.strerror}", "check its permissions") from error
    return decode(data, str(path))


def decode(data: bytes, path: str) -> str:
    """The text of bytes that came from `path`.

    Raises:
        DecisionError: empty, binary or not UTF-8.
    """
    fix_encoding = "save it as UTF-8 text"
    if not data.strip():
        raise DecisionError(f"{path} is empty", "write the decision and its context into it")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DecisionError(f"{path} is UTF-16 (byte order mark at byte 0)", fix_encoding)
    if (nul := data.find(b"\0")) >= 0:
        raise DecisionError(f"{path} is not text: NUL at byte {nul}", "name a text file, " + fix_encoding)
    try:
        return data.decode("utf-8")  # a byte order mark is taken off later, so that positions are those of the file
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DecisionError(f"{path} is not UTF-8: byte {error.start}, line {line}", fix_encoding) from error


def _plain(text: str) -> str:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return whole_text(text)


def whole_text(text: str) -> str:
    """Lone surrogates, from undecodable bytes of a command line or YAML escapes, replaced: no file can hold them."""
    return text.encode("utf-8", "replace").decode()


def front_matter(text: str, source: str) -> tuple[Mapping[str, Any], str]:
    """The settings between a text's opening --- lines, and the text after them.

    Raises:
        DecisionError: they are not YAML.
    """
    return _split_front_matter(text, source)[:2]


def _split_front_matter(text: str, source: str) -> tuple[dict[str, Any], str, list[str]]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text, []
    try:
        front = parse_yaml(match[1])
    except NotYamlError as error:
        where = f" at line {error.line + 1}" if error.line else ""
        message = f"the front matter of {source} is not valid YAML{where}: {error.problem}"
        raise DecisionError(message, "mend it, or remove the --- lines") from error
    if front is None:
        return {}, text[match.end() :], []
    if not isinstance(front, dict) or not all(isinstance(key, str) for key in front):
        return {}, text, [f"the text between the --- lines of {source} is not a list of settings; it is read as text"]
    return front, text[match.end() :], []


def _take_blocks(body: str) -> tuple[dict[str, Any], str]:
    """Bare top-level `personas:` and `dissent:` blocks, and the text without them (A-055, A-073, A-g20)."""
    personas: dict[str, str] = {}
    dissent: list[str] = []
    kept: list[str] = []
    marked, at = list(_with_fences(body.split("\n"))), 0
    lines = [line for line, _ in marked]
    while at < len(lines):
        line, fenced = marked[at]
        at += 1
        opening = None if fenced else _BLOCK.match(line)
        entries = list(takewhile(bool, (_ENTRY[opening[1]].match(each) for each in lines[at:]))) if opening else []
        if not opening or not entries:  # without entries below it is prose
            kept.append(line)
            continue
        at += len(entries)
        if opening[1] == "personas":
            personas.update((entry[1], entry[2]) for entry in entries if entry)
        else:
            dissent += [entry[1] for entry in entries if entry]
    blocks: dict[str, Any] = {"personas": personas} if personas else {}
    return blocks | ({"dissent": dissent} if dissent else {}), "\n".join(kept)


def _topic(front: Mapping[str, Any], body: str) -> str:
    for key in ("topic", "title"):
        if isinstance(front.get(key), str) and front[key].strip():
            return whole_text(" ".join(front[key].split()))
    for line, fenced in _with_fences(body.split("\n")):
        if not fenced and (heading := _HEADING.match(line)):
            return " ".join(heading[1].split())
    lines = [line for line in body.splitlines() if line.strip()]
    return " ".join(next((line for line in lines if not _RULE.match(line)), lines[0]).split())


def _with_fences(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each line with whether it belongs to a code block; a fence ends with its own character, as often, and nothing after."""
    prose = set(prose_lines(lines))
    for index, line in enumerate(lines):
        yield line, index not in prose
