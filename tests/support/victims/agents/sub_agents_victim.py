"""A run that starts sub-agents, each with two calls: sub_agents_victim.py STORE LOG begin|resume [flow]

Each call writes one line into LOG when it takes effect; prints the answer of the run, and with `flow`, where
a flow starts one sub-agent, the number of the model calls of the parent.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbur import Agent, Flow, Message, ModelRequest, tool
from sandbur.testing import ScriptedModel, ToolCall

CHILDREN = 4


def make_tool(log: Path) -> Any:
    @tool(effect="idempotent")
    def work(item: str, part: int) -> str:
        """Do a part of an item."""
        with log.open("a") as file:
            file.write(f"{item}.{part}\n")
        return f"{item}.{part}"

    return work


def answer_child(request: ModelRequest) -> Any:
    messages = list(request.messages)
    done = sum(len(message.tool_results) for message in messages)
    item = messages[0].text
    return ToolCall("work", item=item, part=done) if done < 2 else f"{item} is done"


def answer_parent(request: ModelRequest) -> Any:
    results = [result.content for message in request.messages for result in message.tool_results]
    if results:
        return ", ".join(sorted(text.splitlines()[0] for text in results))
    return [
        ToolCall("task", description="work", prompt=f"i{number}", agent="worker")
        for number in range(CHILDREN)
    ]


FLOW = Flow("work", prefix="work on", agent="worker", prompt="{rest}", answer="Done: {result}")


def count_calls(messages: Sequence[Message]) -> int:
    """Return how many calls of the flow the history has."""
    return sum(one.is_flow_call for one in messages)


async def main(store: str, log: str, how: str, by: str = "model") -> None:
    home = str(Path(store.removeprefix("sqlite:///")).parent)
    place: dict[str, Any] = {"store": store, "env": {"HOME": home, "SANDBUR_HOME": home}, "mode": "yolo"}
    worker = Agent(
        ScriptedModel(answer_child),
        tools=[make_tool(Path(log))],
        name="worker",
        description="Works.",
        **place,
    )
    model = ScriptedModel(answer_parent)
    agent = Agent(model, agents=[worker], flows=[FLOW], **place)
    message = "go" if by == "model" else "work on i0"
    async with agent.session("parent") as session:
        result = await (session.run(message) if how == "begin" or not session.history else session.run())
        print(result.text)
        if by == "flow":
            print(len(model.requests), count_calls(session.history))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
