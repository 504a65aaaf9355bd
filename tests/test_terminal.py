"""Questions at a real pseudo terminal: answers, Ctrl-C, Ctrl-D."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "roundtable_local", "run", "Should we adopt it?", "--protocol", "confidence"]
OPTIONS = ["--backend", "scripted", "--options", "a,b", "--date", "2026-03-01"]


def at_a_terminal(out: Path, *said: tuple[str, bytes]) -> tuple[int, str]:
    """Run the command at a pseudo terminal; answer each prompt, named by its end, with bytes. Exit code and output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["COLUMNS"] = "200"
        os.execv(sys.executable, [*COMMAND, *OPTIONS, "--out", str(out)])
    waiting, output, deadline = list(said), "", time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            output += piece.decode("utf-8", "replace")
        if waiting and waiting[0][0] in output.rsplit("\n", 1)[-1]:
            time.sleep(0.1)
            os.write(terminal, waiting.pop(0)[1])
            output += "\n"
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), output


YES = [("decision", b"yes\n"), ("canonical", b"yes\n"), ("stakes", b"yes\n")]


def test_o_001_the_gate_is_asked_at_the_terminal(tmp_path: Path) -> None:
    code, output = at_a_terminal(tmp_path, *YES, ("deadlock", b"b\n"), ("your name", b"Ada\n"), ("why", b"cheaper\n"))
    assert code == 0, output
    (line,) = [path.read_text("utf-8") for path in tmp_path.rglob("inbox/decisions/*.md")]
    assert line.startswith(("a (weighted)", "b (weighted)", "b (decided by Ada after a deadlock: cheaper)"))


def test_o_001_a_wrong_answer_is_asked_again(tmp_path: Path) -> None:
    code, output = at_a_terminal(tmp_path, ("decision", b"perhaps\n"), ("decision", b"no\n"))
    assert code == 1
    assert "not convened" in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("key", "expected"), [(b"\x03", 130), (b"\x04", 3)], ids=["Ctrl-C", "Ctrl-D"])
def test_one_key_leaves_a_prompt(tmp_path: Path, key: bytes, expected: int) -> None:
    code, output = at_a_terminal(tmp_path, ("decision", key))
    assert code == expected, output
    assert "Traceback" not in output
    assert not list(tmp_path.iterdir())
