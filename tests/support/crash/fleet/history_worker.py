"""A worker of a checked history: history_worker.py STORE LOG

Each message of a session, such as `s1.3`, makes two calls: `s1.3.free`, and `s1.3.asked`, which a person
approves. Each effect is a line in LOG with its time.
"""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from sandbur import Agent, ModelRequest, tool
from sandbur.agent.fleet.worker import Worker
from sandbur.state.errors import SandburError
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

NAME = "history_worker:agent"
EFFECT_S = 0.05


def make_agent(log: Path) -> Agent[Any]:
    async def act(item: str) -> str:
        line = f"{item} {time.monotonic()}\n".encode()
        # One write of few bytes at the end of a file is whole, whoever else writes.
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)
        os.close(file)
        await asyncio.sleep(EFFECT_S)
        return f"{item} took effect"

    @tool(effect="effect")
    async def free(item: str) -> str:
        """Take effect once."""
        return await act(item)

    @tool(effect="effect")
    async def asked(item: str) -> str:
        """Take effect once, after an approval."""
        return await act(item)

    def reply(request: ModelRequest) -> Any:
        messages = list(request.messages)
        place = max(place for place, one in enumerate(messages) if one.origin == "person" and one.text)
        name = messages[place].text
        done = sum(one.role == "assistant" for one in messages[place:])
        if done < 2:
            kind = ("free", "asked")[done]
            return ToolCall(kind, item=f"{name}.{kind}")
        return f"{name} is done"

    env = {**os.environ, "SANDBUR_HOME": str(log.parent / "home")}
    return Agent(
        ScriptedModel(reply), tools=[free, asked], allow=["free"], planning="off", cwd=log.parent, env=env
    )


async def work(url: str, log: Path) -> None:
    store = Store.open(url)
    await Worker(store, {NAME: make_agent(log)}, concurrency=3, on_notice=print).run()
    store.close()


if __name__ == "__main__":
    while True:
        try:
            asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
        except SandburError as error:
            print(f"The worker begins again: {error}")
            time.sleep(0.2)
