"""A hub of three agents: hub_victim.py STORE

The program is the same each time it runs; the second turn of bea fails. It prints what each participant has
in its history, and what the record of the hub holds.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from sandbur import Agent, Message, MessageHub, ModelRequest, RunFailed, Unreachable
from sandbur.testing import ScriptedModel

NAMES = ("ada", "bea", "cleo")


def make(name: str, place: dict[str, Any]) -> Agent[Any]:
    def answer(request: ModelRequest) -> str:
        messages = list(request.messages)
        if messages[-1].text == "fail":
            raise Unreachable("The provider is away.")
        own = sum(message.role == "assistant" for message in messages)
        return f"{name}{own}"

    return Agent(ScriptedModel(answer), name=name, **place)


def write(history: tuple[Message, ...]) -> str:
    return " ".join(
        f"{message.name}:{message.text}" if message.name else message.text.split()[0] for message in history
    )


async def main(store: str) -> None:
    home = str(Path(store.removeprefix("sqlite:///")).parent)
    place: dict[str, Any] = {"store": store, "env": {"HOME": home, "SANDBUR_HOME": home}}
    agents = [make(name, place) for name in NAMES]
    async with MessageHub(agents, "Welcome.", session_id="hub") as hub:
        await hub.run()
        try:
            await hub["bea"].run("fail")
        except RunFailed as error:
            await hub.broadcast(error.message)
        async with hub.group(["ada", "cleo"], "Psst.") as group:
            await group.run()
        await hub.broadcast("Vote.")
        await hub.ask_all("for")
        await hub["bea"].run("last")
        print("hub", write(hub.transcript))
        ids = {one.name: one.session_id for one in hub.participants}
    for agent in agents:
        print(agent.name, write(await agent.history(ids[agent.name])))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
