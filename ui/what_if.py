"""`sandbur replay ID --from SEQ -m OTHER`: the rest of a run with another model, for real, in a fork."""

from dataclasses import replace
from typing import TYPE_CHECKING

from state.errors import SandburError, UsageError
from ui.arguments import Arguments
from ui.fork import restored_lines
from ui.headless import run_to_end, warn
from ui.opening import opened
from ui.terminal import say

if TYPE_CHECKING:
    from state.store.store import Store


async def what_if(arguments: Arguments) -> int:
    """Fork behind the step, go on with the other model; return the exit code of the run."""
    seq = arguments.from_seq
    assert seq is not None
    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        forked = await runtime.fork(session_id, seq)
        try:
            session = await runtime.resume(forked)
            message = _message(runtime.store, session_id, seq) if session.next_action == "prompt" else None
        except SandburError:
            runtime.store.delete(forked)
            raise
        if arguments.files:
            for line in restored_lines(*await runtime.restore_files(session_id, seq, forked)):
                say(line)
            # What was undone with the files may run again: only a journal that is read now knows that.
            runtime.store.forget(forked)
            session = await runtime.resume(forked)
        warn(session.notices, arguments)
        events = session.carry_on() if message is None else session.send(message)
        shown = replace(arguments, output_format="json" if arguments.json else "text")
        code = await run_to_end(session, events, session.state.pending_tool_calls, shown)
    if not arguments.quiet:
        say(f"Session {forked} went on behind step {seq} of {session_id}.")
        say(f"Compare them: sandbur diff {session_id} {forked}")
    return code


def _message(store: "Store", session_id: str, seq: int) -> str:
    """Return what the person said next; raises `UsageError` if nothing was."""
    from agent.replay.live import next_message

    message = next_message(store, session_id, seq)
    if message is None:
        raise UsageError(
            f"Behind step {seq} the run waits for a message, and none followed.",
            f"Say something else there: sandbur fork {session_id} --at {seq}",
        )
    return message
