"""A lead agent asks five others at the same time, and writes a report from what they found.

The models are scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os

from sandbur import Agent, ModelRequest, events, tool
from sandbur.testing import ScriptedModel, ToolCall

METALS = {"iron": 7.9, "lead": 11.3, "gold": 19.3, "tin": 7.3, "zinc": 7.1}


@tool(effect="read")
def look_up_density(metal: str) -> str:
    """Look up the density of a metal, in grams per cubic centimetre."""
    return f"{METALS[metal]} g/cm3"


def read(request: ModelRequest) -> str | ToolCall:
    messages = list(request.messages)
    metal = messages[0].text.split()[-1]
    if found := messages[-1].tool_results:
        return f"{metal}: {found[0].content}"
    return ToolCall("look_up_density", metal=metal)


def lead(request: ModelRequest) -> str | list[str | ToolCall]:
    found = [result.content for message in request.messages for result in message.tool_results]
    if found:
        densities = sorted(text.splitlines()[0] for text in found)
        return "The densities are: " + ", ".join(densities)
    return [
        ToolCall(
            "task", description=f"density of {metal}", prompt=f"Find the density of {metal}", agent="reader"
        )
        for metal in METALS
    ]


async def main() -> None:
    model = os.environ.get("SANDBUR_MODEL")
    reader = Agent(
        model or ScriptedModel(read),
        name="reader",
        description="Finds one fact. Start one for each fact.",
        instructions="Answer in one line.",
        tools=[look_up_density],
    )
    chief = Agent(
        model or ScriptedModel(lead),
        instructions="You write reports. Let readers find the facts, all at the same time.",
        agents=[reader],
        planning="off",
    )
    async with chief.session() as session:
        async for event in session.stream(f"Compare the densities of {', '.join(METALS)}."):
            if isinstance(event, events.SubAgentEvent) and isinstance(event.event, events.RunFinished):
                print(f"{event.agent.name} for the {event.agent.description} is {event.event.status}")
        result = session.result
    if result is not None:
        print(result.output)
        print(f"{len(result.children)} sub-agents, {result.usage.llm_calls} model calls")


if __name__ == "__main__":
    asyncio.run(main())
