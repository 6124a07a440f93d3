"""A session whose model writes and corrects a fact and its page, and dies: memory_victim.py URL FOLDER

Another run goes on from there. The results of the calls, the facts and the page are printed.
"""

import asyncio
import json
import sys
from pathlib import Path

from sandbur import Agent, Memory
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

FILE, PAGE = "/memories/project/port.md", "/memories/session.md"
TURNS = [
    ToolCall("memory", command="create", path=FILE, file_text="The port is 8080"),
    ToolCall("memory", command="str_replace", path=FILE, old_str="8080", new_str="9090"),
    ToolCall("memory", command="rename", old_path=FILE, new_path="/memories/project/net.md"),
    [
        ToolCall("memory", command="create", path=PAGE, file_text="Done: the port"),
        ToolCall("memory", command="insert", path=PAGE, insert_line=1, insert_text="Next: the name"),
    ],
    "Done.",
]


def count_calls(url: str) -> int | None:
    """Return how many replies the session has, or None if there is no session."""
    store = Store.open(url)
    is_there = store.index.exists("s1")
    count = store.show("s1").state.usage.llm_calls if is_there else None
    store.close()
    return count


async def main(url: str, folder: Path) -> None:
    begun = count_calls(url)
    model = ScriptedModel(TURNS[begun or 0 :])
    agent = Agent(model, memory="agent", cwd=folder, store=url)
    async with agent.session("s1") as session:
        result = await (session.run("The port moves.") if begun is None else session.run())
        page = session.page
        texts = [one.content for message in session.history for one in message.tool_results]
    facts = await Memory.of_agent(agent).list(all=True)
    found = sorted((fact.text, fact.state, fact.path) for fact in facts)
    print(json.dumps({"status": result.status, "results": len(texts), "page": page, "facts": found}))


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
