"""The hooks of one session. The actions of the graph and the code that drives runs call them."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ....actions.ports import Tool, ToolOutcome
from ....actions.ports.advice import CallAdvice, PromptAdvice
from ....actions.ports.events import ApprovalNeeded, Event, StepChanged
from ....state.application import ApplicationState, ExecutionMode
from ....state.calls import HookVerdict, PendingCall
from ....state.conversation.messages import Message, ToolUse, UserContent, encodable, parse_json_object
from ....state.lazy_dataclass import dataclass
from ...session.observers import Observer
from .declared import HookCommand, HookEvent
from .hook_answers import HookAnswer, answer_of, combine_answers
from .hook_process import HookPlace, run_hook

_MODES: Mapping[ExecutionMode, str] = {
    "interactive": "default",
    "plan": "plan",
    "auto-edit": "acceptEdits",
    "yolo": "bypassPermissions",
}
"""Mode -> its name in the schema of hooks."""
_MOST_AT_ONCE = 8
_END_S = 5.0
"""How long the end of a session waits for its hooks, in seconds."""
NOTHING = HookAnswer()


def _no_mode() -> ExecutionMode:
    return "interactive"


@dataclass(slots=True)
class HookSession:
    """The data of the session that each hook receives."""

    id: str
    place: HookPlace
    mask: Callable[[str], str]
    tools: Mapping[str, Tool]
    is_resumed: bool = False
    mode: Callable[[], ExecutionMode] = _no_mode


class ObservedSession(Protocol):
    """The part of a session that hooks read."""

    @property
    def state(self) -> ApplicationState: ...


class Hooks(Observer):
    """The hooks of a session. The class implements `actions.ports.hooks.Advice`, and it observes runs."""

    def __init__(self, commands: Sequence[HookCommand], session: HookSession) -> None:
        self.session = session
        self._commands = commands
        self._context = ""
        """Context from the hooks of the session's start. It waits here for the first message, which it
        joins."""
        self._about: dict[str, str] = {}
        """Call id -> the comment of hooks before the call ran. The model reads the comment with the
        result."""
        self._has_begun = False
        self._stop_reason = ""
        self._is_given_up = False
        self._running: set[asyncio.Task[HookAnswer]] = set()
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)

    def begin_session(self, session: ObservedSession) -> None:
        """Ask the session whether it was resumed, and read its mode from it from now on."""
        self.session.is_resumed = len(session.state.chat_history) > 0
        self.session.mode = lambda: session.state.execution_mode

    @property
    def stop_reason(self) -> str:
        return self._stop_reason

    @property
    def comments_results(self) -> bool:
        return any(one.event in ("PostToolUse", "PostToolUseFailure") for one in self._commands)

    def judges(self, reply: Message) -> bool:
        asked: tuple[HookEvent, ...] = ("PreToolUse", "PermissionRequest") if reply.tool_uses else ("Stop",)
        return any(one.event in asked for one in self._commands)

    def give_up(self) -> None:
        self._is_given_up = True
        for task in self._running:
            task.cancel()

    async def rewrite_message(self, message: UserContent) -> UserContent:
        return message

    async def rewrite_answer(self, text: str) -> str:
        return text

    async def rewrite_observed(self, text: str) -> str:
        return text

    async def after_observed(self, text: str) -> None: ...

    async def on_prompt(self, text: str) -> PromptAdvice:
        answer = await self._ask("UserPromptSubmit", prompt=text)
        if self._is_given_up:
            answer = HookAnswer("deny", "it was interrupted before all hooks had ended")
        context, self._context = "\n".join(filter(None, (self._context, answer.context))), ""
        if answer.decision == "deny" or answer.stop_reason:
            refusal = answer.reason or answer.stop_reason or "no reason was given"
            self._stop_reason = refusal
            return PromptAdvice(refusal)
        return PromptAdvice(context=context)

    async def before_call(self, use: ToolUse) -> CallAdvice:
        answer = await self._ask("PreToolUse", *self._names(use.tool), **_call(use))
        self._stop(answer)
        is_edited = answer.updated_input is not None and answer.decision != "deny"
        reason = answer.reason
        if answer.context:
            self._about[use.call_id] = answer.context
        if not (answer.decision or is_edited):
            return CallAdvice()
        verdict = HookVerdict(decision=answer.decision, reason=reason, edited=is_edited)
        return CallAdvice(verdict, json.dumps(answer.updated_input) if is_edited else None)

    async def on_question(self, call: PendingCall) -> HookVerdict | None:
        answer = await self._ask(
            "PermissionRequest", *self._names(call.tool), **_call(call), permission_reason=call.reason
        )
        self._stop(answer)
        if answer.decision in ("", "ask"):
            return None
        return HookVerdict(decision=answer.decision, reason=answer.reason)

    async def after_call(self, call: PendingCall, outcome: ToolOutcome, duration_ms: int) -> str:
        event: HookEvent = "PostToolUse" if outcome.outcome == "ok" else "PostToolUseFailure"
        response = {"outcome": outcome.outcome, "content": self.session.mask(outcome.content)}
        answer = await self._ask(
            event, *self._names(call.tool), **_call(call), tool_response=response, duration_ms=duration_ms
        )
        self._stop(answer)
        context = "\n".join(filter(None, (self._about.pop(call.call_id, ""), answer.context)))
        blocked = answer.reason if answer.decision == "deny" else ""
        return "\n".join(f"[A hook of the user says: {comment}]" for comment in (blocked, context) if comment)

    async def on_answer(self, text: str, is_second: bool) -> str:
        answer = await self._ask("Stop", stop_hook_active=is_second, last_assistant_message=text)
        return answer.reason or "no reason was given" if answer.decision == "deny" else ""

    async def before_compression(self) -> None:
        await self._ask("PreCompact", "auto", trigger="auto", custom_instructions="")

    async def after_compression(self, summary: str) -> None:
        await self._ask("PostCompact", "auto", trigger="auto", compact_summary=summary)

    async def before_run(self, text: str | None) -> None:
        self._stop_reason, self._is_given_up = "", False
        if not self._has_begun:
            self._has_begun = True
            source = "resume" if self.session.is_resumed else "startup"
            self._context = (await self._ask("SessionStart", source, source=source)).context

    async def before_event(self, event: Event) -> None:
        if isinstance(event, ApprovalNeeded):
            names = ", ".join(dict.fromkeys(call.tool for call in event.pending))
            kind, message = "permission_prompt", f"A decision is needed about {names}."
            await self._ask("Notification", kind, notification_type=kind, message=message)
        elif isinstance(event, StepChanged) and event.status != "pending":
            is_start = event.status == "in_progress"
            about = {"agent_id": event.step_id, "agent_type": "step"}
            if is_start:
                await self._ask("SubagentStart", "step", **about)
            else:
                await self._ask("SubagentStop", "step", **about, last_assistant_message=event.summary or "")

    async def close(self) -> None:
        """Run the hooks for the end of the session, if the session began. Hooks that are too slow are
        stopped."""
        if not self._has_begun:
            return
        try:
            async with asyncio.timeout(_END_S):
                await self._ask("SessionEnd", "other", reason="other")
        except TimeoutError:
            self.notify("The hooks of the session's end took too long and were stopped.")

    async def _ask(self, event: HookEvent, *names: str, **args: Any) -> HookAnswer:
        """Run the hooks of an event concurrently, and return their combined answer with masked secrets."""
        chosen = [one for one in self._commands if one.event == event and (not names or one.matches(*names))]
        if not chosen:
            return NOTHING
        given = {
            "session_id": self.session.id,
            "transcript_path": "",
            "cwd": str(self.session.place.cwd),
            "permission_mode": _MODES[self.session.mode()],
            "hook_event_name": event,
            **args,
        }
        text = self.session.mask(json.dumps(given, ensure_ascii=False))
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(self._run(one, text)) for one in chosen]
            self._running.update(runs)
        self._running.difference_update(runs)
        answer = combine_answers(run.result() for run in runs if not run.cancelled())
        for notice in answer.notices:
            self.notify(notice)
        return answer

    async def _run(self, hook: HookCommand, given: str) -> HookAnswer:
        async with self._slots:
            end = await run_hook(hook, given, self.session.place)
        answer = answer_of(hook, end)
        clean = self._clean
        return HookAnswer(
            answer.decision,
            clean(answer.reason),
            answer.updated_input,
            clean(answer.context),
            clean(answer.stop_reason),
            tuple(map(clean, answer.notices)),
        )

    def _clean(self, text: str) -> str:
        return self.session.mask(encodable(text)) if text else ""

    def _names(self, tool: str) -> tuple[str, ...]:
        known = self.session.tools.get(tool)
        return (tool,) if known is None else (tool, *known.traits.also_called)

    def _stop(self, answer: HookAnswer) -> None:
        self._stop_reason = self._stop_reason or answer.stop_reason


def _call(call: ToolUse | PendingCall) -> dict[str, Any]:
    return {
        "tool_name": call.tool,
        "tool_input": parse_json_object(call.arguments) or {},
        "tool_use_id": call.call_id,
    }
