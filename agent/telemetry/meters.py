"""The instruments that count and measure; their names stand in `names`."""

from collections.abc import Mapping

from opentelemetry.metrics import Counter, Histogram, Meter
from opentelemetry.util.types import AttributeValue

from agent.telemetry import names
from agent.telemetry.names import Metric
from state.trace import ModelCalled

Attributes = Mapping[str, AttributeValue]


class Meters:
    def __init__(self, meter: Meter) -> None:
        self._tokens = _histogram(meter, names.TOKEN_USAGE)
        self._operation = _histogram(meter, names.OPERATION_DURATION)
        self._first_chunk = _histogram(meter, names.TIME_TO_FIRST_CHUNK)
        self._run = _histogram(meter, names.RUN_DURATION)
        self._tool = _histogram(meter, names.TOOL_DURATION)
        self._cost = _counter(meter, names.COST)
        self._retries = _counter(meter, names.RETRIES)
        self._approvals = _counter(meter, names.APPROVALS)

    def model_called(self, call: ModelCalled, retries: int) -> None:
        """Count a model call; what its provider did not say is not counted."""
        shared: dict[str, AttributeValue] = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: names.provider_of(call.model),
            names.REQUEST_MODEL: names.model_of(call.model),
        }
        ended = shared | ({names.ERROR_TYPE: call.error.code} if call.error is not None else {})
        self._operation.record(call.duration_ms / 1000, ended)
        if call.first_ms is not None:
            self._first_chunk.record(call.first_ms / 1000, shared)
        if retries:
            self._retries.add(retries, shared)
        if call.finish is None:
            return
        for kind, tokens in (("input", call.usage.input_tokens), ("output", call.usage.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**shared, names.TOKEN_TYPE: kind})
        if call.usage.cost_usd is not None:
            self._cost.add(call.usage.cost_usd, shared)

    def tool_ended(self, seconds: float, attributes: Attributes) -> None:
        self._tool.record(seconds, attributes)

    def run_ended(self, seconds: float, attributes: Attributes) -> None:
        self._run.record(seconds, attributes)

    def approval(self, decision: str, decided_by: str, tool: str) -> None:
        """Count a call that waits (`asked`), was allowed or was denied."""
        said = {names.DECISION: decision, names.TOOL_NAME: tool}
        self._approvals.add(1, said | ({names.DECIDED_BY: decided_by} if decided_by else {}))


def _histogram(meter: Meter, metric: Metric) -> Histogram:
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=metric.buckets
    )


def _counter(meter: Meter, metric: Metric) -> Counter:
    return meter.create_counter(metric.name, metric.unit, metric.description)
