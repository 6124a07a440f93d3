"""A program of the crash matrix: three agents talk in a hub. hub_program.py SESSION MODEL

After a kill the same program runs again with the same arguments. It prints the result as the command does.
"""

import asyncio
import json
import sys
from typing import Any

from sandbur import Agent, MessageHub, workspace_tools

WORDS = {"ada": "one", "bea": "two", "cleo": "three"}
"""The name of each agent, and the word that it has to write."""


async def talk(hub: MessageHub) -> None:
    for name, word in WORDS.items():
        await hub[name].ask(f"Write {word}.")
    await hub.broadcast("Tell the others.")
    await hub.run(2)
    votes = await hub.ask_all("Sum up.")
    await hub.broadcast(" ".join(vote.text for vote in votes.values()))


async def main(session_id: str, model: str) -> None:
    agents: list[Agent[Any]] = [
        Agent(model, name=name, tools=workspace_tools(), mode="yolo") for name in WORDS
    ]
    async with MessageHub(agents, session_id=session_id) as hub:
        # If it was killed after the end of the block, everything has been said.
        if not hub.transcript:
            await talk(hub)
    texts = " ".join(message.text for message in hub.transcript)
    sessions = [one.session_id for one in hub]
    print(json.dumps({"status": "done", "result": texts, "sessions": sessions}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
