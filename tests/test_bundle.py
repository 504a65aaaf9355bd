"""The air-gap kit: made here, installed without a network, refused when a file is not what was sent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine  # it downloads and builds wheels

ROOT = Path(__file__).resolve().parent.parent


def call(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    words = [str(each) for each in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=900, **options)  # type: ignore[call-overload, no-any-return]


def unplugged(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Without any network, loopback included."""
    return call("unshare", "--map-root-user", "--net", *command)


@pytest.fixture(name="kit", scope="module")
def _kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("unshare") is None or unplugged("true").returncode:
        pytest.skip("this machine does not let a process have a network of its own (unshare)")
    path = tmp_path_factory.mktemp("kits") / "kit"
    model = path.parent / "my model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    done = call(ROOT / "scripts" / "make_bundle.sh", "--out", path, "--set", "unit", "--model", model)
    assert done.returncode == 0, done.stderr
    return path


def copied(kit: Path, to: Path) -> Path:
    shutil.copytree(kit, to)
    return to


def test_it_installs_and_runs_with_the_network_off(kit: Path, tmp_path: Path) -> None:
    installed = unplugged(kit / "install.sh", tmp_path / "env")
    assert installed.returncode == 0, installed.stderr
    assert "my model" in installed.stdout
    command = tmp_path / "env" / "bin" / "roundtable-local"
    ran = unplugged(command, "run", "Should we?", "--backend", "scripted", "--quiet", "--out", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()).is_file()
    again = unplugged(kit / "install.sh", tmp_path / "env")  # a second time changes nothing
    assert again.returncode == 0, again.stderr


def test_a_changed_file_is_named(kit: Path, tmp_path: Path) -> None:
    bad = copied(kit, tmp_path / "kit")
    wheel = next((bad / "wheels").glob("typer*.whl"))
    data = bytearray(wheel.read_bytes())
    data[100] ^= 1
    wheel.write_bytes(data)
    refused = unplugged(bad / "install.sh", tmp_path / "env")
    assert refused.returncode == 1
    assert wheel.name in refused.stdout + refused.stderr
    assert not (tmp_path / "env").exists()


def test_a_missing_and_an_extra_file_are_named(kit: Path, tmp_path: Path) -> None:
    bad = copied(kit, tmp_path / "kit")
    (bad / "wheels" / "extra.whl").write_text("x")
    extra = unplugged(bad / "install.sh", tmp_path / "env")
    assert extra.returncode == 1
    assert "wheels/extra.whl" in extra.stderr
    (bad / "wheels" / "extra.whl").unlink()
    (bad / "model" / "my model" / "config.json").unlink()
    missing = unplugged(bad / "install.sh", tmp_path / "env")
    assert missing.returncode == 1
    assert "my model/config.json" in missing.stdout + missing.stderr


def test_another_python_or_platform_is_refused(kit: Path, tmp_path: Path) -> None:
    for line, says in (("python 3.1", "for Python 3.1"), ("platform win-arm", "for win-arm")):
        bad = copied(kit, tmp_path / says.replace(" ", "-"))
        made = (bad / "MADE-FOR").read_text().splitlines()
        kind = line.split(" ", 1)[0]
        (bad / "MADE-FOR").write_text("\n".join(line if each.startswith(kind) else each for each in made) + "\n")
        refused = call("env", f"PYTHON={sys.executable}", bad / "install.sh", tmp_path / "env")
        assert refused.returncode == 1
        assert says in refused.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "--out DIR"),
        (["--out"], "needs a value"),
        (["--out", "x", "--set", "y"], "full or unit"),
        (["--no"], "unknown"),
    ],
)
def test_bad_usage_says_what_to_do(options: list[str], says: str) -> None:
    done = call(ROOT / "scripts" / "make_bundle.sh", *options)
    assert done.returncode == 1
    assert says in done.stderr


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    done = call(ROOT / "scripts" / "make_bundle.sh", "--out", tmp_path)
    assert done.returncode == 1
    assert "not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
