"""Every deliberate error of Sandbur.

SandburError
├── UsageError               2    a flag, argument or command that does not fit
├── ConfigError              52   a configuration file or value that does not fit
├── CredentialsError         41   no key, or one the provider refuses
├── StoreError               1    the store cannot be opened, read or written
│   ├── GuardFailed          1    a transaction was refused by its guard: somebody else was first
│   ├── SessionHeld          1    another process runs the session, or took it over
│   ├── SessionNotFound      2    no session with this id
│   └── SessionMismatch      1    a session that this graph or schema cannot carry on
├── ModelError               1    the provider failed and trying again did not or would not help
│   ├── ContextFull          1    the request does not fit into the model's window
│   └── Overloaded           75   rate limited or overloaded after every retry
├── OutputLost               1    stdout takes nothing more, and its reader has not just left
└── LimitReached                  a limit of the run
    ├── TurnLimit            53
    ├── BudgetLimit          125
    └── Timeout              124

A failing tool is no exception: it is a result the model reads.
"""

from typing import ClassVar


class SandburError(Exception):
    """An error that is shown as one sentence, with what to do about it."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"
    status: ClassVar[str] = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(SandburError):
    exit_code = 2
    code = "usage"


class ConfigError(SandburError):
    exit_code = 52
    code = "config"


class CredentialsError(SandburError):
    exit_code = 41
    code = "credentials"


class StoreError(SandburError):
    code = "store"


class GuardFailed(StoreError):
    code = "guard"


class SessionHeld(StoreError):
    code = "session_held"


class SessionNotFound(StoreError):
    exit_code = 2
    code = "session_not_found"


class SessionMismatch(StoreError):
    code = "session_mismatch"


class ModelError(SandburError):
    code = "model"


class ContextFull(ModelError):
    code = "context_full"


class Overloaded(ModelError):
    exit_code = 75
    code = "overloaded"
    status = "rate_limited"

    retry_after_s: float | None = None
    """How long the provider asks to wait, if it says so."""


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
