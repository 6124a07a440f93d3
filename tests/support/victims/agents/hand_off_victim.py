"""A conversation of two messages that is handed over twice: hand_off_victim.py STORE LOG begin|resume

Each call writes one line into LOG when it takes effect; prints the last answer. To resume, it
finishes the run that was interrupted, and sends what was not sent yet.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from sandbur import Agent, ModelRequest, tool
from sandbur.testing import ScriptedModel, ToolCall

MESSAGES = ("charged twice", "thanks")


def make_tool(log: Path) -> Any:
    @tool(effect="idempotent")
    def work(item: str) -> str:
        """Do an item."""
        with log.open("a") as file:
            file.write(f"{item}\n")
        return item

    return work


def answer_desk(request: ModelRequest) -> Any:
    return ToolCall("hand_off", agent="billing", message="charged twice")


def answer_billing(request: ModelRequest) -> Any:
    done = sum(len(message.tool_results) for message in request.messages)
    if not done:
        return ToolCall("work", item="billing")
    return ToolCall("hand_off", agent="refunds", message="pay back")


def answer_refunds(request: ModelRequest) -> Any:
    messages = list(request.messages)
    asked = [message.text for message in messages if message.role == "user"]
    results = sum(len(message.tool_results) for message in messages)
    is_second = asked[-1] == MESSAGES[1]
    if results < 1 + is_second:
        return ToolCall("work", item=f"refunds{results}")
    heard = " ".join(str(asked.count(message)) for message in MESSAGES)
    return f"{'welcome' if is_second else 'refunded'}, heard {heard}"


async def main(store: str, log: str, how: str) -> None:
    home = str(Path(store.removeprefix("sqlite:///")).parent)
    place: dict[str, Any] = {"store": store, "env": {"HOME": home, "SANDBUR_HOME": home}, "mode": "yolo"}

    def make(name: str, answer: Any, **more: Any) -> Agent[Any]:
        tools = [make_tool(Path(log))]
        return Agent(ScriptedModel(answer), name=name, description=name, tools=tools, **place, **more)

    targets = [make("billing", answer_billing), make("refunds", answer_refunds)]
    async with make("desk", answer_desk, handoffs=targets).session("desk") as session:
        heard = [message.text for message in session.history if message.origin == "person"]
        answer = (await session.run()).text if how == "resume" and heard else ""
        for message in MESSAGES[len(heard) :]:
            answer = (await session.run(message)).text
    print(answer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
