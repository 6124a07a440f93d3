"""A2A: what its SDK sends and accepts, approvals as tasks that ask for input."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.network.sandbur_server import RunningServer, serve
from test_server_requests import VALUES

CLIENT = Path(__file__).parents[2] / "support" / "network" / "a2a_client.py"
SDK_PYTHON = os.environ.get("SANDBUR_A2A_PYTHON", "")
METHODS = ["SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--rate-limit", "1000000") as running:
        yield running


def call(server: RunningServer, method: str, params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": "r1", "method": method, "params": params}
    answer = server.ask("POST", "/a2a/default", body)
    assert answer.status == 200
    assert (answer.json["jsonrpc"], answer.json["id"]) == ("2.0", "r1")
    return answer.json


def send(server: RunningServer, *parts: Any, task: str = "", **configuration: Any) -> Any:
    message = {"messageId": "m1", "taskId": task, "role": "ROLE_USER", "parts": parts}
    found = call(server, "SendMessage", {"message": message, "configuration": configuration})
    return found["result"]["task"]


def waiting_call(task: Any) -> str:
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    (call_id,) = [part["data"]["call_id"] for part in task["status"]["message"]["parts"] if "data" in part]
    return call_id


def test_a_task_is_a_session_and_its_answer_an_artifact(server: RunningServer) -> None:
    task = send(server, {"text": "hi"})
    assert task["status"] == {"state": "TASK_STATE_COMPLETED"}
    (artifact,) = task["artifacts"]
    said = server.ask("GET", f"/v1/sessions/{task['id']}/messages").json["messages"]
    assert said[-1]["text"] == artifact["parts"][0]["text"]
    assert call(server, "GetTask", {"id": task["id"]})["result"] == task


@pytest.mark.parametrize(("approved", "content"), [(True, "x\n    exit code: 0"), (False, "not today")])
def test_a_task_asks_for_a_decision_and_goes_on_after_it(
    server: RunningServer, approved: bool, content: str
) -> None:
    asked = send(server, {"text": f"run echo x >> a2a_{approved}.txt && cat a2a_{approved}.txt"})
    answer = {"call_id": waiting_call(asked), "approved": approved, "reason": "not today"}
    task = send(server, {"data": answer}, task=asked["id"])
    assert task["status"] == {"state": "TASK_STATE_COMPLETED"}
    history = server.ask("GET", f"/v1/sessions/{task['id']}/messages").json
    assert content in task["artifacts"][0]["parts"][0]["text"] or content in json.dumps(history)


def test_a_task_that_asks_takes_no_other_message(server: RunningServer) -> None:
    asked = send(server, {"text": "run echo x >> other.txt"})
    message = {"messageId": "m", "taskId": asked["id"], "parts": [{"text": "and now?"}]}
    assert call(server, "SendMessage", {"message": message})["error"]["code"] == -32602
    assert call(server, "GetTask", {"id": asked["id"]})["result"] == asked


def test_a_working_task_is_canceled(server: RunningServer) -> None:
    asked = send(server, {"text": "run sleep 60 >> slept.txt"})
    answer = {"call_id": waiting_call(asked), "approved": True}
    working = send(server, {"data": answer}, task=asked["id"], returnImmediately=True)
    assert working["status"]["state"] == "TASK_STATE_WORKING"
    server.wait_for(asked["id"], "running")
    canceled = call(server, "CancelTask", {"id": asked["id"]})["result"]
    assert canceled["status"]["state"] in ("TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED")
    assert call(server, "CancelTask", {"id": asked["id"]})["error"]["code"] == -32002


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("GetTask", {"id": "nothing"}, -32001),
        ("CancelTask", {"id": "nothing"}, -32001),
        ("SubscribeToTask", {"id": "nothing"}, -32001),
        ("message/send", {}, -32601),
        ("SendMessage", {"message": {"parts": []}}, -32602),
        ("SendMessage", {"message": {"taskId": "nothing", "parts": [{"text": "hi"}]}}, -32001),
    ],
)
def test_an_error_has_the_code_of_the_protocol(
    server: RunningServer, method: str, params: Any, code: int
) -> None:
    assert call(server, method, params)["error"]["code"] == code


def test_the_card_has_the_address_of_the_proxy_and_no_client_can_change_it(tmp_path: Path) -> None:
    with serve(tmp_path, "--public-url", "https://agents.example.com/team/") as running:
        for headers in ({}, {"host": "agents.example.com"}, {"x-forwarded-proto": "ftp"}):
            card = running.ask("GET", "/a2a/default/.well-known/agent-card.json", headers=headers).json
            assert card["supportedInterfaces"][0]["url"] == "https://agents.example.com/team/a2a/default"


@pytest.mark.parametrize("url", ["agents.example.com", "ftp://x", "https://a@b", "https://[", "https://x?y"])
def test_a_public_url_that_is_no_address_ends_the_command(tmp_path: Path, url: str) -> None:
    with pytest.raises(AssertionError), serve(tmp_path, "--public-url", url):
        pass
    assert "is not an address" in (tmp_path / "server.err").read_text()


MESSAGES = st.fixed_dictionaries(
    {
        "parts": st.lists(st.dictionaries(st.sampled_from(["text", "raw", "data"]), VALUES), max_size=2)
        | VALUES
    },
    optional={"taskId": st.just("nothing") | VALUES},
)
PARAMS = VALUES | st.dictionaries(st.sampled_from(["id", "message", "configuration"]), VALUES | MESSAGES)
BODIES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": st.integers() | VALUES, "method": st.sampled_from(METHODS) | VALUES},
    optional={"params": PARAMS},
)


def test_an_agent_has_its_own_name_and_description_wherever_it_is_listed(tmp_path: Path) -> None:
    about = 'name="Billing", description="Answers questions about bills."'
    (tmp_path / "bills.py").write_text(f"from sandbur import Agent\nagent = Agent('demo', {about})\n")
    name = "bills:agent"
    with serve(tmp_path, "--agent", name, env={"PYTHONPATH": str(tmp_path)}) as running:
        card = running.ask("GET", f"/a2a/{name}/.well-known/agent-card.json").json
        models = running.ask("GET", "/v1/models").json["data"]
        model = running.ask("GET", f"/v1/models/{name}").json
        (agent,) = running.ask("GET", "/v1/agents").json["agents"]
    assert [agent["name"], *(one["id"] for one in models)] == [name] * 2
    own = ("Billing", "Answers questions about bills.")
    for found in (card, *card["skills"], *models, model, {**agent, "name": agent["title"]}):
        assert (found["name"], found["description"]) == own


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=BODIES | VALUES)
def test_bad_input_never_ends_in_a_500(server: RunningServer, body: Any) -> None:
    answer = server.ask("POST", "/a2a/default", body)
    assert answer.status < 500, (body, answer.body)


@pytest.mark.skipif(not SDK_PYTHON, reason="SANDBUR_A2A_PYTHON names no Python that has a2a-sdk")
def test_the_sdk_reads_the_card_sends_streams_decides_and_gets(server: RunningServer) -> None:
    command = [SDK_PYTHON, str(CLIENT), f"http://127.0.0.1:{server.port}/a2a/default", server.token]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = [json.loads(line) for line in printed.splitlines()]
    assert [one["kind"] for one in found] == [
        "card", "streamed", "streamed", "got", "answered", "answered", "answered", "over", "sent",
    ]  # fmt: skip
    states = [one["found"]["status"]["state"] for one in found if one["kind"] in ("got", "over")]
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]
