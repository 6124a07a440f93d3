"""`sandbur replay`: a recorded run once more, through today's program, and the first difference."""

import json
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state.errors import UsageError
from ui.arguments import Arguments
from ui.opening import opened
from ui.sanitize import one_line
from ui.terminal import is_interactive, make_console, put, say

if TYPE_CHECKING:
    from agent.replay.replay import Replayed
    from agent.runtime import Runtime
    from state.store.store import Store

_LIVE = ("model", "tools")
_MOST_CALLS = 20
_STYLES = {"-": "red", "+": "green"}


async def replay_session(arguments: Arguments) -> int:
    """Replay a session or a recording file; return 0 if nothing differs, else 4."""
    _check(arguments)
    if arguments.model is not None:
        from ui.what_if import what_if

        return await what_if(arguments)
    from agent.replay.live import live_parts
    from agent.replay.replay import replay

    async with opened(arguments) as runtime:
        with _source(runtime, arguments.session) as (store, session_id):
            if "tools" in arguments.live and not await _may_run(store, session_id, arguments):
                say("Nothing was run.")
                return 3
            settings = store.index.settings(session_id)
            parts = frozenset(arguments.live)
            async with live_parts(parts, runtime.settings, settings, os.environ) as live:
                replayed = await replay(
                    store, session_id, arguments.from_seq, live=live, ignores_tools=arguments.ignore_tools
                )
            code = 0 if replayed.is_same else 4
            if arguments.json:
                put(json.dumps({"type": "replay", **asdict(replayed), "exit_code": code}, indent=1))
            else:
                _show(store, replayed, arguments)
    return code


def _check(arguments: Arguments) -> None:
    for part in arguments.live:
        if part not in _LIVE:
            raise UsageError(f"--live: there is no {part!r}.", "It is model, tools, or model,tools.")
    if arguments.model is not None and arguments.live:
        raise UsageError("-m and --live contradict each other: with -m everything is real.")
    if arguments.model is not None and arguments.from_seq is None:
        raise UsageError(
            "-m needs --from SEQ: the step behind which the other model takes over.",
            f"See the steps: sandbur sessions show {arguments.session} --steps",
        )
    if arguments.model is not None and arguments.ignore_tools:
        raise UsageError("-m and --ignore-tools contradict each other: with -m nothing is compared.")
    if arguments.files and arguments.model is None:
        raise UsageError("--files goes with -m: a replay changes no file.")


@contextmanager
def _source(runtime: "Runtime", name: str) -> "Generator[tuple[Store, str]]":
    """Find the session in the store, or in the file of this name."""
    path = Path(name)
    if path.suffix != ".jsonl" and not path.is_file():
        yield runtime.store, runtime.store.find(name)
        return
    from agent.replay.replay import recording_store

    with recording_store(path) as found:
        yield found


async def _may_run(store: "Store", session_id: str, arguments: Arguments) -> bool:
    """Show what real tools would do, and ask."""
    from agent.replay.live import started_calls
    from ui.calls import title

    calls = started_calls(store, session_id, arguments.from_seq)
    if arguments.yolo or not calls:
        return True
    if not is_interactive():
        raise UsageError("Real tools need a yes: there is nobody to ask.", "Add -y.")
    put(f"These calls run once more, for real, in {one_line(store.index.settings(session_id).cwd)}:")
    for seq, call in calls[:_MOST_CALLS]:
        put(f"  step {seq}: {one_line(title(call.tool, call.arguments))}")
    if len(calls) > _MOST_CALLS:
        put(f"  and {len(calls) - _MOST_CALLS} more")
    from ui.one_key import OneKey

    return await OneKey("Run them? [y/n] ", "yn").ask() == "y"


def _show(store: "Store", replayed: "Replayed", arguments: Arguments) -> None:
    found = replayed.divergence
    if replayed.recorded_only and not arguments.quiet:
        say(
            f"Taken as recorded: {_ranges(replayed.recorded_only)}; made by hand, or by a version that kept"
            " too little for a replay."
        )
    steps = "1 step" if replayed.steps == 1 else f"{replayed.steps} steps"
    if found is None:
        put(f"Replayed {steps} of session {replayed.session_id}: nothing differs.")
        return
    put(f"Step {found.seq} ({one_line(found.action)}), {found.kind}: {one_line(found.summary)}")
    if found.lines:
        _put_diff([one_line(line) for line in found.lines])
    if not arguments.quiet:
        for line in _around(store, replayed.session_id, found.seq):
            say(line)
        say(f"Replayed {steps} of session {replayed.session_id}; - is recorded, + is today.")
    if store.verify(replayed.session_id):
        say(f"The records themselves were changed or damaged: sandbur sessions verify {replayed.session_id}")


def _around(store: "Store", session_id: str, seq: int) -> Iterator[str]:
    """Yield the step that differs and its neighbours, as `sandbur sessions show --steps` lists them."""
    from state.store.timeline import timeline
    from ui.steps import step_line

    for step in timeline(store.database, session_id):
        if seq - 1 <= step.seq <= seq + 1:
            yield f"{'>' if step.seq == seq else ' '} {step_line(step)}"


def _ranges(seqs: tuple[int, ...]) -> str:
    """Write step numbers as a person does."""
    parts: list[list[int]] = []
    for seq in seqs:
        if parts and parts[-1][-1] == seq - 1:
            parts[-1][1:] = [seq]
        else:
            parts.append([seq])
    noun = "step" if len(seqs) == 1 else "steps"
    return f"{noun} {', '.join(' to '.join(map(str, part)) for part in parts)}"


def _put_diff(lines: list[str]) -> None:
    if not sys.stdout.isatty():
        put("\n".join(lines))
        return
    console: Any = make_console(sys.stdout)
    for line in lines:
        console.print(line, style=_STYLES.get(line[:1], "dim"), soft_wrap=True)
