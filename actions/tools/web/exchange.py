"""The types of an HTTP exchange: the request, its headers, the response, the rule callbacks and the
errors.
"""

import re
from collections.abc import Callable, Mapping

from ....state.lazy_dataclass import dataclass
from .web_url import WebUrl

READING_METHODS = ("GET", "HEAD")
"""The methods that change nothing on a server."""
_HEADER = re.compile(
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}):[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?[ \t]*"
)
_NOT_YOURS = frozenset((
    "accept-encoding", "connection", "content-length", "expect", "forwarded", "host", "keep-alive",
    "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
    "upgrade", "via",
))  # fmt: skip
"""Headers that belong to the connection. A request must not set them."""


@dataclass(frozen=True, slots=True)
class WebRequest:
    url: WebUrl
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    """The headers for the first origin. A redirect to another origin does not get them."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class WebAnswer:
    url: WebUrl
    """The final address after all redirects."""
    status: int
    headers: Mapping[str, str]
    """The headers by their lower-case names."""
    body: bytes
    leads_to: str = ""
    """The target of a redirect that was not followed; empty if there is none."""

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Judgements:
    """The rules of the caller for a running request."""

    may_dial: Callable[[WebUrl], bool]
    """Returns whether the private address in this URL may be reached."""
    may_follow: Callable[[WebUrl], bool]
    """Returns whether a redirect may lead to this URL."""


class WebProblem(Exception):
    """A request has no answer. The message is a sentence for the model."""


class NotSent(WebProblem):
    """The request was not sent."""


class TookTooLong(WebProblem):
    """The time limit passed before the complete response arrived."""


def header_of(line: str) -> tuple[str, str]:
    """Return the name and the value of a header. Raises `ValueError` with a clause about the mistake."""
    header = _HEADER.fullmatch(line)
    if header is None:
        raise ValueError("must be lines of the form `Name: value` in printable ASCII")
    name, value = header[1], header[2] or ""
    if name.lower() in _NOT_YOURS:
        raise ValueError(f"must not set {name}, which the connection sets")
    return name, value


def check_header(name: str, value: str) -> tuple[str, str]:
    """Return a header that can be sent unchanged. Raises `ValueError` with a clause about the mistake."""
    return header_of(f"{name}: {value}")
