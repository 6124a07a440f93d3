"""`sandbur steer`: sends a message to a session that another process runs, or that is resumed later."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....agent.graph import next_action
from ....state.session import InboxKind
from ....state.store.sessions.lease import make_held_error
from ....state.store.store import Store
from ...cli.open_session import open_runtime
from ...headless.headless import clean, read_stdin
from ...terminal.terminal import encode, put, say
from .command import SteerCommand


async def leave_message(command: SteerCommand) -> int:
    """Store the message, and print when it will be read."""
    kind: InboxKind = "queue" if command.queue else "steer"
    text = clean(read_stdin("message") if command.text == "-" else command.text)
    async with open_runtime(command) as runtime:
        store = runtime.store
        session_id = store.find(command.session)
        [kept] = await runtime.leave_messages(session_id, kind, text)
        run = _run_state(store, session_id)
    if command.json:
        put(encode(_object(session_id, kind, kept.number, run)))
    else:
        say(f"Stored. {run.sentence(session_id, kind)}")
    return 0


class _RunState(NamedTuple):
    """The status of a session after the message was stored."""

    state: str
    """`running`, `waiting` (for a decision), `interrupted` or `resting` (the turn has ended)."""
    held_by: str = ""
    """A sentence about the process that runs the session."""

    def sentence(self, session_id: str, kind: InboxKind) -> str:
        goes_on = f"sandbur -p -r {session_id}"
        if self.state == "running":
            ends = f"After a run with `-p`, send it with: {goes_on}"
            if kind == "queue":
                return f"{self.held_by} The message is sent when the run has ended. {ends}"
            return (
                f"{self.held_by} The model reads the message before its next call; without another call, it"
                f" is the next message. {ends}"
            )
        when = "is sent when that turn has ended" if kind == "queue" else "is read by the model then"
        if self.state == "waiting":
            decides = f"`sandbur sessions show {session_id}` shows it"
            return f"Session {session_id} waits for a decision ({decides}); the message {when}."
        if self.state == "interrupted":
            return f"Session {session_id} was interrupted; `{goes_on}` resumes it, and the message {when}."
        return (
            f"Session {session_id} does not run: if a chat has it open, the chat sends the message now;"
            f" otherwise send it with: {goes_on}"
        )


def _run_state(store: Store, session_id: str) -> _RunState:
    head = store.index.head(session_id)
    if head.life == "running":
        return _RunState("running", make_held_error(session_id, head.owner).message)
    view = store.show(session_id)
    following = next_action(view.position, view.state)
    if following == "human_confirm":
        return _RunState("waiting")
    return _RunState("resting" if following == "prompt" else "interrupted")


def _object(session_id: str, kind: InboxKind, number: int, run: _RunState) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "number": number,
        "kind": kind,
        "session": run.state,
        "message": run.sentence(session_id, kind),
    }
