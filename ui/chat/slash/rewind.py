"""`/rewind`: lets the person pick an earlier step, and makes the session that goes on from there."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ....state.application import ApplicationState
from ...commands.fork import restored_lines
from ...terminal.lines import step_line
from ...terminal.render import Renderer
from ...terminal.sanitize import one_line
from ..decisions.questions import Questions
from ..input.composer import Leave
from ..picker import Choice, Picker
from .command import DONE, SlashContext, SlashResult

if TYPE_CHECKING:
    from ....agent.runtime import Runtime
    from ....agent.session.session import Session
    from ....state.store.store import Store
    from ....state.store.timeline import TimelineStep

_WHAT = {
    "c": "the conversation only; files stay as they are",
    "f": "the conversation and the files that it changed",
}


class AtPrompt(Protocol):
    """Waits for the person; what ends the waiting is named beside it."""

    async def __call__(self, answer: Coroutine[None, None, str], leave: Callable[[int], bool]) -> str: ...


@dataclass(frozen=True, slots=True)
class Rewound:
    """Where the chat goes on."""

    session_id: str
    draft: str
    """What the person said at the step that was picked."""
    lines: tuple[str, ...]
    """What happened to the files."""


async def rewind(context: SlashContext, words: str) -> SlashResult:
    """Go on from an earlier step in a session of its own; the one of now stays as it is."""
    runtime, old = context.runtime, context.session
    step = await picked_step(runtime.store, old.id, words.split(), context.renderer, context.wait)
    if step is None:
        return DONE
    questions = context.questions
    done = await context.wait(rewound(runtime, old, step, questions), questions.leave)
    if done is None:
        return DONE
    context.enter(await runtime.resume(done.session_id))
    context.composer.put_in(done.draft)
    lines = [*done.lines, f"The chat goes on in {done.session_id}; what it was stays in {old.id}."]
    context.renderer.lines((("yellow", line) for line in lines), prose=True)
    return DONE


async def picked_step(
    store: "Store", session_id: str, words: Sequence[str], renderer: Renderer, at_prompt: AtPrompt
) -> "TimelineStep | None":
    """Return the step that the command names, or that the person picks; None if there is none."""
    from ....state.store.timeline import timeline

    steps = timeline(store.database, session_id)
    if not steps:
        renderer.lines([("yellow", "Nothing was said yet.")])
        return None
    name = words[0] if words else await _picked(steps, at_prompt)
    step = next((step for step in steps if str(step.seq) == name), None)
    if step is None and name:
        renderer.lines([("yellow", f"There is no step {one_line(name)}.")])
    return step


async def _picked(steps: "Sequence[TimelineStep]", at_prompt: AtPrompt) -> str:
    choices = [
        Choice(str(step.seq), step_line(step), f"{step.seq} {step.action} {step.text}") for step in steps
    ]
    picker = Picker("Rewind to which step?", choices, "goes back", from_end=True)
    try:
        return await at_prompt(picker.run(), picker.leave)
    except Leave as leaving:
        if leaving.exit_code != 130:
            raise
        return ""


async def rewound(
    runtime: "Runtime", session: "Session", step: "TimelineStep", questions: Questions
) -> Rewound | None:
    """Ask what is to be brought back and fork; None if the person thinks better of it.

    From a message of the person the fork starts in front of it, with the message as a draft.
    """
    key = await questions.key("Bring back what?", _WHAT)
    if not key:
        return None
    is_message = step.kind == "message"
    said = runtime.store.show(session.id, step.seq).state.chat_history.last if is_message else None
    draft = said.text if said is not None else ""
    at = max(0, step.seq - is_message)
    # The mode of now stays: an earlier one may allow more.
    mode = session.state.execution_mode
    changes: dict[str, Any] = {}
    if is_message and step.seq == 0:
        changes = dict(ApplicationState(execution_mode=mode))
    elif runtime.store.show(session.id, at).state.execution_mode != mode:
        changes = {"execution_mode": mode}
    forked = await runtime.fork(session.id, at, changes)
    lines = restored_lines(*await runtime.restore_files(session.id, at, forked)) if key == "f" else ()
    return Rewound(forked, draft, tuple(lines))
