"""`sandbur resume --due`: resumes every run that is due or whose process died, one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from ....actions.ports.events import Event, RunFinished
from ....agent.runtime.runtime import Runtime
from ....agent.session.recovery import recover
from ....agent.session.session import Session
from ....state.errors import SandburError, SessionHeld
from ....state.store.sessions.session_rows import WaitingRun, list_due_runs
from ...cli.open_session import open_runtime
from ...headless.headless import StreamView, explain, resume_line, warn
from ...headless.json_output import encode, make_failure, result_object
from ...terminal.drive import drive
from ...terminal.terminal import put, say
from ...terminal.text.sanitize import one_entry, one_line
from .command import ResumeCommand


async def resume_due(command: ResumeCommand) -> int:
    """Resume the due runs; return the exit code of the first run that failed, else 0."""

    # Each run uses its own folder, regardless of -C.
    async with open_runtime(command.but(overrides={**command.overrides, "cwd": None})) as runtime:
        store = runtime.store
        found = list_due_runs(store.database, store.tenant)
        report = _Report(command)
        for run in found:
            if run.held_by:
                report.skip(run, run.held_by)
        for run in [run for run in found if not run.held_by][: command.limit]:
            if command.dry_run:
                report.would_run(run)
            elif not await _carry_on(runtime, run, report):
                break
    return report.end()


async def _carry_on(runtime: Runtime, run: WaitingRun, report: _Report) -> bool:
    """Resume one run; return False if it was interrupted, so that the next run does not start."""
    try:
        session = await runtime.resume(run.session_id)
        warn(session.notices, report.command.progress)
        finished, _ = await drive(
            session, await _start(session), report, leave=lambda: say(resume_line(session))
        )
    except SessionHeld as held:
        report.skip(run, held.message)
        return True
    except SandburError as error:
        finished = replace(make_failure(error), session_id=run.session_id)
        report.show(finished)
        say(f"sandbur: {one_entry(str(error))}")
    else:
        report.explain(finished, session)
    report.add(run, finished)
    return finished.status != "interrupted"


async def _start(session: Session) -> AsyncIterator[Event]:
    """Begin the run: it carries an open turn on, or answers the next message that waits."""
    is_idle = session.next_action == "prompt" and not session.state.turn_open
    message = await session.inbox.next_queued() if is_idle else None
    return recover(session) if message is None else session.send(message)


class _Report:
    """Prints the runs in the chosen format."""

    def __init__(self, command: ResumeCommand) -> None:
        self.command = command
        self._format = command.output_format
        self._stream = StreamView()
        self._runs: list[dict[str, Any]] = []
        self._skipped: list[dict[str, str]] = []
        self._code = 0

    def show(self, event: Event) -> None:
        if self._format == "stream-json":
            self._stream.show(event)

    def tick(self) -> None:
        pass

    def would_run(self, run: WaitingRun) -> None:
        self._runs.append({"session_id": run.session_id, "title": run.title, "reason": run.reason})
        if self._format == "text":
            put(f"{run.session_id}  {one_line(run.title)}  ({run.reason})")

    def skip(self, run: WaitingRun, reason: str) -> None:
        self._skipped.append({"session_id": run.session_id, "reason": reason})
        if not self.command.quiet:
            say(f"Skipped: {one_line(reason)}")

    def add(self, run: WaitingRun, finished: RunFinished) -> None:
        self._code = self._code or finished.exit_code
        self._runs.append(result_object(finished))
        if self._format == "text":
            put(f"{run.session_id}  {finished.status}  {one_line(run.title)}")

    def explain(self, finished: RunFinished, session: Session) -> None:
        """Print on stderr why a run waits or failed."""
        if not self.command.quiet:
            explain(finished, session)

    def end(self) -> int:
        """Print the JSON object if that is the output format; return the exit code of the command."""
        if self._format == "json":
            found = {"type": "due", "exit_code": self._code, "runs": self._runs, "skipped": self._skipped}
            put(encode(found))
        return self._code
