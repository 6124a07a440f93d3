"""An agent whose hooks change messages and calls, and which dies at a crash point.

Usage: agent_hooks_victim.py URL FOLDER. Another process resumes the session, and prints the history and the
payments.
"""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from sandbur import Agent, ModelRequest, ProposedCall, ToolCallRequest, ToolOutcome, tool
from sandbur.testing import ScriptedModel, ToolCall

URL, FOLDER = sys.argv[1], Path(sys.argv[2])
PAID = FOLDER / "paid"


@tool(effect="idempotent")
def pay(cents: int) -> str:
    """Pay."""
    with PAID.open("a") as lines:
        lines.write(f"{cents}\n")
    return f"paid {cents}"


def answer(request: ModelRequest) -> ToolCall | str:
    results = [result for message in request.messages for result in message.tool_results]
    return f"Done: {results[-1].content.splitlines()[-1]}" if results else ToolCall("pay", cents=500)


def halve(call: ProposedCall) -> ProposedCall:
    return replace(call, arguments={"cents": call.arguments["cents"] // 2})


def check(call: ToolCallRequest, outcome: ToolOutcome) -> ToolOutcome:
    return replace(outcome, content=f"{outcome.content}, checked")


async def main() -> None:
    env = {"HOME": str(FOLDER), "SANDBUR_HOME": str(FOLDER / "home"), "SANDBUR_LEASE_S": "1"}
    agent = Agent(ScriptedModel(answer), tools=[pay], mode="yolo", allow=["pay"], store=URL, env=env)
    agent.add_hook("pre_reply", lambda message: f"{message} Now.")
    agent.add_hook("post_reply", lambda text: f"{text}. Yours, Ada.")
    agent.add_hook("pre_acting", halve)
    agent.add_hook("post_acting", check)
    async with agent.session("s1") as session:
        await session.run(None if session.history else "Pay.")
        texts = [block.content for message in session.history for block in message.tool_results]
        words = [message.text for message in session.history if message.text]
        paid = sorted(set(PAID.read_text().split()))
        print(json.dumps({"words": words, "results": texts, "paid": paid}))


asyncio.run(main())
