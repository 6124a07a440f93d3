"""Telemetry: sends the runs of sessions as traces and metrics to an OpenTelemetry collector."""

from ...config.setting import Setting
from ...extensions.extension import Extension

EXTENSION = Extension(
    name="telemetry",
    about="traces and metrics of runs for an OpenTelemetry collector",
    page="telemetry.md",
    folders=("agent/history/telemetry",),
    settings=(
        Setting(
            "otel",
            False,
            "switch",
            variable="SANDBUR_OTEL",
            about="whether runs are exported to an OpenTelemetry collector, by the `OTEL_*` variables",
            after="durability",
        ),
    ),
    runtime=".agent.history.telemetry.telemetry:TelemetryRuntime",
)
