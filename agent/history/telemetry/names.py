"""Every name in telemetry: those of OpenTelemetry's conventions for generative AI, and Sandbur's own.

The conventions still change: github.com/open-telemetry/semantic-conventions-genai.
"""

from collections.abc import Mapping

from opentelemetry.metrics import Histogram, Meter
from opentelemetry.util.types import AttributeValue

from ....state.trace import ModelCalled

AGENT = "sandbur"
SCOPE = "sandbur"

CHAT, EXECUTE_TOOL, INVOKE_AGENT = "chat", "execute_tool", "invoke_agent"
"""The operations. The name of a span consists of its operation and the object of the operation."""

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
CONVERSATION_ID = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK_S = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
"""The attributes with the content of messages and calls. They are exported only if a person opted in."""

COST_USD = "sandbur.usage.cost_usd"
RUN_STATUS = "sandbur.run.status"
RUN_MODE = "sandbur.run.mode"
FIRST_ACTION = "sandbur.run.first_action"
NEXT_ACTION = "sandbur.run.next_action"
LLM_CALLS = "sandbur.run.llm_calls"
TOOL_CALLS = "sandbur.run.tool_calls"
STEP_ID = "sandbur.step.id"
OUTCOME = "sandbur.tool.outcome"
EFFECT = "sandbur.tool.effect"
EDITED = "sandbur.tool.edited"
DECISION = "sandbur.approval.decision"
DECIDED_BY = "sandbur.approval.decided_by"
KIND = "sandbur.approval.kind"

RETRY = "sandbur.retry"
"""The event of a model call's span for a retry, perhaps with another model."""
NOT_RUN = "sandbur.tool.not_run"
"""The event of a run's span for a call that got a result without running: it was denied, or had bad
arguments, or had run before."""
APPROVAL_ASKED = "sandbur.approval.asked"
"""The event of a run's span for a call that waits for a person."""
MESSAGE = "sandbur.message"


_OPERATION_S = tuple(0.01 * 2**power for power in range(14))
_RUN_S = tuple(0.1 * 2**power for power in range(13))
_TOKENS = tuple(float(4**power) for power in range(14))


_PROVIDERS: Mapping[str, str] = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "moonshot": "moonshot_ai",
}


def provider_of(model: str) -> str:
    """Return the provider of `provider/model` under its name in the conventions, if they have another
    name."""
    provider = model.partition("/")[0]
    return _PROVIDERS.get(provider, provider)


def model_of(model: str) -> str:
    """Return the name that the provider uses for the model."""
    return model.partition("/")[2] or model


class Meters:
    def __init__(self, meter: Meter) -> None:
        self._tokens = _histogram(
            meter, "gen_ai.client.token.usage", "{token}", "Tokens of a model call.", _TOKENS
        )
        self._operation = _histogram(
            meter, "gen_ai.client.operation.duration", "s", "How long a model call took.", _OPERATION_S
        )
        self._first_chunk = _histogram(
            meter,
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            "The time until an answer began to stream.",
            _OPERATION_S,
        )
        self.run = _histogram(meter, "gen_ai.invoke_agent.duration", "s", "How long a run took.", _RUN_S)
        self.tool = _histogram(
            meter, "gen_ai.execute_tool.duration", "s", "How long a tool call took.", _OPERATION_S
        )
        self._cost = meter.create_counter("sandbur.cost.usage", "USD", "The cost of model calls.")
        self._retries = meter.create_counter(
            "sandbur.model.retries", "{retry}", "Model calls that were tried again."
        )
        self._approvals = meter.create_counter(
            "sandbur.approvals",
            "{approval}",
            "Calls that a person was asked about, and decided calls.",
        )

    def model_called(self, call: ModelCalled) -> None:
        """Record a model call, without the counts that the provider did not report."""
        shared: dict[str, AttributeValue] = {
            OPERATION: CHAT,
            PROVIDER: provider_of(call.model),
            REQUEST_MODEL: model_of(call.model),
        }
        ended = shared | ({ERROR_TYPE: call.error.code} if call.error is not None else {})
        self._operation.record(call.duration_ms / 1000, ended)
        if call.first_ms is not None:
            self._first_chunk.record(call.first_ms / 1000, shared)
        if call.retry_count:
            self._retries.add(call.retry_count, shared)
        if call.finish is None:
            return
        for kind, tokens in (("input", call.usage.input_tokens), ("output", call.usage.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**shared, TOKEN_TYPE: kind})
        if call.usage.cost_usd is not None:
            self._cost.add(call.usage.cost_usd, shared)

    def approval(self, decision: str, decided_by: str, tool: str) -> None:
        """Count a call whose decision is `asked` (it waits for a person), `allowed` or `denied`."""
        attributes = {DECISION: decision, TOOL_NAME: tool}
        self._approvals.add(1, attributes | ({DECIDED_BY: decided_by} if decided_by else {}))


def _histogram(meter: Meter, name: str, unit: str, description: str, buckets: tuple[float, ...]) -> Histogram:
    return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)
