"""An agent that observes messages and dies at a crash point: observe_victim.py URL FOLDER

The agent observes messages before, during and after a run, the last ones as a list. Another process
resumes the session. The acknowledged messages are in a file, the history is printed.
"""

import asyncio
import json
import sys
from pathlib import Path

from sandbur import Agent, AgentSession, ModelRequest
from sandbur.testing import ScriptedModel, ToolCall

URL, FOLDER = sys.argv[1], Path(sys.argv[2])
ACKNOWLEDGED = FOLDER / "acknowledged"


def list_acknowledged() -> list[str]:
    return ACKNOWLEDGED.read_text().split() if ACKNOWLEDGED.exists() else []


async def observe(session: AgentSession[str], *texts: str) -> None:
    if texts[0] in list_acknowledged():
        return
    await session.observe(texts)
    with ACKNOWLEDGED.open("a") as lines:
        lines.writelines(f"{text}\n" for text in texts)


async def main() -> None:
    env = {"HOME": str(FOLDER), "SANDBUR_HOME": str(FOLDER / "home"), "SANDBUR_LEASE_S": "1"}
    sessions: list[AgentSession[str]] = []

    async def answer(request: ModelRequest) -> ToolCall | str:
        if any(message.tool_results for message in request.messages):
            return "Done."
        await observe(sessions[0], "during")
        return ToolCall("list_directory", path=".")

    agent = Agent(ScriptedModel(answer), mode="yolo", store=URL, cwd=FOLDER, env=env)
    async with agent.session("s1") as session:
        sessions.append(session)
        await observe(session, "before")
        messages = [message.text for message in session.history]
        await session.run(None if "begin" in messages else "begin")
        await observe(session, "after")
        await observe(session, "first", "second", "third")
        observed = [message.text for message in session.history if message.origin == "person"]
        print(json.dumps({"observed": observed, "left": len(session.observed_messages)}))


asyncio.run(main())
