"""What spans say about runs, model calls and tool calls, under the names of the table."""

from datetime import datetime

from opentelemetry.util.types import AttributeValue

from actions.events import ToolFinished, ToolStarted
from agent.telemetry import names
from agent.version import VERSION
from state.calls import PendingCall
from state.messages import encodable
from state.trace import ModelCalled, RunBegan, RunEnded
from state.usage import Usage

Attributes = dict[str, AttributeValue]

_MAX_MESSAGE_CHARS = 300


def of_operation(operation: str, session_id: str) -> Attributes:
    return {names.OPERATION: operation, names.CONVERSATION_ID: encodable(session_id)}


def of_beginning(began: RunBegan) -> Attributes:
    return {
        names.AGENT_NAME: names.AGENT,
        names.AGENT_VERSION: VERSION,
        names.PROVIDER: names.provider_of(began.model),
        names.REQUEST_MODEL: encodable(names.model_of(began.model)),
        names.RUN_MODE: began.mode,
        names.FIRST_ACTION: began.action,
    }


def of_end(ended: RunEnded, used: Usage, tool_calls: int) -> Attributes:
    return {
        names.RUN_STATUS: ended.status,
        names.NEXT_ACTION: ended.action,
        names.LLM_CALLS: used.llm_calls,
        names.TOOL_CALLS: tool_calls,
        **of_usage(used),
    }


def of_model_call(call: ModelCalled) -> Attributes:
    found: Attributes = {
        names.PROVIDER: names.provider_of(call.model),
        names.REQUEST_MODEL: encodable(names.model_of(call.model)),
        names.REQUEST_STREAM: True,
    }
    if call.first_ms is not None:
        found[names.FIRST_CHUNK_S] = call.first_ms / 1000
    if call.finish is None:
        return found
    return {**found, names.FINISH_REASONS: [call.finish], **of_usage(call.usage)}


def of_usage(usage: Usage) -> Attributes:
    """Return what is known; a model that reads no cache says nothing about it."""
    known = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens or None,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens or None,
        names.COST_USD: usage.cost_usd,
    }
    return {name: value for name, value in known.items() if value is not None}


def of_call(call: ToolStarted | ToolFinished | PendingCall) -> Attributes:
    return {names.TOOL_NAME: encodable(call.tool), names.TOOL_CALL_ID: encodable(call.call_id)}


def of_start(event: ToolStarted, call: PendingCall | None) -> Attributes:
    found: Attributes = {**of_call(event), names.TOOL_TYPE: "function"}
    if event.step_id is not None:
        found[names.STEP_ID] = event.step_id
    if call is not None:
        found |= {names.EFFECT: call.effect, names.DECIDED_BY: call.decided_by}
    if call is not None and call.edited:
        found[names.EDITED] = True
    return found


def line_of(text: str) -> str:
    """Return text on one line, cut."""
    return " ".join(encodable(text).split())[:_MAX_MESSAGE_CHARS]


def ns_of(at: str) -> int:
    """Return a stored time, which has milliseconds, in nanoseconds."""
    return round(datetime.fromisoformat(at).timestamp() * 1000) * 1_000_000
