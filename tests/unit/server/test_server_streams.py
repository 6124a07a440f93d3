"""Streams of a server: stored events have ids, and come exactly once however often a client connects."""

import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path

import pytest
from support.network.sandbur_server import Event, RunningServer, serve
from support.waiting import wait_for

from sandbur import Agent
from sandbur.state.store.store import Store
from sandbur.ui.server.streams.event_stream import BEFORE_ALL
from sandbur.ui.server.streams.session_feed import EventStreamQueue, SessionFeeds

MESSAGE = "run echo hello"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--mode", "yolo") as running:
        running.begin("s1", MESSAGE)
        running.wait_for("s1", "done")
        yield running


def read_until_result(server: RunningServer, session: str, last_id: str = "") -> list[Event]:
    with server.stream(session, last_id) as events:
        found: list[Event] = []
        for event in events:
            found.append(event)
            if event.kind != "message" or event.data["type"] == "result":
                break
        return found


def test_a_stream_has_what_a_headless_run_prints_with_rising_ids(server: RunningServer) -> None:
    events = read_until_result(server, "s1")
    kinds = [event.data["type"] for event in events]
    assert kinds == ["init", "message", "tool_use", "usage", "tool_result", "message", "usage", "result"]
    numbers = [event.data["seq"] for event in events]
    assert numbers == sorted(set(numbers))
    assert [event.id for event in events] == [f"s1_{number}" for number in numbers]
    assert events[-1].data["result"] == "`echo hello` gave:\n\n    hello\n    exit code: 0"


def test_a_decision_over_http_adds_no_result_of_its_own(tmp_path: Path) -> None:
    with serve(tmp_path, "--mode", "interactive") as asking:
        asking.begin("asks", "run echo hello >> hello.txt")
        asking.wait_for("asks", "needs_approval")
        assert asking.ask("POST", "/v1/sessions/asks/approve", {}).status == 202
        asking.wait_for("asks", "done")
        results: list[str] = []
        with asking.stream("asks") as events:
            for event in events:
                if event.data["type"] == "result":
                    results.append(event.data["status"])
                if results and results[-1] == "done":
                    break
        assert results == ["needs_approval", "done"]


def test_a_client_that_is_cut_after_any_event_misses_none_and_gets_none_twice(server: RunningServer) -> None:
    whole = [event.id for event in read_until_result(server, "s1")]
    for place in range(len(whole) - 1):
        rest = [event.id for event in read_until_result(server, "s1", whole[place])]
        assert whole[: place + 1] + rest == whole


def test_live_text_comes_without_ids_before_its_whole_message(server: RunningServer) -> None:
    server.begin("live")
    with server.stream("live") as events:
        server.ask("POST", "/v1/sessions/live/messages", {"content": "hi"})
        found = list(takewhile(lambda event: event.data["type"] != "result", events))
    texts = [event for event in found if event.data["type"] == "text"]
    answer = next(one for one in found if one.data["type"] == "message" and one.data["role"] == "assistant")
    assert all(not event.id and "seq" not in event.data for event in texts)
    assert "".join(event.data["delta"] for event in texts) == answer.data["content"]
    assert found.index(texts[-1]) < found.index(answer)


def test_output_of_a_running_command_comes_without_ids_and_never_twice(
    server: RunningServer, tmp_path: Path
) -> None:
    command = f"echo one; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo two"
    server.begin("prints")
    with server.stream("prints") as events:
        server.ask("POST", "/v1/sessions/prints/messages", {"content": f"run {command}"})
        before = list(takewhile(lambda event: event.data["type"] != "tool_output", events))
    with server.stream("prints", before[-1].id) as events:
        (tmp_path / "go").touch()
        after: list[Event] = []
        for event in events:
            after.append(event)
            if event.data["type"] == "result":
                break
    outputs = [event for event in after if event.data["type"] == "tool_output"]
    assert before[-1].data["type"] in ("tool_use", "usage")
    assert "".join(event.data["chunk"] for event in outputs) == "two\n"
    assert not [event for event in outputs if event.id or "seq" in event.data]
    call_id = next(event.data["call_id"] for event in before if event.data["type"] == "tool_use")
    assert {event.data["call_id"] for event in outputs} == {call_id}
    stored = [event for event in (*before, *after) if event.id]
    assert [event.id for event in stored] == [event.id for event in read_until_result(server, "prints")]
    last, result = after.index(outputs[-1]), [event.data["type"] for event in after].index("tool_result")
    assert last < result


@pytest.mark.parametrize(
    ("last_id", "reason"),
    [("other_3000", "other_session"), ("s1_99999000", "unknown_event"), ("nonsense", "not_an_id")],
)
def test_an_id_that_names_no_event_of_the_session_is_answered_and_all_events_follow(
    server: RunningServer, last_id: str, reason: str
) -> None:
    with server.stream("s1", last_id) as events:
        first, second = next(events), next(events)
    assert (first.kind, first.data["reason"]) == ("reset", reason)
    assert second.id == read_until_result(server, "s1")[0].id


def test_a_deleted_session_ends_its_streams(server: RunningServer) -> None:
    server.begin("gone", "hi")
    server.wait_for("gone", "done")
    with server.stream("gone") as events:
        assert next(events).data["type"] == "init"
        assert server.ask("DELETE", "/v1/sessions/gone").status == 200
        assert [event.kind for event in events][-1] == "deleted"


def test_a_fork_streams_its_own_events_only(server: RunningServer) -> None:
    fork = server.ask("POST", "/v1/sessions/s1/fork", {}).json["session_id"]
    server.ask("POST", f"/v1/sessions/{fork}/messages", {"content": "hi"})
    server.wait_for(fork, "done")
    events = read_until_result(server, fork)
    said = [event.data["content"] for event in events if event.data["type"] == "message"]
    assert said[0] == "hi"
    assert len(said) == 2


async def test_a_busy_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/sandbur.db")
    agent = Agent("demo", store=f"sqlite:///{tmp_path}/sandbur.db")
    for number in range(9):
        await agent.run(f"hi {number}", session_id="busy")
    answers = iter((True, True, False))

    async def may_go_on() -> bool:
        return next(answers)

    stream = EventStreamQueue(SessionFeeds(store.database), "busy", BEFORE_ALL)
    found = [batch async for batch in stream.batches(may_go_on, check_s=0.0)]
    assert [b"refused" in batch[-1] for batch in found] == [False, False, True]
    store.close()


def test_many_clients_leave_a_place_for_requests(tmp_path: Path) -> None:
    """The usual limit of open files is lower than the number of streams; a low hard limit bounds these."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    run = "os.execv(sys.executable, [sys.executable, '-m', 'sandbur.ui.cli.main', *sys.argv[1:]])"

    def limited(most: int) -> tuple[str, str]:
        limits = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (200, {most}))"
        return "-c", f"{limits}; {run}"

    with serve(tmp_path / "raised", program=limited(hard)) as server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] == min(8192, hard)
    with serve(tmp_path / "low", program=limited(200)) as server, ExitStack() as stack:
        server.begin("s", "hi")
        server.wait_for("s", "done")
        for _ in range(100):
            stack.enter_context(server.stream("s"))
        refused = server.ask("GET", "/v1/sessions/s/events")
        assert (refused.status, refused.json["error"]["type"]) == (503, "too_many_streams")
        assert server.ask("GET", "/v1/sessions/s").status == 200


def test_clients_that_do_not_read_do_not_stop_the_server_from_ending(tmp_path: Path) -> None:
    with serve(tmp_path) as running, ExitStack() as clients:
        running.begin("large")
        for number in range(10):
            body = {"content": f"hi {number} {'x' * 200_000}"}
            assert running.ask("POST", "/v1/sessions/large/messages", body).status == 202
        history = "/v1/sessions/large/messages?limit=200"
        wait_for(lambda: len(running.ask("GET", history).body) > 200_000)
        for path in ("/v1/sessions/large/events", history):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", running.port)))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
            client.sendall(f"{line}Authorization: Bearer {running.token}\r\n\r\n".encode())
            assert client.recv(16).startswith(b"HTTP/1.1 200")
        assert running.stop() == 128 + signal.SIGTERM
    assert "Traceback" not in (tmp_path / "server.err").read_text()
    assert not (tmp_path / "sandbur" / "crash.log").exists()


def test_at_sigterm_each_stream_ends_with_a_drain_event_and_whole(tmp_path: Path) -> None:
    with serve(tmp_path) as running:
        running.begin("s1", "hi")
        running.wait_for("s1", "done")
        with running.stream("s1") as events:
            assert next(events).data["type"] == "init"
            assert running.stop() == 128 + signal.SIGTERM
            # A body that was cut would raise `IncompleteRead`.
            assert [event.kind for event in events][-1] == "drain"
    assert "Traceback" not in (tmp_path / "server.err").read_text()


def test_a_server_that_was_killed_in_a_turn_goes_on_with_it_and_the_stream_resumes(tmp_path: Path) -> None:
    with serve(tmp_path, "--mode", "yolo") as running:
        running.begin("s1", "run sleep 3 && echo slept >> slept.txt")
        with running.stream("s1") as events:
            before = list(takewhile(lambda event: event.data["type"] != "tool_use", events))
        running.process.kill()
        running.process.wait()
    # What is shown live and not stored has no id, and may come or not.
    last_id = [event.id for event in before if event.id][-1]
    with serve(tmp_path, "--mode", "yolo") as running:
        after = [event for event in read_until_result(running, "s1", last_id) if event.id]
        assert after[0].data["type"] == "tool_use"
        status = after[-1].data["status"]
        assert status in ("done", "needs_decision")
    # A command that had begun was stopped with the server, and does not run again.
    written = tmp_path / "work" / "slept.txt"
    assert not written.exists() or written.read_text() == "slept\n"
