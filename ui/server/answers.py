"""The JSON answers of the server, and which status each kind of error has."""

import json
from typing import Any

from starlette.responses import Response

from ...state.errors import (
    ConfigError,
    CredentialsError,
    GuardFailed,
    Overloaded,
    SandburError,
    SessionHasFork,
    SessionHeld,
    SessionMoved,
    SessionNotFound,
    SettingsChanged,
    StoreError,
    UsageError,
)

_STATUSES: tuple[tuple[type[SandburError], int], ...] = (
    (SessionNotFound, 404),
    (SessionHeld, 409),
    (SessionMoved, 409),
    (SessionHasFork, 409),
    (SettingsChanged, 409),
    (GuardFailed, 409),
    (UsageError, 400),
    (CredentialsError, 503),
    (ConfigError, 503),
    (Overloaded, 503),
    (StoreError, 503),
)
"""The first kind that fits decides."""
_OTHERS = 409
SECURITY_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; connect-src 'self'; frame-ancestors 'none'",
}


class JsonAnswer(Response):
    """A JSON value as ASCII, so that no character of a model's text has a meaning for a terminal."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=True, allow_nan=False).encode("ascii")


class RequestRefused(Exception):
    """A request that is answered by an error, with its HTTP status."""

    def __init__(self, status: int, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.hint = status, kind, message, hint

    @property
    def answer(self) -> JsonAnswer:
        return make_error(self.status, self.kind, self.message, self.hint)


def make_error(
    status: int, kind: str, message: str, hint: str = "", headers: dict[str, str] | None = None
) -> JsonAnswer:
    """Return the one form of every error: `{"error": {"type", "message", "hint"}}`."""
    return JsonAnswer({"error": {"type": kind, "message": message, "hint": hint}}, status, headers)


def answer_error(error: SandburError) -> JsonAnswer:
    """Return the answer for a deliberate error of Sandbur."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), _OTHERS)
    # A hint names commands of the terminal, which help a client of HTTP only if it is about its request.
    is_about_request = status == 400 or isinstance(error, SessionHasFork)
    return make_error(status, error.code, error.message, error.hint if is_about_request else "")
