"""`/rewind`: the person picks an earlier message; a fork of the session continues from there."""

import os
from collections.abc import Sequence
from typing import Any

from ....agent.history.time_travel.branches import restore_files
from ....agent.history.time_travel.rewinds import apply_rewinds, preview_rewinds
from ....agent.history.timeline import TimelineStep, list_timeline
from ....state.application import ApplicationState
from ....state.store.store import Store
from ...commands.past.fork import format_restored
from ...terminal.text.sanitize import one_line, plain
from ...terminal.text.times import local_time
from ..input.files.mentions import line_without_files, without_files
from ..menu import Choice, Picker
from .command import DONE, SlashContext, SlashResult, tell
from .picking import wait_for_pick

_MAX_LISTED = 600
_MOST_FILES = 6
_WHAT = {
    "c": "the conversation only; files stay as they are",
    "f": "the conversation, and the files and the memory that it changed",
}


async def rewind(context: SlashContext, words: str) -> SlashResult:
    """Fork the session after an earlier step and enter the fork; the present session stays unchanged."""
    old = context.session.id
    step = await pick_step(context, words.split())
    if step is None:
        return DONE
    rewound = await context.wait(_fork_at(context, step), context.questions.leave)
    if rewound is None:
        return DONE
    forked, draft, restored = rewound
    context.enter(await context.runtime.resume(forked))
    context.composer.put_in(draft)
    lines = [*restored, f"The chat continues in {forked}; {old} is unchanged."]
    context.renderer.lines((("yellow", line) for line in lines), prose=True)
    return DONE


async def pick_step(context: SlashContext, words: Sequence[str]) -> TimelineStep | None:
    """Return the step number in the command, or the one that the person picks; None if there is none."""
    steps = list_timeline(context.runtime.store.database, context.session.id)
    if not steps:
        context.renderer.lines([("yellow", "There are no messages yet.")])
        return None
    name = words[0] if words else await _pick_message(context, steps)
    step = next((step for step in steps if str(step.seq) == name), None)
    if step is None and name:
        context.renderer.lines([("yellow", f"There is no step {one_line(name)}.")])
    return step


async def _pick_message(context: SlashContext, steps: Sequence[TimelineStep]) -> str:
    """Let the person pick a message; return the number of its step."""
    messages = [step for step in steps if step.kind == "message"]
    if not messages:
        context.renderer.lines([("yellow", "There are no messages yet.")])
        return ""
    store, session_id = context.runtime.store, context.session.id
    changed = [(found.seq, found.change.path) for found in store.open_file_changes(session_id).list_changes()]
    since = {step.seq: _list_changes_since(changed, step.seq) for step in messages}
    cwd = store.index.settings(session_id).cwd

    async def preview(name: str) -> Sequence[str]:
        return _message_lines(store, session_id, int(name), since[int(name)], cwd)

    choices = [_choice(step, len(since[step.seq])) for step in messages]
    question = "Go back to before which message?"
    picker = Picker(question, choices, "goes back", from_end=True, preview=preview)
    return await wait_for_pick(context, picker.run(), picker.leave)


def _list_changes_since(changed: Sequence[tuple[int, str]], seq: int) -> list[str]:
    """Return the files that changed after a step, without duplicates."""
    return list(dict.fromkeys(path for at, path in changed if at >= seq))


def _choice(step: TimelineStep, files: int) -> Choice:
    text, when = line_without_files(one_line(step.text)), local_time(step.at)
    count = "" if not files else "1 file since" if files == 1 else f"{files} files since"
    line = f"{when}  {count:<14}  {text}"
    return Choice(str(step.seq), line, f"{text} {when}", f"{when[-5:]} {text}{' *' if files else ''}")


def _message_lines(store: Store, session_id: str, seq: int, files: Sequence[str], cwd: str) -> Sequence[str]:
    """Return the lines of the message, cut to the screen, and the files that changed after it."""
    message = store.show(session_id, seq).state.chat_history.last
    typed = without_files(message.display_text) if message is not None else ""
    words = " ".join(plain(typed[:_MAX_LISTED]).split())
    names = [one_line(os.path.relpath(path, cwd)) for path in files[:_MOST_FILES]]
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    changed = f"Changed since: {', '.join(names)}{more}" if names else "No file was changed since."
    return [f"you: {words}", changed]


async def _fork_at(context: SlashContext, step: TimelineStep) -> tuple[str, str, Sequence[str]] | None:
    """Ask what to restore, and fork; None if the person cancels.

    Return the id of the fork, the draft for the input line, and the result for each file.
    If the step is a message of the person, the fork starts before it and the message is the draft.
    """
    runtime, session = context.runtime, context.session
    is_message = step.kind == "message"
    at = max(0, step.seq - is_message)
    memory = await preview_rewinds(runtime.store, session.id, at)
    if memory.lines:
        lines = (f"  {one_line(line)}" for line in memory.lines)
        tell(context, "Since then memory was changed; taken back with the files would be:", *lines)
    key = await context.questions.key("Bring back what?", _WHAT)
    if not key:
        return None
    message = runtime.store.show(session.id, step.seq).state.chat_history.last if is_message else None
    draft = without_files(message.text) if message is not None else ""
    # The present mode stays, because the earlier one may allow more.
    mode = session.state.execution_mode
    changes: dict[str, Any] = {}
    if is_message and step.seq == 0:
        changes = dict(ApplicationState(execution_mode=mode))
    elif runtime.store.show(session.id, at).state.execution_mode != mode:
        changes = {"execution_mode": mode}
    forked = await runtime.fork(session.id, at, changes)
    if key != "f":
        return forked, draft, ()
    lines = (*format_restored(*await restore_files(runtime.store, session.id, at, forked)),)
    report = await apply_rewinds(runtime.store, session.id, at)
    return forked, draft, (*lines, *map(one_line, (*report.lines, *report.hints)))
