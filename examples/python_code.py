"""Code as action: the model writes Python code that calls tools, instead of many rounds of calls.

The code runs in a sandbox. Each call in the code is judged and recorded like any other: `refund` asks, and
the code continues after the approval. Needs Linux. The model is scripted, so no key is needed;
SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os

from sandbur import Agent, python_tool, tool
from sandbur.testing import ScriptedModel, ToolCall

ORDERS = {1: ("late", 20), 2: ("delivered", 35), 3: ("late", 5), 4: ("late", 80)}


@tool(effect="read")
def find_order(number: int) -> dict[str, str | int]:
    """Return the state of an order, and what it cost."""
    state, cents = ORDERS[number]
    return {"state": state, "cents": cents}


@tool
def refund(number: int, cents: int) -> str:
    """Pay money back."""
    return f"order {number}: {cents} back"


CODE = """
import json
orders = {number: json.loads(find_order(number)) for number in range(1, 5)}
late = {number: order["cents"] for number, order in orders.items() if order["state"] == "late"}
dearest = max(late, key=late.get)
print(len(late), "of", len(orders), "are late")
refund(dearest, late[dearest])
"""


async def main() -> None:
    script = [ToolCall("execute_python", code=CODE), "The dearest late order is paid back."]
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(script),
        # The model has only the tool `execute_python`; the two others are functions in its code.
        tools=[python_tool(tools=[find_order, refund])],
    )
    async with agent, agent.session() as session:
        result = await session.run("Pay the dearest late order of 1 to 4 back.")
        while session.pending:
            for call in session.pending:
                print(f"approved: {call.tool} {call.arguments_json}")
            result = await session.approve()
        for message in session.history:
            for found in message.tool_results:
                print(found.content)
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main())
