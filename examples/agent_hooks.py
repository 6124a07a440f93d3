"""Hooks that change what an agent does, and a message that it only observes.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
import tempfile
from dataclasses import replace

from sandbur import Agent, ModelRequest, ProposedCall, ToolCallRequest, ToolOutcome, tool
from sandbur.testing import ScriptedModel, ToolCall


@tool
def refund(order: str, cents: int) -> str:
    """Give the money back."""
    return f"refunded {cents} cents of order {order}"


class ShopAgent(Agent):
    """Every agent of the shop has the hooks of this class."""


def name_customer(message: object) -> str:
    return f"{message} (customer 12)"


def cap_refund(call: ProposedCall) -> ProposedCall | None:
    """Allow no refund above 50 euros; the gate and the person see the lower one."""
    if call.name != "refund" or call.arguments["cents"] <= 5000:
        return None
    return replace(call, arguments={**call.arguments, "cents": 5000})


def add_receipt(call: ToolCallRequest, outcome: ToolOutcome) -> ToolOutcome:
    return replace(outcome, content=f"{outcome.content}, receipt {call.call_id}")


def next_words(request: ModelRequest) -> ToolCall | str:
    results = [result for message in request.messages for result in message.tool_results]
    if not results:
        return ToolCall("refund", order="17", cents=90000)
    return results[-1].content.splitlines()[-1].capitalize() + "."


async def main() -> None:
    ShopAgent.add_class_hook("pre_acting", cap_refund)
    folder = tempfile.mkdtemp(prefix="sandbur-example-")
    model = os.environ.get("SANDBUR_MODEL") or ScriptedModel(next_words)
    agent = ShopAgent(model, tools=[refund], store=f"sqlite:///{folder}/shop.db")
    agent.add_hook("pre_reply", name_customer)
    agent.add_hook("post_acting", add_receipt)
    agent.add_hook("post_reply", lambda text: f"{text} Yours, the shop.", name="signature")
    async with agent, agent.session("order-17") as session:
        await session.observe("The parcel of order 17 was damaged.")
        result = await session.run("Order 17 came broken.")
        print("to approve:", result.pending[0].arguments)
        result = await session.approve()
        print(result.raise_for_status().output)
        agent.remove_hook("post_reply", "signature")
        print([message.text for message in session.history if message.origin == "person"])


if __name__ == "__main__":
    asyncio.run(main())
