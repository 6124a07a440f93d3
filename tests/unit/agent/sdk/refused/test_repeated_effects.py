"""A call with an effect that repeats stops early, wherever its tool comes from and whoever lets it run."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.network.web_site import WebSite, page
from support.tool_servers.configured import HOSTILE

from sandbur import Agent, http_tools, tool, workspace_tools
from sandbur.actions.turn.calls.start_check import MOST_ALLOWED, MOST_REFUSED_ROUNDS
from sandbur.testing import ScriptedModel, ToolCall

SOURCES = ("function", "server", "request", "shell")


@asynccontextmanager
async def source(
    kind: str, folder: Path
) -> AsyncGenerator[tuple[dict[str, Any], ToolCall, Callable[[], int]]]:
    """Yield the arguments of an agent, the call, and what counts the effects."""
    done: list[str] = []
    effects = folder / "effects"
    if kind == "function":

        @tool
        def pay(euros: int) -> str:
            """Pay."""
            done.append("paid")
            return "paid"

        yield {"tools": [pay]}, ToolCall("pay", euros=5), lambda: len(done)
    elif kind == "server":
        server = {"command": sys.executable, "args": [HOSTILE, "plain", str(effects)], "protocol": "legacy"}
        call = ToolCall("mcp__pay__act", n=1)
        yield {"mcp_servers": {"pay": server}}, call, lambda: len(effects.read_text().splitlines())
    elif kind == "request":
        async with WebSite({"/pay": lambda seen, writer: writer.write(page("paid"))}) as site:
            table = folder / "tools.toml"
            table.write_text(
                f'[http_tools.pay]\ndescription = "Pay."\nmethod = "POST"\nurl = "{site.url}/pay"\n'
                'parameters = {euros = {type = "integer"}}\nbody = {euros = "{euros}"}\n'
            )
            yield {"tools": http_tools(table)}, ToolCall("pay", euros=5), lambda: len(site.seen)
    else:
        call = ToolCall("run_shell_command", command=f"echo paid >> {effects}")
        given = {"tools": workspace_tools(), "cwd": folder, "sandbox": "off"}
        yield given, call, lambda: len(effects.read_text().splitlines())


@pytest.mark.parametrize("allowed", ["by a rule", "by the program"])
@pytest.mark.parametrize("kind", SOURCES)
async def test_an_effect_that_repeats_stops_after_five_times(kind: str, allowed: str, tmp_path: Path) -> None:
    async with source(kind, tmp_path) as (given, call, count):
        model = ScriptedModel(lambda request: call)
        rules = {"allow": [f"{call.name}(*)", call.name]} if allowed == "by a rule" else {}
        made: Agent[Any] = Agent(model, store="memory:", planning="off", **given, **rules)
        result = await made.run("go", **({} if rules else {"on_approval": lambda pending: True}))
        assert (result.status, count()) == ("repeated", MOST_ALLOWED)
        assert len(model.requests) == MOST_ALLOWED + MOST_REFUSED_ROUNDS
