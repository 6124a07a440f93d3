"""The tool `http_request`: sends one HTTP request and returns the response unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from ....state.calls import Effect
from ...masking.masker import PLACEHOLDER
from ...ports import ToolContext, ToolOutcome
from ...workspace.paths import format_size
from ..schema import PlainText
from .exchange import READING_METHODS, WebAnswer, WebProblem, WebRequest, header_of
from .web_tool import (
    PlainAddress,
    ReachingArguments,
    ReachingTool,
    describe_kind,
    explain_redirect,
    read_body_text,
)
from .web_url import web_url

if TYPE_CHECKING:
    from .client import WebClient

METHODS = (*READING_METHODS, "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_MAX_BODY_BYTES = 50_000
_MAX_HEADER_CHARS = 4000
_MOST_HEADERS = 50
_DESCRIPTION = (
    "Send one HTTP request and return status, headers and body. For reading a page web_fetch is better."
    " Addresses of private networks and of this machine are reached only where the user's rules name them."
    f" At most 10 MB come, {_MAX_BODY_BYTES // 1000} KB of them are shown."
)


def _method(text: str) -> str:
    if text.upper() not in METHODS:
        raise ValueError(f"must be one of {', '.join(METHODS)}")
    return text.upper()


def _headers(text: str) -> str:
    parse_headers(text)
    return text


def parse_headers(text: str) -> Mapping[str, str]:
    """Parse headers, one per line. Raises `ValueError` with a clause about the mistake."""

    found: dict[str, str] = {}
    for line in filter(None, (line.strip(" \t") for line in text.split("\n"))):
        name, value = header_of(line)
        if name.lower() in (known.lower() for known in found):
            raise ValueError(f"sets {name} more than once")
        found[name] = value
    if len(found) > _MOST_HEADERS:
        raise ValueError(f"are more than {_MOST_HEADERS}")
    return found


class HttpRequestArguments(ReachingArguments):
    url: PlainAddress = Field(description="The address, with http:// or https://.")
    method: Annotated[PlainText, AfterValidator(_method)] = Field(
        "GET", description=f"One of {', '.join(METHODS)}. Default: GET."
    )
    headers: Annotated[str, AfterValidator(_headers)] = Field(
        "", description="Headers, one `Name: value` a line. Redirects to other sites do not get them."
    )
    body: str = Field("", description="What is sent with POST, PUT, PATCH or DELETE.")


class HttpRequest(ReachingTool[HttpRequestArguments]):
    effect: Effect = "effect"

    def __init__(self, client: WebClient | None = None) -> None:
        super().__init__("http_request", _DESCRIPTION, HttpRequestArguments, client)

    def effect_of(self, arguments: HttpRequestArguments) -> Effect:
        return "idempotent" if arguments.method in READING_METHODS else "effect"

    def subject(self, arguments: HttpRequestArguments) -> str:
        """Return the address. If the method may change data, the method precedes it."""
        is_reading = arguments.method == "GET"
        return arguments.url if is_reading else f"{arguments.method} {arguments.url}"

    async def run(self, arguments: HttpRequestArguments, context: ToolContext) -> ToolOutcome:

        if refused := _find_conflict(arguments):
            return ToolOutcome("error", f"Nothing was sent: {refused}")
        headers = dict(parse_headers(arguments.headers))
        if arguments.body and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = _guess_type(arguments.body)
        body = arguments.body.encode()
        request = WebRequest(web_url(arguments.url), arguments.method, headers, body)
        try:
            answer = await self.answer(arguments, request, context)
        except WebProblem as problem:
            return ToolOutcome("error", str(problem))
        return _outcome(answer, self.spec.name)


def _find_conflict(arguments: HttpRequestArguments) -> str | None:
    if arguments.body and arguments.method in READING_METHODS:
        return f"a {arguments.method} request has no body."
    found = PLACEHOLDER.search(f"{arguments.url}\n{arguments.headers}\n{arguments.body}")
    if found is not None:
        return (
            f"{found[0]} replaces a secret that is hidden from you, so the request would not carry it."
            " Ask the user, or use a shell command that takes the value from its variable or file."
        )
    return None


def _guess_type(body: str) -> str:
    return "application/json" if body.lstrip().startswith(("{", "[")) else "text/plain; charset=utf-8"


def _outcome(answer: WebAnswer, tool: str) -> ToolOutcome:
    lines = [f"HTTP {answer.status} from {answer.url}"]
    listed = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
    lines.append(listed[:_MAX_HEADER_CHARS])
    if answer.leads_to:
        lines.append(f"[{explain_redirect(answer, tool)}]")
    text = read_body_text(answer) if answer.body else ""
    if text is None:
        lines.append(f"\n[the body is not text: {describe_kind(answer)}, {format_size(len(answer.body))}]")
        return ToolOutcome("ok", "\n".join(lines))
    visible = text.encode(errors="replace")[:_MAX_BODY_BYTES].decode(errors="ignore")
    lines.append("\n" + visible)
    if len(visible) == len(text):
        return ToolOutcome("ok", "\n".join(lines))
    lines.append(f"[{format_size(len(visible.encode()))} of {format_size(len(answer.body))} shown]")
    return ToolOutcome("ok", "\n".join(lines), full_output=answer.body)
