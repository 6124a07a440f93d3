"""Measures what a session costs the server of a store: rows, bytes, commits, log, and CPU of its worker.

On PostgreSQL, sessions of 20 tool turns with results of 2 KB, which one worker runs.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from bench.figures import tell
from bench.sessions import LATE_RESULT
from support.stores.databases import fresh_url, is_there
from support.stores.waiting import AGENT

from sandbur import Agent, ModelRequest, tool
from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.agent.fleet.worker import Worker
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

TURNS = 20
MOST_TRANSACTIONS = 6
SIZES = (
    "SELECT relname, pg_total_relation_size(relid), n_tup_ins, n_tup_upd, n_tup_hot_upd"
    " FROM pg_stat_user_tables WHERE n_tup_ins > 0 ORDER BY 2 DESC"
)
COUNTED = (
    "SELECT pg_current_wal_lsn() - '0/0', xact_commit FROM pg_stat_database"
    " WHERE datname = current_database()"
)


def make_agent(folder: Path) -> Agent[Any]:
    @tool(effect="effect")
    def act(text: str) -> str:
        """Act."""
        return LATE_RESULT

    def reply(request: ModelRequest) -> Any:
        done = sum(message.role == "tool" for message in request.messages)
        return ToolCall("act", text=str(done)) if done < TURNS else "done"

    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    return Agent(ScriptedModel(reply), tools=[act], mode="yolo", planning="off", cwd=folder, env=env)


async def run_sessions(store: Store, agent: Agent[Any], prefix: str, number: int) -> float:
    """Run so many new sessions by a worker; return the CPU seconds of this process for each."""
    for index in range(number):
        await create_session(store, AGENT, agent, f"{prefix}{index}")
        await send_message(store, f"{prefix}{index}", "go")
    began = time.process_time()
    await Worker(store, {AGENT: agent}, concurrency=8).run(once=True)
    return (time.process_time() - began) / number


def measure(folder: Path, number: int) -> None:
    if not is_there("postgresql"):
        print("no PostgreSQL answers here")
        return
    with fresh_url("postgresql", folder) as url:
        store = Store.open(url)
        agent = make_agent(folder)
        asyncio.run(run_sessions(store, agent, "warm", 1))
        (before,) = store.database.query(COUNTED)
        cpu_s = asyncio.run(run_sessions(store, agent, "s", number))
        (after,) = store.database.query(COUNTED)
        tables = store.database.query(SIZES)
        store.close()
    log_bytes, commits = (float(new - old) / number for new, old in zip(after, before, strict=True))
    size = sum(row[1] for row in tables) / number
    inserts, updates, hot = (sum(row[column] for row in tables) / number for column in (2, 3, 4))
    print(
        f"a session of {TURNS} tool turns: {inserts:.0f} rows inserted, {updates:.0f} updated ({hot:.0f} HOT)"
    )
    print(f"{size / 1024:.0f} KiB in the store, {log_bytes / 1024:.0f} KiB of write-ahead log")
    print(f"CPU of the worker {cpu_s * 1000:.0f} ms, {cpu_s / TURNS * 1000:.1f} ms a turn")
    for name, bytes_, added, *_ in tables[:6]:
        print(f"  {name:<12} {bytes_ / number / 1024:7.1f} KiB {added / number:6.1f} rows")
    tell("transactions of a tool turn, with those that read", commits / TURNS, MOST_TRANSACTIONS)
