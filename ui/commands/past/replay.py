"""`sandbur replay`: repeats a recorded run with today's program, and prints the first difference."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ....actions.ports import Toolbox
from ....actions.workspace.atomic_write import temporary_file
from ....actions.workspace.paths import FileProblem, format_count
from ....actions.workspace.safe_open import resolve_real_path
from ....agent.history.replay.replay import Replayed, recording_store, replay
from ....agent.history.replay.walk import Today, list_started_calls, live_parts, next_message
from ....agent.history.time_travel.branches import restore_files, restore_plan
from ....agent.history.timeline import list_approved_plans, list_timeline
from ....agent.runtime.runtime import Runtime
from ....agent.sdk.loading import load_known_agent
from ....agent.sdk.testing.recorded_runs import describe_divergence
from ....state.conversation.messages import UserContent
from ....state.errors import OutputLost, SandburError, UsageError
from ....state.maintenance.export import export_session
from ....state.session import SessionSettings
from ....state.store.store import Store
from ...chat.decisions.questions import OneKey
from ...cli.grammar import Progress
from ...cli.open_session import open_runtime
from ...headless.headless import run_to_end, warn
from ...terminal.lines import step_line, title
from ...terminal.live import ProgressLine
from ...terminal.terminal import encode, is_interactive, make_console, put, say
from ...terminal.text.sanitize import one_line
from .fork import ask_to_restore, format_restored
from .replay_command import AddTestCommand, ReplayCommand

_MOST_CALLS = 20
_STYLES = {"-": "red", "+": "green"}


async def replay_run(command: ReplayCommand) -> int:
    """Replay a session or a recording file; return 0 if there is no difference, else 4."""
    if command.model is not None:
        return await what_if(command)

    async with open_runtime(command) as runtime:
        with _source(runtime, command.session) as (store, session_id):
            if "tools" in command.live and not await _may_run(store, session_id, command):
                say("Nothing was run.")
                return 3
            settings = store.index.settings(session_id)
            parts = frozenset(command.live)
            async with live_parts(parts, runtime.settings, settings, os.environ) as live:
                today = Today(own=_load_tools(settings))
                with ProgressLine("Replaying step") as progress:
                    replayed = await replay(
                        store, session_id, command.from_seq, today, live, command.ignore_tools, progress.show
                    )
            code = 0 if replayed.is_same else 4
            if command.json:
                put(encode({"type": "replay", **asdict(replayed), "exit_code": code}))
            else:
                _show(store, replayed)
    return code


def _load_tools(session: SessionSettings) -> Toolbox:
    """Return the tools of a session's agent by name; print why if the agent cannot be loaded here."""
    if not session.agent:
        return {}

    definition, problems = load_known_agent(session, os.environ)
    for problem in problems:
        say(f"{one_line(problem)} Calls of its tools are not checked.")
    return {tool.spec.name: tool for tool in definition.tools}


@contextmanager
def _source(runtime: Runtime, name: str) -> Generator[tuple[Store, str]]:
    """Yield a store and the id of a session: from the store of the settings, or from a recording file."""
    path = Path(name)
    if path.suffix != ".jsonl" and not os.path.isfile(name):  # noqa: PTH113 -- a title raises as a path
        yield runtime.store, runtime.store.find(name)
        return

    with recording_store(path) as found:
        yield found


async def _may_run(store: Store, session_id: str, command: ReplayCommand) -> bool:
    calls = list_started_calls(store, session_id, command.from_seq)
    if command.yolo or not calls:
        return True
    if not is_interactive():
        raise UsageError("Real tools need a confirmation, and stdin is not a terminal.", "Add -y.")
    put(f"These calls really run once more in {one_line(store.index.settings(session_id).cwd)}:")
    for seq, call in calls[:_MOST_CALLS]:
        put(f"  step {seq}: {one_line(title(call.tool, call.arguments))}")
    if len(calls) > _MOST_CALLS:
        put(f"  and {len(calls) - _MOST_CALLS} more")

    answer = await OneKey("Run them? [y/n] ", "yn", safe="n").ask_alone()
    return answer.key == "y"


def _show(store: Store, replayed: Replayed) -> None:
    found = replayed.divergence
    if replayed.recorded_only:
        say(
            f"Not replayed: {_ranges(replayed.recorded_only)}; a person edited the state there, or the"
            " version of Sandbur stored too little for a replay."
        )
    if replayed.not_run:
        names = ", ".join(one_line(name) for name in replayed.not_run)
        say(f"Neither run nor compared: {names}; these tools are absent here, or start sub-agents.")
    steps = format_count(replayed.steps, "step")
    if found is None:
        put(f"Replayed {steps} of session {replayed.session_id}: there is no difference.")
        for seq, digest in list_approved_plans(store.database, replayed.session_id):
            put(f"From step {seq} on, calls were judged again with the approved plan {digest[:12]}.")
        return
    put(f"Step {found.seq} ({one_line(found.action)}), {found.kind}: {one_line(found.summary)}")
    if found.lines:
        _put_diff([one_line(line) for line in found.lines])
    for line in _around(store, replayed.session_id, found.seq):
        say(line)
    say(f"Replayed {steps} of session {replayed.session_id}; - is the recording, + is today's program.")
    if store.verify(replayed.session_id):
        say(f"The records of the session are damaged: sandbur sessions verify {replayed.session_id}")


def _around(store: Store, session_id: str, seq: int) -> Iterator[str]:
    """Yield lines for the step that differs and its neighbours, as in `sandbur sessions show --steps`."""
    for step in list_timeline(store.database, session_id):
        if seq - 1 <= step.seq <= seq + 1:
            yield f"{'>' if step.seq == seq else ' '} {step_line(step)}"


def _ranges(seqs: tuple[int, ...]) -> str:
    """Format step numbers as ranges, such as `steps 1 to 3, 5`."""
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


_MAX_NAME = 50
_TEST = """\
def test_{name}(sandbur_replay):
    sandbur_replay("recordings/{name}.jsonl")
"""


async def add_test(command: AddTestCommand) -> int:
    """Write a recording and a test that replays it; return 4 if the replay already differs, else 0."""
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session)
        title = runtime.store.index.summary(session_id).title
        name = check_name(command.test_name) if command.test_name else name_of(title, session_id)
        folder = Path(command.to)
        recording, test = folder / "recordings" / f"{name}.jsonl", folder / f"test_{name}.py"
        _refuse_taken((recording, test), command.force)
        with ProgressLine("Replaying step") as progress:
            replayed = await replay(runtime.store, session_id, watch=progress.show)
        records = export_session(runtime.store.database, session_id, with_sub_agents=False)
        write_whole(recording, (encode(record) + "\n" for record in records))
    write_whole(test, [_TEST.format(name=name)])
    put(str(test))
    steps = format_count(replayed.steps, "step")
    say(f"Recorded {steps} in {one_line(str(recording))}, with all messages and results.")
    if replayed.divergence is not None:
        say(f"The test already fails: {describe_divergence(name, replayed.divergence, one_line)}")
        return 4
    say(f"Run it: pytest {one_line(str(test))}")
    return 0


def check_name(name: str) -> str:
    """Return the name in its form for a test function. Raises `UsageError` if that is impossible."""
    wanted = name.removeprefix("test_").replace("-", "_")
    if re.fullmatch(r"[A-Za-z0-9_]{1,100}", wanted):
        return wanted
    raise UsageError(f"--name: {one_line(name[:60])!r} cannot name a test.", "Use letters, digits and _.")


def name_of(title: str, session_id: str) -> str:
    """Return a valid test name for a title of any form."""
    letters = unicodedata.normalize("NFKD", title.casefold()).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", letters)
    name = "_".join(words)
    if len(name) > _MAX_NAME:
        name = name[:_MAX_NAME].rpartition("_")[0] or name[:_MAX_NAME]
    return name or f"run_{re.sub('[^a-z0-9]', '', session_id.lower())[:8]}"


def write_whole(path: Path, pieces: Iterable[str]) -> None:
    """Write a file atomically. Raises `UsageError` or `OutputLost` if it cannot be written."""
    is_begun = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_file(resolve_real_path(path.parent) / path.name, 0o666) as temporary:
            is_begun = True
            with open(temporary.descriptor, "w", encoding="utf-8", closefd=False) as file:
                file.writelines(pieces)
            temporary.take_place_of(path)
    except FileProblem as problem:
        raise UsageError(str(problem)) from None
    except OSError as error:
        kind = OutputLost if is_begun else UsageError
        raise kind(f"{path} cannot be written: {error.strerror}.") from None


def _refuse_taken(paths: Iterable[Path], is_forced: bool) -> None:
    taken = next((path for path in paths if path.exists() and not is_forced), None)
    if taken is not None:
        raise UsageError(
            f"{one_line(str(taken))} exists already.", "Choose a --name, or replace it with --force."
        )


async def what_if(command: ReplayCommand) -> int:
    """Fork the session after the chosen step, run the fork with another model, and return its exit code."""
    seq = command.from_seq
    assert seq is not None
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session)
        folder = Path(runtime.store.index.settings(session_id).cwd)
        if command.files:
            plan = await restore_plan(runtime.store, session_id, seq, [folder])
            await ask_to_restore(plan, folder, command.yes)
        forked = await runtime.fork(session_id, seq)
        try:
            session = await runtime.resume(forked)
            message = _message(runtime.store, session_id, seq) if session.next_action == "prompt" else None
        except SandburError:
            runtime.store.delete(forked)
            raise
        if command.files:
            for line in format_restored(*await restore_files(runtime.store, session_id, seq, forked, folder)):
                say(line)
            # The restore records that the changes of calls are undone, so the session is loaded again.
            runtime.store.forget(forked)
            session = await runtime.resume(forked)
        progress = Progress("json" if command.json else "text")
        warn(session.notices, progress)
        events = session.carry_on() if message is None else session.send(message)
        code = await run_to_end(session, events, session.state.pending_tool_calls, progress)
    say(f"Session {forked} continued after step {seq} of {session_id}.")
    say(f"Compare them: sandbur diff {session_id} {forked}")
    return code


def _message(store: Store, session_id: str, seq: int) -> UserContent:
    """Return the next message of the person. Raises `UsageError` if there is none."""
    message = next_message(store, session_id, seq)
    if message is None:
        raise UsageError(
            f"After step {seq} the run waits for a message, but none is recorded.",
            f"Send a message in a fork: sandbur fork {session_id} --at {seq}",
        )
    return message
