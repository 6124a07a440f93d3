"""A person approves a plan once, and the gate holds the agent to it: what the plan does not name asks.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from sandbur import Agent, tool, workspace_tools
from sandbur.testing import ScriptedModel, ToolCall

folder = Path(tempfile.mkdtemp())
PLAN = """\
# Refund the broken order
- budget: 50,000 tokens
## 1. Refund order 17
- tools: refund
## 2. Write it down
- writes: ledger/
"""


@tool(effect="effect")
def refund(order: str) -> str:
    """Refund an order."""
    return f"order {order} is refunded"


@tool(effect="effect")
def close_account(customer: str) -> str:
    """Close the account of a customer."""
    return f"the account of {customer} is closed"


agent = Agent(
    os.environ.get("SANDBUR_MODEL")
    or ScriptedModel(
        [
            ToolCall("propose_plan", plan=PLAN),
            ToolCall("refund", order="17"),
            ToolCall("close_account", customer="Ada"),
            ToolCall("finish_step", status="completed", summary="Order 17 is refunded."),
            ToolCall("write_file", path="ledger/17.txt", content="refunded\n"),
            ToolCall("finish_step", status="completed", summary="It is in the ledger."),
            "Order 17 is refunded. I did not close an account.",
        ]
    ),
    instructions="Propose a plan before you change anything.",
    tools=[refund, close_account, *workspace_tools()],
    plans=True,
    cwd=folder,
    store="memory:",
)


async def main() -> None:
    async with agent.session() as session:
        waiting = await session.run("Order 17 came broken. Refund it.")
        print(waiting.pending[0].arguments["plan"])
        # A person has read it. Another plan can be approved in its place: arguments={"plan": "..."}.
        waiting = await session.approve()
        print(f"{waiting.pending[0].tool} asks: {waiting.pending[0].reason}")
        result = await session.deny(reason="Keep the account.")
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main())
    print("ledger:", (folder / "ledger/17.txt").read_text().strip())
