"""Values that a tool needs and the model must not see: a database, the customer, the running call.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from typing import Annotated

from sandbur import Agent, Depends, RunContext, tool
from sandbur.testing import ScriptedModel, ToolCall

customer: ContextVar[str] = ContextVar("customer")
"""The code that serves a request sets the customer; a model can neither read nor choose the value."""


def get_customer() -> str:
    return customer.get()


async def get_db() -> AsyncGenerator[sqlite3.Connection]:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE orders (customer TEXT, item TEXT)")
    db.executemany("INSERT INTO orders VALUES (?, ?)", [("ada", "anvil"), ("ada", "rope"), ("bob", "soap")])
    print("database opened")
    yield db
    # The database is closed once, at the end of the run, also after an error.
    db.close()
    print("database closed")


Db = Annotated[sqlite3.Connection, Depends(get_db)]
Customer = Annotated[str, Depends(get_customer)]


@tool(effect="read")
async def my_orders(db: Db, who: Customer, run: RunContext) -> list[str]:
    """List what the customer has ordered."""
    run.emit(f"looking for {who} ...\n")
    return [item for (item,) in db.execute("SELECT item FROM orders WHERE customer = ?", [who])]


@tool(effect="read")
async def number_of_orders(db: Db) -> int:
    """Count the orders of all customers."""
    (number,) = db.execute("SELECT count(*) FROM orders").fetchone()
    return number


async def main() -> None:
    script = [[ToolCall("my_orders"), ToolCall("number_of_orders")], "You have ordered an anvil and a rope."]
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(script), tools=[my_orders, number_of_orders]
    )
    customer.set("ada")
    async with agent, agent.session() as session:
        result = await session.run("What have I ordered?")
        seen = [given.content for message in session.history for given in message.tool_results]
    print("the model was given", *seen)
    print(result.raise_for_status().output)


if __name__ == "__main__":
    asyncio.run(main())
