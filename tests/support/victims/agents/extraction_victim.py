"""Runs a session, finds facts in it, and may die: extraction_victim.py URL FOLDER

Another process goes on from there. How often the model was asked for facts, and the facts, are printed.
"""

import asyncio
import json
import sys
from pathlib import Path

from sandbur import Agent
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel

USUAL = {"kind": "fact", "scope": "project", "excerpt": 1, "relation": "new", "known": ""}
TEXTS = ("The port of the shop is 9090", "Tests of the shop run with just test")
ANSWER = json.dumps({"facts": [{**USUAL, "text": text} for text in TEXTS]})


async def main(url: str, folder: Path) -> None:
    store = Store.open(url)
    begun = store.index.exists("s1")
    store.close()
    model = ScriptedModel([ANSWER] if begun else ["Fine.", ANSWER])
    agent = Agent(model, memory_extraction="keep", cwd=folder, store=url)
    async with agent:
        if not begun:
            await agent.run(f"{TEXTS[0]}. {TEXTS[1]}.", session_id="s1")
        report = await agent.memory.extract()
        facts = sorted(fact.text for fact in await agent.memory.list())
        waiting = len(await agent.memory.proposals())
    print(json.dumps({"facts": facts, "waiting": waiting, "problems": report.problems}))


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
