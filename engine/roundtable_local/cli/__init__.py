"""The command line: parse, load, call, print. Only this package picks exit codes.

0    the debate ran to its end and the report is written, whatever passed
1    bad content, config file, model, window, output folder, or engine
2    usage: unknown option, protocol or setting key, missing file
3    a human must decide
130  interrupted
"""

from __future__ import annotations

import os
import sys

from roundtable_local.cli import debates, machines, states
from roundtable_local.cli.base import app

__all__ = ["app", "debates", "machines", "main", "states"]


def main() -> None:
    """Entry point of the `roundtable-local` command."""
    if sys.getfilesystemencoding() != "utf-8":
        # An ASCII locale cannot name a run directory after a Korean decision: begin again in Python's UTF-8 mode.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "roundtable_local", *sys.argv[1:]])  # noqa: S606 - ourselves
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console that cannot show a character must not end a run
            stream.reconfigure(errors="replace")
    app()
