"""Finds the outcome of a model request that was open when the process of the last run died."""

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
"""What a request without a recorded reply adds to the usage: its tokens and its cost are unknown. It adds
nothing to `llm_calls`: when the run continues, the model is asked again, and that call is counted."""
LOST_REPLY = "lost"
"""The code of the failure that is recorded for a request without a recorded reply."""
_NOTICE = (
    "The process died before it recorded an answer, part of which you may have seen. The model is"
    " asked again when the run continues."
)


class OpenRequest(NamedTuple):
    reply: KeptReply = None
    """The recorded reply, if the process died while hooks judged it."""
    notice: str = ""
    """A notice for the person."""
    used: Usage = Usage()
    """The usage of the request, in addition to all recorded usage."""


async def find_open_request(position: Position, ports: Ports) -> OpenRequest:
    """Return the recorded reply of the interrupted request, or record that its usage is unknown.

    An open request has no record of its own. It is known from the last commit: the process was about to send
    the request and recorded nothing afterwards.
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
    position.change(**state.add_usage(UNKNOWN_USAGE))
    return OpenRequest(notice="" if is_aside else _NOTICE, used=UNKNOWN_USAGE)
