"""Lines that tell a person what happened in a session: its last messages, plan, and waiting calls."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from ...actions.ports.events import ToolFinished
from ...actions.workspace.paths import format_count
from ...agent.graph import traits_of
from ...state.application import ApplicationState
from ...state.calls import PendingCall
from ...state.conversation.messages import Message, ToolResult
from ...state.conversation.transcript import Transcript
from ...state.store.call_moves import MadeCall, list_made_calls
from ...state.store.recording import CallMove, find_last_moves, list_call_moves
from ...state.store.store import Store
from ..terminal.lines import Line, finish_line, plan_lines, result_lines, title
from ..terminal.terminal import Glyphs
from ..terminal.text.sanitize import one_line, plain
from ..terminal.text.times import local_time

_LAST_MESSAGES = 4
_MAX_CHARS = 600


def format_recap(name: str, state: ApplicationState, glyphs: Glyphs) -> Iterator[Line]:
    """Yield title, last messages and plan of a resumed session."""
    yield "bold", f"Resumed: {one_line(name)}"
    for message in _last_spoken(state):
        yield from format_message(message, glyphs)
    if state.vibe_plan:
        yield from plan_lines(state.vibe_plan, glyphs)


def format_message(message: Message, glyphs: Glyphs) -> Iterator[Line]:
    """Yield a message as a person saw it; messages from tools or the runtime to the model are left out."""
    if message.is_cut_mark:
        yield "dim", "  (interrupted)"
    elif message.display_text.strip() and message.origin in ("person", "model"):
        who = glyphs.prompt if message.role == "user" else glyphs.point
        words = plain(message.display_text).strip()
        yield "dim", f"{who} {words if len(words) <= _MAX_CHARS else words[:_MAX_CHARS] + ' ...'}"


def find_unanswered(state: ApplicationState) -> str:
    """Return the message of the open turn if no call followed it; otherwise an empty text."""
    messages = list(state.chat_history)
    at = max((place for place, one in enumerate(messages) if one.origin == "person"), default=-1)
    came = messages[at + 1 :]
    if not state.turn_open or any(one.tool_uses or one.role == "tool" for one in came):
        return ""
    return messages[at].text


def _last_spoken(state: ApplicationState) -> list[Message]:
    """Return the last messages that a person saw, oldest first."""
    history = list(state.chat_history)
    if history and not state.turn_open and history[-1].role == "assistant":
        # The final answer is displayed even if it comes from a tool.
        history[-1] = history[-1].model_copy(update={"origin": "model"})
    spoken = (
        message
        for message in history[::-1]
        if message.is_cut_mark or (message.display_text.strip() and message.origin in ("person", "model"))
    )
    return list(islice(spoken, _LAST_MESSAGES))[::-1]


def format_position(state: ApplicationState, next_action: str) -> Iterator[Line]:
    """Yield what the session waits for, if it stopped in the middle of a turn."""
    if traits_of(next_action).waits_for == "decision" and state.calls_to_decide:
        for call in state.calls_to_decide:
            what = "Waits for your decision" if call.kind == "approval" else "Outcome unknown"
            yield "yellow", f"{what}: {title(call.tool, call.arguments)}"
    elif traits_of(next_action).waits_for != "message":
        yield "yellow", "The session stopped in the middle of a turn and continues from there."


def format_stop(
    store: Store, session_id: str, state: ApplicationState, next_action: str, wake_at: str = ""
) -> Iterator[Line]:
    """Yield where an interrupted run stopped, and what Enter does."""
    traits = traits_of(next_action)
    if not traits.runs_calls:
        yield "yellow", traits.stop_note or "The run stopped between two steps."
        yield "yellow", "Enter continues from there: the model is asked again, finished calls stay finished."
    else:
        yield from _call_lines(store, session_id, state.pending_tool_calls)
    if wake_at:
        yield "yellow", f"It is due to continue at {local_time(wake_at)}; Enter does not wait for that."
    yield "yellow", "A message starts a new turn instead; /rewind goes back to an earlier step."


def _call_lines(store: Store, session_id: str, calls: Iterable[PendingCall]) -> Iterator[Line]:
    """Yield how far each call of the round got."""
    ids = [call.call_id for call in calls]
    got = find_last_moves(store.database, session_id, ids, ("started", "finished"))
    running = [call for call in calls if got.get(call.call_id) == "started"]
    waiting = [call for call in calls if call.call_id not in got and call.decision == "approved"]
    for call in calls:
        name = title(call.tool, call.arguments)
        if call in running:
            yield "yellow", f"In the middle: {name}"
        elif got.get(call.call_id) == "finished":
            yield "dim", f"Done:          {name}"
        elif call in waiting:
            yield "yellow", f"Not begun:     {name}"
    if running:
        yield (
            "yellow",
            "Enter checks the outcome, and asks you if it is unknown; nothing runs twice.",
        )
    if waiting:
        yield "yellow", f"Enter {'then ' if running else ''}runs the approved calls that have not begun."
    if not running and not waiting:
        yield "yellow", "Enter continues: the model gets the results."


_MOST_LINES = 60


def format_meanwhile(store: Store, session_id: str, before: ApplicationState, glyphs: Glyphs) -> list[Line]:
    """Return lines about the work of another process after the state `before`, or no lines."""
    state = store.show(session_id).state
    nested = list_made_calls(store.database, store.index.lineage(session_id))
    lines = list(_Telling(list_call_moves(store.database, session_id), nested, before, glyphs).lines(state))
    if not lines:
        return []
    hidden = len(lines) - _MOST_LINES
    if hidden > 0:
        gap = (
            "dim",
            f"({format_count(hidden, 'line')} more above; see all: sandbur sessions show {session_id})",
        )
        lines = [gap, *lines[hidden:]]
    return [("", ""), ("bold", "Meanwhile, in another process:"), *lines]


class _Telling:
    def __init__(
        self,
        moves: Iterable[CallMove],
        nested: Mapping[str, Sequence[MadeCall]],
        before: ApplicationState,
        glyphs: Glyphs,
    ) -> None:
        self._nested = nested
        self._before = before
        self._glyphs = glyphs
        self._decided = {move.call_id: move for move in moves if move.move == "decided" and move.text("who")}
        self._titles = {call.call_id: title(call.tool, call.arguments) for call in before.pending_tool_calls}

    def lines(self, state: ApplicationState) -> Iterator[Line]:
        """Yield the new messages, decisions and results; the work on a plan precedes its answer."""
        messages = _find_gained(self._before.chat_history, state.chat_history)
        at = max((place for place, one in enumerate(messages, 1) if one.origin == "person"), default=0)
        yield from self._format_steps(messages[:at])
        known = {step.step_id: step for step in self._before.vibe_plan} if not at else {}
        for step in state.vibe_plan:
            was = known.get(step.step_id)
            if was is None or not was.has_ended:
                old = was.chat_history if was is not None else Transcript()
                yield from self._format_steps(_find_gained(old, step.chat_history))
        if state.vibe_plan and state.vibe_plan != self._before.vibe_plan:
            yield from plan_lines(state.vibe_plan, self._glyphs)
        yield from self._format_steps(messages[at:])
        yield from self._list_new_decisions(state.pending_tool_calls)

    def _format_steps(self, messages: Iterable[Message]) -> Iterator[Line]:
        for message in messages:
            yield from format_message(message, self._glyphs)
            self._titles |= {use.call_id: title(use.tool, use.arguments) for use in message.tool_uses}
            for result in message.tool_results:
                if result.call_id in self._titles:
                    yield from self._result(result)

    def _result(self, result: ToolResult) -> Iterator[Line]:
        name = self._titles[result.call_id]
        yield from self._decision(result.call_id, name)
        event = ToolFinished.of(result)
        yield finish_line(event, name, self._glyphs)
        for made in self._nested.get(result.call_id, ()):
            if made.result is not None:
                name = title(made.call.tool, made.call.arguments)
                yield finish_line(ToolFinished.of(made.result), name, self._glyphs)
        yield from result_lines(event, self._glyphs, verbose=False)

    def _list_new_decisions(self, calls: Iterable[PendingCall]) -> Iterator[Line]:
        """Yield the decisions about calls that have no result yet."""
        for call in calls:
            if call.decision != "undecided":
                yield from self._decision(call.call_id, title(call.tool, call.arguments))

    def _decision(self, call_id: str, name: str) -> Iterator[Line]:
        move = self._decided.get(call_id)
        if move is None or any(
            call.call_id == call_id and call.decided_by == "person"
            for call in self._before.pending_tool_calls
        ):
            return
        verdict = move.text("settled_as") or move.text("decision")
        reason = f": {one_line(move.text('reason'))}" if verdict == "denied" and move.text("reason") else ""
        yield "yellow", f"{one_line(verdict)} by {one_line(move.text('who'))}: {name}{reason}"


def _find_gained(old: Transcript, new: Transcript) -> list[Message]:
    """Return the new messages of a history; return none if the history was compressed meanwhile."""
    messages = list(new)
    known = len(old)
    if known and (len(messages) < known or messages[known - 1] != old.last):
        return []
    return messages[known:]
