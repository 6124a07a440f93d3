"""Runs of the shipped demo model with its real tools, in this process: many of them take little time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.models.scripted import collect

from sandbur.agent.history.time_travel.branches import restore_files
from sandbur.agent.runtime.runtime import Runtime
from sandbur.state.application import ExecutionMode
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store


class DemoRuns:
    """Works in the folder `work` below the one given; the store is in `data` beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.home = folder / "data"
        self.folder.mkdir(exist_ok=True)
        self.env = {"SANDBUR_HOME": str(self.home), "HOME": str(folder), "PATH": "/usr/bin:/bin"}

    @asynccontextmanager
    async def runtime(self, mode: ExecutionMode | None = None) -> AsyncIterator[Runtime]:
        runtime = Runtime.open({"model": "demo", "mode": mode, "cwd": self.folder}, self.env)
        try:
            yield runtime
        finally:
            await runtime.aclose()

    def store(self) -> Store:
        return Store.open(f"sqlite:///{self.home}/sandbur.db")

    async def work(
        self, *prompts: str, session_id: str | None = None, mode: ExecutionMode | None = "yolo"
    ) -> str:
        """Send each prompt in one session; return the id of the session."""
        async with self.runtime(mode) as runtime:
            session = await (runtime.create() if session_id is None else runtime.resume(session_id))
            for prompt in prompts:
                await collect(session.send(prompt))
            return session.id

    async def decide(self, session_id: str, **fields: object) -> None:
        """Decide about every waiting call in the same way."""
        async with self.runtime() as runtime:
            session = await runtime.resume(session_id)
            waiting = [c for c in session.state.pending_tool_calls if c.decision == "undecided"]
            decisions = [CallDecision.model_validate({"call_id": call.call_id, **fields}) for call in waiting]
            await collect(session.decide(decisions))

    async def fork(self, session_id: str, at: int, files: bool = False) -> str:
        async with self.runtime() as runtime:
            forked = await runtime.fork(session_id, at)
            if files:
                await restore_files(runtime.store, session_id, at, forked)
            return forked
