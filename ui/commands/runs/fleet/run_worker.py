"""`sandbur worker`: claims waiting sessions of a store and runs them, until it is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from .....actions.ports.events import ApprovalNeeded, Event, RunFinished, RunStarted, ToolStarted
from .....actions.workspace.paths import format_count
from .....agent.config.load import load_settings
from .....agent.fleet.worker import Worker
from .....agent.sdk.loading import open_named_agent
from .....state.store.sessions.budgets import BudgetRows
from .....state.store.sessions.claims import write_quota
from .....state.store.store import Store
from ....cli.open_session import read_overrides, tell_notice
from ....terminal.drive import exit_code
from ....terminal.terminal import say
from ....terminal.text.sanitize import one_line
from .command import WorkerCommand, parse_budget, parse_quota

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def run_worker(command: WorkerCommand) -> int:
    """Run the worker; return 0 if no session waits with `--once`, or the exit code of the signal."""
    settings = load_settings(read_overrides(command), os.environ)
    agents = dict(open_named_agent(source, settings.cwd) for source in command.agents)
    store = Store.open(settings.store, settings.tenant, tell_notice, settings.durability, settings.home)
    try:
        _write_limits(store, command)
        report = _Report(is_quiet=command.quiet)
        worker = Worker(
            store, agents, command.concurrency, command.labels, report.tell_event, report.tell_notice
        )
        most = format_count(command.concurrency, "session")
        report.tell_notice(f"Worker {worker.profile.id} runs up to {most} of {', '.join(agents)}.")
        stopped = await _run_until_signal(worker, command, report)
    finally:
        store.close()
    return 0 if stopped is None else exit_code(stopped)


def _write_limits(store: Store, command: WorkerCommand) -> None:
    for text in command.budgets:
        BudgetRows(store.database).write(*parse_budget(text))
    for text in command.quotas:
        write_quota(store.database, *parse_quota(text))


async def _run_until_signal(worker: Worker, command: WorkerCommand, report: _Report) -> signal.Signals | None:
    """Run a worker; return the signal that ended it, or None. A second signal ends the process at once."""
    received: list[signal.Signals] = []
    loop = asyncio.get_running_loop()
    draining: set[asyncio.Task[None]] = set()

    def receive(number: signal.Signals) -> None:
        if received:
            # Running commands end with this process: their supervisors notice.
            os._exit(exit_code(number))
        received.append(number)
        running = format_count(len(worker.running), "session")
        report.tell_notice(f"{number.name}: the worker hands {running} back.")
        draining.add(asyncio.ensure_future(worker.drain()))

    def receive_end_of_stdin() -> None:
        if not received:
            receive(signal.SIGTERM)

    for number in _SIGNALS:
        loop.add_signal_handler(number, receive, number)
    if command.until_stdin_ends:
        _watch_stdin(loop, receive_end_of_stdin)
    try:
        await worker.run(command.once)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        if draining:
            await asyncio.wait(draining)
    return received[0] if received else None


def _watch_stdin(loop: asyncio.AbstractEventLoop, on_end: Callable[[], None]) -> None:
    """Call `on_end` in the event loop when stdin ends, in whatever way the process at its other end ended."""

    def read_to_end() -> None:
        with suppress(OSError):
            while os.read(0, 65536):
                pass
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(on_end)

    threading.Thread(target=read_to_end, name="stdin", daemon=True).start()


class _Report:
    """Prints a line for each event on stderr."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet = is_quiet

    def tell_event(self, session_id: str, event: Event) -> None:
        if not self._is_quiet and (text := _describe(event)):
            say(f"{session_id}  {one_line(text)}")

    def tell_notice(self, notice: str) -> None:
        if not self._is_quiet:
            say(one_line(notice))


def _describe(event: Event) -> str:
    """Return a line about an event; empty if it has none."""
    if isinstance(event, RunStarted):
        return "run started"
    if isinstance(event, ToolStarted):
        return f"{event.tool} started"
    if isinstance(event, ApprovalNeeded):
        return "waits for a decision about " + ", ".join(call.tool for call in event.pending)
    if isinstance(event, RunFinished):
        return f"{event.status} after {event.duration_ms} ms"
    return ""
