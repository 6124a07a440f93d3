"""Converts errors of Sandbur to errors of the protocol, which say what to do."""

from collections.abc import Generator
from contextlib import contextmanager

from acp import RequestError

from ...actions.ports.events import RunFinished
from ...state.errors import CredentialsError, SandburError, SessionNotFound, UsageError

_AUTH_REQUIRED, _NOT_FOUND, _INVALID_PARAMS, _INTERNAL = -32000, -32002, -32602, -32603
_CODES = {
    CredentialsError.code: _AUTH_REQUIRED,
    SessionNotFound.code: _NOT_FOUND,
    UsageError.code: _INVALID_PARAMS,
}
"""Error code of Sandbur -> error code of JSON-RPC."""


@contextmanager
def protocol_errors() -> Generator[None]:
    """Raise `RequestError` in place of an error of Sandbur."""
    try:
        yield
    except SandburError as error:
        raise make_refusal(error.code, error.message, error.hint) from None


def make_refusal(code: str, message: str, hint: str = "") -> RequestError:
    """Return the error with the hint in its message, because some editors do not show its data."""
    data = {"code": code, "details": message, "hint": hint}
    return RequestError(_CODES.get(code, _INTERNAL), f"{message} {hint}".strip(), data)


def find_run_error(finished: RunFinished) -> RequestError | None:
    """Return why a run failed; None if it did not."""
    error = finished.error
    if error is None or finished.status == "turn_limit":
        return None
    return make_refusal(error.code, error.message, finished.hint)
