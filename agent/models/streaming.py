"""The answer of a model server as parsed events, within time and size limits, whatever it really sends."""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...state.application import Usage
from ...state.errors import ModelError
from ...state.messages import Image, Text, ToolUse
from .failures import MAX_DETAIL_CHARS, Transient, judge, readable, refusal_in_stream
from .providers import Endpoint
from .requests import Draft, legal_id, parse_object, without_surrogates

if TYPE_CHECKING:
    from httpx2 import Response

    from .aws_events import AwsEventParser

_MAX_TOKENS = 10**9
REFUSED = "The model declined to answer."


class TextFlow:
    """Text that arrives in pieces, cut anywhere, even between the halves of a surrogate pair."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._half = ""

    def add(self, text: str) -> str:
        """Return what can be shown now."""
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        text = without_surrogates(text)
        self._parts.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._parts) + ("\ufffd" if self._half else "")


@dataclass(slots=True)
class PartialCall:
    """A tool call on its way in."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the provider's own."""

    @property
    def arguments(self) -> str:
        return without_surrogates("".join(self.pieces)) or "{}"

    @property
    def is_whole(self) -> bool:
        if not any(piece.rstrip().endswith("}") for piece in self.pieces[-1:]):
            return False
        return parse_object("".join(self.pieces)) is not None

    def use(self) -> ToolUse:
        return ToolUse(call_id=self.id, tool=self.name, arguments=self.arguments)


def settle_ids(calls: list[PartialCall], max_chars: int, is_strict: bool) -> bool:
    """Give every call a legal id of its own; return whether two calls had the same one."""
    taken: set[str] = set()
    had_twins = False
    for call in calls:
        call.name = without_surrogates(call.name)
        wanted = legal_id(call.id, max_chars, is_strict) if call.id else new_call_id()
        if wanted in taken:
            had_twins = True
            wanted = new_call_id()
        call.id = wanted
        taken.add(wanted)
    return had_twins


def new_call_id() -> str:
    return f"call_{secrets.token_hex(10)}"


def finished(draft: Draft, who: str) -> Draft:
    """Return the draft if it says anything; a refusal without words gets some."""
    if any(
        isinstance(block, ToolUse | Image) or (isinstance(block, Text) and block.text.strip())
        for block in draft.blocks
    ):
        return draft
    if draft.finish == "refusal":
        return Draft((*draft.blocks, Text(text=REFUSED)), "refusal", draft.usage)
    why = " (its output limit was reached before it said anything)" if draft.finish == "length" else ""
    raise Transient(f"{who} returned nothing{why}", max_tries=2, lasting=ModelError)


def cut(who: str) -> Transient:
    return Transient(f"the answer of {who} was cut off")


def count(value: Any) -> int | None:
    """Return a reported number of tokens, or None where it is missing or absurd."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _MAX_TOKENS else None


def reported(sent: int | None, answered: int | None, read: int | None, written: int | None) -> Usage:
    """Return what a provider says about tokens: all input, output, read from and written to its cache."""
    return Usage(
        input_tokens=sent,
        output_tokens=answered,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost_usd=None,
    )


def openai_usage(usage: dict[str, Any], input_key: str, output_key: str) -> Usage:
    details = as_object(usage.get(f"{input_key}_details"))
    read, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
    return reported(count(usage.get(input_key)), count(usage.get(output_key)), read, written)


def as_object(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return text that some servers send as parts, or as an object where JSON text belongs."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(as_text(part) for part in cast(list[Any], value))
    fields = as_object(value)
    return as_text(fields.get("text") or fields.get("content") or "") if fields else ""


def as_json_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    name: str
    data: str


class EventParser:
    """Takes CR, LF and CRLF, comments, any cut between two pieces, and bytes that are no UTF-8."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """The unfinished line."""
        self._name = ""
        self._data: list[str] = []
        self._is_first_line = True

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Return the events that are whole now."""
        was_cr = bool(self._pieces) and self._pieces[-1].endswith(b"\r")
        self._pieces.append(piece)
        if not was_cr and b"\n" not in piece and b"\r" not in piece:
            return []
        lines = b"".join(self._pieces).splitlines(keepends=True)
        # A CR at the very end may be half of a CRLF: the next piece tells.
        self._pieces = [lines.pop()] if lines and not lines[-1].endswith(b"\n") else []
        return [event for line in lines if (event := self._take(line))]

    def end(self) -> list[ServerEvent]:
        """Return what a server left without its closing empty line."""
        lines = [*b"".join(self._pieces).splitlines(), b""]
        self._pieces = []
        return [event for line in lines if (event := self._take(line))]

    def _take(self, line: bytes) -> ServerEvent | None:
        line = line.rstrip(b"\r\n")
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"data":
            self._data.append(text)
        elif field == b"event":
            self._name = text
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        return ServerEvent(name, "\n".join(data)) if data else None


MAX_REPLY_BYTES = 64 * 1024 * 1024
DONE = "[DONE]"
_SNIFFED_BYTES = 64 * 1024
_AWS_EVENTS = "application/vnd.amazon.eventstream"
_EVENT_FIELDS = (":", "event:", "id:", "retry:")


class StreamPatience:
    """How long the next piece may take."""

    def __init__(self, idle_s: float, total_s: float) -> None:
        self._idle_s = idle_s
        self._end = asyncio.get_running_loop().time() + total_s

    def shorten(self, idle_s: float) -> None:
        self._idle_s = idle_s

    @property
    def until(self) -> float:
        return min(asyncio.get_running_loop().time() + self._idle_s, self._end)


async def read_events(
    response: "Response", endpoint: Endpoint, patience: StreamPatience
) -> AsyncGenerator[tuple[str, dict[str, Any] | None]]:
    """Yield (event name, data), with None as data for `[DONE]`; raises `Transient` or `ModelError`."""
    parser, start, is_silent = _parser_of(response), bytearray(), True
    async with aclosing(_pieces(response, endpoint, patience)) as pieces:
        async for piece in pieces:
            if is_silent:
                start += piece[: _SNIFFED_BYTES - len(start)]
            for event in _fed(parser, piece, endpoint):
                is_silent = False
                for data in _parse(event, endpoint):
                    yield event.name, data
    for event in parser.end():
        is_silent = False
        for data in _parse(event, endpoint):
            yield event.name, data
    if is_silent:
        yield "", _unstreamed(bytes(start), endpoint)


def _parser_of(response: "Response") -> "EventParser | AwsEventParser":
    if not response.headers.get("content-type", "").startswith(_AWS_EVENTS):
        return EventParser()
    from .aws_events import AwsEventParser

    return AwsEventParser()


def _fed(parser: "EventParser | AwsEventParser", piece: bytes, endpoint: Endpoint) -> list[ServerEvent]:
    try:
        return parser.feed(piece)
    except ValueError:
        raise damaged(endpoint) from None


def damaged(endpoint: Endpoint) -> Transient:
    return Transient(f"{endpoint.provider} sent a damaged answer")


async def _pieces(
    response: "Response", endpoint: Endpoint, patience: StreamPatience
) -> AsyncGenerator[bytes]:
    from httpx2 import HTTPError, StreamError

    size = 0
    async with aclosing(response.aiter_bytes()) as pieces:
        while True:
            try:
                async with asyncio.timeout_at(patience.until):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise Transient(f"{endpoint.provider} stopped answering") from None
            except (HTTPError, StreamError) as error:
                raise cut(endpoint.provider) from error
            if piece is None:
                return
            size += len(piece)
            if size > MAX_REPLY_BYTES:
                raise ModelError(f"The answer of {endpoint.name} is longer than {MAX_REPLY_BYTES >> 20} MB.")
            yield piece


def _parse(event: ServerEvent, endpoint: Endpoint) -> list[dict[str, Any] | None]:
    if event.data.strip() == DONE:
        return [None]
    try:
        return [_object(event.data)]
    except (ValueError, RecursionError):
        pass
    try:
        # Some servers leave the empty line between two events out.
        return [None if line.strip() == DONE else _object(line) for line in event.data.split("\n")]
    except (ValueError, RecursionError):
        raise damaged(endpoint) from None


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return cast(dict[str, Any], value)


def _unstreamed(start: bytes, endpoint: Endpoint) -> dict[str, Any]:
    """Read a body without any event in it: a JSON object, or what tells why there is none."""
    text = start.decode("utf-8", "replace").strip()
    if all(line.startswith(_EVENT_FIELDS) for line in text.splitlines()):
        raise cut(endpoint.provider)
    try:
        data = _object(text)
    except (ValueError, RecursionError):
        what = "a web page" if text.startswith("<") else f"no model's answer: {readable(text, endpoint)}"
        raise ModelError(
            f"{endpoint.base_url} answered with {what}"[: 2 * MAX_DETAIL_CHARS] + ".",
            "Check the base URL, and whether this network wants a login first.",
        ) from None
    if data.get("error"):
        raise judge(refusal_in_stream(data), endpoint)
    return data
