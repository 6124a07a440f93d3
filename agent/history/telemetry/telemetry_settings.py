"""Reads the standard `OTEL_*` variables, and checks them before OpenTelemetry is imported."""

from collections.abc import Mapping
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from ....state.errors import ConfigError
from ....state.lazy_dataclass import dataclass

Signal = Literal["traces", "metrics"]
Exporter = Literal["otlp", "console", "none"]
SIGNALS: tuple[Signal, ...] = ("traces", "metrics")

_DEFAULT_URL = "http://localhost:4318"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTENT_ON_SPANS = ("true", "1", "span_only", "span_and_event")
_CONTENT_OFF = ("", "false", "0", "no_content", "event_only")


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    exporters: Mapping[Signal, tuple[Exporter, ...]]
    urls: Mapping[Signal, str]
    """Signal -> the address to which it is sent by OTLP."""
    has_content: bool
    """Whether prompts, answers, arguments and results are exported, too."""
    parent: Mapping[str, str]
    """The trace context from the environment: the values of `traceparent` and `tracestate`."""


def telemetry_settings(env: Mapping[str, str]) -> TelemetrySettings | None:
    """Read the variables; return None if telemetry is disabled. Raises `ConfigError`."""
    if _read_variable(env, "OTEL_SDK_DISABLED").lower() == "true":
        return None
    exporters: dict[Signal, tuple[Exporter, ...]] = {signal: _exporters(env, signal) for signal in SIGNALS}
    if not any(exporters.values()):
        return None
    return TelemetrySettings(
        exporters=exporters,
        urls={signal: _url(env, signal) for signal in SIGNALS if "otlp" in exporters[signal]},
        has_content=_has_content(env),
        parent={name.lower(): env[name] for name in ("TRACEPARENT", "TRACESTATE") if env.get(name)},
    )


def _exporters(env: Mapping[str, str], signal: Signal) -> tuple[Exporter, ...]:
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    known = get_args(Exporter)
    named = [
        part.strip().lower() for part in (_read_variable(env, variable) or "otlp").split(",") if part.strip()
    ]
    for name in named:
        if name not in known:
            raise ConfigError(
                f"{variable}: there is no exporter {name!r}.", f"Use one of {', '.join(known)}."
            )
    return tuple(dict.fromkeys(cast(Exporter, name) for name in named if name != "none"))


def _url(env: Mapping[str, str], signal: Signal) -> str:
    """Return the full address for a signal. The path of the signal is added only to the general variable."""
    own, general = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
    _check_protocol(env, signal)
    variable = own if _read_variable(env, own) else general
    url = _read_variable(env, variable) or _DEFAULT_URL
    if not _is_address(url):
        raise ConfigError(
            f"{variable} is not the address of a collector.",
            f"It should look like {_DEFAULT_URL} or https://collector.example:4318.",
        )
    return url if variable == own else f"{url.rstrip('/')}/v1/{signal}"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return has_host and parts.scheme in ("http", "https") and url.isprintable() and " " not in url


def _check_protocol(env: Mapping[str, str], signal: Signal) -> None:
    for variable in (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := _read_variable(env, variable):
            if protocol != "http/protobuf":
                raise ConfigError(
                    f"{variable}: the protocol {protocol!r} is not supported.",
                    "Use http/protobuf, which collectors accept on port 4318.",
                )
            return


def _has_content(env: Mapping[str, str]) -> bool:
    value = _read_variable(env, _CONTENT).lower()
    if value in _CONTENT_ON_SPANS:
        return True
    if value in _CONTENT_OFF:
        return False
    raise ConfigError(f"{_CONTENT} cannot be {value!r}.", "Use true or false, SPAN_ONLY or NO_CONTENT.")


def _read_variable(env: Mapping[str, str], variable: str) -> str:
    return env.get(variable, "").strip()
