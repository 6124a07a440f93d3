"""The state after a step, small enough for a page: histories as counts and what the step added to them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from agent.tracking.recording import RecordedStep
from agent.tracking.texts import Texts
from state.application import ApplicationState

Json = dict[str, Any]
Added = Mapping[str | None, Sequence[Json]]
"""Step of the plan (None: the global history) -> the messages that a step added."""

_FIRST = ("user_input", "current_goal", "workflow_mode", "phase", "execution_mode")
_UNCHANGED = "(at their defaults)"


def state_view(step: RecordedStep, added: Added, arguments: Mapping[str, Any], texts: Texts) -> Json:
    """Return the state; `arguments` are those of the calls known so far."""
    fields = step.after
    plan = _elements(fields.get("vibe_plan"))
    shown: Json = {name: texts.value(fields[name]) for name in _FIRST if name in fields}
    shown["chat_history"] = _history(fields.get("chat_history"), added.get(None, ()))
    shown["vibe_plan"] = [_plan_line(one, texts) for one in plan]
    for one in plan:
        if one.get("step_id") == fields.get("active_step_id"):
            shown["active_step"] = _active_step(one, added, texts)
    shown["pending_tool_calls"] = [
        _pending(call, arguments, texts) for call in _elements(fields.get("pending_tool_calls"))
    ]
    shown |= {name: texts.value(value) for name, value in fields.items() if name not in shown}
    shown = _without_defaults(shown)
    for name in ("usage", "turn_usage"):
        if isinstance(shown.get(name), dict):
            shown[name] = {key: value for key, value in shown[name].items() if value != 0}
    return shown


def _without_defaults(shown: Json) -> Json:
    """Name what says nothing on one line: a page shows every field on two."""
    default = _defaults()
    usual = [name for name, value in shown.items() if name in default and value == default[name]]
    told = {name: value for name, value in shown.items() if name not in usual}
    return told | ({_UNCHANGED: ", ".join(usual)} if usual else {})


@cache
def _defaults() -> Json:
    return ApplicationState().model_dump(mode="json", exclude={"chat_history", "user_input"})


def _history(spans: Sequence[Sequence[Any]] | None, added: Sequence[Json]) -> Json:
    count = sum(int(end) - int(start) for _, _, start, end in spans or ())
    return {"messages": count, "added": list(added)} if added else {"messages": count}


def _plan_line(step: Json, texts: Texts) -> str:
    line = f"{step.get('step_id')}. {step.get('status', 'pending')}: {step.get('description', '')}"
    analysis = step.get("analysis")
    return texts.shown(f"{line}\n{analysis}" if analysis else line, 600)


def _active_step(step: Json, added: Added, texts: Texts) -> Json:
    shown = {name: texts.value(value) for name, value in step.items() if name != "chat_history"}
    shown["chat_history"] = _history(step.get("chat_history"), added.get(step.get("step_id"), ()))
    return shown


def _pending(call: Json, arguments: Mapping[str, Any], texts: Texts) -> Json:
    shown = {name: texts.value(value) for name, value in call.items()}
    if not shown.get("arguments"):
        # They are on disk once, in the message that asks for the call.
        shown["arguments"] = arguments.get(str(call.get("call_id")), "")
    return shown


def _elements(value: Any) -> list[Json]:
    """Return the elements of a field; those that a damaged record leaves open are left out."""
    return [one for one in cast("Sequence[Json | None]", value or ()) if one is not None]
