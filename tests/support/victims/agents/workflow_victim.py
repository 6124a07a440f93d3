"""A workflow over 20 items, each with two calls, and a step after it.

workflow_victim.py STORE LOG begin|resume all|first|deciding

`first`: the answer of the first item ends the work over the items, and the process that began dies once
that result is recorded. `deciding`: it dies while it decides about that answer, before that is recorded.
Each call writes one line into LOG when it takes effect. Prints the answer.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sandbur import Agent, AgentSession, ChildResult, Map, ModelRequest, Sequential, tool
from sandbur.actions.ports.events import SubAgentEvent, ToolFinished
from sandbur.testing import ScriptedModel, ToolCall

ITEMS = 20


def make_tool(log: Path) -> Any:
    @tool(effect="idempotent")
    def work(item: str, part: int) -> str:
        """Do a part of an item."""
        with log.open("a") as file:
            file.write(f"{item}.{part}\n")
        return f"{item}.{part}"

    return work


def make_answer(is_slow: bool) -> Callable[[ModelRequest], Awaitable[Any]]:
    async def answer_worker(request: ModelRequest) -> Any:
        messages = list(request.messages)
        done = sum(len(message.tool_results) for message in messages)
        item = messages[0].text
        if is_slow and done and item != "i0":
            await asyncio.sleep(60)
        return ToolCall("work", item=item, part=done) if done < 2 else f"{item} is done"

    return answer_worker


def answer_last(request: ModelRequest) -> str:
    return f"all of {list(request.messages)[-1].text}"


def make_workflow(store: str, log: Path, how: str, kind: str) -> Agent[Any]:
    def is_first(result: ChildResult) -> bool:
        if kind == "deciding" and how == "begin":
            os.kill(os.getpid(), signal.SIGKILL)
        return result.index == 0

    home = str(Path(store.removeprefix("sqlite:///")).parent)
    place: dict[str, Any] = {"store": store, "env": {"HOME": home, "SANDBUR_HOME": home}}
    worker = Agent(
        ScriptedModel(make_answer(kind != "all")),
        tools=[make_tool(log)],
        name="worker",
        mode="yolo",
        **place,
    )
    last = Agent(ScriptedModel(answer_last), name="last", **place)
    stop_on = None if kind == "all" else is_first
    return Sequential(Map(worker, [f"i{n}" for n in range(ITEMS)], stop_on=stop_on, name="items"), last)


async def run(session: AgentSession[Any], message: str | None, dies: bool) -> None:
    """Run; `dies`: only until the result of a branch that ends the others is on disk."""
    async with session.stream(message) as events:
        async for event in events:
            inner = event.event if isinstance(event, SubAgentEvent) else None
            if dies and isinstance(inner, ToolFinished) and '"ends_round":true' in inner.content:
                os.kill(os.getpid(), signal.SIGKILL)


async def main(store: str, log: str, how: str, kind: str) -> None:
    async with make_workflow(store, Path(log), how, kind).session("workflow") as session:
        await run(session, "go" if how == "begin" or not session.history else None, how == "begin")
        result = session.result
    print(result and (result.text or result.error))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
