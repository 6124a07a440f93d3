"""Forks sessions after an earlier step, with an edited state or with the files of that step."""

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ....actions.masking.masker import TextMasker
from ....actions.masking.secret_contents import drop_secret_contents, find_secret_contents
from ....actions.turn.commands import MODES
from ....actions.turn.session_page import change_page, check_page
from ....state.application import ApplicationState, StepStatus, VibeStep
from ....state.conversation.messages import Message, Text, encodable, parse_json_or_text, person_message
from ....state.conversation.transcript import Transcript
from ....state.errors import UsageError
from ....state.process.identity import make_runner_name
from ....state.store.journal import RESTORE
from ....state.store.store import Store
from ....state.store.writer import SessionWriter
from .restore import (
    NO_MODES,
    ChangesOfCall,
    RecordedChanges,
    Restored,
    RestorePlan,
    apply,
    plan_restore,
    skip_steps,
    without_ways_out,
)


async def branch(
    store: Store, session_id: str, at: int | None = None, changes: Mapping[str, Any] | None = None
) -> str:
    """Fork `session_id` after step `at` (None: the last one); return the new id. `changes` are valid state
    fields."""
    new_id = str(uuid.uuid4())
    await store.database.offload(lambda: store.fork(session_id, new_id, at))
    if changes:
        await _edit(store, new_id, changes)
    return new_id


async def restore_plan(
    store: Store,
    session_id: str,
    seq: int,
    roots: Sequence[Path],
    call_id: str = "",
    written: Set[str] | None = None,
) -> RestorePlan:
    """Return the changes that `restore_files` would make, without making them."""

    def plan() -> RestorePlan:
        changes: RecordedChanges = store.open_file_changes(session_id)
        if call_id:
            changes = ChangesOfCall(changes, call_id, written)
        return _keep_secret_edits(without_ways_out(plan_restore(changes, seq, roots)))

    return await store.database.offload(plan)


def _keep_secret_edits(plan: RestorePlan) -> RestorePlan:
    """Skip the files with secrets that others changed after the run: their present content is never stored,
    so that a restore would destroy it."""
    secret = find_secret_contents(plan.changes, plan.pre_images, TextMasker())
    others = set(plan.changed_by_others)
    kept = [
        step
        for step in plan.steps
        if step.now.content is not None and step.change.before in secret and str(step.path) in others
    ]
    return skip_steps(plan, kept, "it was changed since, and its content with secrets cannot be stored")


async def restore_files(
    store: Store,
    session_id: str,
    seq: int,
    into: str,
    folder: Path | None = None,
    call_id: str = "",
    own: Sequence[Path] = (),
    written: Set[str] | None = None,
    folder_modes: Mapping[Path, int] = NO_MODES,
) -> tuple[RestorePlan, Restored]:
    """Restore the files that a session touched to their state at step `seq`.

    With `call_id`, only the changes of this call are taken back, and with `written` only those of these
    paths. Only files in `folder`, or without it in the session's own folders and in `own`, are restored.
    Folders that are missing are made with their `folder_modes`. Session `into` records the present contents
    before anything changes, so that the restore can be undone.
    """
    settings, _ = store.open_settings(into)
    folders = [*(Path(each) for each in (settings.cwd, *settings.add_dirs)), *own]
    roots = folders if folder is None else [folder]
    plan = await restore_plan(store, session_id, seq, roots, call_id, written)
    if plan.steps:
        files = store.open_files(into)
        kept, _ = await drop_secret_contents(plan.changes, plan.pre_images, TextMasker())
        async with _hold_lease(store, into) as writer:
            writer.queue_loose(files.insert_contents(kept))
            await writer.commit(files.make_entries(f"{RESTORE}{seq}", plan.changes, writer.last_seq))
            return plan, await asyncio.to_thread(apply, plan, folder_modes)
    return plan, apply(plan)


async def _edit(store: Store, session_id: str, changes: Mapping[str, Any]) -> None:
    """Write one step that equals the newest one except for the changed fields."""
    found = await store.persister().load("", session_id)
    if found is None:
        raise UsageError(f"Session {session_id} has no step yet, so there is nothing to change in it.")
    values = {name: value for name, value in found["state"].get_all().items() if not name.startswith("__")}
    async with _hold_lease(store, session_id) as writer:
        await writer.save(writer.last_seq + 1, found["position"], {**values, **changes})
    store.forget(session_id)


@asynccontextmanager
async def _hold_lease(store: Store, session_id: str) -> AsyncGenerator[SessionWriter]:
    """Hold the lease of a session, to write to it outside of a run."""
    writer = store.writer(session_id)
    known = writer.chain.records, writer.chain.digest
    store.open_settings(session_id)
    settings = store.index.settings(session_id)
    status = store.index.summary(session_id).status
    writer.claim = await store.index.claim(session_id, make_runner_name(), known, settings, "")
    try:
        yield writer
    finally:
        epoch, writer.epoch = writer.epoch, None
        if epoch is not None:
            await store.index.release(session_id, epoch, status)


_STEP_FIELDS: dict[str, TypeAdapter[Any]] = {
    "description": TypeAdapter(str),
    "analysis": TypeAdapter(str),
    "status": TypeAdapter(StepStatus),
}
CAN_BE_SET = (
    "You can set: current_goal, execution_mode, page, user_input, chat_history.N.text,"
    " vibe_plan.N.description, vibe_plan.N.analysis, vibe_plan.N.status (N counts from 0; -1 is the last)."
)
_PATH = re.compile(r"(?P<field>\w+)(?:\.(?P<index>-?\d{1,9})\.(?P<name>\w+))?", re.ASCII)


def apply_edits(state: ApplicationState, edits: Sequence[str]) -> dict[str, Any]:
    """Return field -> new value for the fields that `edits` change; raises `UsageError`.

    Every history of `state` that an edit names has to be loaded.
    """
    changes: dict[str, Any] = {}
    for edit in edits:
        path, _, text = edit.partition("=")
        changes |= _apply_edit(state.model_copy(update=changes), path, encodable(text))
    return changes


def _apply_edit(state: ApplicationState, path: str, text: str) -> dict[str, Any]:
    match = _PATH.fullmatch(path)
    place = (match["field"], match["name"]) if match else ("", "")
    index = int(match["index"]) if match and match["index"] else 0
    match place:
        case ("current_goal", None):
            return {"current_goal": None if text == "null" else _text(text)}
        case ("page", None):
            return change_page(state, check_page(_text(text), TextMasker().text))
        case ("execution_mode", None):
            return {"execution_mode": _mode(_text(text))}
        case ("user_input", None):
            return _with_input(state, _text(text))
        case ("chat_history", "text"):
            return {"chat_history": _with_text(state.chat_history, index, path, _text(text))}
        case ("vibe_plan", name) if name in _STEP_FIELDS:
            return {"vibe_plan": _with_step_field(state, index, path, name, _text(text))}
        case (field, _) if field in ApplicationState.model_fields:
            raise UsageError(f"`{path}` cannot be set: only the run itself changes it.", CAN_BE_SET)
        case _:
            raise UsageError(f"The state has no `{path[:60]}`.", CAN_BE_SET)


def _text(text: str) -> str:
    """Return the value of a JSON string, or the text itself."""
    value = parse_json_or_text(text)
    return encodable(value) if isinstance(value, str) else text


def _mode(text: str) -> str:
    if text not in MODES:
        raise UsageError(f"There is no mode {text[:40]!r}.", f"Choose one: {', '.join(MODES)}.")
    return text


def _with_input(state: ApplicationState, text: str) -> dict[str, Any]:
    """Change the person's last message. If nothing has answered it yet, change the history, too."""
    if not text.strip():
        raise UsageError("The message is empty.", CAN_BE_SET)
    last = state.chat_history.last
    changes: dict[str, Any] = {"user_input": text}
    if state.turn_open and last is not None and last.origin == "person":
        changes["chat_history"] = _replace_message(
            state.chat_history, len(state.chat_history) - 1, person_message(text)
        )
    return changes


def _with_text(history: Transcript, index: int, path: str, text: str) -> Transcript:
    at = _position(index, len(history), path, "message")
    message = list(history)[at]
    if message.role == "tool":
        raise UsageError(f"`{path}` is the result of a call, which cannot be changed.", CAN_BE_SET)
    # The provider's own JSON of the message is dropped, because it contains the old text.
    others = tuple(block for block in message.blocks if block.kind in ("tool_use", "image", "document"))
    if not text and not others:
        raise UsageError(f"`{path}` cannot be empty: no provider accepts an empty message.", CAN_BE_SET)
    blocks = (Text(text=text), *others) if text else others
    return _replace_message(history, at, message.model_copy(update={"blocks": blocks, "wire": None}))


def _with_step_field(
    state: ApplicationState, index: int, path: str, name: str, text: str
) -> tuple[VibeStep, ...]:
    at = _position(index, len(state.vibe_plan), path, "plan step")
    step = state.vibe_plan[at]
    if name == "status" and (step.step_id == state.active_step_id or text == "in_progress"):
        raise UsageError(f"`{path}` cannot be set: only the graph decides which plan step runs.", CAN_BE_SET)
    try:
        value = _STEP_FIELDS[name].validate_python(text)
    except ValidationError as error:
        raise UsageError(f"`{path}` does not fit: {error.errors()[0]['msg']}.") from None
    if name == "description" and not text.strip():
        raise UsageError(f"`{path}` cannot be empty.", CAN_BE_SET)
    changed = step.model_copy(update={name: value})
    return (*state.vibe_plan[:at], changed, *state.vibe_plan[at + 1 :])


def _position(index: int, length: int, path: str, what: str) -> int:
    at = index + length if index < 0 else index
    if 0 <= at < length:
        return at
    there = f"there are {length}, counted from 0" if length else "there is none"
    raise UsageError(f"`{path}` names no {what}: {there}.")


def _replace_message(history: Transcript, at: int, message: Message) -> Transcript:
    """Return the history with one message replaced by one in a new log. The other messages are not copied."""
    parts = history.part(0, at), Transcript.of(message), history.part(at + 1)
    return Transcript([span for part in parts for span in part.spans])
