"""One run with its own dependencies, type of answer, decision and check.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
from dataclasses import dataclass

from sandbur import Agent, ModelRetry, PendingToolCall, RunContext, tool
from sandbur.testing import ScriptedModel, ToolCall


@dataclass
class Customer:
    name: str
    orders: dict[str, int]


@dataclass
class Decision:
    order: str
    cents: int


def about_customer(run: RunContext[Customer]) -> str:
    """Return instructions for this run; they are sent with its message, after the cached system prompt."""
    return f"You are talking to {run.deps.name}."


@tool
def refund(order: str, run: RunContext[Customer]) -> int:
    """Pay an order back; returns the cents."""
    return run.deps.orders[order]


async def decide(call: PendingToolCall) -> bool | str:
    return True if call.arguments["order"] == "17" else "only order 17 came broken"


async def main() -> None:
    script = [
        ToolCall("refund", order="17"),
        {"order": "17", "cents": 900},
        {"order": "17", "cents": 500},
    ]
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(script),
        instructions=["You keep a shop.", about_customer],
        tools=[refund],
        output=Decision,
    )

    @agent.output_validator
    def is_paid(decision: Decision, run: RunContext[Customer]) -> None:
        if decision.cents != run.deps.orders[decision.order]:
            raise ModelRetry(f"Order {decision.order} cost {run.deps.orders[decision.order]} cents.")

    ada = Customer("Ada", {"17": 500})
    async with agent:
        result = await agent.run(
            "Order 17 came broken.", deps=ada, on_approval=decide, app="shop", user="ada"
        )
        print(result.raise_for_status().output)
        async for session in agent.sessions(app="shop", user="ada", limit=20):
            print(session.title, session.status)
        async with agent.session(result.session_id) as session:
            print(*session.usage.by_model)


if __name__ == "__main__":
    asyncio.run(main())
