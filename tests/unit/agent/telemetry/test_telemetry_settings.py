"""Telemetry is off unless asked for, and says in one sentence what is wrong with how it was asked for."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.commands.command import ROOT, Command

from sandbur.agent.history.telemetry.telemetry import Telemetry
from sandbur.agent.history.telemetry.telemetry_settings import telemetry_settings
from sandbur.state.errors import ConfigError
from sandbur.state.process.installation import make_install_command

pytestmark = pytest.mark.slow

BASE, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
LOADED = (
    "import sys\nfrom sandbur.ui.cli.main import main\nsys.argv = ['sandbur', *sys.argv[1:]]\ncode = main()\n"
    "print('LOADED', any(name.startswith('opentelemetry') for name in sys.modules), code)"
)


def loaded(command: Command, *words: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words], cwd=command.folder, env={**command.env, **env},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout.splitlines()[-1]


def test_nothing_is_imported_unless_it_is_switched_on(tmp_path: Path) -> None:
    command = Command(tmp_path)
    chat = ("-p", "write two into a.txt", "--yolo", "-m", "demo")
    assert loaded(command, *chat, **{BASE: "http://127.0.0.1:9"}) == "LOADED False 0"
    assert loaded(command, *chat, SANDBUR_OTEL="0") == "LOADED False 0"
    assert loaded(command, *chat, SANDBUR_OTEL="1", OTEL_SDK_DISABLED="true") == "LOADED False 0"
    none = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
    assert loaded(command, *chat, SANDBUR_OTEL="1", **none) == "LOADED False 0"
    assert loaded(command, "sessions", "list", SANDBUR_OTEL="1") == "LOADED False 0"
    assert loaded(command, *chat, SANDBUR_OTEL="1", **{BASE: "http://127.0.0.1:9"}) == "LOADED True 0"


def test_the_configuration_switches_it_on(tmp_path: Path) -> None:
    command = Command(tmp_path)
    folder = tmp_path / ".config" / "sandbur"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("otel = true\n")
    chat, nowhere = ("-p", "hello", "-m", "demo"), {BASE: "http://127.0.0.1:9"}
    assert loaded(command, *chat, **nowhere) == "LOADED True 0"
    assert loaded(command, *chat, **nowhere, SANDBUR_OTEL="off") == "LOADED False 0"
    (folder / "config.toml").write_text('otel = "yes"\n')
    ended = command.run(*chat)
    assert (ended.code, ended.err.count("\n")) == (52, 1)


def test_a_missing_extra_is_named_with_what_to_type(tmp_path: Path) -> None:
    command = Command(tmp_path)
    stand_in = tmp_path / "bare" / "opentelemetry"
    stand_in.mkdir(parents=True)
    gone = "raise ModuleNotFoundError(\"No module named 'opentelemetry'\", name='opentelemetry')\n"
    (stand_in / "__init__.py").write_text(gone)
    command.env["PYTHONPATH"] = f"{stand_in.parent}:{ROOT}"
    assert command.run("-p", "hello", "-m", "demo").code == 0
    ended = command.run("-p", "hello", "-m", "demo", SANDBUR_OTEL="1")
    assert ended.code == 52
    assert ended.err.strip() == (
        "sandbur: Telemetry is switched on, but opentelemetry is not installed."
        f" Install it with: {make_install_command('otel')}"
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SANDBUR_OTEL", "perhaps"),
        (BASE, "collector:4318"),
        (BASE, "http://"),
        (BASE, "http://host:99999"),
        (BASE, "http://[::1"),
        (BASE, "grpc://host:4317"),
        (TRACES, "not an address"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_METRICS_EXPORTER", "otlp,prometheus"),
        (CONTENT, "perhaps"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path: Path, variable: str, value: str) -> None:
    ended = Command(tmp_path).run("-p", "hello", "-m", "demo", **{"SANDBUR_OTEL": "1", variable: value})
    assert ended.code == 52
    assert ended.err.startswith("sandbur: ")
    assert ended.err.count("\n") == 1
    if not variable.startswith("OTEL_BSP"):
        assert variable in ended.err
    assert ended.out == ""


def test_an_address_is_not_repeated_with_its_password() -> None:
    with pytest.raises(ConfigError) as raised:
        telemetry_settings({BASE: "htp://me:hunter22@host"})
    assert "hunter22" not in str(raised.value)


def test_the_general_address_gets_the_path_of_the_signal_and_an_own_one_does_not() -> None:
    settings = telemetry_settings({BASE: "https://host/otlp/", TRACES: "http://other:1/spans"})
    assert settings is not None
    assert settings.urls == {"traces": "http://other:1/spans", "metrics": "https://host/otlp/v1/metrics"}
    settings = telemetry_settings({})
    assert settings is not None
    assert settings.urls["traces"] == "http://localhost:4318/v1/traces"


def test_an_exporter_can_be_named_or_left_out() -> None:
    settings = telemetry_settings(
        {"OTEL_TRACES_EXPORTER": " Console , otlp", "OTEL_METRICS_EXPORTER": "none"}
    )
    assert settings is not None
    assert settings.exporters == {"traces": ("console", "otlp"), "metrics": ()}
    assert telemetry_settings({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}) is None
    assert telemetry_settings({"OTEL_SDK_DISABLED": "TRUE"}) is None


@pytest.mark.parametrize(
    ("said", "has_content"),
    [("", False), ("false", False), ("NO_CONTENT", False), ("EVENT_ONLY", False), ("true", True),
     ("SPAN_ONLY", True), ("span_and_event", True)],
)  # fmt: skip
def test_content_is_exported_only_where_the_convention_says_so(said: str, has_content: bool) -> None:
    settings = telemetry_settings({CONTENT: said})
    assert settings is not None
    assert settings.has_content is has_content


def test_nothing_of_the_environment_means_nothing_to_do() -> None:
    assert Telemetry.start({"OTEL_SDK_DISABLED": "true"}) is None


def test_the_console_shows_spans_beside_the_answer(tmp_path: Path) -> None:
    console = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "console"}
    words = ("-p", "hello", "-m", "demo", "--output-format", "json")
    ended = Command(tmp_path).run(*words, SANDBUR_OTEL="1", **console)
    assert ended.result["status"] == "done"
    assert len(ended.out.splitlines()) == 1
    assert '"invoke_agent sandbur"' in ended.err
    assert '"gen_ai.invoke_agent.duration"' in ended.err
