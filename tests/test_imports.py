"""Who may import whom (DESIGN), and that light commands load nothing heavy and leave nothing behind."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import roundtable_local
from tests.helpers import PACKAGE

HEAVY = {"vllm", "torch", "transformers", "outlines", "llguidance", "accelerate", "gguf", "xgrammar"}
NAME = "roundtable_local"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def imports(path: Path, *, top_level: bool = False) -> Iterator[str]:
    """Dotted names that a module imports; with `top_level` only those outside functions."""
    tree = ast.parse(path.read_text("utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if top_level and id(node) in inside:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            if node.module == NAME or node.module.startswith(f"{NAME}."):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own(path: Path) -> set[str]:
    """Modules of the package that a module imports, without the package's name; names inside modules fall out."""
    found = set()
    for name in imports(path):
        parts = name.split(".")[1:] if name.split(".")[0] == NAME else []
        while parts and not (
            (PACKAGE / Path(*parts)).is_dir() or (PACKAGE / Path(*parts)).with_suffix(".py").is_file()
        ):
            parts.pop()
        if parts:
            found.add(".".join(parts))
    return found


def foreign(path: Path, *, top_level: bool = False) -> set[str]:
    """Top-level packages that a module imports and that are neither ours nor Python's."""
    tops = {name.split(".")[0] for name in imports(path, top_level=top_level)}
    return {top for top in tops if top != NAME and top not in sys.stdlib_module_names}


# --- the import rule


def test_steps_and_errors_know_nothing_of_the_rest() -> None:
    for name in ("steps.py", "errors.py"):
        assert own(PACKAGE / name) == set()
    assert foreign(PACKAGE / "steps.py") == {"pydantic"}


SHARED = {
    "jsonfiles",
    "steps",
    "seats",
    "decision",
    "prompts",
    "settings",
    "report",
    "report.markdown",
    "protocols",
    "protocols.replies",
    "codebase",
}


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("protocols/") and name.count("/") > 1])
def test_a_protocol_imports_only_what_the_design_allows(name: str) -> None:
    room = ".".join(Path(name).parts[:2])
    allowed = {module for module in own(PACKAGE / name) if module.startswith(room) or module.startswith("report.")}
    assert own(PACKAGE / name) <= SHARED | allowed
    assert foreign(PACKAGE / name) <= {"pydantic"}


@pytest.mark.parametrize(
    "name", [name for name in MODULES if Path(name).name in {"tally.py", "report.py", "files.py", "merge.py"}]
)
def test_tallies_and_reports_are_pure(name: str) -> None:
    assert not any(
        module.split(".")[0] in {"backends", "runner", "journal", "rundir", "tokens"} for module in own(PACKAGE / name)
    )
    stdlib = {module.split(".")[0] for module in imports(PACKAGE / name)}
    assert not stdlib & {"os", "pathlib", "time", "datetime", "random", "io", "sys", "socket", "subprocess"}


def test_report_imports_nothing_of_the_package_but_itself() -> None:
    for path in (PACKAGE / "report").glob("*.py"):
        assert all(module.split(".")[0] == "report" for module in own(path))


def test_only_backends_import_engines_and_only_inside_functions() -> None:
    users = {name for name in MODULES if foreign(PACKAGE / name) & HEAVY}
    assert users
    assert all(name.startswith("backends/") for name in users)
    for name in MODULES:
        assert not foreign(PACKAGE / name, top_level=True) & HEAVY, name


def test_only_cli_imports_typer_and_only_the_terminal_imports_rich() -> None:
    assert {name for name in MODULES if "typer" in foreign(PACKAGE / name)} == {
        "cli/base.py", "cli/debates.py", "cli/machines.py", "cli/states.py",
    }  # fmt: skip
    users = {name for name in MODULES if "rich" in foreign(PACKAGE / name)}
    assert all(name == "terminal.py" or name.startswith("cli/") for name in users)


def test_nothing_imports_the_command_line_but_its_entry() -> None:
    users = {name for name in MODULES if any(module.split(".")[0] == "cli" for module in own(PACKAGE / name))}
    assert {name for name in users if not name.startswith("cli/")} == {"__main__.py"}


def test_network_libraries_are_nowhere() -> None:
    network = {"socket", "ssl", "http", "ftplib", "urllib.request", "urllib.error", "requests", "httpx", "aiohttp",
               "huggingface_hub", "openai"}  # fmt: skip
    for name in MODULES:
        prefixes = {".".join(each.split(".")[:end]) for each in imports(PACKAGE / name) for end in (1, 2)}
        assert not prefixes & network, name


# --- what loading does


def python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in an empty folder, which is also its home."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_", "VLLM_"))}
    environment |= {"HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


LOADED = f"print('loaded:', *sorted({{name.split('.')[0] for name in sys.modules}} & {HEAVY!r}), file=sys.stderr)"
RUN = f"""
import sys
sys.argv[0] = "roundtable-local"
from roundtable_local.cli import main
try:
    main()
finally:
    {LOADED}
"""
EVERYTHING = f"""
import importlib, os, sys
before = dict(os.environ)
for name in {[name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in MODULES]!r}:
    if name not in ("__main__", "__init__"):
        importlib.import_module("roundtable_local." + name)
assert dict(os.environ) == before, "the environment was changed"
import roundtable_local
{LOADED}
"""


def test_importing_the_package_loads_nothing_but_itself(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import roundtable_local; print(*sorted(set(sys.modules) - before))"
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {NAME, "__future__"}
    assert list(tmp_path.iterdir()) == []


def test_importing_every_module_prints_nothing_makes_nothing_and_loads_no_engine(tmp_path: Path) -> None:
    done = python(EVERYTHING, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.strip() == "loaded:"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", "Should we use microservices or monolith?", "--dry-run", "--backend", "scripted"]],
    ids=["help", "dry run"],
)
def test_light_commands_load_no_engine_and_leave_nothing_behind(tmp_path: Path, arguments: list[str]) -> None:
    done = python(RUN, tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.strip() == "loaded:"
    assert list(tmp_path.iterdir()) == []


def test_python_m_is_the_command(tmp_path: Path) -> None:
    code = "import runpy, sys; sys.argv = ['x', '--version']; runpy.run_module('roundtable_local', run_name='__main__')"
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == roundtable_local.__version__
