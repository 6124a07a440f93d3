"""Own tools: functions whose signatures and docstrings tell the model how to call them.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
from typing import Annotated, Literal

from pydantic import Field

from sandbur import Agent, Tool, ToolError, events, tool
from sandbur.testing import ScriptedModel, ToolCall

RATES = {"EUR": 1.0, "USD": 1.09, "JPY": 171.3}
LEDGER: list[str] = []


@tool(effect="read")
async def convert(amount: Annotated[float, Field(gt=0)], to: Literal["EUR", "USD", "JPY"]) -> float:
    """Convert an amount of euros.

    Args:
        amount: in EUR
        to: the currency that is wanted
    """
    return round(amount * RATES[to], 2)


@tool
def book(amount: float, text: str) -> None:
    """Write an amount into the ledger."""
    if amount > 10_000:
        # The model reads this message, and can call the tool again with other arguments.
        raise ToolError("At most 10000 in one entry. Split it.")
    LEDGER.append(f"{amount:.2f} {text}")


def add(text: str, tag: str) -> list[str]:
    LEDGER.append(f"{tag}: {text}")
    return LEDGER


# The schema is given as JSON. The model does not see the argument `tag`.
note = Tool.from_schema(
    "note",
    {"type": "object", "properties": {"text": {"type": "string"}, "tag": {"type": "string"}}},
    add,
    description="Write a note into the ledger.",
    preset={"tag": "note"},
    postprocess=lambda ledger: f"{len(ledger)} entries",
    version="1",
)


async def main() -> None:
    # The first call does not fit the signature, and the model gets an error message.
    script = [
        ToolCall("convert", amount=50, to="dollars"),
        ToolCall("convert", amount=50, to="USD"),
        ToolCall("book", amount=54.5, text="lunch"),
        ToolCall("note", text="with Ada"),
        "50 euros are 54.50 dollars; it is in the ledger.",
    ]
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(script),
        instructions="You keep the books.",
        tools=[convert, book, note],
        # Tools that only read run without a question; the others need a rule or an approval.
        allow=["book", "note"],
    )
    async for event in agent.stream("What are 50 euros in dollars? Book it as lunch."):
        if isinstance(event, events.ToolFinished):
            print(f"{event.tool}: {event.outcome}: {event.content}")
        elif isinstance(event, events.RunFinished):
            print(event.result)
    print("ledger:", LEDGER)


if __name__ == "__main__":
    asyncio.run(main())
