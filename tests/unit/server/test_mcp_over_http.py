"""MCP over streamable HTTP, with the client of the package `mcp`."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from httpx2 import AsyncClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from support.network.sandbur_server import RunningServer, serve
from test_server_requests import VALUES

TOOLS = {
    "start_run", "watch_run", "list_runs", "resume_run", "deny_call", "approve_call", "settle_call",
}  # fmt: skip
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--rate-limit", "1000000") as running:
        yield running


@asynccontextmanager
async def connect(server: RunningServer, token: str | None = None) -> AsyncGenerator[Client]:
    headers = {"authorization": f"Bearer {token or server.token}"}
    async with AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{server.port}/mcp", http_client=http)
        async with Client(transport, read_timeout_seconds=60, cache=None) as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    return answer.structured_content


async def watch_until_it_stops(client: Client, run: str, after: int = 0) -> tuple[list[Any], dict[str, Any]]:
    lines: list[Any] = []
    while True:
        found = await call(client, "watch_run", run=run, after=after, wait_s=20)
        lines, after = lines + found["lines"], found["next"]
        if found["result"] is not None:
            return lines, found


async def test_the_tools_are_those_of_the_server_over_stdin(server: RunningServer) -> None:
    async with connect(server) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS


async def test_a_run_is_watched_up_to_its_approval_and_goes_on_after_it(server: RunningServer) -> None:
    async with connect(server) as client:
        run = (await call(client, "start_run", prompt="run echo x >> mcp.txt && cat mcp.txt"))["run"]
        lines, found = await watch_until_it_stops(client, run)
        assert found["status"] == "needs_approval"
        (waiting,) = found["result"]["pending"]
        await call(client, "approve_call", run=run, call=waiting["call_id"])
        rest, found = await watch_until_it_stops(client, run, found["next"])
        assert found["status"] == "done"
        numbers = [line["seq"] for line in lines + rest]
        assert numbers == sorted(set(numbers))
        assert [line["content"] for line in rest if line["type"] == "tool_result"] == ["x\nexit code: 0"]
        listed = await call(client, "list_runs", most=5)
        assert run in [one["run"] for one in listed["runs"]]


async def test_a_session_of_any_way_goes_on_with_a_message(server: RunningServer) -> None:
    server.begin("begun", "hi")
    server.wait_for("begun", "done")
    async with connect(server) as client:
        _, found = await watch_until_it_stops(client, "begun")
        await call(client, "resume_run", run="begun", message="run echo x")
        lines, _ = await watch_until_it_stops(client, "begun", found["next"])
        assert next(line["content"] for line in lines if line["type"] == "message") == "run echo x"


async def test_a_run_that_may_only_look_is_refused(server: RunningServer) -> None:
    async with connect(server) as client:
        answer = await client.call_tool("start_run", {"prompt": "hi", "plan_only": True})
        assert answer.is_error
        assert "have the mode of their agent" in str(answer.content)


async def test_the_scopes_of_the_token_bound_the_tools(server: RunningServer) -> None:
    made = server.ask("POST", "/v1/tokens", {"name": "reader", "scopes": ["read"]}).json
    async with connect(server, made["token"]) as client:
        await call(client, "list_runs")
        for tool, arguments in (("start_run", {"prompt": "hi"}), ("approve_call", {"run": "a", "call": "b"})):
            answer = await client.call_tool(tool, arguments)
            assert answer.is_error
            assert "needs a token with the scope" in str(answer.content)


async def test_no_tool_shows_a_session_of_another_tenant(server: RunningServer) -> None:
    server.begin("secret", "hi")
    server.wait_for("secret", "done")
    made = other_tenant_token(server)
    async with connect(server, made) as client:
        assert (await call(client, "list_runs", most=100))["runs"] == []
        for tool in ("watch_run", "resume_run"):
            answer = await client.call_tool(tool, {"run": "secret"})
            assert answer.is_error
            assert "Hello" not in str(answer.content)


def other_tenant_token(server: RunningServer) -> str:
    return server.add_token("other", "--tenant", "other", "--scopes", "read,run,approve")


METHODS = st.sampled_from(["tools/call", "tools/list", "initialize", "ping"]) | VALUES
CALLS = st.fixed_dictionaries({"name": st.sampled_from(sorted(TOOLS)), "arguments": VALUES})
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | VALUES, "id": st.integers() | VALUES, "method": METHODS},
    optional={
        "params": st.fixed_dictionaries({"name": st.sampled_from(sorted(TOOLS)), "arguments": VALUES})
        | VALUES
    },
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=MESSAGES | VALUES)
def test_bad_input_never_ends_in_a_500(server: RunningServer, body: Any) -> None:
    answer = server.ask("POST", "/mcp", body, headers=ACCEPT)
    assert answer.status < 500, (body, answer.body)
