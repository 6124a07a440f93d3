"""A durable step that stores 2 KB: of a workflow of DBOS, and of a session's writer.

Usage, by `framework_peers.py`: step_peers.py sandbur|dbos STORE_URL. Prints a JSON object with the CPU time
of one step, of all threads.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

FIRST, STEPS = 50, 400
CONTENT = "x" * 2048


def measure_dbos(url: str) -> float:
    dbos = import_module("dbos")
    config = {"name": "bench", "system_database_url": url, "log_level": "CRITICAL", "run_admin_server": False}
    dbos.DBOS(config=config)

    @dbos.DBOS.step()
    def store(number: int) -> str:
        return CONTENT

    @dbos.DBOS.workflow()
    def work(steps: int) -> None:
        for number in range(steps):
            store(number)

    dbos.DBOS.launch()
    work(FIRST)
    began = time.process_time()
    work(STEPS)
    return time.process_time() - began


def measure_sandbur(url: str) -> float:
    return asyncio.run(_measure_writer(url))


async def _measure_writer(url: str) -> float:
    states, store_modules = (
        import_module("sandbur.state.application"),
        import_module("sandbur.state.store.store"),
    )
    messages, chain = (
        import_module("sandbur.state.conversation.messages"),
        import_module("sandbur.state.databases.chain"),
    )
    runner = import_module("sandbur.state.process.identity").make_runner_name()
    settings = import_module("sandbur.state.session").SessionSettings(model="m", cwd="/")
    store = store_modules.Store.open(url)
    store.index.create("s1", settings)
    writer = store.writer("s1")
    records = writer.chain.records, writer.chain.digest
    writer.claim = await store.index.claim("s1", runner, records, settings, "")
    state, began = states.ApplicationState(), 0.0
    for number in range(FIRST + STEPS):
        if number == FIRST:
            began = time.process_time()
        history = state.chat_history.append(messages.person_message(CONTENT))
        state = state.model_copy(update={"chat_history": history})
        call = (number, f"c{number}", "finished", "2026-01-01", '{"outcome":"ok"}')
        writer.queue(chain.Entry("calls", call))
        await writer.save(number, "execute_tools", dict(state))
    took = time.process_time() - began
    store.close()
    return took


CONTENDERS: dict[str, Callable[[str], float]] = {"sandbur": measure_sandbur, "dbos": measure_dbos}


def main(name: str, url: str) -> None:
    if url.startswith("sqlite"):
        Path(urlsplit(url).path).parent.mkdir(parents=True, exist_ok=True)
    cpu_ms = CONTENDERS[name](url) / STEPS * 1000
    release = version("dbos") if name == "dbos" else import_module("sandbur.agent.runtime.version").VERSION
    print(json.dumps({"version": release, "cpu_ms": cpu_ms}), flush=True)
    os._exit(0)  # DBOS has threads that go on


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
