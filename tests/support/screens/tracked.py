"""Sessions of every kind for the tracking UI, and its server as a process."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.places import ROOT

from sandbur.state.calls import CallDecision
from sandbur.state.errors import ModelError, StoreError
from sandbur.state.store.store import Store

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


async def chat(store: Store, session_id: str, *turns: Any, text: str = "do it") -> None:
    """Run one message through the graph, in yolo mode, with a tool that does nothing."""
    session = await open_session(store, ScriptedModel(*turns), Recorder(), session_id=session_id)
    await collect(session.send(text))
    store.forget(session_id)


async def run_plan(store: Store, session_id: str = "planned") -> None:
    """Run a plan of two steps, each with a tool call."""
    turns = [
        START,
        plan("measure the parts", "write it down"),
        [("act", {"text": "measure"})],
        finish("the parts measure 3 and 4"),
        [("act", {"text": "write"})],
        finish("written down"),
        "all done",
    ]
    await chat(store, session_id, *turns, text="measure and write")


async def run_approved_call(store: Store, session_id: str = "approved") -> None:
    """Run a call that a person approves."""
    session = await open_session(
        store, ScriptedModel([("act", {"text": "risky"})], "done"), Recorder(), session_id=session_id,
        mode="interactive",
    )  # fmt: skip
    await collect(session.send("something risky"))
    call = session.state.pending_tool_calls[0].call_id
    await collect(session.decide([CallDecision(call_id=call, approved=True, by="ada@workshop")]))
    store.forget(session_id)


async def run_to_failure(store: Store, session_id: str = "failed") -> None:
    """Make a run that ends with a provider's error."""
    await chat(store, session_id, ModelError("The provider said 500."), text="fail please")


async def dead(store: Store, session_id: str = "dead") -> None:
    """Make a run whose process seems to have died."""

    working = asyncio.Event()

    async def never() -> Any:
        working.set()
        await asyncio.Event().wait()

    session = await open_session(store, ScriptedModel(never), Recorder(), session_id=session_id)
    task = asyncio.ensure_future(collect(session.send("die please")))
    await working.wait()
    disown(store, session_id)
    await cancel_run(task)
    store.forget(session_id)


def disown(store: Store, session_id: str) -> None:
    """Change the owner of a session to a process that does not exist."""
    gone = f"{os.uname().nodename}:999999:1:abcd"
    sql = "UPDATE heads SET owner = ?, epoch = epoch + 1 WHERE session_id = ?"
    store.database.commit([(sql, (gone, session_id))])


async def cancel_run(run: "asyncio.Future[Any]") -> None:
    """Cancel a run that cannot write any more."""
    run.cancel()
    with suppress(asyncio.CancelledError, StoreError):
        await run


async def every_kind(store: Store) -> None:
    """Fill a store with one session of each kind."""
    await run_plan(store)
    await run_approved_call(store)
    await run_to_failure(store)
    await chat(store, "hostile", HOSTILE, text=HOSTILE)
    store.fork("planned", "forked", 3)
    await chat(store, "forked", "another answer", text="now differently")


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    """The URL without the token."""
    token: str
    process: "subprocess.Popen[str]"

    @property
    def bearer(self) -> dict[str, str]:
        """The headers with the token."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def peak_mb(self) -> int:
        """The peak memory of the process, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("utf-8")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) // 1024


@contextmanager
def serve_ui(url: str, *flags: str, home: Path, env: dict[str, str] | None = None) -> "Iterator[Served]":
    """Start `sandbur ui`, and yield it."""
    command = [
        sys.executable,
        "-m",
        "sandbur.ui.cli.main",
        "ui",
        "--port",
        "0",
        "--no-open",
        "--store",
        url,
        *flags,
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SANDBUR", "BURR"))}
    environment = {**clean, "HOME": str(home), "SANDBUR_HOME": str(home / "sandbur"), **(env or {})}
    root = ROOT
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=root
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"(http://[^\s?]+)(?:\?token=(\S+))?", line)
            assert found is not None, (line, process.stderr and process.stderr.read())
            yield Served(found[1], found[2] or "", process)
        finally:
            process.terminate()
