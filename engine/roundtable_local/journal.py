"""journal.jsonl: the append-only truth of a run, one JSON object per line.

    start   what the run is: decision text, settings, seed, date, fingerprint
    resume  a later process went on
    reply   one generation: turn, ask, attempt, seed, prompt hash, text, finish reason, tokens
    call    one generate call: sizes and seconds
    turn    a turn is settled: seconds outside generate
    answer  a human's answer
    entry-begins  lines are about to be added to the user's log, which has them so many times already
    entry   lines stand in the user's log
    end     the outcome

A reply stands in the journal before anything is made of it, so a killed run loses at most what was being
generated. A torn last line is dropped; damage elsewhere is an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from roundtable_local.errors import JournalError, OutputError
from roundtable_local.schema import canonical
from roundtable_local.steps import Answer

_REQUIRED: Mapping[str, Mapping[str, type]] = {
    "start": {"inputs": dict, "fingerprint": dict, "place": dict},
    "reply": {"turn": str, "ask": str, "attempt": int},
    "answer": {"name": str, "value": str, "by": str, "why": str},
    "entry-begins": {"key": str, "there": int},
    "entry": {"key": str},
    "end": {"verdict": str, "needs_human": bool, "summary": str, "failed": bool, "results": list, "data": dict},
}
"""Keys, and the types of their values, without which an event cannot be read back."""

NAME = "journal.jsonl"
Event = dict[str, Any]


class Journal:
    """Reads the events that are there and appends new ones.

    Args:
        path: the journal file; made if missing.

    Raises:
        JournalError: it cannot be read, or a line before the last is damaged.
        OutputError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[Event] = []
        self._replies: dict[tuple[str, str, int], Event] = {}
        whole = 0
        for event, end in _read(path):
            self._keep(event)
            whole = end
        try:
            self._file = path.open("ab")
            if self._file.tell() > whole:
                self._file.truncate(whole)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}", "change its permissions") from error

    def append(self, event: str, **fields: Any) -> None:
        """Write one event and wait until it is on the disk.

        Raises:
            OutputError: the disk is full or gone.
        """
        entry: Event = {"event": event, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields}
        line = canonical(entry).encode("utf-8", "replace")
        entry = json.loads(line)  # go on with what a resumed run will read
        try:
            self._file.write(line + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            fix = "make room, then resume the run: what stands in the journal is kept"
            raise OutputError(f"{self.path} cannot be written: {error.strerror}", fix) from error
        self._keep(entry)

    def reply(self, turn: str, ask: str, attempt: int) -> Event | None:
        """The journalled reply of an ask, if it was generated."""
        return self._replies.get((turn, ask, attempt))

    def of(self, event: str) -> list[Event]:
        """All events of one kind, in order."""
        return [entry for entry in self.events if entry["event"] == event]

    @property
    def start(self) -> Event:
        """The start event.

        Raises:
            JournalError: there is none, so this is no run directory.
        """
        if not self.events or self.events[0]["event"] != "start":
            raise JournalError(f"{self.path} does not begin with a run's start", "name the directory of a run")
        return self.events[0]

    def answers(self) -> Mapping[str, Answer]:
        """Answers given so far, by question name."""
        given = self.of("answer")
        return {each["name"]: Answer(each["value"], each["by"], each["why"]) for each in given}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _keep(self, event: Event) -> None:
        self.events.append(event)
        if event["event"] == "reply":
            self._replies[event["turn"], event["ask"], event["attempt"]] = event


def _read(path: Path) -> Iterator[tuple[Event, int]]:
    """Events with the offset at which each ends; stops before a torn last line."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise JournalError(
            f"{path} cannot be read: {error.strerror}", "restore it, or change its permissions"
        ) from error
    end = 0
    *lines, torn = data.split(b"\n")  # only \n ends a line: replies may hold other line separators
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
            if not _is_event(event):
                raise ValueError("not an event")
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not torn:
                return
            raise JournalError(
                f"{path}: line {number} is damaged", "restore it from a copy, or start a new run"
            ) from error
        end += len(line) + 1
        yield event, end


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("event"), str):
        return False
    return all(isinstance(value.get(key), kind) for key, kind in _REQUIRED.get(value["event"], {}).items())
