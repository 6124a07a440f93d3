"""The deliberate errors of Sandbur, with their exit codes.

SandburError
├── UsageError               2    a flag, argument or command is not valid
│   ├── UnknownTool          2    a tool or tool group with this name does not exist
│   └── WrongType            2    an argument of a library call has the wrong type; also a `TypeError`
├── ConfigError              52   a configuration file or value is not valid
├── SandboxMissing           44   the required sandbox does not work here
├── CredentialsError         41   there is no API key, or the provider refuses it
├── UntrustedFolder          55   another user of the machine owns a folder or file
├── StoreError               1    the store cannot be opened, read or written
│   ├── GuardFailed          1    a guard refused a transaction: another process was first
│   ├── SessionHeld          1    another process runs the session, or took it over
│   ├── SessionMoved         1    another process continued the session since it was read here
│   ├── SessionNotFound      2    no session with this id
│   ├── SessionHasFork       1    the session has a fork, which must be deleted first
│   ├── SessionParked        3    the process of the session died too often; a person has to decide
│   ├── SessionMismatch      1    this graph or schema cannot continue the session
│   └── SettingsChanged      1    the settings of the session were changed outside of Sandbur
├── ModelError               1    the provider failed, and retries did not or would not help
│   ├── ContextFull          1    the request does not fit into the model's window
│   ├── Unreachable          1    no server, host name or valid certificate at the provider's address
│   └── Overloaded           75   the provider is rate limited or overloaded after every retry
├── AnswerRejected           1    the model's final answer has the wrong form
│   ├── OutputInvalid        1    it does not match the schema, also after a second request
│   └── DoneToolNotCalled    1    the model answered in words, where a tool must end the run
├── WorkflowFailed           1    an agent of a workflow failed, or its own code did
├── Repeated                 4    the model repeated a refused call again and again
├── StoppedByHook            3    a configured hook ended the run, or refused the message
├── UserCodeError            1    code of the user failed: a function or an object that a program gave
├── MiddlewareError          1    a middleware failed, or did something that is not allowed
├── Exhausted                1    a limit of the system: threads, open files, size of a file
├── OutputLost               1    stdout failed, and not because its reader ended
└── LimitReached                  a limit of the run was reached
    ├── TurnLimit            53
    ├── BudgetLimit          125
    └── Timeout              124

A failed tool is not an exception, but a result for the model.
"""

from collections.abc import Generator
from contextlib import contextmanager
from errno import EFBIG, EMFILE, ENFILE
from typing import ClassVar, cast


class SandburError(Exception):
    """An error that is printed as one sentence, with a hint that says what to do."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"
    status: ClassVar[str] = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.session_id = ""
        """The stored session that the error ended or kept closed; empty: there is none."""

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


@contextmanager
def name_session(session_id: str) -> Generator[None]:
    """Let the errors of a block name the stored session that they concern."""
    try:
        yield
    except SandburError as error:
        error.session_id = error.session_id or session_id
        raise


class UsageError(SandburError):
    exit_code = 2
    code = "usage"


class UnknownTool(UsageError):
    pass


class WrongType(UsageError, TypeError):
    pass


class ConfigError(SandburError):
    exit_code = 52
    code = "config"


class SandboxMissing(SandburError):
    exit_code = 44
    code = "sandbox"


class CredentialsError(SandburError):
    exit_code = 41
    code = "credentials"


class UntrustedFolder(SandburError):
    exit_code = 55
    code = "untrusted_folder"


class StoreError(SandburError):
    code = "store"


class GuardFailed(StoreError):
    code = "guard"


class SessionHeld(StoreError):
    code = "session_held"


class SessionMoved(StoreError):
    code = "session_moved"


class SessionNotFound(StoreError):
    exit_code = 2
    code = "session_not_found"


class SessionParked(StoreError):
    exit_code = 3
    code = "session_parked"
    status = "needs_decision"


class SessionHasFork(StoreError):
    code = "has_fork"


class DamagedRecords(StoreError):
    code = "damaged_records"


def make_damage_error(session_id: str) -> DamagedRecords:
    return DamagedRecords(
        f"Records of session {session_id} were damaged after its last run.",
        "Open it again: the damaged records are set aside then.",
    )


class SessionMismatch(StoreError):
    code = "session_mismatch"


class SettingsChanged(StoreError):
    code = "settings_changed"

    fields: tuple[str, ...] = ()
    """The names of the changed settings."""


class ModelError(SandburError):
    code = "model"


class ContextFull(ModelError):
    code = "context_full"


class Unreachable(ModelError):
    code = "unreachable"


class Overloaded(ModelError):
    exit_code = 75
    code = "overloaded"
    status = "rate_limited"

    retry_after_s: float | None = None
    """The seconds to wait, if the provider names them; else None."""


class AnswerRejected(SandburError):
    code = "answer_rejected"


class OutputInvalid(AnswerRejected):
    code = "output_invalid"


class DoneToolNotCalled(AnswerRejected):
    code = "done_tool_not_called"


class WorkflowFailed(SandburError):
    code = "workflow_failed"


class Repeated(SandburError):
    exit_code = 4
    code = "repeated"
    status = "repeated"


class StoppedByHook(SandburError):
    exit_code = 3
    code = "stopped_by_hook"
    status = "denied"


class UserCodeError(SandburError):
    code = "user_code"


class MiddlewareError(SandburError):
    code = "middleware"


class Exhausted(SandburError):
    code = "exhausted"


class OutputLost(SandburError):
    code = "output"


class LimitReached(SandburError):
    code = "limit"


class TurnLimit(LimitReached):
    exit_code = 53
    code = "turn_limit"
    status = "turn_limit"


class BudgetLimit(LimitReached):
    exit_code = 125
    code = "budget_limit"
    status = "budget_limit"


class Timeout(LimitReached):
    exit_code = 124
    code = "timeout"
    status = "timeout"


LIMITS = {
    EMFILE: ("no more open files", "ulimit -n"),
    ENFILE: ("no more open files", "ulimit -n"),
    EFBIG: ("no larger file", "ulimit -f"),
}
"""Maps an error number to what a limit of the process does not allow, and the command that raises it."""


def to_exhausted(bug: BaseException) -> Exhausted | None:
    """Return an `Exhausted` if the system refused a thread, an open file or a larger file, else None."""
    if isinstance(bug, BaseExceptionGroup):
        found = [to_exhausted(one) for one in cast("BaseExceptionGroup[BaseException]", bug).exceptions]
        return found[0] if all(found) else None
    if isinstance(bug, RuntimeError) and "can't start new thread" in str(bug):
        return Exhausted("The system allows no more threads.", "Raise the limit: ulimit -u")
    if isinstance(bug, OSError) and (limit := LIMITS.get(bug.errno or 0)):
        return Exhausted(f"The system allows {limit[0]}.", f"Raise the limit: {limit[1]}")
    return None


@contextmanager
def skip_unreadable() -> Generator[None]:
    """Ignore an `OSError` of one file or folder, unless a limit of this process makes all of them fail."""
    try:
        yield
    except OSError as error:
        if exhausted := to_exhausted(error):
            raise exhausted from error


def list_exit_codes() -> dict[str, int]:
    """Return the code of each kind of error and its exit code."""
    found: dict[str, int] = {}
    kinds: list[type[SandburError]] = [SandburError]
    while kinds:
        kind = kinds.pop()
        found.setdefault(kind.code, kind.exit_code)
        kinds += kind.__subclasses__()
    return found
