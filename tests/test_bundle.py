"""The air-gap kit: made here, installed with the network off; refused where it is damaged or for another machine.

The light set of packages stands in for the full one: the same scripts, less to download. The kits that tests damage are
hard links to the one that was made, so a file is replaced there, never written into.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roundtable_local.backends import scripted

pytestmark = pytest.mark.engine  # it downloads and builds wheels

ROOT = Path(__file__).resolve().parent.parent
MAKE = ROOT / "scripts" / "make_bundle.sh"
TOKENIZER = Path(scripted.__file__).parent / "scripted_model"
MODEL = "a small model"  # with blanks, as folders may have
HEADER = b'{"w": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}}'
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + bytes(24)
NO_NETWORK = ("unshare", "--map-root-user", "--net")


def call(
    *command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=os.environ | (env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def write_model(folder: Path) -> None:
    """A model that passes a dry run; its weights are a link, as in a hub's cache."""
    shutil.copytree(TOKENIZER, folder)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 65536}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").symlink_to(folder.parent / "blob")
    (folder.parent / "blob").write_bytes(WEIGHTS)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit of the light set with a model, made from a relative path in another folder than the checkout."""
    base = tmp_path_factory.mktemp("kits")
    write_model(base / MODEL)
    python = ("--python", sys.executable)
    done = call(MAKE, "--out", "kit", "--set", "unit", "--model", MODEL, *python, cwd=base)
    assert done.returncode == 0, done.stderr
    return base / "kit"


@pytest.fixture
def copy(kit: Path, tmp_path: Path) -> Path:
    """A kit to damage: replace its files, don't write into them."""
    shutil.copytree(kit, tmp_path / "kit", copy_function=os.link)
    return tmp_path / "kit"


@pytest.fixture(scope="module")
def no_network() -> tuple[str, ...]:
    """What makes a command run without any network, loopback included."""
    if shutil.which("unshare") is None or call(*NO_NETWORK, "true").returncode:
        pytest.skip("this machine does not let a process have a network of its own (unshare)")
    return NO_NETWORK


def pretend(folder: Path, wheel: Path) -> None:
    """A folder that passes for the wheel's package where it is on the path, and does not work."""
    name, version, *_ = wheel.name.split("-")
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / f"{name}.py").write_text("raise ImportError")


@pytest.fixture(scope="module")
def installed(kit: Path, no_network: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment installed from the kit; settings of the user's would spoil it if they were heard."""
    base = tmp_path_factory.mktemp("installed")
    target = base / "my env"
    (base / "pip.conf").write_text("[install]\nconstraint = /nowhere\n")
    pretend(base / "path", next((kit / "wheels").glob("typer-*.whl")))
    spoil = {
        "PYTHONPATH": str(base / "path"),
        "PIP_CONFIG_FILE": str(base / "pip.conf"),
        "PIP_TARGET": "/nowhere",
    }
    done = call(*no_network, kit / "install.sh", target, "--python", sys.executable, env=spoil)
    assert done.returncode == 0, done.stderr
    yield target
    shutil.rmtree(target)


def replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def refused(kit: Path, target: Path, *options: str | Path, env: dict[str, str] | None = None) -> str:
    """What install.sh says on standard error when it refuses, which it does without touching the target."""
    before = sorted(target.rglob("*")) if target.exists() else None
    done = call("bash", kit / "install.sh", target, *options, env=env)
    assert done.returncode == 1, done.stdout
    assert (sorted(target.rglob("*")) if target.exists() else None) == before
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_kit_lists_itself_and_says_what_it_is_for(kit: Path) -> None:
    assert call("sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS", cwd=kit).returncode == 0
    names = [line.split("  ", 1)[1] for line in (kit / "SHA256SUMS").read_text().splitlines()]
    files = {path.relative_to(kit).as_posix() for path in kit.rglob("*") if not path.is_dir()}
    assert names == sorted(names)
    assert set(names) == files - {"SHA256SUMS"}
    assert not [path for path in kit.rglob("*") if path.is_symlink()]
    assert (kit / "model" / MODEL / "model.safetensors").read_bytes() == WEIGHTS
    lock = dict(line.split(": ", 1) for line in (kit / "LOCK").read_text().splitlines())
    assert lock["set"] == "unit"
    assert lock["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert lock["model"] == MODEL
    assert (kit / lock["lock"]).read_bytes() == (ROOT / "requirements" / "unit.lock").read_bytes()


def test_every_package_of_the_lock_is_there_as_a_wheel(kit: Path) -> None:
    pins = [line for line in (kit / "unit.lock").read_text().splitlines() if line and not line.startswith("#")]
    wheels = {tuple(path.name.lower().split("-")[:2]) for path in (kit / "wheels").iterdir() if path.suffix == ".whl"}
    wanted = {tuple(pin.lower().replace("-", "_").split("==")) for pin in pins}
    assert wanted <= wheels
    assert {name for name, _ in wheels} - {name for name, _ in wanted} == {"roundtable_local"}


def test_a_debate_runs_from_it_with_the_network_off(
    installed: Path, no_network: tuple[str, ...], tmp_path: Path
) -> None:
    command = (installed / "bin" / "roundtable-local", "run", "Should we?", "--quiet", "--out", tmp_path)
    clean = {"PYTHONPATH": ""}
    done = call(*no_network, *command, "--backend", "scripted", env=clean)
    assert done.returncode == 0, done.stderr
    report = Path(done.stdout.strip())
    assert report.is_relative_to(tmp_path)
    assert report.read_text("utf-8").startswith("# Roundtable Report: Should we?")


def test_what_is_installed_is_the_kit_and_nothing_else(kit: Path, installed: Path) -> None:
    listing = json.loads(call(installed / "bin" / "python", "-I", "-m", "pip", "list", "--format", "json").stdout)
    names = {each["name"].lower().replace("-", "_") for each in listing}
    wheels = {path.name.lower().split("-")[0] for path in (kit / "wheels").iterdir()}
    assert names - {"pip", "setuptools"} == wheels - {"setuptools"}


def test_another_run_changes_nothing_and_tells_how_to_use_the_model(kit: Path, installed: Path) -> None:
    marked = installed / "bin" / "kept"
    marked.touch()
    done = call("bash", kit / "install.sh", installed)
    assert done.returncode == 0, done.stderr
    assert "has this bundle already" in done.stdout
    assert marked.exists()
    told = done.stdout.splitlines()[-1]
    assert call("bash", "-c", f"{told} --dry-run").returncode == 0
    assert str(kit / "model" / MODEL) in told.replace("\\ ", " ")


def test_the_model_can_go_to_the_cache(kit: Path, installed: Path, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    copied = tmp_path / "roundtable-local" / "models" / MODEL
    for _ in range(2):  # what is there already is left
        done = call("bash", kit / "install.sh", installed, "--copy-model", env=cache)
        assert done.returncode == 0, done.stderr
        assert str(copied) in done.stdout.splitlines()[-1].replace("\\ ", " ")
    assert {path.name for path in copied.iterdir()} == {path.name for path in (kit / "model" / MODEL).iterdir()}
    assert [path.name for path in copied.parent.iterdir()] == [MODEL]
    (copied / "config.json").write_text("{}")
    assert "differs" in refused(kit, installed, "--copy-model", env=cache)


def test_what_an_interrupted_install_left_is_made_anew(copy: Path, tmp_path: Path) -> None:
    target = tmp_path / "env"
    target.mkdir()
    (target / ".roundtable-bundle").write_text("unfinished\n")
    (target / "torn").mkdir()
    done = call("bash", copy / "install.sh", target, "--python", sys.executable)
    assert done.returncode == 0, done.stderr
    assert not (target / "torn").exists()
    assert (target / "bin" / "roundtable-local").exists()
    shutil.rmtree(target)  # large, and pytest keeps the folders of three runs


def test_a_folder_with_something_else_is_left_alone(kit: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    assert "holds something else" in refused(kit, tmp_path, "--python", sys.executable)
    assert "is a file" in refused(kit, tmp_path / "mine", "--python", sys.executable)


def test_the_environment_may_not_lie_in_the_kit(kit: Path) -> None:
    assert "lies in the bundle" in refused(kit, kit / "env", "--python", sys.executable)


def flip(kit: Path) -> str:
    wheel = next((kit / "wheels").glob("typer-*.whl"))
    data = bytearray(wheel.read_bytes())
    data[len(data) // 2] ^= 1
    replace(wheel, bytes(data))
    return f"changed: wheels/{wheel.name}"


def lose(kit: Path) -> str:
    (kit / "model" / MODEL / "config.json").unlink()
    return f"missing: model/{MODEL}/config.json"


def add(kit: Path) -> str:
    (kit / "wheels" / "more-1-py3-none-any.whl").touch()
    return "not listed in SHA256SUMS: wheels/more-1-py3-none-any.whl"


def link(kit: Path) -> str:
    (kit / "wheels" / "link").symlink_to("/nowhere")
    return "not listed in SHA256SUMS: wheels/link"


def unlist(kit: Path) -> str:
    sums = (kit / "SHA256SUMS").read_text().splitlines(keepends=True)
    replace(kit / "SHA256SUMS", "".join(line for line in sums if not line.endswith("  LOCK\n")).encode())
    return "not listed in SHA256SUMS: LOCK"


def garble(kit: Path) -> str:
    replace(kit / "SHA256SUMS", b"x" + (kit / "SHA256SUMS").read_bytes()[1:])
    return "SHA256SUMS is damaged"


def unfinish(kit: Path) -> str:
    (kit / "SHA256SUMS").unlink()
    return "not complete"


@pytest.mark.parametrize("damage", [flip, lose, add, link, unlist, garble, unfinish])
def test_a_damaged_kit_is_refused_and_the_file_named(copy: Path, tmp_path: Path, damage: Callable[[Path], str]) -> None:
    expected = damage(copy)
    said = refused(copy, tmp_path / "env", "--python", sys.executable)
    assert expected in said
    assert said.count("changed: ") + said.count("missing: ") + said.count("not listed in SHA256SUMS: ") <= 1


def test_all_damage_is_named_at_once(copy: Path, tmp_path: Path) -> None:
    expected = [flip(copy), lose(copy), add(copy)]
    said = refused(copy, tmp_path / "env")
    assert [each for each in expected if each not in said] == []
    for number in range(20):
        (copy / str(number)).touch()
    assert "  and 13 more\n" in refused(copy, tmp_path / "env")


def relabel(kit: Path, key: str, value: str) -> None:
    """Make the kit one for another machine, checksums included."""
    lines = (kit / "LOCK").read_text().splitlines()
    replace(
        kit / "LOCK",
        "".join(f"{key}: {value}\n" if line.startswith(f"{key}: ") else f"{line}\n" for line in lines).encode(),
    )
    names = [line.split("  ", 1)[1] for line in (kit / "SHA256SUMS").read_text().splitlines()]
    replace(kit / "SHA256SUMS", call("sha256sum", *names, cwd=kit).stdout.encode())


@pytest.mark.parametrize(
    ("key", "value"), [("python", "3.9"), ("platform", "linux-riscv64"), ("abi", "cpython-311t-x86_64-linux-gnu")]
)
def test_another_python_or_platform_is_refused(copy: Path, tmp_path: Path, key: str, value: str) -> None:
    relabel(copy, key, value)
    said = refused(copy, tmp_path / "env", "--python", sys.executable)
    assert f"made for {key} {value}, and {sys.executable} is {key} " in said


def test_a_missing_python_is_told(kit: Path, tmp_path: Path) -> None:
    assert "/nowhere/python is not a Python that runs" in refused(kit, tmp_path / "env", "--python", "/nowhere/python")
    tools = tmp_path / "tools"  # everything that the script calls, and no Python
    tools.mkdir()
    for name in ("bash", "comm", "cut", "dirname", "du", "find", "grep", "head", "sed", "sha256sum", "sort", "wc"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    said = refused(kit, tmp_path / "env", env={"PATH": str(tools), "PYTHON": ""})
    assert "no Python was found; name a Python 3." in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "--out DIR"),
        (["--out"], "--out needs a value"),
        (["--out", "kit", "--set", "most"], "full or unit"),
        (["--no"], "unknown option --no"),
        (["--out", "kit", "--python", "/nowhere/python"], "/nowhere/python is not a Python 3.11"),
        (["--out", "kit", "--model", "nothing"], "nothing has no config.json"),
        (["--out", "full"], "full is not empty"),
        (["--out", "full/mine"], "mine is a file"),
    ],
)
def test_bad_usage_makes_nothing_and_says_what_to_do(tmp_path: Path, options: list[str], says: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    python = [] if "--python" in options else ["--python", sys.executable]
    done = call(MAKE, *python, *options, cwd=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "mine"]


@pytest.mark.parametrize("there_before", [True, False])
def test_what_fails_leaves_nothing(tmp_path: Path, there_before: bool) -> None:
    out = tmp_path / "kit"
    if there_before:
        out.mkdir()
    nothing = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    done = call(MAKE, "--out", out, "--set", "unit", "--python", sys.executable, env=nothing)
    assert done.returncode == 1
    assert "could not get all of requirements/unit.lock" in done.stderr
    assert out.exists() == there_before
    assert not there_before or list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ("nvidia-cublas==13.1; platform_system == 'Linux'", "the CUDA build of torch only"),
        ("cuda-bindings>=13", "the CUDA build of torch only"),
        ("networkx>=2.5", "do not make up requirements/unit.lock"),
    ],
)
def test_wheels_that_would_not_install_are_refused_where_they_are_made(tmp_path: Path, needs: str, says: str) -> None:
    """A Python whose pip finds one torch and nothing else."""
    with zipfile.ZipFile(tmp_path / "torch-2-py3-none-any.whl", "w") as archive:
        archive.writestr("torch-2.dist-info/METADATA", f"Metadata-Version: 2.1\nName: torch\nRequires-Dist: {needs}\n")
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *"-m pip wheel "*) mkdir -p {tmp_path}/kit/wheels && exec cp {tmp_path}/torch-*.whl {tmp_path}/kit/wheels;; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    done = call(MAKE, "--out", "kit", "--set", "unit", "--python", python, cwd=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr
    assert not (tmp_path / "kit").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [([], "install.sh DIR"), (["a", "b"], "more than one folder"), (["--python"], "needs a value"), (["-x"], "-x")],
)
def test_bad_usage_of_install_says_what_to_do(kit: Path, options: list[str], says: str) -> None:
    done = call("bash", kit / "install.sh", *options)
    assert done.returncode == 1
    assert says in done.stderr
