"""The panel by the command line: quorum, standard input, logs, escalation, and many decisions by lines (M-001 to M-064)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from roundtable_local import caller
from roundtable_local.backends.scripted import ScriptedBackend
from roundtable_local.cli import app

DATE = "2026-03-01"
COMMON = ["--backend", "scripted", "--date", DATE]
VERDICTS = ("proponent", "skeptic", "arbiter")


def invoke(*arguments: str, text: str | bytes = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=text, env={"COLUMNS": "200"})


def run(out: Path, artifact: str, *arguments: str, text: str = "") -> Result:
    return invoke("run", artifact, "--protocol", "panel", *COMMON, "--out", str(out), *arguments, text=text)


def script(path: Path, *accepting: str, votes: int = 1) -> str:
    """A file of scripted replies in which some seats accept in every vote."""
    replies: dict[str, Any] = {}
    for number in range(1, votes + 1):
        for seat in VERDICTS:
            turn = f"vote{number}-arbiter" if seat == "arbiter" else f"vote{number}"
            verdict = "accept" if seat in accepting else "revise"
            said = {"outcome": "cache for an hour", "reason": f"{seat} has a reason", "verdict": verdict}
            if seat == "proponent":
                said = {"points": [{"point": "it is simple", "evidence": "one line of code"}]} | said
            elif seat == "skeptic":
                part = {
                    "part": "an hour",
                    "concern": "prices change hourly",
                    "severity": "high",
                    "title": "stale prices",
                }
                said = {"concerns": [part]} | said
            else:
                said = {"load_bearing": ["the skeptic is heard"]} | said
            replies[f"{turn}/{seat}"] = said
    path.write_text(json.dumps(replies), "utf-8")
    return str(path)


@pytest.fixture(name="accepted")
def _accepted(tmp_path: Path) -> list[str]:
    return ["--replies", script(tmp_path / "accept.yaml", *VERDICTS)]


def journal(directory: Path, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (directory / "journal.jsonl").read_text("utf-8").splitlines()]
    return [event for event in events if event["event"] == kind]


# --- quorum and artifact


@pytest.mark.parametrize("dash", ["\u2014", "\u2013", "-"])
def test_m_004_the_quorum_may_end_the_argument(tmp_path: Path, dash: str, accepted: list[str]) -> None:
    result = run(tmp_path / "out", f"Cache pages for an hour {dash} quorum 3/3", *accepted)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "cache-pages-for-an-hour-20260301").is_dir()
    (start,) = journal(tmp_path / "out" / "cache-pages-for-an-hour-20260301", "start")
    assert start["inputs"]["text"].endswith("3/3")
    assert "quorum 3/3, as the decision asks" in result.stderr


@pytest.mark.parametrize("quorum", ["1/3", "3/2", "all"])
def test_m_g3_other_quorums_are_usage_errors(tmp_path: Path, quorum: str) -> None:
    assert run(tmp_path / "out", "Cache pages", "--quorum", quorum).exit_code == 2
    assert not (tmp_path / "out").exists()


def test_m_g3_an_inline_quorum_of_1_3_is_a_usage_error(tmp_path: Path) -> None:
    assert run(tmp_path / "out", "Cache pages \u2014 quorum 1/3").exit_code == 2


def test_the_artifact_may_come_by_standard_input(tmp_path: Path, accepted: list[str]) -> None:
    result = run(tmp_path, "-", *accepted, text="\ufeff# Cache pages\r\n\r\nFor an hour.\r\n")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "cache-pages-20260301" / "REPORT.md").is_file()
    assert invoke("verify", str(tmp_path / "cache-pages-20260301")).exit_code == 0


def test_m_004_standard_input_may_end_in_its_quorum(tmp_path: Path, accepted: list[str]) -> None:
    result = run(tmp_path, "-", *accepted, text="Cache pages \u2014 quorum 3/3\n")
    assert result.exit_code == 0, result.output
    assert "quorum 3/3, as the decision asks" in result.stderr


def test_m_004_two_quorums_that_differ_are_a_usage_error(tmp_path: Path) -> None:
    result = run(tmp_path / "out", "Cache pages \u2014 quorum 2/3", "--quorum", "3/3")
    assert result.exit_code == 2
    assert "leave one of them out" in result.stderr


SKILL = "---\nname: my-skill\nsettings: {votes: 1, quorum: 3/3}\n---\n# Cache pages\n\ndissent:\n- devils-advocate\n"


def test_m_014_an_artifact_is_judged_whole(tmp_path: Path, accepted: list[str]) -> None:
    """Front matter and lists are part of it, and set nothing."""
    artifact = tmp_path / "SKILL.md"
    artifact.write_text(SKILL, "utf-8")
    assert run(tmp_path / "out", str(artifact), *accepted).exit_code == 0
    (directory,) = (tmp_path / "out").iterdir()
    assert directory.name == "cache-pages-20260301"
    record = json.loads((directory / "run.json").read_text("utf-8"))
    assert (record["settings"]["votes"], record["settings"]["quorum"]) == (2, "2/3")
    broken = tmp_path / "broken.md"
    broken.write_text("---\n: [\n---\n# Cache pages\n", "utf-8")
    assert run(tmp_path / "out", str(broken), *accepted).exit_code == 0


@pytest.mark.parametrize("text", ["", " \n"])
def test_empty_standard_input_is_refused(tmp_path: Path, text: str) -> None:
    result = run(tmp_path / "out", "-", text=text)
    assert result.exit_code == 1
    assert "standard input is empty" in result.stderr


# --- logs


def test_m_050_m_051_the_log_file_gets_the_lines_once(tmp_path: Path, accepted: list[str]) -> None:
    log = tmp_path / "LOG.md"
    log.write_text("# Mine\n", "utf-8")
    for _ in range(2):
        assert run(tmp_path / "out", "Cache pages", *accepted, "--log", str(log)).exit_code == 0
    line = "- [3/3 accept] Cache pages: cache for an hour\n"
    assert log.read_text("utf-8") == f"# Mine\n\n## Panel decisions {DATE}\n{line}{line}"
    for directory in (tmp_path / "out").iterdir():
        assert invoke("resume", str(directory)).exit_code == 0
        assert invoke("verify", str(directory)).exit_code == 0
        assert invoke("report", str(directory), "--out", str(tmp_path / "again" / directory.name)).exit_code == 0
    assert log.read_text("utf-8").count(line) == 2  # neither a resume nor a replay writes


def test_m_032_the_skeptics_concerns_are_logged(tmp_path: Path) -> None:
    log = tmp_path / "LOG.md"
    replies = script(tmp_path / "replies.yaml", "proponent", "arbiter")
    assert run(tmp_path / "out", "Cache pages", "--replies", replies, "--log", str(log)).exit_code == 0
    assert log.read_text("utf-8") == (
        f"## Panel decisions {DATE}\n"
        "- [2/3 accept, skeptic dissented] Cache pages: cache for an hour (concerns logged: stale prices)\n\n"
        f"## Panel concerns {DATE}\n- [high] Cache pages: prices change hourly\n"
    )


def test_m_053_without_a_log_the_lines_go_to_standard_output_only(tmp_path: Path, accepted: list[str]) -> None:
    result = run(tmp_path / "out", "Cache pages", *accepted, "--quiet")
    assert result.stdout.splitlines()[:2] == [
        f"## Panel decisions {DATE}",
        "- [3/3 accept] Cache pages: cache for an hour",
    ]


def project(folder: Path, *units: str, done: tuple[str, ...] = ()) -> Path:
    for unit in (*units, *done):
        pad = folder / ".minerva" / "work" / unit / "scratchpad.md"
        pad.parent.mkdir(parents=True)
        pad.write_text("Summarized at minerva:promote on 2026-01-01\n" if unit in done else "# Notes\n", "utf-8")
    return folder


def test_m_052_the_one_unit_in_flight_is_the_log(tmp_path: Path, accepted: list[str]) -> None:
    folder = project(tmp_path / "project", "alpha", done=("old",))
    assert run(tmp_path / "out", "Cache pages", *accepted, "--project", str(folder)).exit_code == 0
    assert "[3/3 accept]" in (folder / ".minerva" / "work" / "alpha" / "scratchpad.md").read_text("utf-8")
    assert "[3/3 accept]" not in (folder / ".minerva" / "work" / "old" / "scratchpad.md").read_text("utf-8")


def test_m_053_m_g8_of_several_units_one_is_named_or_none_is_written(tmp_path: Path, accepted: list[str]) -> None:
    folder = project(tmp_path / "project", "alpha", "beta")
    pads = {unit: folder / ".minerva" / "work" / unit / "scratchpad.md" for unit in ("alpha", "beta")}
    result = run(tmp_path / "out", "Cache pages", *accepted, "--project", str(folder))
    assert result.exit_code == 0
    assert "several units are in flight (alpha, beta)" in result.stderr
    assert "[3/3 accept]" in result.stdout
    assert all(pad.read_text("utf-8") == "# Notes\n" for pad in pads.values())
    assert run(tmp_path / "out", "Cache pages", *accepted, "--project", str(folder), "--unit", "beta").exit_code == 0
    assert "[3/3 accept]" in pads["beta"].read_text("utf-8")
    assert pads["alpha"].read_text("utf-8") == "# Notes\n"
    wrong = run(tmp_path / "out", "Cache pages", *accepted, "--project", str(folder), "--unit", "gamma")
    assert wrong.exit_code == 2
    assert "in flight: alpha, beta" in wrong.stderr


def test_m_052_a_unit_that_is_named_may_be_new(tmp_path: Path, accepted: list[str]) -> None:
    folder = project(tmp_path / "project", "alpha")
    (folder / ".minerva" / "work" / "new").mkdir()
    assert run(tmp_path / "out", "Cache pages", *accepted, "--project", str(folder), "--unit", "new").exit_code == 0
    assert "[3/3 accept]" in (folder / ".minerva" / "work" / "new" / "scratchpad.md").read_text("utf-8")


@pytest.mark.parametrize(
    "options", [["--unit", "a"], ["--log", "x.md", "--project", "."], ["--log", "x.md", "--unit", "a"]]
)
def test_m_052_destinations_that_contradict_are_usage_errors(tmp_path: Path, options: list[str]) -> None:
    assert run(tmp_path / "out", "Cache pages", *options).exit_code == 2
    assert not (tmp_path / "out").exists()


def test_m_050_two_runs_may_log_the_same_lines(tmp_path: Path) -> None:
    """A resumed run must not take another run's line for its own, nor write its own twice after a crash."""
    log = tmp_path / "LOG.md"
    replies = script(tmp_path / "replies.yaml", "arbiter", votes=2)
    for name in ("one", "two"):
        run(tmp_path / name, "Cache pages", "--replies", replies, "--log", str(log), "--seed", "2")
        directory = tmp_path / name / "cache-pages-20260301"
        assert invoke("resume", str(directory), "--answer", "escalation=b").exit_code == 0
    assert log.read_text("utf-8").count("[user-directed]") == 2
    path = tmp_path / "two" / "cache-pages-20260301" / "journal.jsonl"
    lines = path.read_text("utf-8").splitlines()
    last = max(number for number, line in enumerate(lines) if '"event":"entry"' in line)
    path.write_text(
        "\n".join(lines[:last]) + "\n", "utf-8"
    )  # killed after the line was written, before it was journalled
    assert invoke("resume", str(directory)).exit_code == 0
    assert log.read_text("utf-8").count("[user-directed]") == 2


# --- escalation


def test_m_040_m_041_the_users_answer_is_an_accepted_path(tmp_path: Path) -> None:
    log = tmp_path / "LOG.md"
    replies = script(tmp_path / "replies.yaml", "arbiter", votes=2)
    result = run(tmp_path / "out", "Cache pages", "--replies", replies, "--log", str(log), "--seed", "2")
    assert result.exit_code == 3, result.output
    assert "--answer escalation=a|b" in result.stderr
    directory = tmp_path / "out" / "cache-pages-20260301"
    assert invoke("resume", str(directory), "--answer", "escalation=z").exit_code == 2
    assert "user-directed" not in log.read_text("utf-8")
    ended = invoke("resume", str(directory), "--answer", "escalation=b")
    assert ended.exit_code == 0, ended.output
    (end,) = journal(directory, "end")
    assert end["verdict"] == "accept"
    lines = log.read_text("utf-8").splitlines()
    assert lines[1] == "- [1/3 accept, revising] Cache pages: cache for an hour"
    assert lines[2] == "- [escalated to user] Cache pages: panel split 1/3 on stale prices"
    assert lines[3].startswith("- [user-directed] Cache pages: ")
    assert len(lines) == 4
    assert invoke("verify", str(directory)).exit_code == 0


# --- many decisions


class Counting(ScriptedBackend):
    started = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).started += 1


def call_lines(count: int) -> list[str]:
    lines = [json.dumps({"artifact": f"Cache page {number}.", "auto": True}) for number in range(count)]
    lines[7] = '{"artifact": '
    return lines


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_m_060_to_m_063_twenty_decisions_one_malformed_one_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Counting.started = 0
    monkeypatch.setattr(caller.execute, "start_backend", lambda plan: Counting())
    monkeypatch.setattr(caller.Panels.__init__, "__kwdefaults__", {"make": lambda plan: Counting()})
    result = invoke("panel", "--jsonl", *COMMON, "--out", str(tmp_path), "-q", text="\n".join(call_lines(20)) + "\n")
    assert result.exit_code == 0, result.output
    given = answers(result)
    assert [each["line"] for each in given] == list(range(1, 21))
    assert [each["line"] for each in given if "error" in each] == [8]
    assert "not valid JSON" in given[7]["error"]["message"]
    assert Counting.started == 1
    for number, each in enumerate(given):
        if "error" not in each:
            assert each["decision"] == f"Cache page {number}."
            assert each["verdict"] in {"accept", "escalated"}
            assert (Path(each["run_dir"]) / "REPORT.md").is_file()
            assert 3 * len(each["votes"]) <= 6  # M-064: six dispatches at most


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"[]", "the line"),
        (b'"text"', "the line"),
        (b"{}", "artifact"),
        (b'{"artifact": ""}', "artifact"),
        (b'{"artifact": " "}', "holds no text to decide on"),
        (b'{"artifact": 3}', "artifact"),
        (b'{"artifact": "x", "quorum": "1/3"}', "quorum"),
        (b'{"artifact": "x", "contxt": "y"}', "contxt"),
        (b'{"artifact": "x", "context": 3}', "context"),
        (b'{"artifact": "x", "auto": "maybe"}', "auto"),
        (b"\xff\xfe", "UTF-16"),
        (b'{"artifact": "\xe9"}', "not UTF-8"),
        (b'{"artifact": "' + b"x" * 13_000 + b'"}', "13,000 characters"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"artifact": "x", "log": "a\\u0000b.md"}', "the line cannot be used"),
        (b'{"artifact": "x", "log": "."}', "is not a file"),
        (b'{"artifact": "x", "artifact": "y"}', "a key appears twice"),
    ],
)  # fmt: skip
def test_a_bad_line_gets_an_error_and_the_next_goes_on(tmp_path: Path, line: bytes, says: str) -> None:
    text = line + b'\n\n{"artifact": "Cache pages.", "auto": true}\n'
    result = invoke("panel", "--jsonl", *COMMON, "--out", str(tmp_path), "-q", text=text)
    assert result.exit_code == 0, result.output
    bad, good = answers(result)
    assert says in bad["error"]["message"]
    assert bad["error"]["fix"]
    assert (good["line"], good["decision"]) == (3, "Cache pages.")


@pytest.mark.parametrize(
    "line",
    [
        b'\xef\xbb\xbf{"artifact": "Cache pages.", "auto": true}',
        b'{"artifact": "Cache pages.", "context": ["\\udfff bad"], "goal": "\\ud800", "auto": true}',
        b'{"artifact": "Cache pages.", "auto": true}\r',
    ],
)
def test_i8_i12_odd_bytes_and_texts_are_read(tmp_path: Path, line: bytes) -> None:
    (given,) = answers(invoke("panel", "--jsonl", *COMMON, "--out", str(tmp_path), "-q", text=line + b"\n"))
    assert given["decision"] == "Cache pages."


def test_m_062_the_callers_quorum_holds_whatever_the_artifact_says(tmp_path: Path) -> None:
    line = {"artifact": "Raft plan \u2014 quorum 2/3", "quorum": "3/3", "auto": True}
    odd = {"artifact": "Raft plan \u2014 quorum 5/7", "auto": True}
    text = "".join(json.dumps(each) + "\n" for each in (line, odd))
    one, two = answers(invoke("panel", "--jsonl", *COMMON, "--out", str(tmp_path), "-q", text=text))
    assert (one["quorum"], one["decision"]) == ("3/3", "Raft plan \u2014 quorum 2/3")
    assert (two["quorum"], two["decision"]) == ("2/3", "Raft plan \u2014 quorum 5/7")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_f4_one_signal_ends_a_command_that_waits_for_a_line(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "roundtable_local", "panel", "--jsonl", *COMMON, "--out", str(tmp_path), "-q"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdin is not None
        assert waiting.stdout is not None
        waiting.stdin.write('{"artifact": "Cache pages.", "auto": true}\n')
        waiting.stdin.flush()
        assert json.loads(waiting.stdout.readline())["line"] == 1
        time.sleep(0.3)
        waiting.send_signal(number)
        assert waiting.wait(20) == 130


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_streams_are_a_usage_error_before_any_work(tmp_path: Path, closed: str) -> None:
    command = f"{sys.executable} -m roundtable_local panel --jsonl --backend scripted --out {tmp_path}/out {closed}"
    done = subprocess.run(["sh", "-c", command], input="{}\n", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_m_062_a_line_overrides_the_standing_instruction(tmp_path: Path) -> None:
    replies = script(tmp_path / "replies.yaml", "proponent", "arbiter", votes=2)
    lines = [
        {"artifact": "Cache pages.", "decision": "page cache"},
        {"artifact": "Cache pages.", "decision": "page cache", "quorum": "2/3", "log": str(tmp_path / "own.md")},
        {"artifact": "Cache pages.", "decision": "page cache", "auto": False},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    standing = ["--quorum", "3/3", "--log", str(tmp_path / "standing.md"), "--auto"]
    result = invoke(
        "panel", "--jsonl", *COMMON, "--replies", replies, "--out", str(tmp_path / "out"), "-q", *standing, text=text
    )
    one, two, three = answers(result)
    assert (one["verdict"], one["quorum"], one["waits"]) == ("escalated", "3/3", False)
    assert one["question"]["choices"]
    assert (two["verdict"], two["quorum"]) == ("accept", "2/3")
    assert (three["verdict"], three["waits"]) == ("escalated", True)
    assert "[2/3 accept, skeptic dissented] page cache" in (tmp_path / "own.md").read_text("utf-8")
    assert (tmp_path / "standing.md").read_text("utf-8").count("[2/3 accept, revising] page cache") == 2
    ended = invoke("resume", three["run_dir"], "--answer", "escalation=a")
    assert ended.exit_code == 0, ended.output


def test_context_goal_and_proposal_reach_the_shared_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    from roundtable_local.tokens import Codec

    original = Codec.context

    def spy(self: Codec, blocks: Any) -> Any:
        asked.extend(block.render() for block in blocks)
        return original(self, blocks)

    monkeypatch.setattr(Codec, "context", spy)
    line = {
        "artifact": "Cache pages.",
        "context": ["one fact", "two facts"],
        "goal": "be fast",
        "proposal": "# P\n\nall of it",
    }
    result = invoke("panel", "--jsonl", *COMMON, "--out", str(tmp_path), "-q", text=json.dumps(line) + "\n")
    assert result.exit_code == 0
    context = next(text for text in asked if text.startswith("CONTEXT:"))
    assert [context.index(part) for part in ("be fast", "all of it", "one fact", "two facts")] == sorted(
        context.index(part) for part in ("be fast", "all of it", "one fact", "two facts")
    )


def test_a_log_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.md").symlink_to(tmp_path / "elsewhere.md")
    for name in ("folder", "link.md"):
        result = run(tmp_path / "out", "Cache pages", "--log", str(tmp_path / name))
        assert result.exit_code == 1
        assert name in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_caller_that_has_gone_ends_the_command_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "roundtable_local", "panel", "--jsonl", *COMMON, "--out", str(tmp_path), "-q"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as caller_of:
        assert caller_of.stdin is not None
        assert caller_of.stdout is not None
        assert caller_of.stderr is not None
        caller_of.stdout.close()
        caller_of.stdin.write("\n".join(call_lines(10)))
        caller_of.stdin.close()
        said = caller_of.stderr.read()
    assert caller_of.returncode == 130
    assert "Traceback" not in said
    assert "nobody reads the results" in said


def test_panel_without_jsonl_says_what_to_do() -> None:
    result = invoke("panel")
    assert result.exit_code == 2
    assert "--protocol panel" in result.stderr
