"""A run with a model, an output type and a tool choice: run_options_victim.py URL MODELS begin|resume

MODELS is the address of the model server. A resume passes none of the options again.
"""

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbur import Agent, tool


@dataclass
class Report:
    title: str
    urgency: int


@tool(effect="read")
def total() -> str:
    """Return the total."""
    return "5"


async def main(store: str, models: str, how: str) -> None:
    home = str(Path(store.removeprefix("sqlite:///")).parent)
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": models, "HOME": home, "SANDBUR_HOME": home}
    agent = Agent("openai-chat/usual", tools=[total], store=store, env=env)
    async with agent, agent.session("s") as session:
        if how == "begin":
            result = await session.run("a", output=Report, model="openai-chat/other", tool_choice="total")
        else:
            result = await session.run()
        print(json.dumps({"output": result.output, "status": result.status}, default=vars))
        print((await session.run("b")).output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
