"""A session whose model adds a fact to a memory of the program's own: memory_store_victim.py FOLDER KIND MODE

KIND is `plain` or `checked` (the memory can tell whether a fact was added). With the variable DIE, the
process is killed after the fact is on disk and before `add` returns. Another run goes on from there. The
status, the waiting calls, the results and the facts are printed.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from support.stores.sqlite_memory import CheckedSqliteMemory, SqliteMemory

from sandbur import Agent
from sandbur.testing import ScriptedModel, ToolCall


def die_if_wanted() -> None:
    if os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: Path, kind: str, mode: Any) -> None:
    made = CheckedSqliteMemory if kind == "checked" else SqliteMemory
    memory = made(folder / "facts.db", die_if_wanted)
    is_new = not (folder / "begun").exists()
    (folder / "begun").touch()
    turns = [ToolCall("memory", command="add", text="The port is 8080"), "Done."]
    agent = Agent(
        ScriptedModel(turns if is_new else turns[1:]),
        memory=memory, mode=mode, cwd=folder, store=f"sqlite:///{folder}/store.db",
    )  # fmt: skip
    async with agent.session("s1") as session:
        result = await (session.run("The port is 8080.") if is_new else session.run())
        texts = [one.content for message in session.history for one in message.tool_results]
    waiting = [call.kind for call in result.pending]
    print(json.dumps({"status": result.status, "waiting": waiting, "results": texts, "facts": memory.read()}))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
