"""`sandbur bisect`: finds the step of a run after which a command fails, and shows what that step changed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from ....actions.workspace.paths import format_count
from ....agent.history.reports.recorded_calls import RecordedCall, read_recorded_calls
from ....agent.history.time_travel.bisect import Bisection, Bisector, ProbedStep
from ....agent.history.time_travel.touched_files import FileDifference, TouchedFiles, differences_of_steps
from ....agent.history.timeline import TimelineStep, list_timeline
from ....agent.models.providers import key_names
from ....agent.runtime.runtime import Runtime
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ....state.store.store import Store
from ...cli.open_session import open_runtime
from ...terminal.drive import StopSignals, exit_code
from ...terminal.terminal import encode, make_console, put, say
from ...terminal.text.diffs import Line, color_diff
from ...terminal.text.sanitize import one_line, plain
from .command import BisectCommand


async def bisect(command: BisectCommand) -> int:
    if not command.test.strip():
        raise UsageError("--test is empty.", 'Name a command: sandbur bisect ID --test "pytest -q"')

    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session)
        task = asyncio.ensure_future(_bisect(runtime, session_id, command))
        with StopSignals(task.cancel) as signals:
            try:
                return await task
            except asyncio.CancelledError:
                if signals.received is None:
                    raise
                say("Stopped; the copy is removed.")
                return exit_code(signals.received)


async def _bisect(runtime: Runtime, session_id: str, command: BisectCommand) -> int:
    settings = runtime.store.index.settings(session_id)
    touched = await runtime.store.database.offload(lambda: TouchedFiles(runtime.store, session_id))
    if not touched.steps:
        say(f"No step of session {session_id} is known to have changed a file.")
        return 4
    root = _folder(settings.cwd)
    if runtime.store.index.is_held(session_id):
        say("The session is running: changes that it makes from now on are not tested.")
    count, test = len(touched.steps), one_line(command.test)
    steps = format_count(count, "step")
    say(f"{steps} changed files; `{test}` runs in copies of {one_line(str(root))}.")
    show = say_probe if command.json else put_probe
    keys = key_names(runtime.settings.providers)
    bisector = Bisector(touched, root, (runtime.settings.home,), command.test, command.timeout, show, keys)
    found = await bisector.search()
    report = await runtime.store.database.offload(
        lambda: report_of(runtime.store, session_id, touched, root, found)
    )
    for note in _notes(bisector):
        say(note)
    if command.json:
        put(encode(object_of(report)))
    else:
        show_report(report)
    return 0 if found.is_exact else 4


def _folder(cwd: str) -> Path:
    if not Path(cwd).is_dir():
        raise UsageError(f"The folder of this session does not exist: {one_line(cwd)}.", "Restore it first.")
    return Path(os.path.realpath(cwd))


def _notes(bisector: Bisector) -> Iterator[str]:
    for names, what in (
        (bisector.unread, "could not be copied"),
        (bisector.elsewhere, "outside of the folder were used as they are now"),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"Note: {', '.join(map(one_line, names[:3]))}{more} {what}."


_MAX_LINES = 12
_STYLES = {"good": "green", "bad": "red", "skip": "yellow"}


@dataclass(frozen=True, slots=True)
class Report:
    session_id: str
    found: Bisection
    steps: dict[int, TimelineStep]
    calls: list[RecordedCall]
    """The calls that changed files in the steps that may be to blame."""
    files: list[FileDifference]


def report_of(store: Store, session_id: str, touched: TouchedFiles, root: Path, found: Bisection) -> Report:
    """Return the report about the steps after the last good state up to the first bad state."""
    steps = {step.seq: step for step in list_timeline(store.database, session_id)}
    if found.good is None or found.bad is None:
        return Report(session_id, found, steps, [], [])
    changed = {one.call_id for one in touched.changes(found.good + 1, found.bad)}
    calls = [call for call in read_recorded_calls(store, session_id) if call.call_id in changed]
    files = differences_of_steps(touched, root, found.good, found.bad)
    return Report(session_id, found, steps, calls, files)


def put_probe(probe: ProbedStep) -> None:
    make_console(sys.stdout).print(*_probe_texts(probe), sep="  ")


def say_probe(probe: ProbedStep) -> None:
    say("  ".join(map(str, _probe_texts(probe))))


def _probe_texts(probe: ProbedStep) -> list[Text]:
    took = f"{probe.seconds:.1f} s" if probe.seconds else ""
    return [
        Text(f"  {_place(probe.step):<16}"),
        Text(f"{probe.verdict:<4}", style=_STYLES[probe.verdict]),
        Text(f"{one_line(probe.ending)}  {took}".rstrip()),
    ]


def _place(step: int) -> str:
    return "before the run" if step < 0 else f"after step {step}"


def show_report(report: Report) -> None:
    console = make_console(sys.stdout)
    for style, text in _lines(report):
        console.print(Text(text, style=style), soft_wrap=True)


def _lines(report: Report) -> Iterator[Line]:
    found = report.found
    if found.good is None or found.bad is None:
        yield from _explain_failure(found)
        return
    if found.is_exact:
        yield "bold", f"The first bad step is {_step_text(report, found.bad)}"
    else:
        yield "bold", "The first bad step is one of these; those between them were skipped:"
        yield from (("", f"  {_step_text(report, step)}") for step in found.suspects)
    yield from (("", f"  {one_line(call.title)}{_decide(call)}") for call in report.calls)
    yield from _tail(found)
    for file in report.files:
        yield from _file_lines(file)
    if found.good >= 0:
        yield (
            "dim",
            f"Fork before that step: sandbur fork {report.session_id} --at {found.suspects[0] - 1} --files",
        )


def _explain_failure(found: Bisection) -> Iterator[Line]:
    if found.bad is not None:
        yield "bold", f"The test already fails {_place(found.bad)}: no step of the run is to blame."
        yield from _tail(found)
    elif found.good is not None:
        yield "bold", f"The test still passes {_place(found.good)}, the last state that could be tested."
    else:
        yield "bold", "No state could be tested."


def _step_text(report: Report, seq: int) -> str:
    step = report.steps.get(seq)
    return (
        f"{seq} (not finished)" if step is None else f"{seq}: {one_line(step.action)}  {one_line(step.text)}"
    )


def _decide(call: RecordedCall) -> str:
    verdict = call.verdicts[-1]
    return f"  ({verdict.decision} by {one_line(verdict.who or verdict.by)})"


def _tail(found: Bisection) -> Iterator[Line]:
    """Yield the last lines of the output of the failing command."""
    output = next((probe.output for probe in found.probes if probe.step == found.bad), "")
    lines = plain(output).rstrip("\n").split("\n")
    yield from (("dim", f"  | {line[:200]}") for line in lines[-_MAX_LINES:] if output.strip())


def _file_lines(file: FileDifference) -> Iterator[Line]:
    note = f": {one_line(file.note)}" if file.note else ""
    yield "bold", f"{file.status} {one_line(file.name)}{note}"
    if file.diff:
        yield from color_diff(plain(file.diff))


def object_of(report: Report) -> dict[str, Any]:
    found = report.found
    return {
        "session_id": report.session_id,
        "found": found.is_exact,
        "good": found.good,
        "bad": found.bad,
        "steps": [
            asdict(report.steps[seq]) if seq in report.steps else {"seq": seq} for seq in found.suspects
        ],
        "calls": [asdict(call) for call in report.calls],
        "files": [asdict(file) for file in report.files],
        "probes": [asdict(probe) for probe in found.probes],
    }
