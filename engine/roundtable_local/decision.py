"""A decision file, or a question from the command line, becomes a `Decision`."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from roundtable_local.errors import DecisionError, UsageError
from roundtable_local.settings import SlugSettings

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".text", ".rst", ".adoc", ".org", ".yaml", ".yml", ".json"})
QUESTION = "question"
"""Source of a decision that was asked on the command line."""

_BLOCK = re.compile(r"^(personas|dissent):[ \t]*$")
_ENTRY = {
    "personas": re.compile(r"^[ \t]*(?:-[ \t]+)?([\w-]+):[ \t]*([\w-]+)[ \t]*$"),
    "dissent": re.compile(r"^[ \t]*-[ \t]+([\w-]+)[ \t]*$"),
}
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)


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


def read_decision(argument: str, slugs: SlugSettings) -> Decision:
    """Read a decision from a file's path or a quoted question.

    An existing path is a file; an argument with white space and no text-file suffix is a question;
    anything else is a missing file.

    Raises:
        UsageError: the argument is neither.
        DecisionError: the file is empty, binary, not UTF-8, or its front matter is broken.
    """
    path = Path(argument)
    try:
        exists = path.exists()
    except (OSError, ValueError):  # longer than a file name can be, or with a NUL: not a path
        exists = False
    if exists:
        return parse_decision(_read_file(path), str(path), slugs)
    if not argument.strip():
        raise UsageError("the decision is empty", 'name a file or ask a question in quotes: "Should we ...?"')
    if re.search(r"\s", argument.strip()) and path.suffix.lower() not in TEXT_SUFFIXES:
        return parse_decision(argument, QUESTION, slugs)
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


def slugify(topic: str, settings: SlugSettings) -> str:
    """File-name form of a topic: lower case, hyphens, Unicode letters and digits (A-190, A-g12, A-g24).

    At most `max_characters` characters and `max_bytes` UTF-8 bytes, cut on a character. Where bytes
    were cut a short hash tells apart topics that begin alike. An empty slug becomes "decision-" and a hash.
    """
    digest = hashlib.sha256(topic.encode("utf-8", "surrogatepass")).hexdigest()
    words = re.findall(r"[^\W_]+", _unapostrophe(unicodedata.normalize("NFC", topic).lower()))
    words = [settings.replace.get(word, word) for word in words]
    kept = words[next((i for i, word in enumerate(words) if word not in settings.stopwords), 0) :]
    slug = "-".join(kept)[: settings.max_characters].rstrip("-")
    if len(slug.encode()) > settings.max_bytes:
        suffix = f"-{digest[: settings.hash_characters]}"
        room = settings.max_bytes - len(suffix)
        slug = slug.encode()[:room].decode("utf-8", "ignore").rstrip("-") + suffix
    return slug or f"decision-{digest[:8]}"


def _unapostrophe(text: str) -> str:
    return re.sub(r"(?<=\w)['\u2019](?=\w)", "", text)


def _read_file(path: Path) -> str:
    fix_encoding = "save it as UTF-8 text"
    if path.is_dir():
        raise DecisionError(f"{path} is a folder", "name a text file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DecisionError(f"{path} cannot be read: {error.strerror}", "check its permissions") from error
    if not data.strip():
        raise DecisionError(f"{path} is empty", "write the decision and its context into it")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DecisionError(f"{path} is UTF-16 (byte order mark at byte 0)", fix_encoding)
    if (nul := data.find(b"\0")) >= 0:
        raise DecisionError(f"{path} is not text: NUL at byte {nul}", "name a text file, " + fix_encoding)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DecisionError(f"{path} is not UTF-8: byte {error.start}, line {line}", fix_encoding) from error


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _split_front_matter(text: str, source: str) -> tuple[dict[str, Any], str, list[str]]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text, []
    try:
        front = yaml.safe_load(match[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 2}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        message = f"the front matter of {source} is not valid YAML{where}: {problem}"
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
    lines, fenced, at = body.split("\n"), False, 0
    while at < len(lines):
        line = lines[at]
        at += 1
        fenced ^= line.lstrip().startswith(("```", "~~~"))
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
            return " ".join(front[key].split())
    fenced = False
    for line in body.splitlines():
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if not fenced and (heading := _HEADING.match(line)):
            return " ".join(heading[1].split())
    return " ".join(next(line for line in body.splitlines() if line.strip()).split())
