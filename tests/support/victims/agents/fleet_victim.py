"""A worker that is killed: fleet_victim.py STORE LOG [once]

Its agent makes four calls in each session, and each writes one line into LOG when it takes effect.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from sandbur import Agent, ModelRequest, tool
from sandbur.agent.fleet.worker import Worker
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

NAME = "fleet_victim:agent"
CALLS = 4


def make_agent(log: Path, effect_s: float = 0.02) -> Agent[Any]:
    @tool(effect="effect")
    async def act(item: str) -> str:
        """Take effect once."""
        with log.open("a") as file:
            file.write(f"{item}\n")
        await asyncio.sleep(effect_s)
        return f"{item} took effect"

    def reply(request: ModelRequest) -> Any:
        messages = list(request.messages)
        done = sum(message.role == "assistant" for message in messages)
        name = messages[0].text
        return ToolCall("act", item=f"{name}.{done}") if done < CALLS else f"{name} is done"

    env = {**os.environ, "SANDBUR_HOME": str(log.parent / "home")}
    return Agent(ScriptedModel(reply), tools=[act], mode="yolo", planning="off", cwd=log.parent, env=env)


async def work(url: str, log: Path, once: bool) -> None:
    store = Store.open(url)
    await Worker(store, {NAME: make_agent(log)}, concurrency=3, on_notice=print).run(once)
    store.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] == ["once"]))
