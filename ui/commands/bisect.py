"""What a bisection tried and found, as lines for people and as JSON for programs."""

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ui.calls import Line, coloured_diff
from ui.sanitize import one_line, plain
from ui.terminal import make_console, say

if TYPE_CHECKING:
    from rich.text import Text

    from agent.bisection import Bisection, Probe
    from agent.file_differences import FileDifference
    from agent.recorded_calls import RecordedCall
    from agent.touched_files import TouchedFiles
    from state.store.store import Store
    from state.store.timeline import TimelineStep

_SHOWN_LINES = 12
_STYLES = {"good": "green", "bad": "red", "skip": "yellow"}


@dataclass(frozen=True, slots=True)
class Report:
    session_id: str
    found: "Bisection"
    steps: "dict[int, TimelineStep]"
    calls: "list[RecordedCall]"
    """That changed files in the steps that may be to blame."""
    files: "list[FileDifference]"


def report_of(
    store: "Store", session_id: str, touched: "TouchedFiles", root: Path, found: "Bisection"
) -> Report:
    """Look up what the steps between good and bad did."""
    from agent.file_differences import differences_of_steps
    from agent.recorded_calls import recorded_calls
    from state.store.timeline import timeline

    steps = {step.seq: step for step in timeline(store.database, session_id)}
    if found.good is None or found.bad is None:
        return Report(session_id, found, steps, [], [])
    changed = {one.call_id for one in touched.changes(found.good + 1, found.bad)}
    calls = [call for call in recorded_calls(store, session_id) if call.call_id in changed]
    files = differences_of_steps(touched, root, found.good, found.bad)
    return Report(session_id, found, steps, calls, files)


def put_probe(probe: "Probe") -> None:
    make_console(sys.stdout).print(*_probe_texts(probe), sep="  ")


def say_probe(probe: "Probe") -> None:
    say("  ".join(map(str, _probe_texts(probe))))


def _probe_texts(probe: "Probe") -> "list[Text]":
    from rich.text import Text

    took = f"{probe.seconds:.1f} s" if probe.seconds else ""
    return [
        Text(f"  {_place(probe.step):<16}"),
        Text(f"{probe.verdict:<4}", style=_STYLES[probe.verdict]),
        Text(f"{one_line(probe.ending)}  {took}".rstrip()),
    ]


def _place(step: int) -> str:
    return "before the run" if step < 0 else f"behind step {step}"


def show_report(report: Report) -> None:
    from rich.text import Text

    console = make_console(sys.stdout)
    for style, text in _lines(report):
        console.print(Text(text, style=style), soft_wrap=True)


def _lines(report: Report) -> Iterator[Line]:
    found = report.found
    if found.good is None or found.bad is None:
        yield from _not_found(found)
        return
    if found.is_exact:
        yield "bold", f"The first bad step is {_step_text(report, found.bad)}"
    else:
        yield "bold", "The first bad step is one of these; those between them were skipped:"
        yield from (("", f"  {_step_text(report, step)}") for step in found.suspects)
    yield from (("", f"  {one_line(call.title)}{_decided(call)}") for call in report.calls)
    yield from _tail(found)
    for file in report.files:
        yield from _file_lines(file)
    if found.good >= 0:
        yield (
            "dim",
            f"Go on from before it: sandbur fork {report.session_id} --at {found.suspects[0] - 1} --files",
        )


def _not_found(found: "Bisection") -> Iterator[Line]:
    if found.bad is not None:
        yield "bold", f"The test fails already {_place(found.bad)}: no step of the run is to blame."
        yield from _tail(found)
    elif found.good is not None:
        yield "bold", f"The test is still good {_place(found.good)}, the last state that could be tried."
    else:
        yield "bold", "No state could be tried."


def _step_text(report: Report, seq: int) -> str:
    step = report.steps.get(seq)
    return (
        f"{seq} (not finished)" if step is None else f"{seq}: {one_line(step.action)}  {one_line(step.text)}"
    )


def _decided(call: "RecordedCall") -> str:
    verdict = call.verdicts[-1]
    return f"  ({verdict.decision} by {one_line(verdict.who or verdict.by)})"


def _tail(found: "Bisection") -> Iterator[Line]:
    """Yield the end of what the failing command said."""
    output = next((probe.output for probe in found.probes if probe.step == found.bad), "")
    lines = plain(output).rstrip("\n").split("\n")
    yield from (("dim", f"  | {line[:200]}") for line in lines[-_SHOWN_LINES:] if output.strip())


def _file_lines(file: "FileDifference") -> Iterator[Line]:
    note = f": {one_line(file.note)}" if file.note else ""
    yield "bold", f"{file.status} {one_line(file.name)}{note}"
    if file.diff:
        yield from coloured_diff(plain(file.diff))


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
