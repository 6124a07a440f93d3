"""Request bodies that grow with a history: each message is rendered and joined once."""

from collections.abc import Sequence
from dataclasses import dataclass

from actions.model_port import ModelRequest, ToolSpec
from agent.models.dialect import Dialect
from state.messages import Message
from state.transcript import Span, Transcript

_BLOCK_BYTES = 256 * 1024
_MAX_LINEAGES = 8


@dataclass(frozen=True, slots=True)
class Body:
    """The JSON of one request."""

    content: bytes
    """In one piece: copying a megabyte costs less than sending it in parts."""
    replays_wire: bool
    """True if it holds a provider's own JSON of an earlier reply."""


class Lineage:
    """The joined messages of one history, extended as the history grows."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._spans: list[Span] = []
        self._blocks: list[bytes] = []
        self._fresh: list[bytes] = []
        self._fresh_bytes = 0
        self._digest = 0
        self.last_role: str | None = None
        self.replays_wire = False

    def leads_to(self, spans: Sequence[Span]) -> bool:
        """Tell whether what is joined here is the beginning of `spans`."""
        last = len(self._spans) - 1
        if last >= len(spans):
            return False
        for number, (mine, other) in enumerate(zip(self._spans, spans, strict=False)):
            if mine.log is not other.log or mine.start != other.start or mine.end > other.end:
                return False
            if mine.end < other.end and number < last:
                return False
        return True

    def extend(self, spans: Sequence[Span]) -> None:
        known = len(self._spans)
        for number in range(max(known - 1, 0), len(spans)):
            span = spans[number]
            start = self._spans[number].end if number < known else span.start
            for message in span.log.messages[start : span.end]:
                self._append(message)
        self._spans = list(spans)

    def _append(self, message: Message) -> None:
        fragment, is_wire = self._rendered(message)
        if not fragment:
            return
        self.replays_wire = self.replays_wire or is_wire
        role = self._dialect.role(message)
        glue = self._dialect.glue(self.last_role, role)
        self.last_role = role
        self._digest = hash((self._digest, fragment))
        self._fresh += (glue, fragment)
        self._fresh_bytes += len(glue) + len(fragment)
        if self._fresh_bytes >= _BLOCK_BYTES:
            self._blocks.append(b"".join(self._fresh))
            self._fresh, self._fresh_bytes = [], 0

    def _rendered(self, message: Message) -> tuple[bytes, bool]:
        """Return the message's JSON, from its cache slot if it is there."""
        key = self._dialect.key
        slot = message.rendered
        is_wire = self._dialect.can_replay(message) and f"{key} rebuilt" not in slot
        if is_wire and self._dialect.binds_prefix and self._is_moved(message):
            rebuild(self._dialect, message)
            is_wire = False
        if key not in slot:
            slot[key] = self._dialect.fragment(message, replay=is_wire)
        return slot[key], is_wire

    def _is_moved(self, message: Message) -> bool:
        """Tell whether other messages stand before this one than when it was first sent."""
        now = str(self._digest).encode()
        return message.rendered.setdefault(f"{self._dialect.key} prefix", now) != now

    def pieces(self) -> tuple[bytes, ...]:
        return (*self._blocks, *self._fresh)


class Bodies:
    """The bodies of one model's requests."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lineages: list[Lineage] = []
        self._heads: list[tuple[str, tuple[ToolSpec, ...], frozenset[str], bytes]] = []

    def build(self, request: ModelRequest, without: frozenset[str]) -> Body:
        """Return the body; `without` names the optional fields that the server does not take."""
        spans = _spans(request.histories)
        lineage = next((known for known in self._lineages if known.leads_to(spans)), None)
        if lineage is None:
            lineage = Lineage(self._dialect)
        else:
            self._lineages.remove(lineage)
        lineage.extend(spans)
        self._lineages = [lineage, *self._lineages[: _MAX_LINEAGES - 1]]
        head = self._head(request, without)
        tail = self._dialect.tail(lineage.last_role, request.forced_tool, without)
        return Body(b"".join((head, *lineage.pieces(), tail)), lineage.replays_wire)

    def rebuild_all(self, request: ModelRequest) -> None:
        """Stop replaying the provider's own JSON of the messages in this request."""
        self._lineages = []
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
    message.rendered[dialect.key] = dialect.fragment(message, replay=False)
    message.rendered[f"{dialect.key} rebuilt"] = b""


def _spans(histories: Sequence[Transcript]) -> list[Span]:
    spans = [span for history in histories for span in history.spans if span.end > span.start]
    if not all(span.is_loaded for span in spans):
        raise LookupError("this history is in the store only; read it from there")
    return spans
