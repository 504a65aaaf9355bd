"""`run --protocol confidence`, `inspect` and `vote` by the command line: exit codes, lines, files (O-010 to O-085)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from roundtable_local.cli import app

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "adopt-a-pattern.json"
QUESTION = "Should we adopt the pattern?"
NAME = "2026-03-01_adopt-the-pattern"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def run(out: Path, *arguments: str) -> Result:
    common = ["--protocol", "confidence", "--backend", "scripted", "--date", "2026-03-01", "--out", str(out)]
    return invoke("run", QUESTION, *common, *arguments)


def seed_that(out: Path, exit_code: int) -> tuple[str, Result]:
    """The first seed with which the scripted debate ends so."""
    for seed in range(40):
        result = run(out / str(seed), "--yes", "--options", "a,b", "--seed", str(seed))
        if result.exit_code == exit_code:
            return str(seed), result
    raise AssertionError(f"no seed ends with {exit_code}")


def file(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), "utf-8")
    return str(path)


def example(**changes: Any) -> dict[str, Any]:
    return {**json.loads(EXAMPLE.read_text("utf-8")), **changes}


# --- the worked example


def test_o_085_o_090_vote_on_the_example() -> None:
    result = invoke("vote", str(EXAMPLE))
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0] == "DECISION: adopt-modified"
    assert lines[1] == "Aggregator: weighted · adopt-as-is: 0 · adopt-modified: 37 · reject: 0"
    assert lines[2] == "Weighted confidence: 37/50 (74%) for adopt-modified"
    assert lines[3] == "Top dissent: none (no opposing votes)"
    assert lines[4].startswith("Top hedger: brand (6) — ")
    assert len(lines) == 5


def test_o_090_inspect_on_the_example() -> None:
    result = invoke("inspect", str(EXAMPLE))
    assert (result.exit_code, result.stdout) == (0, "CONTINUE: round 2 still divided — run round 3\n")


def test_o_060_the_four_exit_codes_of_vote(tmp_path: Path) -> None:
    state = example()
    assert invoke("vote", file(tmp_path / "0.json", state)).exit_code == 0
    state["agents"][1]["final"]["confidence"] = 5
    again = invoke("vote", file(tmp_path / "2.json", state))
    assert (again.exit_code, again.stdout) == (2, "RE-PROMPT\n  brand: confidence 5 is forbidden in the vote\n")
    state["agents"][1]["final"] = {"vote": "reject", "confidence": 10, "rationale": "no"}
    state["agents"][2]["final"]["confidence"] = 10
    escalated = invoke("vote", file(tmp_path / "3.json", state))
    assert escalated.exit_code == 3
    assert escalated.stdout.startswith("DECISION: ESCALATE\n")
    assert escalated.stdout.endswith("The human decides.\n")
    assert invoke("vote", file(tmp_path / "1.json", "{")).exit_code == 1


# --- malformed state files


def agents(change: Any) -> dict[str, Any]:
    state = example()
    change(state["agents"])
    return state


def final(value: Any) -> dict[str, Any]:
    return agents(lambda seats: seats[3]["final"].update(value))


MALFORMED = [  # what, the state, the exit code of vote, what names seat and fault
    ("confidence is text", final({"confidence": "8"}), 2, 'editor: confidence "8" is not an integer'),
    ("8.0 counts as 8", final({"confidence": 8.0}), 0, "37/50 (74%)"),
    ("5.0 counts as 5", final({"confidence": 5.0}), 2, "editor: confidence 5 is forbidden"),
    ("8.5 is no integer", final({"confidence": 8.5}), 2, "editor: confidence 8.5 is not an integer"),
    ("true is no number", final({"confidence": True}), 2, "editor: confidence true is not an integer"),
    ("0 is off the scale", final({"confidence": 0}), 2, "editor: confidence 0 is not an integer from 1 to 10"),
    ("off option", final({"vote": "maybe"}), 2, 'editor: vote "maybe" is not one of'),
    ("vote of a wrong type", final({"vote": ["reject"]}), 2, 'editor: vote ["reject"] is not one of'),
    ("rationale of a wrong type", final({"rationale": 3}), 1, "editor: rationale must be text"),
    ("no final", agents(lambda seats: seats[3].pop("final")), 2, "editor: no final vote"),
    ("final null", agents(lambda seats: seats[3].update(final=None)), 2, "editor: no final vote"),
    ("final is text", agents(lambda seats: seats[3].update(final="reject")), 2, "editor: final is not an object"),
    ("no name", agents(lambda seats: seats[3].pop("name")), 1, "agent 4 has no name"),
    ("name twice", agents(lambda seats: seats[3].update(name="brand")), 1, "two agents are named 'brand'"),
    ("note of a wrong type", agents(lambda seats: seats[3].update(dissent_note=1)), 1, "editor: dissent_note must be"),
    ("an agent is text", agents(lambda seats: seats.insert(3, "editor")), 1, "agent 4 is not an object"),
    ("two agents", agents(lambda seats: seats.__delitem__(slice(2, None))), 1, "2 seats are no quorum"),
    ("no agents", example(agents=None), 1, "agents must be a list"),
    ("no options", example(options=None), 1, "options must be a list"),
    ("options twice", example(options=["adopt-modified", "adopt-modified"]), 1, "an option is listed twice"),
    ("unknown aggregator", example(aggregator="mean"), 1, 'aggregator "mean" is not one of'),
    ("keywords are text", example(values_keywords="honesty"), 1, "values_keywords must be a list"),
    ("not an object", [1], 1, "must be a JSON object"),
    ("NaN", json.dumps(final({"confidence": float("nan")})), 1, "NaN is not JSON"),
    ("not JSON", "{'id': 1}", 1, "not valid JSON"),
    ("a key twice", '{"agents": [], "agents": []}', 1, "a key appears twice"),
    ("deep", "[" * 100_000, 1, "not valid JSON"),
    (
        "nine agents",
        agents(lambda seats: seats.extend({**seats[0], "name": f"seat{number}"} for number in range(4))),
        0,
        "69/90 (77%)",
    ),
    ("five options", example(options=["adopt-modified", "a", "b", "c", "d"]), 0, "DECISION: adopt-modified"),
]


@pytest.mark.parametrize(("what", "state", "exit_code", "says"), MALFORMED, ids=[case[0] for case in MALFORMED])
def test_o_057_o_061_o_074_malformed_states(tmp_path: Path, what: str, state: Any, exit_code: int, says: str) -> None:
    result = invoke("vote", file(tmp_path / "state.json", state))
    assert result.exit_code == exit_code, result.output
    assert says in result.output
    assert "Traceback" not in result.output


def test_no_control_character_of_a_state_reaches_the_terminal(tmp_path: Path) -> None:
    nasty = "a\x1b[31m\x07\u202eb\x9bc"
    state = agents(lambda seats: seats[3].update(name=nasty, dissent_note="safety"))
    state["agents"][0]["final"]["rationale"] = nasty
    for output in (
        invoke("vote", file(tmp_path / "one.json", state)).output,
        invoke("vote", file(tmp_path / "two.json", final({"vote": nasty}))).output,
        invoke(
            "vote", file(tmp_path / "three.json", agents(lambda seats: seats[3].update(name=nasty, dissent_note=1)))
        ).output,
    ):
        assert not set(output) & set("\x1b\x07\u202e\x9b")
        assert "b c" in output


@pytest.mark.parametrize("command", ["inspect", "vote"])
def test_o_057_bad_usage_exits_1_here(tmp_path: Path, command: str) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for arguments in (
        [],
        ["a", "b"],
        ["--mode"],
        [str(tmp_path / "missing.json")],
        [str(tmp_path)],
        [str(tmp_path / "bytes")],
    ):
        result = invoke(command, *arguments)
        assert result.exit_code == 1, arguments
        assert result.stdout == ""
        assert "fix:" in result.stderr


# --- run


def scripted(path: Path, confidence: int, update: str) -> str:
    """Replies of the five lenses: all for a, with this confidence, and this self-update in round 2."""
    replies: dict[str, Any] = {}
    seats = ("builder", "finance", "guardian", "strategist", "user")
    for number, seat in enumerate(seats):
        said = {"position": "a", "confidence_now": confidence}
        other = seats[number - 1]
        text = {"reasoning": "it is the right thing", "what_would_change_your_mind": "a figure would"}
        replies[f"round1/{seat}"] = text | said
        replies[f"round2/{seat}"] = {
            "challenge": {"target": other, "critique": "it has no figure"},
            "self_update": update,
            "reasoning": "it is the right thing",
        } | said
    return file(path, replies)


@pytest.mark.parametrize(
    ("confidence", "update", "turns", "says"),
    [
        (8, "the figure moved me", ["round1", "round2", "round4"], "EARLY-STOP"),
        (7, "No change", ["round1", "round2", "round4"], "SKIP-ROUND-3"),
        (7, "the figure moved me", ["round1", "round2", "axes", "round3", "round4"], "CONTINUE"),
    ],
)
def test_o_050_each_way_to_the_vote_on_the_scripted_backend(
    tmp_path: Path, confidence: int, update: str, turns: list[str], says: str
) -> None:
    replies = scripted(tmp_path / "replies.yaml", confidence, update)
    run(tmp_path / "out", "--yes", "--options", "a,b", "--replies", replies)
    home = tmp_path / "out" / "adopt-the-pattern-20260301"
    events = [json.loads(line) for line in (home / "journal.jsonl").read_text("utf-8").splitlines()]
    assert [event["turn"] for event in events if event["event"] == "call"] == turns
    assert f"\n{says}: " in (home / "lab" / "round-table" / f"{NAME}.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--options", "a"], "2 to 4 options are needed, not 1"),
        (["--options", "a,b,c,d,e"], "2 to 4 options are needed, not 5"),
        (["--options", "a,a"], "distinct"),
        (["--aggregator", "mean"], "aggregator"),
        (["--seats", "missing.md"], "there is no file 'missing.md'"),
        (["--person", "Ada"], "is not NAME: ONE HABIT"),
        (["--person", "Ada: asks why", "--person", "Bo: counts"], "3 to 8 seats are needed, not 2"),
        ([f"--person=P{number}: waits" for number in range(9)], "3 to 8 seats are needed, not 9"),
        (["--codebase", "."], "takes no codebase"),
    ],
)
def test_o_001_o_020_o_074_what_run_refuses(tmp_path: Path, arguments: list[str], says: str) -> None:
    result = run(tmp_path / "out", "--yes", *arguments)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--seats", "--context", "--options", "--oracle-root"])
def test_other_protocols_take_none_of_it(tmp_path: Path, option: str) -> None:
    result = invoke(
        "run", QUESTION, "--backend", "scripted", "--out", str(tmp_path / "out"), option, str(ROOT / "README.md")
    )
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_o_003_unattended_without_yes_nothing_is_convened(tmp_path: Path) -> None:
    result = run(tmp_path / "out", "--options", "a,b")
    assert result.exit_code == 3
    assert "--yes" in result.stderr
    assert not (tmp_path / "out").exists()


def test_o_001_a_no_at_the_gate_convenes_nothing(tmp_path: Path) -> None:
    answers = ["--answer", "decision=yes", "--answer", "canonical=yes", "--answer", "stakes=no"]
    result = run(tmp_path / "out", "--options", "a,b", *answers)
    assert result.exit_code == 1
    assert "expensive or hard to reverse? no" in result.stderr
    assert not (tmp_path / "out").exists()


def test_o_082_the_closing_lines_and_o_012_the_folders(tmp_path: Path) -> None:
    seed, result = seed_that(tmp_path, 0)
    home = tmp_path.resolve() / seed / "adopt-the-pattern-20260301"
    minute, decision = home / "lab" / "round-table" / f"{NAME}.md", home / "inbox" / "decisions" / f"{NAME}.md"
    assert result.stdout.splitlines() == [f"🪑 Minute: {minute}", f"📥 Decision: {decision}"]
    assert decision.read_text("utf-8").rstrip("\n").endswith(f" — {minute}")
    verdict = invoke("vote", str(minute.with_suffix(".json")))
    assert verdict.exit_code == 0
    assert verdict.stdout in minute.read_text("utf-8")
    assert invoke("verify", str(home)).exit_code == 0
    again = invoke("report", str(home), "--out", str(tmp_path / "again"))
    assert (tmp_path / "again" / "lab" / "round-table" / f"{NAME}.md").read_bytes() == minute.read_bytes()
    assert (
        again.stdout.splitlines()[0]
        == f"🪑 Minute: {tmp_path.resolve() / 'again' / 'lab' / 'round-table' / f'{NAME}.md'}"
    )


def test_o_060_a_deadlock_is_broken_by_a_named_human(tmp_path: Path) -> None:
    seed, result = seed_that(tmp_path, 3)
    home = tmp_path / seed / "adopt-the-pattern-20260301"
    minute = home / "lab" / "round-table" / f"{NAME}.md"
    assert "deadlocked" in result.stderr
    assert "--answer deadlock=a|b --by NAME" in result.stderr
    resume = ["resume", str(home), "--answer"]
    assert invoke(*resume, "deadlock=c", "--by", "Ada").exit_code == 2
    assert invoke(*resume, "deadlock=b").exit_code == 2  # nobody signs
    assert "Ada" not in minute.read_text("utf-8")
    ended = invoke(*resume, "deadlock=b", "--by", "Ada", "--why", "it costs least")
    assert ended.exit_code == 0, ended.output
    assert "starting the engine" not in ended.stderr
    said = "b (decided by Ada after a deadlock: it costs least)"
    assert said in minute.read_text("utf-8")
    assert (home / "inbox" / "decisions" / f"{NAME}.md").read_text("utf-8").startswith(said)
    events = [json.loads(line) for line in (home / "journal.jsonl").read_text("utf-8").splitlines()]
    (answer,) = [event for event in events if event["event"] == "answer" and event["name"] == "deadlock"]
    assert (answer["value"], answer["by"], answer["why"]) == ("b", "Ada", "it costs least")
    assert invoke("verify", str(home)).exit_code == 0
    assert invoke(*resume, "deadlock=a", "--by", "Bo").exit_code == 0  # ended: nothing is asked again
    assert "decided by Bo" not in minute.read_text("utf-8")


def test_a_waiting_run_is_not_rendered_again(tmp_path: Path) -> None:
    """A copy that could be resumed would let two humans decide."""
    seed, _ = seed_that(tmp_path, 3)
    home = tmp_path / seed / "adopt-the-pattern-20260301"
    for result in (invoke("report", str(home), "--out", str(tmp_path / "again")), invoke("verify", str(home))):
        assert result.exit_code == 1
        assert f"resume {home}" in result.stderr.replace("\n", "")
    assert not (tmp_path / "again").exists()


def test_o_002_options_wait_for_a_yes(tmp_path: Path) -> None:
    passed = ["--answer", "decision=yes", "--answer", "canonical=yes", "--answer", "stakes=yes"]
    result = run(tmp_path, *passed)
    assert result.exit_code == 3
    assert "The convener proposes" in result.stderr
    home = tmp_path / "adopt-the-pattern-20260301"
    assert invoke("resume", str(home), "--answer", "options=only").exit_code == 2
    assert invoke("resume", str(home), "--answer", "options=this,that").exit_code in {0, 3}
    state = json.loads((home / "lab" / "round-table" / f"{NAME}.json").read_text("utf-8"))
    assert state["options"] == ["this", "that"]


def test_o_010_o_011_the_oracles_folder_gets_the_files_and_no_minute_is_overwritten(tmp_path: Path) -> None:
    root = tmp_path / "oracle"
    (root / "ψ").mkdir(parents=True)
    (root / "CLAUDE.md").write_text("# An oracle\n")
    seed, _ = seed_that(tmp_path / "probe", 0)
    options = ["--yes", "--options", "a,b", "--seed", seed, "--oracle-root", str(root)]
    first, second = run(tmp_path / "out", *options), run(tmp_path / "out", *options)
    assert "Not in oracle repo" not in first.stderr
    minutes = [root / "ψ" / "lab" / "round-table" / f"{NAME}{number}.md" for number in ("", "-2")]
    for result, minute in zip((first, second), minutes, strict=True):
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[0] == f"🪑 Minute: {minute.resolve()}"
        assert minute.is_file()
        assert minute.with_suffix(".json").is_file()
        decision = root / "ψ" / "inbox" / "decisions" / minute.name
        assert decision.read_text("utf-8").rstrip("\n").endswith(str(minute.resolve()))
    copy = tmp_path / "out" / "adopt-the-pattern-20260301" / "lab" / "round-table" / f"{NAME}.md"
    assert copy.read_bytes() == minutes[0].read_bytes()
    assert invoke("verify", str(tmp_path / "out" / "adopt-the-pattern-20260301")).exit_code == 0


def test_o_010_elsewhere_the_warning_is_given(tmp_path: Path) -> None:
    seed, _ = seed_that(tmp_path / "probe", 0)
    result = run(
        tmp_path / "out", "--yes", "--options", "a,b", "--seed", seed, "--oracle-root", str(tmp_path / "plain")
    )
    assert "⚠️ Not in oracle repo (no CLAUDE.md + ψ/ at git root). Writing to pwd." in result.stderr
    assert (tmp_path / "plain" / "ψ" / "lab" / "round-table" / f"{NAME}.md").is_file()


def test_o_022_o_024_souls_people_and_facts(tmp_path: Path) -> None:
    souls = tmp_path / "souls"
    souls.mkdir()
    (souls / "resonance_mira.md").write_text("# Mira\n\nMira counts twice.\n", "utf-8")
    (souls / "noor.md").write_text("Noor trusts the user.\n", "utf-8")
    fact = tmp_path / "costs.md"
    fact.write_text("It costs 12,000 a year.\n", "utf-8")
    result = run(
        tmp_path / "out", "--yes", "--options", "a,b", "--seats", str(souls), "--person", "Ada: asks for the figure",
        "--context", str(fact), "--dry-run",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    for part in ("mira", "noor", "Ada", "resonance_mira.md", "round4", "lab/round-table"):
        assert part in result.stdout
