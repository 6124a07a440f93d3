"""How soon a sub-agent asks its model, what it writes before, and how many tokens the command sends at first.

The time is that of the processor from the reply that starts the sub-agent to the sub-agent's first request:
the call is judged and recorded, and the session of the sub-agent is opened and stored.
"""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import tell

from sandbur import Agent, ModelRequest
from sandbur.testing import ScriptedModel, ToolCall

MOST_MS, MOST_BYTES, MOST_TOKENS = 8, 2048, 3000
HISTORY_BYTES = 1_000_000


async def measure(folder: Path, rounds: int) -> None:
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    began_s = 0.0
    times: list[float] = []

    def ask(request: ModelRequest) -> Any:
        nonlocal began_s
        is_answer = bool(list(request.messages)[-1].tool_results)
        began_s = time.process_time()
        return "Read." if is_answer else ToolCall("task", description="d", prompt="Read it.", agent="reader")

    def read(request: ModelRequest) -> str:
        times.append((time.process_time() - began_s) * 1000)
        return "It is read."

    reader = Agent(ScriptedModel(read), name="reader", description="Reads a part.", env=env)
    lead = Agent(ScriptedModel(ask), agents=[reader], env=env)
    async with lead, lead.session() as session:
        for _ in range(rounds):
            await session.run("Read all parts.")
    tell("from a call to the first request of its sub-agent, CPU", median(times[1:]), MOST_MS, " ms")
    tell(
        "what a sub-agent has written at its first request", await _count_bytes(folder), MOST_BYTES, " bytes"
    )
    tell("system prompt and tools of the command", _count_tokens(folder), MOST_TOKENS, " tokens")


async def _count_bytes(folder: Path) -> int:
    """Return what is in the store of a sub-agent at its first request; its parent has a long history."""
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "long")}
    found: list[int] = []

    def read(request: ModelRequest) -> str:
        with sqlite3.connect(next((folder / "long").glob("*.db"))) as store:
            (child,) = store.execute("SELECT id FROM sessions ORDER BY rowid DESC LIMIT 1").fetchone()
            found.append(_sum_rows(store, child))
        return "It is read."

    reader = Agent(ScriptedModel(read), name="reader", description="Reads a part.", env=env)
    start = ToolCall("task", description="d", prompt="Read it.", agent="reader")
    lead = Agent(ScriptedModel(["ok", start, "Read."]), agents=[reader], env=env)
    async with lead, lead.session() as session:
        await session.run("x" * HISTORY_BYTES)
        await session.run("Read all parts.")
    return found[0]


def _sum_rows(store: sqlite3.Connection, session_id: str) -> int:
    """Return the bytes of all values in the rows of a session."""
    total = 0
    for (table,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = [row[1] for row in store.execute(f"PRAGMA table_info('{table}')")]
        key = "id" if table == "sessions" else "session_id"
        if key in columns:
            for row in store.execute(f"SELECT * FROM '{table}' WHERE {key} = ?", (session_id,)):
                size = sum(len(str(value).encode()) for value in row if value is not None)
                total += size
    return total


def _count_tokens(folder: Path) -> int:
    """Return the input tokens of a first request of the command, whose message is one letter."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SANDBUR_HOME": str(folder / "command")}
    words = [sys.executable, "-m", "sandbur", "-p", "x", "-m", "demo", "--output-format", "json"]
    done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["usage"]["input_tokens"])
