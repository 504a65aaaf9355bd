"""Templates: strict about their variables, all of them used, all of them in the record of a run (J4)."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, UndefinedError, meta

from roundtable_local import protocols
from roundtable_local.prompts import render, template_hashes
from roundtable_local.shipped import shipped
from tests.helpers import PACKAGE

TEMPLATES = sorted(path.relative_to(shipped("prompts")).as_posix() for path in shipped("prompts").rglob("*.j2"))


def mentioned(folder: Path) -> Iterator[str]:
    """File names of templates in the code's strings."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".j2"):
                yield node.value.rsplit("/", 1)[-1]


def test_a_template_without_its_variables_fails() -> None:
    for name in TEMPLATES:
        source = (shipped("prompts") / name).read_text("utf-8")
        if meta.find_undeclared_variables(Environment(autoescape=True).parse(source)):
            with pytest.raises(UndefinedError):
                render(name)


def test_a_misspelt_variable_fails() -> None:
    with pytest.raises(UndefinedError, match="reason"):
        render("reask.j2", raeson="too long")


def test_rendered_prompts_name_their_template_and_its_hash() -> None:
    prompt = render("reask.j2", reason="it was <cut> & 'short'")
    source = (shipped("prompts") / "reask.j2").read_bytes()
    assert (prompt.template, prompt.sha256) == ("reask.j2", hashlib.sha256(source).hexdigest())
    assert "it was <cut> & 'short'" in prompt.text, "prompts are not HTML"
    assert prompt.text == prompt.text.strip()


def test_text_that_looks_like_a_template_is_not_run() -> None:
    assert "{{ 7 * 7 }} {% raw %}" in render("reask.j2", reason="{{ 7 * 7 }} {% raw %}").text


def included(room: str) -> set[str]:
    """Templates that other templates of the room include."""
    texts = [path.read_text("utf-8") for path in (shipped("prompts") / room).glob("*.j2")]
    return {name for text in texts for name in re.findall(rf'{{% include "{room}/([\w.]+)" %}}', text)}


def test_every_template_is_used_by_the_code_and_every_used_one_is_there() -> None:
    rooms = {name for name in TEMPLATES if "/" in name}
    assert {name.split("/")[0] for name in rooms} <= set(protocols.NAMES)
    for room in protocols.NAMES:
        folder = {name.split("/")[1] for name in rooms if name.startswith(f"{room}/")}
        assert set(mentioned(PACKAGE / "protocols" / room)) | included(room) == folder
    assert {name for name in TEMPLATES if "/" not in name} <= set(mentioned(PACKAGE))


@pytest.mark.parametrize("room", protocols.NAMES)
def test_j4_the_hashes_of_a_run_cover_all_its_templates(room: str) -> None:
    expected = {name for name in TEMPLATES if "/" not in name or name.startswith(f"{room}/")}
    hashes = template_hashes(room)
    assert set(hashes) == expected
    for name, value in hashes.items():
        assert value == hashlib.sha256((shipped("prompts") / name).read_bytes()).hexdigest()


def test_templates_are_utf_8_with_line_feeds() -> None:
    for name in TEMPLATES:
        data = (shipped("prompts") / name).read_bytes()
        assert data.decode("utf-8")
        assert b"\r" not in data
        assert not data.startswith(b"\xef\xbb\xbf")
