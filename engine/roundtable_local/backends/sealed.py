"""Nothing leaves the machine: variables set before any heavy import, inherited by child processes."""

from __future__ import annotations

import os

SEALED = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Forced, whatever the caller's environment says."""

ONE_MACHINE = {
    # vLLM looks up its own address by a connect to a public one, and gloo listens on what the host's name resolves to
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
}
"""Forced as well where the engine runs on one machine: with Ray its parts must find one another."""

QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false"}
"""Set only where the user has not."""


def seal(*, one_machine: bool = True) -> None:
    """Set the variables; call before importing torch, transformers or vllm.

    Args:
        one_machine: whether all of the engine runs here, so that even its own sockets stay on loopback.
    """
    os.environ.update(SEALED | (ONE_MACHINE if one_machine else {}))
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
