"""Builds one OpenTelemetry provider per signal, with the exporters that the settings name."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ConsoleMetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ....actions.ports import Tool
from ....state.session import SpawnedBy
from ...runtime.version import VERSION
from .delivery import Channel, JobThread
from .names import AGENT, SCOPE, Meters
from .session_telemetry import SessionTelemetry
from .spans import Outlet
from .telemetry_settings import Signal, TelemetrySettings

# Delta temporality suits short runs: with cumulative sums, every process would begin again at zero.
_DELTA: dict[type, AggregationTemporality] = {
    Counter: AggregationTemporality.DELTA,
    Histogram: AggregationTemporality.DELTA,
}


class _SpanExporter(OTLPSpanExporter):
    def __init__(self, url: str, channel: Channel) -> None:
        super().__init__(endpoint=url)
        self._channel = channel

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._channel.exporting():
            result = super().export(spans)
        if result is SpanExportResult.SUCCESS:
            self._channel.note_delivery()
        return result


class _MetricExporter(OTLPMetricExporter):
    def __init__(self, url: str, channel: Channel, temporality: dict[type, AggregationTemporality]) -> None:
        super().__init__(endpoint=url, preferred_temporality=temporality)
        self._channel = channel

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        with self._channel.exporting():
            result = super().export(metrics_data, timeout_millis, **kwargs)  # pyright: ignore[reportUnknownMemberType]
        if result is MetricExportResult.SUCCESS:
            self._channel.note_delivery()
        return result


def tracer_provider(settings: TelemetrySettings, channel: Channel) -> TracerProvider:
    """Return a tracer provider of the agent's own."""
    kinds = settings.exporters["traces"]
    # Without an exporter no trace is sampled, because the store would refer to traces that exist nowhere.
    sampler = None if kinds else ALWAYS_OFF
    provider = TracerProvider(sampler=sampler, resource=_resource(), shutdown_on_exit=False)
    for kind in kinds:
        exporter = (
            ConsoleSpanExporter(out=sys.stderr)
            if kind == "console"
            else _SpanExporter(settings.urls["traces"], channel)
        )
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def meter_provider(settings: TelemetrySettings, channel: Channel, env: Mapping[str, str]) -> MeterProvider:
    says_temporality = bool(env.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"))
    temporality = {} if says_temporality else _DELTA
    exporters = (
        ConsoleMetricExporter(out=sys.stderr, preferred_temporality=temporality)
        if kind == "console"
        else _MetricExporter(settings.urls["metrics"], channel, temporality)
        for kind in settings.exporters["metrics"]
    )
    readers = [PeriodicExportingMetricReader(exporter) for exporter in exporters]
    return MeterProvider(readers, resource=_resource(), shutdown_on_exit=False)


def _resource() -> Resource:
    """Return the OpenTelemetry resource. Attributes from the environment take precedence."""
    own = Resource({SERVICE_NAME: AGENT, SERVICE_VERSION: VERSION})
    return Resource.create(dict(own.merge(OTELResourceDetector().detect()).attributes))


def open_exporters(
    settings: TelemetrySettings, channels: Mapping[Signal, Channel], env: Mapping[str, str]
) -> tuple[Outlet, dict[Signal, Callable[[], None]]]:
    """Return the outlet for all runs, and signal -> the function that ends the export of the signal.

    A signal goes to the provider of the program, if it has set one, and the program ends it.
    """
    shutdowns: dict[Signal, Callable[[], None]] = {}
    traces = _find_own_tracers() if settings.exporters["traces"] else None
    if traces is None:
        exported = tracer_provider(settings, channels["traces"])
        traces, shutdowns["traces"] = exported, exported.shutdown
    meters = _find_own_meters() if settings.exporters["metrics"] else None
    if meters is None:
        measured = meter_provider(settings, channels["metrics"], env)
        meters, shutdowns["metrics"] = measured, measured.shutdown
    outlet = Outlet(
        tracer=traces.get_tracer(SCOPE, VERSION),
        meters=Meters(meters.get_meter(SCOPE, VERSION)),
        parent=TraceContextTextMapPropagator().extract(settings.parent),
        worker=JobThread(),
    )
    return outlet, shutdowns


def _find_own_tracers() -> trace.TracerProvider | None:
    """Return the provider that the program has set, if it has."""
    found = trace.get_tracer_provider()
    return None if isinstance(found, trace.ProxyTracerProvider | trace.NoOpTracerProvider) else found


def _find_own_meters() -> metrics.MeterProvider | None:
    found = metrics.get_meter_provider()
    # The stand-in for a provider that is not set is private.
    is_set = not type(found).__name__.startswith("_") and not isinstance(found, metrics.NoOpMeterProvider)
    return found if is_set else None


def observe_session(
    session_id: str,
    outlet: Outlet,
    mask: Callable[[str], str],
    has_content: bool,
    spawned_by: SpawnedBy | None = None,
    tools: Mapping[str, Tool] | None = None,
) -> SessionTelemetry:
    """Return the observer that exports the runs of one session."""
    return SessionTelemetry(session_id, outlet, mask, has_content, spawned_by, tools)
