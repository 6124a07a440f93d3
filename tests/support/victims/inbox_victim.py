"""An agent that gets messages during a run and dies at a crash point. Usage: inbox_victim.py URL FOLDER

Another process resumes the session. The acknowledged messages are in a file, the history is printed.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from sandbur import Agent, AgentSession, ModelRequest
from sandbur.testing import ScriptedModel, ToolCall

URL, FOLDER = sys.argv[1], Path(sys.argv[2])
ACKNOWLEDGED = FOLDER / "told"
session: AgentSession[str]


async def tell(kind: str, text: str) -> None:
    if text in (ACKNOWLEDGED.read_text().split() if ACKNOWLEDGED.exists() else []):
        return
    if kind == "taken-back":
        await session.queue(text)
        with ACKNOWLEDGED.open("a") as lines:
            lines.write(f"{text}\n")
        await session.withdraw(session.waiting_messages[-1].number)
        return
    await (session.steer if kind == "steer" else session.queue)(text)
    with ACKNOWLEDGED.open("a") as lines:
        lines.write(f"{text}\n")


async def answer(request: ModelRequest) -> Any:
    texts = [message.text for message in request.messages if message.origin == "person"]
    if texts[-1] == "begin" and not any(message.tool_results for message in request.messages):
        await tell("steer", "steered")
        await tell("queue", "queued")
        await tell("taken-back", "withdrawn")
        return ToolCall("list_directory", path=".")
    return f"answer to {texts[-1]}"


async def main() -> None:
    global session
    env = {"HOME": str(FOLDER), "SANDBUR_HOME": str(FOLDER / "home"), "SANDBUR_LEASE_S": "1"}
    agent = Agent(ScriptedModel(answer), mode="yolo", store=URL, cwd=FOLDER, env=env)
    async with agent.session("s1") as session:
        is_open = bool(session.history) and session.history[-1].role != "assistant"
        if not session.history or is_open or session.history[-1].tool_uses:
            await session.run(None if session.history else "begin")
        while (text := await session.next_queued()) is not None:
            await session.run(text)
        texts = [message.text for message in session.history if message.origin == "person"]
        left = [message.text for message in session.waiting_messages]
        print(json.dumps({"said": texts, "left": left}))


asyncio.run(main())
