"""Everything that can go wrong, by whose fault it is. Every error says what to do about it.

    RoundtableError
    ├── UsageError          the command line: unknown option, protocol or setting key, missing file
    ├── DecisionError       the decision file's content
    ├── SeatError           a persona file or another file read for the table
    ├── ConfigError         a configuration file's content
    ├── ModelError          the model folder: missing parts, unusable template
    ├── WindowError         decision, seats and replies do not fit the model's window
    ├── OutputError         the folder to write to, or a run directory in use
    ├── BackendError        the engine: not installed, does not start, died
    ├── ReplyLostError      a reply the debate cannot go on without failed twice (resumable)
    ├── JournalError        a run directory that cannot be resumed as it stands
    ├── SuspendedError      not a fault: a human has to answer before the run goes on
    └── InterruptedRunError not a fault: stopped by the user, resumable

Exit codes are picked by `cli` alone.
"""

from __future__ import annotations


class RoundtableError(Exception):
    """Base of all errors meant for people.

    Args:
        message: one line that says what is wrong and whose fault it is.
        fix: one line that says what to do about it.
    """

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message} ({self.fix})"


class UsageError(RoundtableError):
    """The command line asks for something that does not exist."""


class DecisionError(RoundtableError):
    """The decision file can be found but not used."""


class SeatError(RoundtableError):
    """A persona file, or a file of facts, can be found but not used."""


class ConfigError(RoundtableError):
    """A configuration file has unknown keys or wrong values."""


class ModelError(RoundtableError):
    """The model folder lacks a part, or a part cannot be used."""


class WindowError(RoundtableError):
    """The debate's worst case does not fit the model's window."""


class OutputError(RoundtableError):
    """The run directory cannot be made, written or locked."""


class BackendError(RoundtableError):
    """The engine is missing, does not start, or failed while generating."""


class ReplyLostError(RoundtableError):
    """A required reply failed twice; the run stops and can be resumed."""


class JournalError(RoundtableError):
    """A run directory's journal is missing, damaged, or of another run."""


class SuspendedError(RoundtableError):
    """A question without a default waits for a human."""


class InterruptedRunError(RoundtableError):
    """The user stopped the run; what was generated is kept."""
