"""Nothing leaves the machine: variables forced before any heavy import, in children too (G1, G2, G4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from roundtable_local.backends.sealed import ONE_MACHINE, SEALED
from tests.helpers import PACKAGE

CODE = (
    "import json, os, subprocess, sys\n"
    "from roundtable_local.backends.sealed import seal\n"
    "seal(one_machine={})\n"
    "code = 'import json, os; print(json.dumps(dict(os.environ)))'\n"
    "print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout)\n"
)


def environment_of_a_child(one_machine: bool, **given: str) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **given}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(one_machine)], capture_output=True, text=True, env=environment, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_g4_what_the_user_set_cannot_undo_it() -> None:
    open_door = dict.fromkeys(SEALED, "0") | {"VLLM_HOST_IP": "8.8.8.8", "GLOO_SOCKET_IFNAME": "eth0"}
    found = environment_of_a_child(True, **open_door)
    assert {name: found[name] for name in SEALED | ONE_MACHINE} == SEALED | ONE_MACHINE


def test_with_ray_its_parts_may_find_one_another() -> None:
    found = environment_of_a_child(False, VLLM_HOST_IP="10.0.0.1", GLOO_SOCKET_IFNAME="eth0")
    assert found["VLLM_HOST_IP"] == "10.0.0.1"
    assert found["GLOO_SOCKET_IFNAME"] == "eth0"
    assert {name: found[name] for name in SEALED} == SEALED


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"])
def test_g1_g4_downloads_and_reports_are_off(name: str) -> None:
    assert SEALED[name] == "1"
