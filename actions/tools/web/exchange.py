"""One exchange on the web: the request, the answer, who judges its way, and why there is no answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .web_url import WebUrl

READING_METHODS = ("GET", "HEAD")
"""Methods that change nothing on a server."""


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
    """Where it came from in the end."""
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
    """What the caller's rules say while a request is on its way."""

    may_dial: Callable[[WebUrl], bool]
    """Whether the private address that is the host of this URL may be reached."""
    may_follow: Callable[[WebUrl], bool]
    """Whether a redirect may lead to this URL."""


class WebProblem(Exception):
    """Why a request had no answer: a sentence for the model."""


class NotSent(WebProblem):
    """Nothing has left this machine."""


class TookTooLong(WebProblem):
    """The time was over before the whole answer had come."""
