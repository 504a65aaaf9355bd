"""Write the reference hashes of all prompts of one scripted run: tests/golden/supermajority/prompts.json.

Run it after a prompt was changed on purpose, and read the diff: what changed must be what you meant to change.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from roundtable_local import execute
from roundtable_local.audience import Human, Silent
from roundtable_local.inputs import read_inputs
from roundtable_local.journal import NAME
from roundtable_local.plan import make_plan

ROOT = Path(__file__).resolve().parent.parent
DECISION = ROOT / "examples" / "modular-monolith.md"
TARGET = ROOT / "tests" / "golden" / "supermajority" / "prompts.json"


def main() -> None:
    """Run once and write."""
    inputs = read_inputs(
        str(DECISION), protocol="supermajority", model=None, backend="scripted", seed=1, date="2026-03-01", config=None,
        set_protocol={}, set_model={}, replies=None,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path, _ = execute.run(make_plan(inputs), Path(folder), Human(), Silent(), lambda: False)
        events = [json.loads(line) for line in (path / NAME).read_text("utf-8").splitlines()]
    replies = [event for event in events if event["event"] == "reply"]
    hashes = {f"{each['turn']}/{each['ask']}/{each['attempt']}": each["prompt_sha256"] for each in replies}
    TARGET.write_text(json.dumps(hashes, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
