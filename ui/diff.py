"""`sandbur diff`: two runs beside each other."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from state.errors import UsageError
from ui.arguments import Arguments
from ui.opening import opened
from ui.terminal import put

if TYPE_CHECKING:
    from agent.compare.comparison import Comparison, Run, RunFile
    from agent.compare.totals import Totals
    from agent.recorded_calls import RecordedCall
    from state.store.timeline import TimelineStep


async def diff_sessions(arguments: Arguments) -> int:
    from agent.compare.comparison import compare

    async with opened(arguments) as runtime:
        left, right = runtime.store.find(arguments.session), runtime.store.find(arguments.other)
        if left == right:
            raise UsageError(f"Both names mean session {left}.", "Name two different ones.")
        found = await runtime.store.database.offload(lambda: compare(runtime.store, left, right))
    if arguments.json:
        put(json.dumps(_object(found), indent=1))
    elif sys.stdout.isatty():
        from ui.diff_tables import show

        show(found)
    else:
        from ui.diff_lines import lines

        put("\n".join(lines(found)))
    return 0


def _object(found: "Comparison") -> dict[str, Any]:
    return {
        "left": _run(found.left),
        "right": _run(found.right),
        "parting": None if found.parting is None else asdict(found.parting),
        "common_steps": len(found.common),
        "steps": [
            {"same": pair.is_same, "left": _fields(pair.left), "right": _fields(pair.right)}
            for pair in found.pairs
        ],
        "decisions": [{"left": _fields(one.left), "right": _fields(one.right)} for one in found.decisions],
        "files": [_file(file) for file in found.files],
        "answers": found.answers,
    }


def _run(run: "Run") -> dict[str, Any]:
    return {
        **asdict(run.summary),
        "mode": run.mode,
        "answer": run.answer,
        "whole": _totals(run.whole),
        "own": _totals(run.own),
    }


def _totals(totals: "Totals") -> dict[str, Any]:
    from ui.jsonlines import usage_object

    return {
        "steps": totals.steps,
        "usage": None if totals.usage is None else usage_object(totals.usage),
        "model_s": totals.model_s,
        "tool_s": totals.tool_s,
        "run_s": totals.run_s,
    }


def _file(file: "RunFile") -> dict[str, Any]:
    return {**asdict(file), "same": file.place == "both" and file.difference is None}


def _fields(value: "TimelineStep | RecordedCall | None") -> dict[str, Any] | None:
    return None if value is None else asdict(value)
