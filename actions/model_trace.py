"""Records what each model call took and came to, while its stream passes through."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from actions.events import Notice, TextDelta, ThinkingDelta
from actions.model_port import ModelEvent, ModelRequest, Reply
from actions.ports import Ports
from state.errors import SandburError
from state.store.clock import now
from state.trace import Failure, ModelCalled, RequestShape

_MAX_NOTICES = 20
_INTERRUPTED = Failure(code="interrupted", message="The call was interrupted.")


@dataclass(slots=True)
class _Seen:
    """What has come of a stream so far."""

    began: float = field(default_factory=time.monotonic)
    began_at: str = field(default_factory=now)
    first_ms: int | None = None
    pieces: int = 0
    notices: list[str] = field(default_factory=list[str])

    def take(self, item: ModelEvent) -> None:
        if isinstance(item, TextDelta | ThinkingDelta):
            self.pieces += 1
            if self.first_ms is None:
                self.first_ms = self.elapsed_ms
        elif isinstance(item, Notice) and len(self.notices) < _MAX_NOTICES:
            self.notices.append(item.message)

    @property
    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self.began) * 1000)


async def traced(ports: Ports, request: ModelRequest, keeps_reply: bool = False) -> AsyncIterator[ModelEvent]:
    """Yield the stream of a model call; its record is there before the reply is passed on.

    `keeps_reply`: no history takes the reply in, so that the record does.
    """
    seen = _Seen()
    error: Failure | None = _INTERRUPTED
    try:
        async for item in ports.model.stream(request):
            seen.take(item)
            if isinstance(item, Reply):
                error = None
                kept = item.message if keeps_reply else None
                _record(ports, request, seen, finish=item.finish, usage=item.usage, reply=kept)
            yield item
    except SandburError as failed:
        error = Failure(code=failed.code, message=failed.message)
        raise
    finally:
        if error is not None:
            _record(ports, request, seen, error=error)


def _record(ports: Ports, request: ModelRequest, seen: _Seen, **end: Any) -> None:
    histories = tuple((len(history), history.size_bytes) for history in request.histories)
    shape = RequestShape(
        fixed_sha256=ports.fixed_sha256, histories=histories, forced_tool=request.forced_tool
    )
    ports.trace.add(
        ModelCalled(
            model=ports.model.name,
            began_at=seen.began_at,
            first_ms=seen.first_ms,
            duration_ms=seen.elapsed_ms,
            pieces=seen.pieces,
            notices=tuple(seen.notices),
            request=shape,
            **end,
        )
    )
