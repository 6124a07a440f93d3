"""The base of tools that reach an address: it checks the address, judges connections, and returns text."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator

from ...ports import ToolContext, ToolTraits
from ...workspace.text import SAMPLE_BYTES, detect_sample_form, detect_text_form, name_binary_kind
from ..builtin import BuiltinTool
from ..schema import PlainText, ToolArguments
from .exchange import Judgements, WebAnswer, WebRequest
from .web_url import WebUrl, web_url

if TYPE_CHECKING:
    from .client import WebClient


def _plain(text: str) -> str:
    return str(web_url(text))


PlainAddress = Annotated[PlainText, AfterValidator(_plain)]
"""A web address in its normalized spelling."""


class ReachingArguments(ToolArguments):
    url: PlainAddress


ArgumentsT = TypeVar("ArgumentsT", bound=ReachingArguments)


class ReachingTool(BuiltinTool[ArgumentsT]):
    """A tool whose calls reach the address in the argument `url`."""

    traits = ToolTraits(subject="url", reaches="address", is_quiet=True)

    def __init__(
        self, name: str, description: str, arguments: type[ArgumentsT], client: WebClient | None
    ) -> None:
        super().__init__(name, description, arguments)
        self._client = client

    async def answer(self, arguments: ArgumentsT, request: WebRequest, context: ToolContext) -> WebAnswer:
        """Send the request and return the response. Raises `WebProblem`."""
        self._client = self._client or connect_web()
        return await self._client.send(request, _judgements(arguments, context))


def connect_web() -> WebClient:
    """Return a client with the usual limits. The HTTP library is loaded here, when a call first needs it."""
    from .client import WebClient

    return WebClient()


def _judgements(arguments: ReachingArguments, context: ToolContext) -> Judgements:
    first = web_url(arguments.url)
    was_asked = context.judge(arguments).decision == "ask"
    """Whether a person approved this call. Then redirects within its site are allowed."""

    def describe(url: WebUrl) -> str:
        return context.judge(arguments.model_copy(update={"url": str(url)})).decision

    def may_follow(url: WebUrl) -> bool:
        return (decision := describe(url)) == "allow" or (
            decision == "ask" and was_asked and _is_same_site(first, url)
        )

    return Judgements(may_dial=lambda url: describe(url) != "deny", may_follow=may_follow)


def _is_same_site(first: WebUrl, url: WebUrl) -> bool:
    ports = (first.port, url.port)
    return first.host == url.host and (url.origin == first.origin or ports == (80, 443))


def charset_of(answer: WebAnswer) -> str:
    """Return the declared encoding of the response; empty if there is none, or if Python does not know it."""
    for part in answer.headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name.lower() == "charset":
            try:
                return codecs.lookup(value.strip("\"' ")).name
            except (LookupError, ValueError):
                return ""
    return ""


def read_body_text(answer: WebAnswer) -> str | None:
    """Return a body as text, or None if it is not text."""
    body, charset = answer.body, charset_of(answer)
    if charset and b"\0" not in body[:SAMPLE_BYTES]:
        return body.decode(charset, "replace")
    form = detect_sample_form(body[:SAMPLE_BYTES])
    if form is None:
        return None
    exact = detect_text_form(body) or form
    return body[len(exact.mark) :].decode(exact.encoding, "replace")


def describe_kind(answer: WebAnswer) -> str:
    return answer.media_type or name_binary_kind(answer.body[:SAMPLE_BYTES])


def explain_redirect(answer: WebAnswer, tool: str) -> str:
    return f"It redirects to {answer.leads_to}, which was not followed: call {tool} with that address."
