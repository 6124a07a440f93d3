"""In a program that has its own providers of OpenTelemetry, the spans of runs join them and the open span."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import asyncio, json, sys
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sandbur import Agent, tool
from sandbur.testing import ScriptedModel, ToolCall

exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider(resource=Resource({"service.name": "shop"}))
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))

@tool(effect="read")
def look() -> str:
    "Look."
    return "seen"

async def work() -> None:
    tracer = trace.get_tracer("shop")
    model = ScriptedModel(lambda request: ToolCall("look") if len(list(request.messages)) == 1 else "done")
    agent = Agent(model, tools=[look], store="memory:")
    with tracer.start_as_current_span("request one"):
        await agent.run("look")
    with tracer.start_as_current_span("request two"):
        async for event in agent.stream("look"):
            pass
    async with agent.session() as session:
        with tracer.start_as_current_span("request three"):
            await session.run("look")
    await agent.run("look")

asyncio.run(work())
spans = [{"name": one.name, "id": one.context.span_id, "trace": one.context.trace_id,
          "parent": one.parent and one.parent.span_id, "service": one.resource.attributes["service.name"]}
         for one in exporter.get_finished_spans()]
(measured,) = reader.get_metrics_data().resource_metrics
found = [one.name for scope in measured.scope_metrics for one in scope.metrics]
json.dump({"spans": spans, "metrics": found}, sys.stdout)
"""


def test_runs_are_below_the_open_span_of_the_program_in_its_own_provider(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TRACE"))}
    environment = {**clean, "SANDBUR_OTEL": "1", "SANDBUR_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: Any = json.loads(done.stdout)
    spans = found["spans"]
    requests = [span for span in spans if span["name"].startswith("request")]
    runs = [span for span in spans if span["name"].startswith("invoke_agent")]
    assert [span["parent"] for span in runs] == [*(span["id"] for span in requests), None]
    assert [span["trace"] for span in runs[:3]] == [span["trace"] for span in requests]
    assert {span["service"] for span in spans} == {"shop"}
    for run in runs:
        below = [span["name"].split(" ")[0] for span in spans if span["parent"] == run["id"]]
        assert below == ["chat", "execute_tool", "chat"]
    assert "gen_ai.client.token.usage" in found["metrics"]
