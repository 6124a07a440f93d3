"""Starts the extraction of facts after runs, in the background, and stops it when the process ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ....actions.ports import Tool, ToolSource
from ....actions.ports.events import Event, RunFinished, RunStarted
from ....actions.turn.bugs_logged import BugsLogged
from ....state.errors import SandburError, SessionHeld, SessionMoved
from ....state.memory.extractions import MOST_ATTEMPTS, Extractions
from ....state.memory.proposals import Proposals
from ....state.session import SessionSettings
from ...runtime.agent_definition import PLAIN, Definition
from ...runtime.extension_runtime import ExtensionRuntime, ProcessContext, SessionAdditions, SessionContext
from ...session.observers import Observer
from ..memory.memories import open_facts
from ..memory.scopes import find_scopes
from .extraction_job import ExtractionJob, ExtractionReport

ResultT = TypeVar("ResultT")
_QUIET_S = 2.0
"""How long after a run its extraction begins. A process that ends before leaves it to the next one."""
_GRACE_S = 3.0
"""How long a process that ends waits for an extraction that has begun."""
_RETRY_S = 600.0
"""How long a session that failed is left alone in this process."""


class ExtractionRuntime(ExtensionRuntime):
    def __init__(self, process: ProcessContext) -> None:
        super().__init__(process)
        self._workers: dict[tuple[str, str], ExtractionWorker] = {}
        """Name of the agent and working folder -> what reads the sessions of both."""

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        is_of_person = self.process.of_command and session.spawned_by is None and needs_model
        if not is_of_person or self._find_mode(session, definition) == "off":
            return ()
        proposals = Proposals(open_facts(self.process.store))
        scopes = find_scopes(Path(session.cwd), session.user).all
        return (_WaitingFacts(lambda: proposals.count(scopes)),)

    def open_session(self, context: SessionContext) -> SessionAdditions:
        settings, definition = context.settings, context.definition
        is_read = context.has_model and settings.spawned_by is None and not settings.is_workflow
        if not is_read or self._find_mode(settings, definition) == "off":
            return SessionAdditions()
        worker = self._open_worker(definition, Path(settings.cwd))
        return SessionAdditions(observers=(_RunWatcher(context.id, worker),))

    async def extract(self, definition: Definition | None, cwd: Path) -> ExtractionReport:
        """Read all sessions of an agent in a folder now, also those that failed too often.

        `definition` None: the sessions of the command.
        """
        return await self._open_worker(definition or PLAIN, cwd).run_all(with_failed=True)

    async def aclose(self) -> None:
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))

    def _open_worker(self, definition: Definition, cwd: Path) -> ExtractionWorker:
        name = "" if self.process.of_command else f"agent:{definition.name}"
        key = (name, str(cwd))
        if key not in self._workers:
            store = self.process.store
            extractions = Extractions(store.database, store.tenant, name)

            def keeps(settings: SessionSettings) -> bool:
                return self._find_mode(settings, definition) == "keep"

            self._workers[key] = ExtractionWorker(self.process, definition, extractions, str(cwd), keeps)
        return self._workers[key]

    def _find_mode(self, session: SessionSettings, definition: Definition) -> str:
        # The setting of a person concerns the agent of the command; an agent of a program decides for itself.
        own = definition.overrides.get("memory_extraction")
        if own is not None:
            return str(own)
        if not definition.has_builtin_tools:
            return "off"
        return str(self.process.settings_of_folder(Path(session.cwd)).of("memory_extraction"))


class ExtractionWorker:
    """Reads the sessions of one agent in one folder, one after the other."""

    def __init__(
        self,
        process: ProcessContext,
        definition: Definition,
        extractions: Extractions,
        folder: str,
        keeps: Callable[[SessionSettings], bool],
    ) -> None:
        """`keeps` returns whether facts of a session are kept by rule."""
        self.extractions = extractions
        self._process = process
        self._definition = definition
        self._folder = folder
        self._keeps = keeps
        self._task: asyncio.Task[None] | None = None
        self._wanted_after_s: float | None = None
        """The seconds until the next reading; None if no reading is planned."""
        self._is_reading = asyncio.Lock()
        self._failed_at: dict[str, float] = {}
        """Session -> when it failed last, on the monotonic clock."""
        self._notices: list[str] = []

    def start(self, after_s: float) -> None:
        """Read in the background, in some seconds; if it reads already, once more after that."""
        self._wanted_after_s = after_s
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    def take_notices(self) -> list[str]:
        """Return the sentences about what happened in the background since the last time."""
        notices, self._notices = self._notices, []
        return notices

    async def run_all(self, with_failed: bool = False) -> ExtractionReport:
        """Read every session that has unread records."""
        report = ExtractionReport()
        async with self._is_reading:
            due = await self._offload(lambda: self.extractions.list_due(self._folder, with_failed))
            for session_id in due:
                failed_at = self._failed_at.get(session_id)
                if with_failed or failed_at is None or time.monotonic() - failed_at > _RETRY_S:
                    report = report.add(await self._read(session_id))
        return report

    async def close(self) -> None:
        """End the work: at once if it has not begun, else after a moment."""
        task = self._task
        if task is None or task.done():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S), self._is_reading:
                pass
        task.cancel()
        await asyncio.wait([task])

    async def _work(self) -> None:
        while (after_s := self._wanted_after_s) is not None:
            self._wanted_after_s = None
            await asyncio.sleep(after_s)
            with BugsLogged("the facts of a session", stops_all=True):
                report = await self.run_all()
                self._notices += report.problems
                if report.proposed:
                    what = "fact waits" if report.proposed == 1 else "facts wait"
                    self._notices.append(f"{report.proposed} proposed {what} for you: /memory review")

    async def _read(self, session_id: str) -> ExtractionReport:
        """Read one session. A failure is counted, and is one sentence of the report."""
        try:
            settings = await self._offload(lambda: self._process.store.index.settings(session_id))
            job = ExtractionJob(
                self._process, self._definition, self.extractions, session_id, self._keeps(settings)
            )
            return await job.run()
        except (SessionHeld, SessionMoved):  # another process reads it
            return ExtractionReport()
        except SandburError as error:
            self._failed_at[session_id] = time.monotonic()
            attempts = await self._offload(
                lambda problem=error.message: self.extractions.note_failure(session_id, problem)
            )
            again = "It is tried again." if attempts < MOST_ATTEMPTS else "Try again: sandbur memory extract"
            why = error.message.rstrip(".")
            problem = f"No facts were taken from session {session_id[:8]}: {why}. {again}"
            return ExtractionReport(problems=(problem,))

    async def _offload(self, work: Callable[[], ResultT]) -> ResultT:
        return await self._process.store.database.offload(work)


class _WaitingFacts:
    """A tool source without tools, whose notice says how many facts wait for the person."""

    name = "extraction"

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._waiting = 0

    async def tools(self) -> Sequence[Tool]:
        self._waiting = await asyncio.to_thread(self._count)
        return ()

    def notices(self) -> Sequence[str]:
        if not self._waiting:
            return ()
        what = "fact waits" if self._waiting == 1 else "facts wait"
        return (f"{self._waiting} proposed {what} for you: /memory review",)

    async def aclose(self) -> None:
        """Do nothing: the source holds nothing open."""


class _RunWatcher(Observer):
    """Notes that a session is to be read, and starts the reading after its runs."""

    def __init__(self, session_id: str, worker: ExtractionWorker) -> None:
        self._session_id = session_id
        self._worker = worker

    async def before_event(self, event: Event) -> Event | None:
        if isinstance(event, RunStarted):
            for notice in self._worker.take_notices():
                self.notify(notice)
            # On disk before the run, so that a kill during the run loses nothing.
            await asyncio.to_thread(self._worker.extractions.begin, self._session_id)
            self._worker.start(after_s=0)  # what earlier processes left
        elif isinstance(event, RunFinished):
            self._worker.start(after_s=_QUIET_S)
        return None
