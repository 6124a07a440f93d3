"""Requests to a server: what runs do with messages, decisions and files; bad input never ends in a 500."""

import base64
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from support.network.sandbur_server import RunningServer, serve
from support.stores.databases import DATABASES, fresh_url

from sandbur.ui.server.facades.openai.errors import is_openai_path
from sandbur.ui.server.openapi import make_document
from sandbur.ui.server.routes.route import ApiRoute
from sandbur.ui.server.routes.table import ROUTES


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--rate-limit", "1000000") as running:
        running.begin("s1", "hi")
        running.wait_for("s1", "done")
        yield running


def test_a_call_waits_for_approval_and_runs_once_after_it(server: RunningServer) -> None:
    server.begin("asks", "run echo x >> made.txt")
    (call,) = server.wait_for("asks", "needs_approval")["pending"]
    assert call["arguments"] == {"command": "echo x >> made.txt"}
    assert server.ask("POST", "/v1/sessions/asks/approve", {"calls": [call["call_id"]]}).status == 202
    assert server.wait_for("asks", "done")["pending"] == []
    said = server.ask("GET", "/v1/sessions/asks/messages").json["messages"]
    assert [one["role"] for one in said] == ["user", "assistant", "tool", "assistant"]
    again = server.ask("POST", "/v1/sessions/asks/approve", {"calls": [call["call_id"]]})
    assert again.status == 409


def test_a_denied_call_never_runs_and_the_model_reads_the_reason(server: RunningServer) -> None:
    server.begin("denied", "run touch never.txt")
    server.wait_for("denied", "needs_approval")
    assert server.ask("POST", "/v1/sessions/denied/deny", {"reason": "not today"}).status == 202
    server.wait_for("denied", "denied", "done")
    history = server.ask("GET", "/v1/sessions/denied/messages").json["messages"]
    assert "not today" in json.dumps(history)


def test_a_session_whose_settings_were_changed_from_outside_takes_no_message_and_no_decision(
    server: RunningServer,
) -> None:
    server.begin("changed", "run touch changed.txt")
    (call,) = server.wait_for("changed", "needs_approval")["pending"]
    with closing(sqlite3.connect(Path(server.environment["SANDBUR_HOME"]) / "sandbur.db")) as database:
        [(text,)] = database.execute("SELECT settings FROM sessions WHERE id = 'changed'")
        changed = json.dumps({**json.loads(text), "allow": ["run_shell_command"], "mode": "yolo"})
        database.execute("UPDATE sessions SET settings = ? WHERE id = 'changed'", (changed,))
        database.commit()
    for way, body in {
        "messages": {"content": "run touch changed.txt"},
        "steer": {"text": "go"},
        "continue": None,
        "approve": {"calls": [call["call_id"]]},
        "deny": {},
        "fork": {},
    }.items():
        answer = server.ask("POST", f"/v1/sessions/changed/{way}", body)
        assert answer.status == 409, (way, answer.body)
        assert "changed outside of Sandbur: allow, mode." in answer.body.decode(), way


def test_messages_of_a_session_are_answered_in_order(server: RunningServer) -> None:
    server.begin("order")
    for number in range(3):
        answer = server.ask("POST", "/v1/sessions/order/messages", {"content": f"run echo {number}"})
        assert answer.status == 202
    # Nothing is approved: the next message comes after the decision.
    assert server.wait_for("order", "done", "needs_approval")["status"] in ("done", "needs_approval")
    texts = [one["text"] for one in server.ask("GET", "/v1/sessions/order/messages").json["messages"]]
    assert texts[0] == "run echo 0"


def test_a_file_of_a_message_is_listed_and_downloaded(server: RunningServer) -> None:
    content = b"the text of a file"
    server.begin("files")
    block = {"type": "document", "name": "a.txt", "source": {"data": base64.b64encode(content).decode()}}
    message = {"content": [{"type": "text", "text": "hi"}, block]}
    assert server.ask("POST", "/v1/sessions/files/messages", message).status == 202
    server.wait_for("files", "done")
    (file,) = server.ask("GET", "/v1/sessions/files/files").json["attached"]
    got = server.ask("GET", f"/v1/sessions/files/files/{file['digest']}")
    assert (got.body, got.headers["content-disposition"]) == (content, "attachment")
    assert server.ask("GET", f"/v1/sessions/s1/files/{file['digest']}").status == 404


PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def test_a_picture_goes_up_in_a_message_and_comes_down_byte_by_byte(server: RunningServer) -> None:
    block = {"type": "image", "name": "red.png", "source": {"data": base64.b64encode(PICTURE).decode()}}
    server.begin("picture", [{"type": "text", "text": "hi"}, block])  # type: ignore[arg-type]
    server.wait_for("picture", "done")
    (file,) = server.ask("GET", "/v1/sessions/picture/messages").json["messages"][0]["files"]
    assert (file["media_type"], file["size"]) == ("image/png", len(PICTURE))
    assert server.ask("GET", f"/v1/sessions/picture/files/{file['digest']}").body == PICTURE


def test_a_replay_has_no_difference_and_changes_nothing(server: RunningServer) -> None:
    server.begin("again", "hi")
    server.wait_for("again", "done")
    before = server.ask("GET", "/v1/sessions/again").json
    found = server.ask("POST", "/v1/sessions/again/replay", {}).json
    assert found["is_same"] is True
    assert found["divergence"] is None
    assert found["steps"] == before["steps"]
    rest = server.ask("POST", "/v1/sessions/again/replay", {"from_step": 0}).json
    assert (rest["first_step"], rest["steps"]) == (1, before["steps"] - 1)
    assert server.ask("GET", "/v1/sessions/again").json == before
    late = server.ask("POST", "/v1/sessions/again/replay", {"from_step": 999})
    assert (late.status, "no step after step 999" in late.json["error"]["message"]) == (400, True)


def test_a_passage_of_a_session_is_found_and_read_from_its_place(server: RunningServer) -> None:
    server.begin("walrus", "the walrus eats twelve oysters a day")
    server.wait_for("walrus", "done")
    (first, *_) = server.ask("GET", "/v1/sessions/walrus/search?text=how+many+oysters").json["passages"]
    assert (first["kind"], first["session_id"]) == ("person", "walrus")
    assert "twelve oysters" in first["text"]
    again = server.ask("GET", f"/v1/sessions/walrus/search?text={quote(first['reference'])}").json["passages"]
    assert again[0]["text"] == first["text"]
    assert server.ask("GET", "/v1/sessions/walrus/search?text=%20").status == 400
    assert [one["id"] for one in server.ask("GET", "/v1/sessions?text=oysters").json["sessions"]] == [
        "walrus"
    ]


def test_sessions_are_found_by_their_text_page_by_page(server: RunningServer) -> None:
    for number in range(3):
        server.begin(f"page{number}", tags=["paged"])
    first = server.ask("GET", "/v1/sessions?tag=paged&limit=2").json
    second = server.ask("GET", f"/v1/sessions?tag=paged&limit=2&cursor={quote(first['next'])}").json
    found = [one["id"] for one in (*first["sessions"], *second["sessions"])]
    assert sorted(found) == ["page0", "page1", "page2"]
    assert second["next"] is None


def test_the_health_pages_and_the_document_need_no_token(server: RunningServer) -> None:
    for path in ("/healthz", "/readyz"):
        assert server.ask("GET", path, token="").json == {"status": "ok"}
    document = server.ask("GET", "/openapi.json", token="").json
    validate(document)
    described = {(method.upper(), path) for path, found in document["paths"].items() for method in found}
    assert described == {(route.method, route.path) for route in ROUTES}


@pytest.mark.parametrize("session_id", [".", "..", ".hidden"])
def test_an_id_that_clients_take_for_a_folder_is_refused(server: RunningServer, session_id: str) -> None:
    assert server.ask("POST", "/v1/sessions", {"session_id": session_id}).status == 400


def test_a_session_with_a_fork_is_deleted_after_its_fork(server: RunningServer) -> None:
    server.begin("tree", "hi")
    server.wait_for("tree", "done")
    fork = server.ask("POST", "/v1/sessions/tree/fork", {}).json["session_id"]
    refused = server.ask("DELETE", "/v1/sessions/tree")
    assert refused.status == 409
    assert refused.json["error"] == {
        "type": "has_fork", "message": f"Session tree has the fork {fork}.", "hint": "Delete the fork first.",
    }  # fmt: skip
    assert server.ask("DELETE", f"/v1/sessions/{fork}").status == 200
    assert server.ask("DELETE", "/v1/sessions/tree").status == 200


def test_no_secret_of_a_request_reaches_the_store(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "4fGh8kLm2nPq6rSt" * 2
    with serve(tmp_path) as running:
        for name, value in (("app", key), ("user", key), ("tags", [key])):
            refused = running.ask("POST", "/v1/sessions", {name: value})
            assert (refused.status, f"label `{name}` holds a secret" in refused.json["error"]["message"]) == (
                400,
                True,
            )
        running.begin("s", f"my key is {key}")
        running.wait_for("s", "done")
        file = {"type": "document", "name": f"{key}.txt", "source": {"data": base64.b64encode(b"x").decode()}}
        path = "/v1/sessions/s"
        assert running.ask("POST", f"{path}/messages", {"content": [file]}).status == 202
        running.wait_for("s", "done")
        assert running.ask("POST", f"{path}/steer", {"text": key}).status == 202
        renamed = running.ask("PATCH", path, {"title": f"about {key}"})
        assert renamed.json["title"] == "about [masked Anthropic key]"
    stored = [one.read_bytes() for one in (tmp_path / "sandbur").rglob("*") if one.is_file()]
    assert not [one for one in stored if key.encode() in one]


def test_metrics_count_the_requests(server: RunningServer) -> None:
    server.ask("GET", "/v1/agents")
    text = server.ask("GET", "/metrics").body.decode()
    assert 'sandbur_requests_total{operation="list_agents",status="200"}' in text
    assert "sandbur_streams 0" in text
    assert re.search(r"^sandbur_sessions_waiting \d+$", text, re.M)


@pytest.mark.parametrize("kind", DATABASES)
def test_a_text_that_a_database_refuses_is_answered_with_one_sentence(kind: str, tmp_path: Path) -> None:
    with fresh_url(kind, tmp_path) as url, serve(tmp_path, store=url) as running:
        addresses = ["/v1/sessions/%00", "/v1/sessions/a%00b/events", "/v1/facts/%00", "/v1/models/%00"]
        addresses += [f"/v1/sessions?{name}=%00" for name in ("text", "status", "app", "tag", "cursor")]
        addresses += ["/v1/audit?before=%00", "/v1/facts?text=%00", "/%00"]
        for address in addresses:
            for token in (None, "wrong", ""):
                assert running.ask("GET", address, token=token).status == 400, address
        bodies = [
            ("POST", "/v1/tokens", {"name": "a\0b", "scopes": ["read"]}),
            ("POST", "/v1/tokens", {"name": "a\ud800b", "scopes": ["read"]}),
            ("POST", "/v1/sessions", {"app": "\0"}),
            ("POST", "/v1/sessions", {"tags": ["\ud800"]}),
            ("POST", "/v1/facts", {"text": "\0"}),
            ("POST", "/v1/sessions/none/approve", {"arguments": {"\ud800": "\udfff"}}),
        ]
        for method, path, body in bodies:
            answer = running.ask(method, path, body)
            assert (answer.status, answer.json["error"]["type"]) == (400, "usage"), body
        deep = base64.urlsafe_b64encode(b"[" * 5000).decode()
        assert running.ask("GET", f"/v1/sessions?cursor={deep}").status == 400
        running.begin("nul", "hi\0there \U0001f600")
        assert running.wait_for("nul", "done")["title"]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OPERATIONS = make_document(ROUTES)["paths"]


def bodies(route: ApiRoute) -> st.SearchStrategy[Any]:
    """Return bodies that are nearly in the form of a route, and others."""
    if route.body is None:
        return st.none()
    names = list(route.body.model_fields)
    near = st.dictionaries(st.sampled_from(names), VALUES, max_size=len(names))
    return near | VALUES


@st.composite
def requests(draw: st.DrawFn) -> tuple[ApiRoute, str, Any]:
    route = draw(st.sampled_from(ROUTES))
    path = route.path
    for name in re.findall(r"{(\w+)}", path):
        value = draw(st.sampled_from(["s1", "nothing", "default", "0" * 64]) | TEXTS.filter(bool))
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    names = [] if route.query is None else list(route.query.model_fields)
    pairs = draw(st.dictionaries(st.sampled_from([*names, "other"]), TEXTS | st.integers().map(str)))
    return route, f"{path}?{urlencode(pairs)}", draw(bodies(route))


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(request=requests())
def test_bad_input_on_any_route_is_answered_as_the_document_says(
    server: RunningServer, request: tuple[ApiRoute, str, Any]
) -> None:
    route, path, body = request
    if route.name in ("delete_session", "stream_events") and "/s1" in path:
        return
    answer = server.ask(route.method, path, body)
    operation = OPERATIONS[route.path][route.method.lower()]
    # Paths with slashes lead to no route.
    assert str(answer.status) in operation["responses"] or answer.status in (404, 405), answer.body
    if answer.status >= 400 and route.name != "answer_mcp":
        others = {"param", "code"} if is_openai_path(route.path) else {"hint"}
        assert set(answer.json["error"]) == {"type", "message", *others}


def test_every_event_of_a_stream_has_exactly_the_fields_of_the_document(tmp_path: Path) -> None:
    document = make_document(ROUTES)
    schemas = document["components"]["schemas"]
    seen: set[str] = set()
    with serve(tmp_path) as running:
        running.begin("waits", "run touch a.txt")
        running.begin("plans")
        with running.stream("plans") as plans, running.stream("waits") as waits:
            running.ask(
                "POST", "/v1/sessions/plans/messages", {"content": "my web site is slow, find out why"}
            )
            for events in (waits, plans):
                for event in events:
                    seen |= {check_event(document, schemas, event.data)}
                    if event.data["type"] == "result":
                        break
    assert {"init", "text", "message", "tool_use", "approval", "usage", "plan", "step", "result"} <= seen


def check_event(document: Any, schemas: Any, event: Any) -> str:
    """Fail if an event is not what the document says; return its type."""
    (name,) = (
        one["$ref"].rpartition("/")[2]
        for one in schemas["Event"]["oneOf"]
        if schemas[one["$ref"].rpartition("/")[2]]["properties"]["type"]["const"] == event["type"]
    )
    whole = {**schemas[name], "components": document["components"]}
    jsonschema_rs.validate(whole, event)
    assert set(event) <= set(schemas[name]["properties"]), event
    return event["type"]
