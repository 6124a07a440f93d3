"""Measures what sessions cost: the server of a store, and the process that commits their steps.

1. On PostgreSQL, sessions of 20 tool turns with results of 2 KB, which one worker runs: rows, bytes, commits,
   log, and CPU of the worker.
2. A durable commit of 2 KB on each kind of store, next to a step of DBOS where `SANDBUR_BENCH_PEERS` names a
   Python that has it (`pip install dbos 'psycopg[binary]'`).
"""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.figures import tell
from bench.sessions import LATE_RESULT
from support.stores.databases import fresh_url, is_there, run
from support.stores.waiting import AGENT

from sandbur import Agent, ModelRequest, tool
from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.agent.fleet.worker import Worker
from sandbur.state.application import ApplicationState
from sandbur.state.conversation.messages import person_message
from sandbur.state.process.identity import make_runner_name
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

TURNS = 20
MOST_TRANSACTIONS = 6
WARM_UP = 50
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


async def time_commits(store: Store, number: int) -> float:
    """Return the milliseconds of the processor for a step with a message of 2 KB, which is one commit."""
    settings, state = SessionSettings(model="m", cwd="/"), ApplicationState()
    store.index.create("s", settings)
    writer = store.writer("s")
    known = writer.chain.records, writer.chain.digest
    writer.claim = await store.index.claim("s", make_runner_name(), known, settings, "")
    began = 0.0
    for seq in range(-WARM_UP, number):
        if seq == 0:
            began = time.process_time()
        added = person_message(LATE_RESULT)
        state = state.model_copy(update={"chat_history": state.chat_history.append(added)})
        await writer.save(seq + WARM_UP, "execute_tools", dict(state))
    return (time.process_time() - began) / number * 1000


DBOS_PROGRAM = """
import asyncio, sys, time
from dbos import DBOS

DBOS(config={"name": "bench", "system_database_url": sys.argv[1], "run_admin_server": False})
number, warm_up = int(sys.argv[2]), int(sys.argv[3])

@DBOS.step()
async def step(n: int) -> str:
    return "r" * 2000

@DBOS.workflow()
async def flow() -> float:
    for n in range(warm_up):
        await step(n)
    began = time.process_time()
    for n in range(number):
        await step(n)
    return (time.process_time() - began) / number * 1000

async def main() -> None:
    print(await flow())

DBOS.launch()
asyncio.run(main())
DBOS.destroy()
"""


def time_dbos(peers: str, url: str, number: int) -> float:
    """Return the milliseconds of the processor for a step of DBOS with a result of 2 KB."""
    line = [peers, "-W", "ignore", "-c", DBOS_PROGRAM, url, str(number), str(WARM_UP)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"DBOS failed: {ended.stderr[-2000:]}")
    return float(ended.stdout.split()[-1])


def measure_commits(folder: Path, number: int) -> None:
    peers = os.environ.get("SANDBUR_BENCH_PEERS", "")
    for kind in ("sqlite", *filter(is_there, ("postgresql", "mysql"))):
        with fresh_url(kind, folder) as url:
            store = Store.open(url, home=folder / "home")
            cost_ms = asyncio.run(time_commits(store, number))
            store.close()
        print(f"{kind}: a durable commit of 2 KB, CPU {cost_ms:.2f} ms")
        if not peers or kind == "mysql":
            continue
        with fresh_url(kind, folder) as own:
            if kind == "postgresql":
                # DBOS makes a schema of its own.
                parts = urlsplit(own)
                run(kind, f'GRANT CREATE ON DATABASE "{parts.path[1:]}" TO "{parts.username}"')
            theirs_ms = time_dbos(peers, f"sqlite:///{folder}/dbos.db" if kind == "sqlite" else own, number)
        tell(f"{kind}: a commit, CPU", cost_ms / theirs_ms, 1, against=f"a step of DBOS, {theirs_ms:.2f} ms")
