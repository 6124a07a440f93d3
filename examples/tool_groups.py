"""Groups of tools: the model activates a group when it needs the tools, a program deactivates it.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os

from sandbur import Agent, tool
from sandbur.testing import ScriptedModel, ToolCall


@tool(effect="read")
def ticket(number: int) -> str:
    """Show a ticket."""
    return f"Ticket {number} is about invoice 7."


@tool(effect="read", needs="billing")
def invoice(number: int) -> str:
    """Show an invoice."""
    return f"Invoice {number}: 42 euros."


async def main() -> None:
    script = [
        ToolCall("ticket", number=3),
        ToolCall("equip_tools", group="billing"),
        ToolCall("invoice", number=7),
        "It is about 42 euros.",
        "You are welcome.",
    ]
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(script),
        tools=[ticket, invoice],
        available_groups={"billing": "Invoices and refunds."},
    )
    async with agent, agent.session() as session:
        result = await session.run("What is ticket 3 about? How much is it?")
        print(result.output, session.groups.active)
        session.groups.reset("billing")
        print((await session.run("Thank you.")).output, session.groups.active)


if __name__ == "__main__":
    asyncio.run(main())
