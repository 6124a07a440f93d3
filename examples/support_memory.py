"""A support agent that remembers: what a customer said once is known in later sessions, after a review.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import json
import os

from sandbur import Agent
from sandbur.testing import ScriptedModel

MODEL = os.environ.get("SANDBUR_MODEL")
FOUND = {
    "text": "The customer Ada has the printer P-100 and wants answers in German",
    "kind": "preference",
    "scope": "project",
    "excerpt": 1,
    "relation": "new",
    "known": "",
}
SCRIPT = ScriptedModel(
    [
        "Bitte schalten Sie den P-100 aus und wieder ein.",
        json.dumps({"facts": [FOUND]}),
        "Es geht um Ihren P-100: bitte legen Sie Papier nach.",
    ]
)
agent = Agent(
    MODEL or SCRIPT,
    instructions="You answer the customers of a shop for printers.",
    memory="static",
    memory_extraction="propose",
    store="memory:",
)


async def main() -> None:
    async with agent:
        first = await agent.run("I am the customer Ada. My printer P-100 is stuck. I want answers in German.")
        print(f"Monday: {first.output}")
        await agent.memory.extract()
        for proposal in await agent.memory.proposals():
            print(f"proposed: {proposal.text}")
            await agent.memory.accept(proposal.id)
        second = await agent.run("This is the customer Ada again: the printer blinks.")
        print(f"Tuesday: {second.output}")


if __name__ == "__main__":
    asyncio.run(main())
