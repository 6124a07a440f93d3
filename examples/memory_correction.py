"""A correction that sticks: what a model remembers is corrected once, and later sessions have the new text.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os

from sandbur import Agent, Memory
from sandbur.testing import ScriptedModel, ToolCall

MODEL = os.environ.get("SANDBUR_MODEL")
FILE = "/memories/project/port.md"
SCRIPT = ScriptedModel(
    [
        ToolCall("memory", command="create", path=FILE, file_text="The port of the shop is 8080"),
        "The port is 8080.",
        ToolCall("memory", command="str_replace", path=FILE, old_str="8080", new_str="9090"),
        "I corrected it.",
        ToolCall("memory", command="recall", query="the port of the shop"),
        "The port is 9090.",
    ]
)
agent = Agent(MODEL or SCRIPT, memory="both", store="memory:")
DAYS = {
    "Monday": "The port of the shop is 8080. Remember it.",
    "Tuesday": "You are wrong about the port: it is 9090.",
    "Wednesday": "Which port has the shop?",
}


async def main() -> None:
    async with agent:
        for day, message in DAYS.items():
            result = await agent.run(message)
            print(f"{day}: {result.output}")
        for fact in reversed(await Memory.of_agent(agent).list(all=True)):
            print(f"{fact.state}: {fact.text}")


if __name__ == "__main__":
    asyncio.run(main())
