"""`sandbur bisect`: finds the step of a run after which a command fails, and shows what that step changed."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from state.errors import UsageError
from ui.arguments import Arguments
from ui.opening import opened
from ui.sanitize import one_line
from ui.signals import StopSignals, exit_code
from ui.terminal import put, say

if TYPE_CHECKING:
    from agent.bisection import Bisector
    from agent.runtime import Runtime


async def bisect_session(arguments: Arguments) -> int:
    if not arguments.test.strip():
        raise UsageError("--test is empty.", 'Say what fails: sandbur bisect ID --test "pytest -q"')
    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        task = asyncio.ensure_future(_bisect(runtime, session_id, arguments))
        with StopSignals(lambda: _cancel(task)) as signals:
            try:
                return await task
            except asyncio.CancelledError:
                if signals.received is None:
                    raise
                say("Stopped; the copy is removed.")
                return exit_code(signals.received)


def _cancel(task: "asyncio.Future[int]") -> None:
    task.cancel()


async def _bisect(runtime: "Runtime", session_id: str, arguments: Arguments) -> int:
    from agent.bisection import Bisector
    from agent.touched_files import TouchedFiles
    from ui.bisect_view import object_of, put_probe, report_of, say_probe, show_report

    settings = runtime.store.index.settings(session_id)
    touched = await runtime.store.database.offload(lambda: TouchedFiles(runtime.store, session_id))
    if not touched.steps:
        say(f"No step of session {session_id} is known to have changed a file.")
        return 4
    root = _folder(settings.cwd)
    if runtime.store.index.is_held(session_id):
        say("The session is running: what it changes meanwhile does not count.")
    count, test = len(touched.steps), one_line(arguments.test)
    steps = "1 step" if count == 1 else f"{count} steps"
    say(f"{steps} changed files; `{test}` runs in copies of {one_line(str(root))}.")
    show = say_probe if arguments.json else put_probe
    timeout_s = arguments.timeout or 600.0
    bisector = Bisector(touched, root, (runtime.settings.home,), arguments.test, timeout_s, show)
    found = await bisector.search()
    report = await runtime.store.database.offload(
        lambda: report_of(runtime.store, session_id, touched, root, found)
    )
    for note in _notes(bisector):
        say(note)
    if arguments.json:
        put(json.dumps(object_of(report), indent=1))
    else:
        show_report(report)
    return 0 if found.is_exact else 4


def _folder(cwd: str) -> Path:
    if not Path(cwd).is_dir():
        raise UsageError(f"The folder of this session, {one_line(cwd)}, is gone.", "Its files are needed.")
    return Path(os.path.realpath(cwd))


def _notes(bisector: "Bisector") -> Iterator[str]:
    for names, what in (
        (bisector.unread, "could not be copied"),
        (bisector.elsewhere, "outside of the folder stayed as now"),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"Note: {', '.join(map(one_line, names[:3]))}{more} {what}."
