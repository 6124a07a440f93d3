"""Builds request bodies for growing histories. Each message is rendered and joined only once."""

import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from re import Pattern
from typing import Any, NamedTuple, cast

from ...actions.ports import FinishReason, FormattedEntry, Formatter, ModelRequest, ToolChoiceKind, ToolSpec
from ...actions.ports.events import TextDelta, ThinkingDelta
from ...actions.turn.output.format import OutputFormat
from ...actions.turn.plan.decision_tools import FINAL_ANSWER
from ...state.application import Usage
from ...state.conversation.attachments import MAX_IMAGE_BYTES, AttachedFile
from ...state.conversation.messages import Block, Message, Text, dialect_cache_of, refuse_json_constant
from ...state.conversation.transcript import Transcript, TranscriptRange
from ...state.lazy_dataclass import dataclass
from ...state.session import Effort
from .providers import Endpoint
from .wires.files import FileSupport, SentFile, SentKind
from .wires.speakers import find_name_field, write_name

Delta = TextDelta | ThinkingDelta
_formatter_numbers = count(1)


class Fragment(NamedTuple):
    """A piece of the messages in a request."""

    role: str
    content: bytes
    """Encoded JSON; empty if there is nothing to send."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A complete reply, before it becomes a message of the history."""

    blocks: tuple[Block, ...]
    finish: FinishReason
    usage: Usage
    wire: Any = None
    """The provider's own JSON of the reply, if the blocks alone cannot reproduce it."""


class ReplyReader(ABC):
    """Collects the events of one streamed reply."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._is_done = False

    @property
    @abstractmethod
    def patience_s(self) -> float | None:
        """Return how long to wait for more data, in seconds, once the essential parts have arrived; before
        that None."""

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """Return the token counts reported so far. An unknown count is None."""

    @abstractmethod
    def read(self, name: str, data: dict[str, Any]) -> Iterable[Delta]:
        """Read one event and yield its deltas. Raises the error that a provider's error event describes."""

    def mark_done(self) -> None:
        """Note that the mark `[DONE]` arrived."""
        self._is_done = True

    @abstractmethod
    def draft(self) -> Draft:
        """Return the reply; raises `Transient` if it is incomplete or empty."""


STRICT_TOOLS = "strict_tools"
"""The name of the optional field by which a provider enforces the schemas of tools."""


class Dialect(ABC):
    """The request format of one model."""

    path: str
    optional_fields: Mapping[str, Pattern[str]]
    """Name of an optional field -> the pattern of error texts about the field. The first field that matches
    an error is left out."""
    reply: type[ReplyReader]
    binds_prefix = False
    """Whether a reply may be sent back only after exactly the messages that it answered."""
    wire_type: type = list
    """The type of the provider's own JSON of a reply."""
    max_image_bytes = MAX_IMAGE_BYTES
    takes_text_files = False

    def __init__(
        self, endpoint: Endpoint, max_output_tokens: int | None = None, effort: Effort | None = None
    ) -> None:
        self._endpoint = endpoint
        self._max_output_tokens = max_output_tokens
        self._effort = effort
        self.files = FileSupport(endpoint, self.max_image_bytes, self.takes_text_files)
        self._formatter: Formatter | None = None
        self._formatter_key = ""

    def use_formatter(self, formatter: Formatter) -> None:
        """Let a program's formatter decide how messages are rendered from now on."""
        self._formatter = formatter
        # Models with different formatters share the message objects, so each formatter needs a key of its
        # own.
        self._formatter_key = f" formatted {next(_formatter_numbers)}"

    @property
    def key(self) -> str:
        """Return the key of this dialect, including its left-out parts, in `dialect_cache_of(message)`."""
        left_out = "".join(f" without {kind}" for kind in sorted(self.files.refused))
        return f"{self._endpoint.profile.wire} {self._endpoint.name}{left_out}{self._formatter_key}"

    @abstractmethod
    def head(self, system: str, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> bytes:
        """Return the beginning of the request, up to the first message."""

    @abstractmethod
    def items(self, message: Message) -> Sequence[dict[str, Any]]:
        """Return the JSON objects of a message; an empty sequence if there is nothing to send."""

    def render_blocks(self, blocks: Iterable[Block]) -> list[Text | SentFile]:
        """Return the texts and files of a message or result in the form that this model gets."""
        parts = (block for block in blocks if isinstance(block, Text | AttachedFile))
        given = (self.files.render(part) for part in parts)
        return [one for one in given if isinstance(one, SentFile) or one.text]

    def follow_up(self, messages: Sequence[Message]) -> bytes:
        """Return a message with the files in `messages`, for after the last result of a round. Empty: none is
        needed."""
        return b""

    @abstractmethod
    def tool_choice(self, tool: str) -> dict[str, Any]:
        """Return the field that forces the model to call this tool."""

    def general_choice(self, kind: ToolChoiceKind) -> Any:
        """Return the field for a general tool choice: the model may call any tool, must call one, or must not
        call any."""
        return kind

    def sends(self, field: str, request: ModelRequest, without: frozenset[str]) -> bool:
        """Return whether a request contains this optional field."""
        if field == "tool_choice":
            return request.forced_tool is not None or request.tool_choice != "auto"
        if field == STRICT_TOOLS:
            return request.strict_tools and bool(request.tools) and self.declares_strictly(without)
        if field == "output_format":
            return request.output is not None and self.formats(request.output, without)
        return field != "effort" or self._effort is not None

    def forces(self, without: frozenset[str]) -> bool:
        """Return whether the model accepts a forced tool choice."""
        return "tool_choice" not in without

    def declares_strictly(self, without: frozenset[str]) -> bool:
        """Return whether the provider is asked to enforce the schemas of tools."""
        return self._endpoint.profile.has_strict_tools and STRICT_TOOLS not in without

    def formats(self, output: OutputFormat, without: frozenset[str]) -> bool:
        """Return whether the provider enforces this output format. If not, the model gets a tool for the
        answer."""
        return self._endpoint.profile.formats_output and "output_format" not in without

    @abstractmethod
    def output_format(self, output: OutputFormat) -> dict[str, Any]:
        """Return the request fields that ask for answers in this format."""

    def role(self, message: Message) -> str:
        return message.role

    def can_replay(self, message: Message) -> bool:
        """Return whether this same model wrote the message in this format, so that its own JSON can be sent
        back."""
        wire = message.wire
        return wire is not None and self._endpoint.wrote(wire) and isinstance(wire.body, self.wire_type)

    def fragments(self, message: Message, replay: bool) -> tuple[Fragment, ...]:
        """Return the message as pieces of JSON. If `replay` is true, use the provider's own JSON of the
        message."""
        if self._formatter is None:
            return (Fragment(self.role(message), encode(self._items(message, replay))[1:-1]),)

        def render(one: Message) -> Sequence[FormattedEntry]:
            return self.entries(one, self._items(one, replay and one is message))

        formatted = self._formatter.format(message, self._endpoint.profile.wire, render)
        return tuple(map(self.encode_entry, formatted))

    def entries(self, message: Message, items: Sequence[Any]) -> Sequence[FormattedEntry]:
        """Return the objects of a request that contain the items of a message."""
        return items

    def encode_entry(self, entry: FormattedEntry) -> Fragment:
        """Encode an object that a formatter returned."""
        return Fragment(str(entry.get("role", "")), encode(dict(entry)))

    def _items(self, message: Message, replay: bool) -> Sequence[Any]:
        if not replay or message.wire is None:
            is_written = message.name is not None and self.name_of(message) is None
            return self.items(write_name(message) if is_written else message)
        body = message.wire.body
        return body if self.wire_type is list else [body]

    def name_of(self, message: Message) -> str | None:
        """Return the name for a field of the message; None if the name goes into the message's text."""
        return find_name_field(self._endpoint, message)

    def glue(self, before: str | None, role: str) -> bytes:
        """Return the separator between two messages."""
        return b"" if before is None else b","

    def tail(self, last_role: str | None, request: ModelRequest, without: frozenset[str]) -> bytes:
        """Return the end of the request, after the last message."""
        fields = self.request_options(request, without)
        return b"]" + (b"," + encode(fields)[1:] if fields else b"}")

    def request_options(self, request: ModelRequest, without: frozenset[str]) -> dict[str, Any]:
        """Return the fields that differ between calls."""
        fields: dict[str, Any] = {}
        forced = request.forced_tool
        if request.output is not None and self.formats(request.output, without):
            fields = self.output_format(request.output)
            # The format takes the place of the tool that only gives an answer its format.
            forced = None if forced == FINAL_ANSWER else forced
        if forced is not None and self.forces(without):
            return {**fields, "tool_choice": self.tool_choice(forced)}
        if request.tool_choice != "auto" and request.tools and self.forces(without):
            fields = {**fields, "tool_choice": self.general_choice(request.tool_choice)}
        return fields


_BLOCK_BYTES = 256 * 1024
_MAX_LINEAGES = 8


@dataclass(frozen=True, slots=True)
class Body:
    """The JSON of one request."""

    content: bytes
    """The whole JSON text. It is one piece, because copying a megabyte is cheaper than sending it in
    parts."""
    replays_wire: bool
    """Whether the text contains the provider's own JSON of an earlier reply."""
    sent: frozenset[SentKind] = frozenset()
    """The kinds of files and addresses in the request, which a server may reject."""


class RenderedHistory:
    """The joined messages of one history. It is extended while the history grows."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._spans: list[TranscriptRange] = []
        self._blocks: list[bytes] = []
        self._fresh: list[bytes] = []
        self._fresh_bytes = 0
        self._digest = 0
        self.last_role: str | None = None
        self.replays_wire = False
        self.sent: set[SentKind] = set()
        self._unfollowed: list[Message] = []
        """The results with files in the last round. The follow-up comes after the last result."""

    def leads_to(self, spans: Sequence[TranscriptRange]) -> bool:
        """Return whether the joined messages are the beginning of `spans`."""
        last = len(self._spans) - 1
        if last >= len(spans):
            return False
        for number, (mine, other) in enumerate(zip(self._spans, spans, strict=False)):
            if mine.log is not other.log or mine.start != other.start or mine.end > other.end:
                return False
            if mine.end < other.end and number < last:
                return False
        return True

    def extend(self, spans: Sequence[TranscriptRange]) -> None:
        known = len(self._spans)
        for number in range(max(known - 1, 0), len(spans)):
            span = spans[number]
            start = self._spans[number].end if number < known else span.start
            for message in span.log.messages[start : span.end]:
                self._append(message)
        self._follow_up()
        self._spans = list(spans)

    def _append(self, message: Message) -> None:
        message = message.for_model
        if message.role != "tool":
            self._follow_up()
        fragments, is_wire = self._render_message(message)
        files = list(message.files)
        self.sent |= {kind for file in files for kind in self._dialect.files.list_sent_kinds(file)}
        if files and message.role == "tool":
            self._unfollowed.append(message)
        self.replays_wire = self.replays_wire or is_wire
        for role, fragment in fragments:
            self._add(role, fragment)

    def _follow_up(self) -> None:
        if self._unfollowed:
            self._add("user", self._dialect.follow_up(self._unfollowed))
            self._unfollowed = []

    def _add(self, role: str, fragment: bytes) -> None:
        if not fragment:
            return
        glue = self._dialect.glue(self.last_role, role)
        self.last_role = role
        self._digest = hash((self._digest, fragment))
        self._fresh += (glue, fragment)
        self._fresh_bytes += len(glue) + len(fragment)
        if self._fresh_bytes >= _BLOCK_BYTES:
            self._blocks.append(b"".join(self._fresh))
            self._fresh, self._fresh_bytes = [], 0

    def _render_message(self, message: Message) -> tuple[tuple[Fragment, ...], bool]:
        """Return the JSON of the message, and whether it is the provider's own. The message caches its
        JSON."""
        key = self._dialect.key
        slot = dialect_cache_of(message)
        is_wire = self._dialect.can_replay(message) and f"{key} rebuilt" not in slot
        if is_wire and self._dialect.binds_prefix and self._is_moved(message):
            rebuild(self._dialect, message)
            is_wire = False
        if key not in slot:
            slot[key] = self._dialect.fragments(message, replay=is_wire)
        return slot[key], is_wire

    def _is_moved(self, message: Message) -> bool:
        """Return whether the messages before this one differ from those before it when it was first sent."""
        now = str(self._digest).encode()
        return dialect_cache_of(message).setdefault(f"{self._dialect.key} prefix", now) != now

    def pieces(self) -> tuple[bytes, ...]:
        return (*self._blocks, *self._fresh)


class Bodies:
    """Builds the request bodies of one model."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lineages: list[RenderedHistory] = []
        self._heads: list[tuple[str, tuple[ToolSpec, ...], frozenset[str], bytes]] = []

    def build(self, request: ModelRequest, without: frozenset[str]) -> Body:
        """Return the body; `without` names the optional fields that the server rejects."""
        spans = _spans(request.histories)
        lineage = next((known for known in self._lineages if known.leads_to(spans)), None)
        if lineage is None:
            lineage = RenderedHistory(self._dialect)
        else:
            self._lineages.remove(lineage)
        lineage.extend(spans)
        self._lineages = [lineage, *self._lineages[: _MAX_LINEAGES - 1]]
        head = self._head(request, without if request.strict_tools else without | {STRICT_TOOLS})
        tail = self._dialect.tail(lineage.last_role, request, without)
        content = b"".join((head, *lineage.pieces(), tail))
        return Body(content, lineage.replays_wire, frozenset(lineage.sent))

    def start_over(self) -> None:
        """Discard the joined messages, because the dialect now renders some of them differently."""
        self._lineages = []

    def rebuild_all(self, request: ModelRequest) -> None:
        """Stop sending back the provider's own JSON for the messages in this request."""
        self.start_over()
        for message in request.messages:
            if self._dialect.can_replay(message):
                rebuild(self._dialect, message)

    def _head(self, request: ModelRequest, without: frozenset[str]) -> bytes:
        for system, tools, fields, head in self._heads:
            if system is request.system and tools is request.tools and fields == without:
                return head
        head = self._dialect.head(request.system, request.tools, without)
        known = (request.system, request.tools, without, head)
        self._heads = [known, *self._heads[: _MAX_LINEAGES - 1]]
        return head


def rebuild(dialect: Dialect, message: Message) -> None:
    dialect_cache_of(message)[dialect.key] = dialect.fragments(message, replay=False)
    dialect_cache_of(message)[f"{dialect.key} rebuilt"] = b""


def _spans(histories: Sequence[Transcript]) -> list[TranscriptRange]:
    spans = [span for history in histories for span in history.spans if span.end > span.start]
    if not all(span.is_loaded for span in spans):
        raise LookupError("these messages are not in memory, only in the store; read them from the store")
    return spans


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""An escaped NUL in JSON; an odd number of backslashes escapes it."""
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME_CHARS = 64


def encode(value: Any) -> bytes:
    """Encode a part of a request; lone surrogates and NUL, which servers reject or cut texts at, are
    replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u0000" in text:
        text = _NUL.sub("\\1\ufffd", text)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return without_surrogates(text).encode()


def encode_open_object(fields: dict[str, Any], last_field: str) -> bytes:
    """Encode `fields` and one more field, whose value is a list, up to the opening bracket of the list."""
    return encode({**fields, last_field: []})[:-2]


def words_of(given: Sequence[Text | SentFile]) -> str | None:
    """Return the texts of a message as one text; None if the message contains a file."""
    if any(isinstance(one, SentFile) for one in given):
        return None
    return "\n".join(one.text for one in given if isinstance(one, Text))


def without_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, which no encoder or database accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def parse_object(arguments: str) -> dict[str, Any] | None:
    """Return the arguments if they are one JSON object that every server can parse, otherwise None."""
    try:
        value = json.loads(arguments, parse_constant=refuse_json_constant)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def sendable_object(arguments: str) -> dict[str, Any]:
    """Return the arguments as an object. Text that is not an object becomes the only value of a new
    object."""
    found = parse_object(arguments)
    return {"invalid_json": arguments} if found is None else found


def sendable_text(arguments: str) -> str:
    """Return the arguments as JSON text. Text that is not an object is wrapped, because servers parse it."""
    if parse_object(arguments) is not None:
        return arguments
    return json.dumps({"invalid_json": arguments})


def legal_name(name: str) -> str:
    """Return a function name that providers accept, made from any name that a model wrote."""
    return _ILLEGAL.sub("_", name)[:_MAX_NAME_CHARS] or "unnamed"


def legal_id(call_id: str, max_chars: int, is_strict: bool) -> str:
    """Return the id if it is legal, otherwise a legal id that is unique for it."""
    is_legal = not _ILLEGAL.search(call_id) if is_strict else call_id.isascii() and call_id.isprintable()
    if call_id and is_legal and len(call_id) <= max_chars:
        return call_id
    mark = f"_{zlib.crc32(call_id.encode('utf-8', 'replace')):08x}"
    return _ILLEGAL.sub("_", call_id)[: max_chars - len(mark)] + mark
