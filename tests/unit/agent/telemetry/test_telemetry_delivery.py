"""Whatever a collector does, a run is not disturbed, and a person hears of it at most once."""

import signal
import time
from pathlib import Path

import pytest
from support.commands.command import Command, Ended
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.models.server import ModelServer, call, say
from support.network.otlp_receiver import OtlpReceiver

from sandbur.agent.history.telemetry.telemetry import Telemetry
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

FOR_EVER_S = 3600.0
WORK = ("-p", "write two into a.txt", "--yolo", "-m", "demo", "-q")


def exporting(folder: Path, url: str, *words: str, **env: str) -> Ended:
    env = {"SANDBUR_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": url, **env}
    ended = Command(folder).run(*words, **env)
    assert "Traceback" not in ended.err
    return ended


def complaint(ended: Ended) -> str:
    """Return the one line on stderr."""
    assert ended.code == 0
    assert "Created a.txt" in ended.out
    (line,) = ended.err.splitlines()
    assert line.startswith("Telemetry (")
    return line


def test_a_collector_that_works_is_not_spoken_of(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        ended = exporting(tmp_path, receiver.url, *WORK)
    assert (ended.code, ended.err) == (0, "")
    assert sorted(path for path, _ in receiver.requests) == ["/v1/metrics", "/v1/traces"]


def test_a_dead_collector_is_one_line(tmp_path: Path) -> None:
    line = complaint(exporting(tmp_path, "http://127.0.0.1:9", *WORK))
    assert "(traces) did not reach http://127.0.0.1:9/v1/traces: no answer came." in line
    assert "OTEL_TRACES_EXPORTER=none" in line


def test_a_collector_that_never_answers_does_not_keep_the_process(tmp_path: Path) -> None:
    with OtlpReceiver(delay_s=FOR_EVER_S) as receiver:
        assert "no answer came" in complaint(exporting(tmp_path, receiver.url, *WORK))
        assert len(receiver.requests) == 2


@pytest.mark.parametrize(("status", "said"), [(400, "400"), (401, "401"), (500, "500"), (503, "")])
def test_a_collector_that_refuses_is_quoted(tmp_path: Path, status: int, said: str) -> None:
    with OtlpReceiver(status) as receiver:
        line = complaint(exporting(tmp_path, receiver.url, *WORK))
    assert f"the answer was {said}" in line


def test_a_collector_for_traces_alone_gets_them(tmp_path: Path) -> None:
    with OtlpReceiver(refused="/v1/metrics") as receiver:
        line = complaint(exporting(tmp_path, receiver.url, *WORK))
        assert "OTEL_METRICS_EXPORTER=none switches it off" in line
        assert len(receiver.spans) == 4
        ended = exporting(tmp_path, receiver.url, *WORK, OTEL_METRICS_EXPORTER="none")
        assert ended.err == ""
        assert len(receiver.spans) == 8


def test_the_line_holds_no_password(tmp_path: Path) -> None:
    line = complaint(exporting(tmp_path, "http://me:hunter22@127.0.0.1:9", *WORK))
    assert "http://127.0.0.1:9/" in line
    assert "hunter22" not in line


def test_an_odd_setting_of_opentelemetry_is_one_line_too(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        ended = exporting(tmp_path, receiver.url, *WORK, OTEL_RESOURCE_ATTRIBUTES="nonsense")
        assert ended.code == 0
        (line,) = ended.err.splitlines()
        assert line.startswith("OpenTelemetry: ")
        assert len(receiver.spans) == 4


def test_the_standard_variables_hold(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        ended = exporting(
            tmp_path, "http://127.0.0.1:9", *WORK,
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{receiver.url}/own/traces",
            OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"{receiver.url}/v1/metrics",
            OTEL_EXPORTER_OTLP_HEADERS="x-team=blue,authorization=Bearer%20abc",
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
            OTEL_SERVICE_NAME="my-agents",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment=lab,service.version=7",
            OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="cumulative",
        )  # fmt: skip
    assert ended.err == ""
    headers = dict(receiver.requests)["/own/traces"]
    assert (headers["x-team"], headers["authorization"]) == ("blue", "Bearer abc")
    assert headers["content-encoding"] == "gzip"
    told = receiver.spans[0].resource
    assert told["service.name"] == "my-agents"
    assert told["deployment.environment"] == "lab"
    assert not any(point.is_delta for point in receiver.points)


def test_a_run_goes_on_while_its_collector_hangs(tmp_path: Path) -> None:
    turns = [*(call("run_shell_command", command=f"true {n}") for n in range(30)), say("done")]
    eager = {"OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_METRIC_EXPORT_INTERVAL": "10"}
    with OtlpReceiver(delay_s=FOR_EVER_S) as receiver, ModelServer(turns) as server:
        model = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url}
        words = ("-p", "go", "--yolo", "-q", "-m", "openai-chat/m")
        ended = exporting(tmp_path, receiver.url, *words, **eager, **model)
    assert (ended.code, ended.out) == (0, "done\n")
    assert len(ended.err.splitlines()) == 1


async def test_a_queue_that_is_full_drops_spans_and_nothing_else(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    with OtlpReceiver(delay_s=FOR_EVER_S) as receiver:
        telemetry = Telemetry.start({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
        assert telemetry is not None
        model = ScriptedModel(*([("act", {"text": f"x{n}"})] for n in range(20)), "done")
        session = await open_session(store, model, Recorder(), telemetry=telemetry)
        _, end = await collect(session.send("go"))
        assert end.result == "done"
        assert "no answer came" in telemetry.close()


def test_spans_of_a_long_run_leave_while_it_runs(tmp_path: Path) -> None:
    command = Command(tmp_path)
    turns = [call("run_shell_command", command="true"), call("run_shell_command", command="sleep 600")]
    with OtlpReceiver() as receiver, ModelServer(turns) as server:
        command.env |= {"SANDBUR_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        command.env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url}
        command.env["OTEL_BSP_SCHEDULE_DELAY"] = "50"
        process = command.start("-p", "go", "--yolo", "-m", "openai-chat/m")
        receiver.wait_for(spans=3)
        process.kill()
        process.communicate()
        assert [span.name.split()[0] for span in receiver.spans] == ["chat", "execute_tool", "chat"]


def test_a_run_that_is_told_to_end_exports_its_end(tmp_path: Path) -> None:
    command = Command(tmp_path)
    with OtlpReceiver() as receiver, ModelServer([call("run_shell_command", command="sleep 600")]) as server:
        command.env |= {"SANDBUR_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        command.env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url}
        process = command.start("-p", "go", "--yolo", "-m", "openai-chat/m")
        end = time.monotonic() + 120
        assert process.stderr is not None
        while b"sleep 600" not in process.stderr.readline():
            assert time.monotonic() < end
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        assert process.returncode == 143
        (root,) = receiver.find_spans("invoke_agent")
        assert root.attributes["sandbur.run.status"] == "interrupted"


async def test_each_hears_of_its_own_collector_only(store: Store) -> None:
    with OtlpReceiver(status=401) as bad, OtlpReceiver() as good:
        for receiver, said in ((bad, "the answer was 401"), (good, "")):
            telemetry = Telemetry.start({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
            assert telemetry is not None
            session = await open_session(store, ScriptedModel("one"), telemetry=telemetry)
            await collect(session.send("go"))
            told = telemetry.close()
            assert said in told
            assert bool(told) == bool(said)
        assert (len(bad.spans), len(good.spans)) == (0, 2)


async def test_a_collector_that_comes_back_is_forgiven(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    with OtlpReceiver(status=503) as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_METRICS_EXPORTER": "none"}
        telemetry = Telemetry.start(env)
        assert telemetry is not None
        session = await open_session(store, ScriptedModel("one"), telemetry=telemetry)
        await collect(session.send("go"))
        receiver.wait_for(requests=1)
        receiver.status = 200
        receiver.wait_for(spans=2)
        assert telemetry.close() == ""
