"""A support desk that hands a conversation over to billing, and gets it back.

The models are scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model. To talk to the
desk in the terminal: sandbur --agent handoff:desk
"""

import asyncio
import os
from typing import Any

from sandbur import Agent, Handoff, ModelRequest, tool
from sandbur.testing import ScriptedModel, ToolCall

MODEL = os.environ.get("SANDBUR_MODEL")


@tool(effect="idempotent")
def refund(order: str) -> str:
    """Pay an order back."""
    return f"Order {order} is paid back."


def play_billing(request: ModelRequest) -> Any:
    last = list(request.messages)[-1]
    if last.tool_results:
        return last.tool_results[0].content
    if "open" in last.text:
        return ToolCall("hand_off", agent="desk", message="The customer asks for the opening hours.")
    return ToolCall("refund", order="17")


def play_desk(request: ModelRequest) -> Any:
    if "opening hours" in list(request.messages)[-1].text:
        return "We open at nine."
    return ToolCall("hand_off", agent="billing", message="Order 17 was charged twice.")


billing = Agent(
    MODEL or ScriptedModel(play_billing),
    name="billing",
    description="Invoices and refunds.",
    instructions="You pay orders back. Give the conversation back to the desk for anything else.",
    tools=[refund],
    allow=["refund"],
)
desk = Agent(
    MODEL or ScriptedModel(play_desk),
    name="desk",
    instructions="You answer questions about the shop.",
    handoffs=[Handoff(billing, history=10)],
)


async def main() -> None:
    async with desk.session() as session:
        for message in ("I was charged twice for order 17.", "Thanks. When do you open?"):
            result = await session.run(message)
            print(f"{result.agent}: {result.output}")


if __name__ == "__main__":
    asyncio.run(main())
