"""An agent with files in back ends, which dies at a named crash point: file_victim.py PLACE URL FOLDER

PLACE is `memory` or `store`. Another process resumes the session, and prints the results and the files.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from sandbur import Agent, Composite, ModelRequest, SessionMemory, StoreFiles, file_tools
from sandbur.testing import ScriptedModel, ToolCall

PLACE, URL = sys.argv[1:3]
FOLDER = Path(sys.argv[3])
FILES = Composite({"/kept/": SessionMemory() if PLACE == "memory" else StoreFiles()})
CALLS = (
    ToolCall("write_file", path="/kept/a.md", content="one\n"),
    ToolCall("edit_file", path="/kept/a.md", old="one", new="one two"),
    ToolCall("read_file", path="/kept/a.md"),
)


def answer(request: ModelRequest) -> Any:
    answered = sum(len(message.tool_results) for message in request.messages)
    return CALLS[answered] if answered < len(CALLS) else "all is kept"


async def main() -> None:
    agent = Agent(
        ScriptedModel(answer),
        tools=file_tools(FILES),
        mode="yolo",
        store=URL,
        cwd=FOLDER,
        env={"HOME": str(FOLDER), "SANDBUR_HOME": str(FOLDER / "home"), "SANDBUR_LEASE_S": "1"},
    )
    async with agent.session("s1") as session:
        result = await session.run(None if session.history else "keep it")
        results = [one for message in session.history for one in message.tool_results]
        outcomes = [[one.outcome, one.content] for one in results]
        print(json.dumps({"status": result.status, "results": outcomes}))


asyncio.run(main())
