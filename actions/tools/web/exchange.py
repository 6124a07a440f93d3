"""The types of an HTTP exchange: request, its headers, response, rule callbacks and errors."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .web_url import WebUrl

READING_METHODS = ("GET", "HEAD")
"""Methods that change nothing on a server."""
_HEADER = re.compile(
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}):[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?[ \t]*"
)
_NOT_YOURS = frozenset((
    "accept-encoding", "connection", "content-length", "expect", "forwarded", "host", "keep-alive",
    "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
    "upgrade", "via",
))  # fmt: skip
"""Headers that belong to the connection, not to the request."""


@dataclass(frozen=True, slots=True)
class WebRequest:
    url: WebUrl
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    """For the first origin alone: no redirect takes them elsewhere."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class WebAnswer:
    url: WebUrl
    """The final address, after redirects."""
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    leads_to: str = ""
    """The place of a redirect that was not followed."""

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Judgements:
    """The caller's rules for a request under way."""

    may_dial: Callable[[WebUrl], bool]
    """Whether the private address in this URL may be dialled."""
    may_follow: Callable[[WebUrl], bool]
    """Whether a redirect may lead to this URL."""


class WebProblem(Exception):
    """Why a request had no answer: a sentence for the model."""


class NotSent(WebProblem):
    """Nothing was sent."""


class TookTooLong(WebProblem):
    """The time ran out before the complete response arrived."""


def header_of(line: str) -> tuple[str, str]:
    """Return name and value of a header; raises `ValueError` with a clause about the mistake."""
    header = _HEADER.fullmatch(line)
    if header is None:
        raise ValueError("must be lines of the form `Name: value` in printable ASCII")
    name, value = header[1], header[2] or ""
    if name.lower() in _NOT_YOURS:
        raise ValueError(f"must not set {name}: the connection does")
    return name, value


def check_header(name: str, value: str) -> tuple[str, str]:
    """Return a header that can be sent unchanged; raises `ValueError` with a clause."""
    return header_of(f"{name}: {value}")
