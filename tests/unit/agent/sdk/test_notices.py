"""What a person is told at a terminal reaches a program: as events, and in the result of the run."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

from sandbur import Agent, Overloaded, SandburError, events
from sandbur.testing import ScriptedModel

CLOCK = {"command": sys.executable, "args": [str(ROOT / "examples" / "mcp_clock_server.py")]}
MISSING = {"command": "/nowhere/no-such-server"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


async def test_a_tool_server_that_is_missing_is_an_event_and_in_the_result(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel(["Hi.", "Again."]), mcp_servers={"gone": MISSING}, env=env)
    async with agent.session("s") as session:
        seen = [event async for event in session.stream("Hello")]
        assert isinstance(seen[0], events.RunStarted)
        (notice,) = [event for event in seen if isinstance(event, events.Notice)]
        assert notice.message.startswith("The tool server gone is left out")
        assert session.result is not None
        assert session.result.notices == (notice.message,) == session.notices
        assert (await session.run("And?")).notices == ()
    result = await agent.run("Hello", session_id="t")
    assert result.notices == (notice.message,)


async def test_what_happens_in_a_run_is_in_its_notices(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([Overloaded("busy"), "Hi."]), env=env)
    result = await agent.run("/mode plan")
    assert result.notices
    assert (await agent.run("Hello")).status == "rate_limited"


@pytest.mark.parametrize("as_file", [False, True])
async def test_a_server_that_is_required_and_missing_lets_no_session_open(
    env: dict[str, str], tmp_path: Path, as_file: bool
) -> None:
    servers: Any = {"clock": CLOCK, "gone": {**MISSING, "required": True}}
    if as_file:
        path = tmp_path / ".mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        servers = path
    model = ScriptedModel(["Hi."])
    with pytest.raises(SandburError, match="gone is required and cannot be used") as caught:
        await Agent(model, mcp_servers=servers, env=env).run("Hello")
    assert "\n" not in str(caught.value)
    assert model.requests == []


async def test_a_server_that_is_required_and_there_is_used(env: dict[str, str]) -> None:
    model = ScriptedModel(["Hi."])
    agent = Agent(model, mcp_servers={"clock": {**CLOCK, "required": True}}, env=env)
    assert (await agent.run("Hello")).notices == ()
    assert any(spec.name.startswith("mcp__clock__") for spec in model.requests[0].tools)
