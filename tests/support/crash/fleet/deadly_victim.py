"""A worker whose agent has a call that kills its process: deadly_victim.py STORE LOG EFFECT MODE

The session whose message is `deadly` makes that call, again and again if the model may choose. The others
make two harmless calls. Each effect is a line in LOG.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

from sandbur import Agent, ModelRequest, tool
from sandbur.agent.fleet.worker import Worker
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

NAME = "deadly_victim:agent"
DEADLY = "deadly"
CALLS = 2


def make_agent(log: Path, effect: str, mode: str) -> Agent[Any]:
    async def check() -> str:
        return "not_done"

    more = {"check": check} if effect == "verifiable" else {}

    @tool(effect=cast("Any", effect), **more)
    async def explode() -> str:
        """Kill the process."""
        note(log, DEADLY)
        # The harmless calls beside it have started meanwhile.
        await asyncio.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    @tool(effect="effect")
    async def act(item: str) -> str:
        """Take effect once."""
        note(log, item)
        await asyncio.sleep(0.5)
        return f"{item} took effect"

    def reply(request: ModelRequest) -> Any:
        messages = list(request.messages)
        name = messages[0].text
        if messages[-1].text == "stop":
            return "stopped"
        if name == DEADLY:
            return ToolCall("explode")
        done = sum(message.role == "assistant" for message in messages)
        return ToolCall("act", item=f"{name}.{done}") if done < CALLS else f"{name} is done"

    env = {**os.environ, "SANDBUR_HOME": str(log.parent / "home")}
    return Agent(
        ScriptedModel(reply),
        tools=[explode, act],
        mode=cast("Any", mode),
        planning="off",
        cwd=log.parent,
        env=env,
        allow=["act", "explode"],
    )


def note(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(f"{line}\n")


async def work(url: str, agent: Agent[Any]) -> None:
    store = Store.open(url)
    await Worker(store, {NAME: agent}, concurrency=4, on_notice=print).run(once=True)
    store.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], make_agent(Path(sys.argv[2]), *sys.argv[3:5])))
