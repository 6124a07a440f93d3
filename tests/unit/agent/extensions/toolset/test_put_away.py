"""Results of which only the newest stay in requests: what is left of the others, and what that costs."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbur import Agent, events, tool
from sandbur.actions.ports import ModelRequest
from sandbur.actions.turn.calls.result_eviction import LEAST
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.state.conversation.messages import ToolResult
from sandbur.state.errors import ContextFull
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

PAGE = "all that stands on the page " * 20


@tool(effect="read", ephemeral=2)
def page(number: int) -> str:
    """Show a page."""
    return f"page {number}: {PAGE}"


@tool(effect="read")
def note(number: int) -> str:
    """Return a note."""
    return f"note {number}"


TOOLS = {"page": page, "note": note}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


def store_of(env: dict[str, str]) -> Store:
    return Store.open(f"sqlite:///{env['SANDBUR_HOME']}/sandbur.db")


def pages(count: int) -> list[ToolCall]:
    return [ToolCall("page", number=number) for number in range(1, count + 1)]


def results(request: ModelRequest) -> list[ToolResult]:
    return [result for message in request.messages for result in message.tool_results]


def whole(request: ModelRequest) -> list[str]:
    return [result.content[:7] for result in results(request) if not result.put_away]


async def run(env: dict[str, str], *replies: Any) -> ScriptedModel:
    model = ScriptedModel([*replies, "done"])
    await Agent(model, tools=TOOLS.values(), env=env).run("go", session_id="s1")
    return model


async def test_older_results_go_once_there_are_enough_of_them(env: dict[str, str]) -> None:
    model = await run(env, *pages(8))
    kept = [len(whole(request)) for request in model.requests]
    assert kept == [0, 1, 2, 3, 4, 5, 2, 3, 4]
    assert whole(model.requests[6]) == ["page 5:", "page 6:"]
    first = results(model.requests[6])[0]
    size = len(f"page 1: {PAGE}")
    assert first.content == (
        f"[This result was put away to save room: {size} characters."
        f' Read it: read_result(handle="{first.call_id}")]'
    )


async def test_between_two_times_every_request_begins_with_the_one_before(env: dict[str, str]) -> None:
    model = await run(env, *pages(12))
    breaks = 0
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        old, new = list(before.messages), list(after.messages)
        breaks += new[: len(old)] != old
    assert breaks == 12 // LEAST - 1


async def test_results_of_other_tools_and_their_order_stay(env: dict[str, str]) -> None:
    replies = [[ToolCall("page", number=n), ToolCall("note", number=n)] for n in range(1, 8)]
    model = await run(env, *replies)
    last = model.requests[-1]
    assert [one.tool for one in results(last)] == ["page", "note"] * 7
    assert [one.content for one in results(last) if one.tool == "note"] == [f"note {n}" for n in range(1, 8)]
    asked = [use.call_id for message in last.messages for use in message.tool_uses]
    assert [one.call_id for one in results(last)] == asked


async def test_what_was_put_away_is_read_again(env: dict[str, str]) -> None:
    def reread(request: ModelRequest) -> Any:
        handle = results(request)[0].call_id
        return ToolCall("read_result", handle=handle)

    model = await run(env, *pages(6), reread)
    assert results(model.requests[-1])[-1].content.startswith("1\tpage 1: all that stands")


async def test_a_person_is_told(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([*pages(6), "done"]), tools=TOOLS.values(), env=env)
    seen = [event.message async for event in agent.stream("go") if isinstance(event, events.Notice)]
    assert seen == ["4 older results became one line each; the model can read them again."]


async def test_a_history_that_does_not_fit_loses_old_results_before_it_is_summed_up(
    env: dict[str, str],
) -> None:
    model = await run(env, *pages(5), ContextFull("too long"))
    assert len(whole(model.requests[-2])) == 5
    assert whole(model.requests[-1]) == ["page 4:", "page 5:"]
    assert not any(request.purpose == "summary" for request in model.requests)


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_replay_puts_away_what_was_put_away(env: dict[str, str], is_here: bool) -> None:
    await run(env, *pages(7), ContextFull("too long"), ToolCall("note", number=1))
    store = store_of(env)
    assert (await replay(store, "s1", today=Today(own=TOOLS if is_here else {}))).divergence is None
    assert store.verify("s1") == []
    store.close()


async def test_the_next_process_goes_on_with_what_is_left(env: dict[str, str]) -> None:
    await run(env, *pages(6))
    model = ScriptedModel([*pages(4), "done"])
    await Agent(model, tools=TOOLS.values(), env=env).run("more", session_id="s1")
    assert whole(model.requests[0]) == ["page 5:", "page 6:"]
    assert whole(model.requests[-1]) == ["page 3:", "page 4:"]
    store = store_of(env)
    stored = list(store.show("s1").state.chat_history)
    assert stored[: len(list(model.requests[-1].messages))] == list(model.requests[-1].messages)
    store.close()


async def test_a_step_costs_the_same_late_as_early(env: dict[str, str]) -> None:
    await run(env, *pages(60))
    store = store_of(env)
    # A whole state comes in between, the rarer the larger it is.
    steps = "SELECT fields FROM steps WHERE is_snapshot = 0 ORDER BY seq"
    sizes = [len(fields) for (fields,) in store.database.query(steps)]
    assert max(sizes[-40:]) < 750
    assert (await replay(store, "s1", today=Today(own=TOOLS))).divergence is None
    store.close()


DIES = """
import asyncio
from sandbur import Agent
from sandbur.testing import ScriptedModel
from test_put_away import TOOLS, pages

agent = Agent(ScriptedModel([*pages(7), "no"]), tools=TOOLS.values())
asyncio.run(agent.run("go", session_id="s1"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["tool_ran:6", "request_before_send:7", "reply_before_commit:7"])
async def test_a_kill_around_it_loses_nothing(env: dict[str, str], point: str) -> None:
    paths = os.pathsep.join((str(Path(__file__).parent), *sys.path))
    dying = {**env, "PYTHONPATH": paths, "SANDBUR_CRASH_AT": point}
    ended = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", DIES], env=dying, check=False)
    assert ended.returncode == -signal.SIGKILL
    model = ScriptedModel(["done"])
    async with Agent(model, tools=TOOLS.values(), env=env).session("s1") as session:
        assert (await session.run()).status == "done"
    assert whole(model.requests[-1]) == ["page 5:", "page 6:"]
    store = store_of(env)
    moves = [
        json.loads(body) for (body,) in store.database.query("SELECT body FROM calls WHERE move = 'finished'")
    ]
    assert len(moves) == 6
    assert (await replay(store, "s1", today=Today(own=TOOLS))).divergence is None
    store.close()
