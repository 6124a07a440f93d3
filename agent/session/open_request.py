"""Finds what became of a model request that was open when the process of the last run died."""

from typing import NamedTuple, cast

from ...actions.ports import Ports, Reply
from ...actions.ports.model import FinishReason
from ...actions.turn.model_call import KeptReply
from ...state.application import Usage
from ...state.trace import Failure, ModelCalled, RequestShape
from ..graph import traits_of
from .position import Position

UNKNOWN_USAGE = Usage(
    input_tokens=None, output_tokens=None, cache_read_tokens=None, cache_write_tokens=None, cost_usd=None
)
"""Stands for a request without a recorded reply; the call it was made for counts its tokens as unknown, as in
other retries."""
LOST_REPLY = "lost"
"""The code of the failure that is recorded for such a request."""
_NOTICE = (
    "An answer that may have been shown was not kept, because the process died before it was recorded; it is"
    " asked for again when the run goes on."
)


class OpenRequest(NamedTuple):
    reply: KeptReply = None
    """It was recorded, and hooks were judging it."""
    notice: str = ""
    """A notice for the person."""
    used: Usage = Usage()
    """The usage of the request, in addition to all that is recorded."""


async def find_open_request(position: Position, ports: Ports) -> OpenRequest:
    """Return the recorded reply of the interrupted request, or record that its usage is unknown.

    There is no extra record of such a request: the process was about to send it after the last commit, and
    recorded nothing afterwards.
    """
    purpose = traits_of(position.next_action).asks_model
    if not purpose:
        return OpenRequest()
    is_aside = purpose == "summary"
    if not is_aside and (called := await position.find_unused_reply()) is not None:
        assert called.reply is not None
        finish = cast(FinishReason, called.finish)
        return OpenRequest(Reply(called.reply, finish, called.usage, called.discarded))
    died_at = await position.find_open_request()
    if not died_at:
        return OpenRequest()
    ports.trace.add(
        ModelCalled(
            model=ports.model.name,
            began_at=died_at,
            duration_ms=0,
            discarded=UNKNOWN_USAGE,
            request=RequestShape(fixed_sha256="", histories=(), output=""),
            error=Failure(code=LOST_REPLY, message="The process died before a reply was recorded."),
        )
    )
    state = position.state
    position.change(usage=state.usage + UNKNOWN_USAGE, turn_usage=state.turn_usage + UNKNOWN_USAGE)
    return OpenRequest(notice="" if is_aside else _NOTICE, used=UNKNOWN_USAGE)
