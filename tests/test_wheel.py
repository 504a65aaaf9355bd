"""The wheel carries the configs and prompts, and works from anywhere without the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WHERE = """
import sys
from pathlib import Path
import roundtable_local
print(Path(roundtable_local.__file__).resolve().parent)
print(*(str(Path(entry or ".").resolve()) for entry in sys.path), sep="\\n")
"""


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def shipped(folder: Path) -> set[str]:
    """Every file of configs/ and prompts/ below `folder`, by its path from there."""
    return {
        path.relative_to(folder).as_posix()
        for kind in ("configs", "prompts")
        for path in (folder / kind).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=wheel.parent)
    fresh = folder / "bin" / "python"
    pip = ("-m", "pip", "--python", fresh, "--disable-pip-version-check", "install")
    run(sys.executable, *pip, "--no-deps", "--no-index", "--no-compile", wheel, cwd=wheel.parent)
    return fresh


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def env() -> dict[str, str]:
    """The dependencies come from this environment's site-packages: as plain folders, whose .pth files are not read."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    paths = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return clean | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def test_the_wheel_holds_the_package_its_configs_prompts_and_licence_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names} == {"roundtable_local", "roundtable_local-0.1.0.dist-info"}
    assert {f"roundtable_local/{name}" for name in shipped(ROOT)} <= names
    assert "roundtable_local-0.1.0.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if "__pycache__" in name]


def test_the_installed_package_finds_its_own_configs_and_prompts(
    python: Path, elsewhere: Path, env: dict[str, str]
) -> None:
    package, *path = run(python, "-c", WHERE, cwd=elsewhere, env=env).splitlines()
    assert Path(package).is_relative_to(python.parent.parent.resolve())
    assert str(ROOT) not in path
    assert str(ROOT / "engine") not in path
    installed = shipped(Path(package))
    assert installed == shipped(ROOT)
    assert any(name.startswith("configs/protocols/") for name in installed)
    assert any(name.startswith("prompts/") for name in installed)


def test_the_module_and_the_command_answer_from_another_folder(
    python: Path, elsewhere: Path, env: dict[str, str]
) -> None:
    assert "Usage: " in run(python, "-m", "roundtable_local", "--help", cwd=elsewhere, env=env)
    assert "Usage: roundtable-local" in run(python.parent / "roundtable-local", "--help", cwd=elsewhere, env=env)
