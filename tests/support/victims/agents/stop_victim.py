"""A worker whose run is stopped, and who asks for it: stop_victim.py STORE LOG work|ask

Its agent makes a call that sleeps for the message `sleep`, and writes each request of its model into LOG.
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

NAME = "stop_victim:agent"


def make_agent(log: Path) -> Agent[Any]:
    def note(line: str) -> None:
        with log.open("a") as file:
            file.write(f"{line}\n")

    @tool(effect="effect")
    async def sleep() -> str:
        """Sleep for a minute."""
        note("call")
        await asyncio.sleep(60)
        return "awake"

    def reply(request: ModelRequest) -> Any:
        last = list(request.messages)[-1]
        note("asked")
        return ToolCall("sleep") if last.text == "sleep" else f"heard {last.text}"

    env = {**os.environ, "SANDBUR_HOME": str(log.parent / "home")}
    return Agent(ScriptedModel(reply), tools=[sleep], mode="yolo", planning="off", cwd=log.parent, env=env)


async def work(url: str, log: Path) -> None:
    store = Store.open(url)
    await Worker(store, {NAME: make_agent(log)}, on_notice=print).run(once=True)
    store.close()


async def ask(url: str) -> None:
    store = Store.open(url)
    print(await store.inbox("s").ask_to_stop())
    store.close()


if __name__ == "__main__":
    asyncio.run(ask(sys.argv[1]) if sys.argv[3] == "ask" else work(sys.argv[1], Path(sys.argv[2])))
