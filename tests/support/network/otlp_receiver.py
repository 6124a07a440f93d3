"""A collector on this machine that receives OTLP over HTTP and keeps the decoded spans and points.

with OtlpReceiver() as receiver:
    ... OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url
    receiver.spans, receiver.points
Or from another process, in tests/: python -m support.network.otlp_receiver
"""

import gzip
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty for the root of a trace."""
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[tuple[str, int, dict[str, Any]]]
    status: str
    message: str
    resource: dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One data point of a metric."""

    name: str
    unit: str
    attributes: dict[str, Any]
    count: int
    total: float
    is_delta: bool

    @property
    def attributes_by_last_part(self) -> dict[str, Any]:
        return {name.rpartition(".")[2]: value for name, value in self.attributes.items()}


class OtlpReceiver:
    """Answers in threads, by default at once and with status 200."""

    def __init__(self, status: int = 200, delay_s: float = 0, refused: str = "") -> None:
        """`refused` is a path that is answered with status 404."""
        self.spans: list[Span] = []
        self.points: list[Point] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Path and headers of each request; names of headers are in lower case."""
        self.raw = b""
        """All bodies, one after the other."""
        self.status = status
        self._delay_s, self._refused = delay_s, refused
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._gone = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._gone.set()
        self._server.shutdown()
        self._server.server_close()

    def find_spans(self, start: str) -> list[Span]:
        """Return the spans whose names begin with `start`, in the order of their start times."""
        return sorted((s for s in self.spans if s.name.startswith(start)), key=lambda span: span.start_ns)

    def metric(self, name: str, **attributes: Any) -> list[Point]:
        """Return the points of a metric; attributes are named by the last part of their name."""
        return [
            point
            for point in self.points
            if point.name == name and attributes.items() <= point.attributes_by_last_part.items()
        ]

    def wait_for(self, *, spans: int = 0, requests: int = 0) -> None:
        deadline = time.monotonic() + 120
        while len(self.spans) < spans or len(self.requests) < requests:
            assert time.monotonic() < deadline, f"{len(self.spans)} spans in {len(self.requests)} requests"
            time.sleep(0.02)

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        headers = {name.lower(): value for name, value in request.headers.items()}
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.requests.append((request.path, headers))
        self.raw += body
        if self._delay_s:
            self._gone.wait(self._delay_s)
        status = 404 if request.path == self._refused else self.status
        if status == 200 and request.path.endswith("/traces"):
            self.spans += _spans(ExportTraceServiceRequest.FromString(body))
        elif status == 200:
            self.points += _points(ExportMetricsServiceRequest.FromString(body))
        request.send_response(status)
        request.send_header("content-length", "0")
        request.end_headers()


def _spans(sent: ExportTraceServiceRequest) -> list[Span]:
    return [
        Span(
            name=span.name,
            kind=span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            attributes=_attributes(span.attributes),
            events=[
                (event.name, event.time_unix_nano, _attributes(event.attributes)) for event in span.events
            ],
            status=span.status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_").lower(),
            message=span.status.message,
            resource=_attributes(group.resource.attributes),
        )
        for group in sent.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _points(sent: ExportMetricsServiceRequest) -> list[Point]:
    found: list[Point] = []
    for group in sent.resource_metrics:
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                data = getattr(metric, metric.WhichOneof("data"))
                for point in data.data_points:
                    is_sum = metric.WhichOneof("data") == "sum"
                    total = point.as_double or point.as_int if is_sum else point.sum
                    count = 1 if is_sum else point.count
                    found.append(
                        Point(
                            metric.name, metric.unit, _attributes(point.attributes), count, total,
                            data.aggregation_temporality == 1,
                        )
                    )  # fmt: skip
    return found


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


if __name__ == "__main__":
    with OtlpReceiver() as running:
        print(running.url, flush=True)
        sys.stdin.read()
