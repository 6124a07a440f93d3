"""Servers that share a store: each stops the runs of the others, and takes over what waits, files and all."""

import base64
import json
import signal
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.network.proxy import Proxy
from support.network.sandbur_server import RunningServer, serve
from support.stores.databases import DATABASES, SERVERS, fresh_place, fresh_url
from support.waiting import wait_for

pytestmark = pytest.mark.slow

SLEEP, SHORT_SLEEP = "run sleep 60", "run sleep 8"


def make_file(content: bytes, name: str = "a.txt") -> dict[str, Any]:
    return {"type": "document", "name": name, "source": {"data": base64.b64encode(content).decode()}}


def make_content(text: str, *files: bytes) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}, *map(make_file, files)]}


def start(stack: ExitStack, folder: Path, url: str) -> RunningServer:
    return stack.enter_context(serve(folder, "--mode", "yolo", store=url, env={"SANDBUR_LEASE_S": "2"}))


def wait_for_call(server: RunningServer, session_id: str, command: str = "sleep 60") -> None:
    """Wait until the model has asked for the call that sleeps."""
    path = f"/v1/sessions/{session_id}/messages"
    wait_for(lambda: command in json.dumps(server.ask("GET", path).json["messages"][1:]))


@pytest.mark.parametrize("kind", DATABASES)
def test_a_server_stops_the_run_of_another_one_and_then_the_message_that_waits_runs(
    tmp_path: Path, kind: str
) -> None:
    with fresh_url(kind, tmp_path) as url, ExitStack() as stack:
        first = start(stack, tmp_path / "first", url)
        first.begin("s", SLEEP)
        wait_for_call(first, "s")
        second = start(stack, tmp_path / "second", url)
        sent = second.ask("POST", "/v1/sessions/s/messages", make_content("hi", b"the file"))
        assert sent.status == 202, sent.body
        before = time.monotonic()
        assert second.ask("POST", "/v1/sessions/s/cancel", {}).status == 202
        second.wait_for("s", "done")
        assert time.monotonic() - before < 50, "the call was not waited for"
        said = second.ask("GET", "/v1/sessions/s/messages").json["messages"]
        texts = [one["text"] for one in said if one["role"] != "tool"]
        assert texts[:4] == [SLEEP, "", "(interrupted before an answer)", "hi"]
        assert len(texts) == 5
        (file,) = second.ask("GET", "/v1/sessions/s/files").json["attached"]
        assert first.ask("GET", f"/v1/sessions/s/files/{file['digest']}").body == b"the file"
        refused = second.ask("POST", "/v1/sessions/s/cancel", {})
        assert (refused.status, refused.json["error"]["type"]) == (409, "not_running")


def test_a_cancel_names_the_process_that_runs_the_session_instead_of_a_worker(tmp_path: Path) -> None:
    session_id = str(uuid.uuid4())
    words = ["-p", SLEEP, "--session-id", session_id, "--mode", "yolo", "-m", "demo"]
    command = [sys.executable, "-m", "sandbur.ui.cli.main", *words]
    with serve(tmp_path) as server:
        with subprocess.Popen(command, env=server.environment, cwd=tmp_path) as headless:
            try:
                wait_for(lambda: server.ask("GET", f"/v1/sessions/{session_id}").status == 200)
                wait_for_call(server, session_id)
                refused = server.ask("POST", f"/v1/sessions/{session_id}/cancel", {})
                error = refused.json["error"]
                assert (refused.status, error["type"]) == (409, "session_held")
                assert f"is running in process {headless.pid} on" in error["message"]
                assert "Interrupt it there" in error["hint"]
            finally:
                headless.terminate()
        again = server.ask("POST", f"/v1/sessions/{session_id}/cancel", {})
        assert again.json["error"]["type"] == "not_running"


@pytest.mark.parametrize("kind", DATABASES)
def test_a_message_with_files_survives_the_server_that_took_it(tmp_path: Path, kind: str) -> None:
    with fresh_url(kind, tmp_path) as url, ExitStack() as stack:
        first = start(stack, tmp_path / "first", url)
        first.begin("s", SHORT_SLEEP)
        wait_for_call(first, "s", "sleep 8")
        assert first.ask("POST", "/v1/sessions/s/messages", make_content("hi", b"kept")).status == 202
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        second = start(stack, tmp_path / "second", url)

        def has_answered() -> bool:
            found = second.ask("GET", "/v1/sessions/s/messages").json["messages"]
            return [one["role"] for one in found].count("user") == 2 and found[-1]["role"] == "assistant"

        wait_for(has_answered)
        second.wait_for("s", "done")
        (file,) = second.ask("GET", "/v1/sessions/s/files").json["attached"]
        assert second.ask("GET", f"/v1/sessions/s/files/{file['digest']}").body == b"kept"


def test_files_over_their_limits_are_refused_and_the_sentence_says_the_limit(tmp_path: Path) -> None:
    with serve(tmp_path) as server:
        server.begin("s")
        path = "/v1/sessions/s/messages"
        text = server.ask("POST", path, make_content("hi", b"x" * 1_100_000))
        assert (text.status, "limit of 1.0 MB" in text.json["error"]["message"]) == (400, True)
        pdfs = [b"%PDF-1.4\n" + bytes([number]) * 9_000_000 for number in range(3)]
        together = server.ask("POST", path, make_content("hi", *pdfs))
        assert together.status == 400
        assert together.json["error"]["message"] == (
            "The files of one message may have 25 MB together; these have 27 MB."
        )
        assert server.ask("GET", path).json["messages"] == []


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_whose_database_is_away_is_not_ready_but_healthy(tmp_path: Path, kind: str) -> None:
    with fresh_place(kind) as place, Proxy("127.0.0.1", place.port) as proxy, ExitStack() as stack:
        server = start(stack, tmp_path / "served", place.through(proxy.port))
        assert server.ask("GET", "/readyz", token="").status == 200
        proxy.stop_listening()

        def is_away() -> bool:
            proxy.break_lines()  # one may have been accepted a moment ago
            return server.ask("GET", "/readyz", token="").status != 200

        wait_for(is_away)
        answer = server.ask("GET", "/readyz", token="")
        assert (answer.status, answer.json["error"]["type"]) == (503, "store")
        assert server.ask("GET", "/healthz", token="").status == 200
