"""AG-UI: what its own package accepts, approvals as interrupts, and reconnects."""

import base64
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from ag_ui.core import Event as AgUiEvent
from ag_ui.core import RunAgentInput
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter
from support.network.sandbur_server import Answer, RunningServer, serve
from test_server_requests import VALUES

EVENTS: TypeAdapter[Any] = TypeAdapter(AgUiEvent)
OPENED = {
    "TEXT_MESSAGE_START": ("TEXT_MESSAGE_END", "messageId"),
    "TOOL_CALL_START": ("TOOL_CALL_END", "toolCallId"),
    "REASONING_START": ("REASONING_END", "messageId"),
    "STEP_STARTED": ("STEP_FINISHED", "stepName"),
    "SUBAGENT_STARTED": ("SUBAGENT_FINISHED", "subagentRunId"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--rate-limit", "1000000") as running:
        yield running


def post(
    server: RunningServer, thread: str, message: Any = None, agent: str = "default", **more: Any
) -> Answer:
    messages = [] if message is None else [{"id": "m1", "role": "user", "content": message}]
    body = RunAgentInput.model_validate(
        {"threadId": thread, "runId": str(uuid.uuid4()), "messages": messages, "tools": [], "context": [],
         "state": {}, "forwardedProps": {}, **more}
    )  # fmt: skip
    return server.ask("POST", f"/ag-ui/{agent}", json.loads(body.model_dump_json(by_alias=True)))


def run(server: RunningServer, thread: str, message: Any = None, **more: Any) -> list[dict[str, Any]]:
    """Return the events of a run, each of which the package of AG-UI knows with all its fields."""
    answer = post(server, thread, message, **more)
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
    lines = [line[6:] for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    for line in lines:
        require_known(EVENTS.validate_json(line))
    events = [json.loads(line) for line in lines]
    assert events[0]["type"] == "RUN_STARTED"
    assert [one["type"] in ("RUN_FINISHED", "RUN_ERROR") for one in events].index(True) == len(events) - 1
    for begin, (end, name) in OPENED.items():
        begun = [one[name] for one in events if one["type"] == begin]
        assert sorted(begun) == sorted(one[name] for one in events if one["type"] == end)
    return events


def require_known(model: BaseModel) -> None:
    """Raise `AssertionError` if a field is none of the protocol's. Contents are open by key."""
    assert not model.model_extra, model
    for name, value in model:
        if isinstance(value, BaseModel) and name != "metadata":
            require_known(value)


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT")


def test_a_message_is_answered_by_the_session_of_the_thread(server: RunningServer) -> None:
    events = run(server, "talk", "hi")
    assert events[-1]["outcome"] == {"type": "success"}
    assert text_of(events) == events[-1]["result"]
    assert text_of(events).startswith("Hello!")
    said = server.ask("GET", "/v1/sessions/talk/messages").json["messages"]
    assert [(one["role"], one["text"]) for one in said] == [("user", "hi"), ("assistant", text_of(events))]


def test_only_the_last_message_is_new_to_the_session(server: RunningServer) -> None:
    run(server, "again", "hi")
    history = [
        {"id": "m1", "role": "user", "content": "hi"},
        {"id": "m2", "role": "assistant", "content": "Hello!"},
        {"id": "m3", "role": "user", "content": [{"type": "text", "text": "hi again"}]},
    ]
    run(server, "again", messages=history)
    said = server.ask("GET", "/v1/sessions/again/messages").json["messages"]
    assert [one["text"] for one in said if one["role"] == "user"] == ["hi", "hi again"]


def interrupt(server: RunningServer, thread: str, command: str) -> dict[str, Any]:
    events = run(server, thread, f"run {command}")
    assert [one["type"] for one in events[1:4]] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert json.loads(events[2]["delta"]) == {"command": command}
    (found,) = events[-1]["outcome"]["interrupts"]
    assert (found["toolCallId"], found["reason"]) == (events[1]["toolCallId"], "tool_call")
    return found


def test_an_approved_interrupt_runs_its_call_once(server: RunningServer) -> None:
    found = interrupt(server, "asks", "echo x >> asked.txt && cat asked.txt")
    answer = {"interruptId": found["id"], "status": "resolved", "payload": {"approved": True}}
    events = run(server, "asks", resume=[answer])
    (result,) = [one for one in events if one["type"] == "TOOL_CALL_RESULT"]
    assert (result["toolCallId"], result["content"]) == (found["id"], "x\nexit code: 0")
    assert events[-1]["outcome"] == {"type": "success"}
    again = post(server, "asks", resume=[answer])
    assert (again.status, again.json["error"]["type"]) == (409, "not_waiting")


def test_edited_arguments_replace_those_of_the_model(server: RunningServer) -> None:
    found = interrupt(server, "edits", "echo x >> edited.txt")
    payload = {"approved": True, "editedArgs": {"command": "echo other"}}
    events = run(
        server, "edits", resume=[{"interruptId": found["id"], "status": "resolved", "payload": payload}]
    )
    (result,) = [one for one in events if one["type"] == "TOOL_CALL_RESULT"]
    assert "other" in result["content"]


@pytest.mark.parametrize(
    "answer",
    [{"status": "cancelled"}, {"status": "resolved", "payload": {"approved": False, "reason": "no!"}}],
)
def test_a_denied_interrupt_never_runs_its_call(server: RunningServer, answer: dict[str, Any]) -> None:
    thread = str(uuid.uuid4())
    found = interrupt(server, thread, "echo x >> denied.txt")
    events = run(server, thread, resume=[{"interruptId": found["id"], **answer}])
    (result,) = [one for one in events if one["type"] == "TOOL_CALL_RESULT"]
    assert result["metadata"] == {"outcome": "denied"}
    assert answer.get("payload", {}).get("reason", "") in result["content"]


def test_a_thread_with_an_interrupt_takes_no_message_and_shows_the_interrupt_again(
    server: RunningServer,
) -> None:
    found = interrupt(server, "waits", "echo x >> waits.txt")
    refused = post(server, "waits", "and now?")
    assert (refused.status, refused.json["error"]["type"]) == (409, "needs_decision")
    assert run(server, "waits")[-1]["outcome"]["interrupts"] == [found]


def test_a_token_without_the_scope_of_decisions_answers_no_interrupt(server: RunningServer) -> None:
    found = interrupt(server, "scopes", "echo x >> scopes.txt")
    made = server.ask("POST", "/v1/tokens", {"name": "ui", "scopes": ["read", "run"]}).json
    answer = {"interruptId": found["id"], "status": "resolved", "payload": {"approved": True}}
    body = {"threadId": "scopes", "runId": "r1", "messages": [], "resume": [answer]}
    assert server.ask("POST", "/ag-ui/default", body, token=made["token"]).status == 403
    assert server.wait_for("scopes", "needs_approval")["pending"][0]["call_id"] == found["id"]


def test_a_file_of_a_message_reaches_the_session(server: RunningServer) -> None:
    source = {"type": "data", "value": base64.b64encode(b"a text").decode(), "mimeType": "text/plain"}
    run(server, "file", [{"type": "text", "text": "hi"}, {"type": "document", "source": source}])
    assert len(server.ask("GET", "/v1/sessions/file/files").json["attached"]) == 1


def test_a_request_without_a_message_follows_a_run_that_works(server: RunningServer) -> None:
    found = interrupt(server, "follows", "sleep 2 && echo slept >> slept.txt && cat slept.txt")
    assert server.ask("POST", "/v1/sessions/follows/approve", {"calls": [found["id"]]}).status == 202
    events = run(server, "follows")
    assert [one["content"] for one in events if one["type"] == "TOOL_CALL_RESULT"] == ["slept\nexit code: 0"]
    assert events[-1]["outcome"] == {"type": "success"}


def test_a_plan_and_its_steps_are_shown(server: RunningServer) -> None:
    events = run(server, "plans", "the disk is full")
    kinds = {one["type"] for one in events}
    assert {"ACTIVITY_SNAPSHOT", "STEP_STARTED", "STEP_FINISHED", "TOOL_CALL_RESULT"} <= kinds


def test_an_unknown_agent_and_the_thread_of_another_agent_are_refused(server: RunningServer) -> None:
    assert post(server, "unknown", "hi", agent="nobody").status == 404
    run(server, "of-default", "hi")
    assert post(server, "of-default", "hi", agent="nobody").status == 404
    assert server.ask("GET", "/v1/sessions/unknown").status == 404


NAMES = ["threadId", "runId", "messages", "resume", "state", "tools"]
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.just("user") | VALUES, "content": VALUES}), max_size=2)
ANSWERS = st.fixed_dictionaries(
    {"interruptId": st.text(min_size=1, max_size=5) | VALUES, "status": st.just("resolved") | VALUES},
    optional={"payload": VALUES},
)
NEAR = st.fixed_dictionaries(
    {
        "threadId": st.sampled_from(["fuzz", "waits"]) | VALUES,
        "runId": st.text(max_size=5) | VALUES,
        "messages": MESSAGES | VALUES,
    },
    optional={"resume": st.lists(ANSWERS, max_size=2) | VALUES},
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=NEAR | VALUES | st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_bad_input_is_answered_in_the_form_of_errors(server: RunningServer, body: Any) -> None:
    answer = server.ask("POST", "/ag-ui/default", body)
    if answer.headers["content-type"].startswith("text/event-stream"):
        assert answer.body.endswith(b"\n\n")
    else:
        assert answer.status < 500 or answer.json["error"]["type"] != "bug", body
        assert set(answer.json["error"]) == {"type", "message", "hint"}
