"""Reads the answer of a hook from its exit code and output, and combines several answers."""

import json
from collections.abc import Iterable
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....state.lazy_dataclass import dataclass
from .declared import HookCommand, HookEvent
from .hook_process import HookEnd

BLOCKS = 2
"""The exit code by which a hook refuses."""
_TEXT_IS_CONTEXT: frozenset[HookEvent] = frozenset({"SessionStart", "UserPromptSubmit"})
"""The events for which plain text on a hook's stdout is context for the model."""
_MOST_CHARS = 10_000

Answered = Literal["", "allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class HookAnswer:
    decision: Answered = ""
    """`deny` refuses the event; for the event `Stop`, it keeps the run from ending."""
    reason: str = ""
    updated_input: dict[str, Any] | None = None
    context: str = ""
    """A text for the model to read."""
    stop_reason: str = ""
    """Why the run has to end; empty if it may go on."""
    notices: tuple[str, ...] = ()
    """Sentences for the person."""


class _Output(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _Behaviour(_Output):
    behavior: Literal["allow", "deny"] | None = None
    message: str = ""
    updatedInput: dict[str, Any] | None = None  # noqa: N815


class _Specific(_Output):
    permissionDecision: Literal["allow", "deny", "ask"] | None = None  # noqa: N815
    permissionDecisionReason: str = ""  # noqa: N815
    updatedInput: dict[str, Any] | None = None  # noqa: N815
    additionalContext: str = ""  # noqa: N815
    decision: _Behaviour = Field(default_factory=_Behaviour)


class _HookOutput(_Output):
    """The JSON on a hook's stdout."""

    goes_on: bool = True
    stopReason: str = ""  # noqa: N815
    systemMessage: str = ""  # noqa: N815
    decision: Literal["approve", "block", "allow", "deny", "ask"] | None = None
    reason: str = ""
    hookSpecificOutput: _Specific = Field(default_factory=_Specific)  # noqa: N815


_PLAIN: dict[str, Answered] = {
    "approve": "allow",
    "block": "deny",
    "allow": "allow",
    "deny": "deny",
    "ask": "ask",
}


def answer_of(hook: HookCommand, end: HookEnd) -> HookAnswer:
    """Return the answer of a hook. A malformed answer becomes a notice, or a refusal if the configuration of
    the hook says `block`."""
    if end.problem:
        return _make_failure(hook, end.problem)
    if end.status == BLOCKS:
        return HookAnswer("deny", _cut(end.stderr) or f"refused by the hook `{hook.display_name}`")
    if end.status != 0:
        error_text = f": {_cut(end.stderr, 300)}" if end.stderr.strip() else ""
        return _make_failure(hook, f"it ended with {end.status}{error_text}")
    text = end.stdout.strip()
    if text.startswith("{"):
        return _parse_json_answer(hook, text)
    return HookAnswer(context=_cut(text) if hook.event in _TEXT_IS_CONTEXT else "")


def _parse_json_answer(hook: HookCommand, text: str) -> HookAnswer:
    try:
        answer = cast(dict[str, Any], json.loads(text))
        if "continue" in answer:
            answer["goes_on"] = answer.pop("continue")
        output = _HookOutput.model_validate(answer)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        where = ".".join("continue" if part == "goes_on" else str(part) for part in first["loc"])
        return _make_failure(hook, f"`{where}` of its output does not fit")
    except (ValueError, RecursionError):
        return _make_failure(hook, "its output is not valid JSON")
    specific = output.hookSpecificOutput
    asked = specific.decision
    decision = specific.permissionDecision or asked.behavior or output.decision or ""
    return HookAnswer(
        decision=_PLAIN.get(decision, ""),
        reason=_cut(specific.permissionDecisionReason or asked.message or output.reason),
        updated_input=specific.updatedInput if specific.updatedInput is not None else asked.updatedInput,
        context=_cut(specific.additionalContext),
        stop_reason=""
        if output.goes_on
        else _cut(output.stopReason) or f"stopped by the hook `{hook.display_name}`",
        notices=(_cut(output.systemMessage),) if output.systemMessage.strip() else (),
    )


def _make_failure(hook: HookCommand, problem: str) -> HookAnswer:
    notice = f"The hook `{hook.display_name}` ({hook.event}) failed: {problem}."
    if hook.blocks_on_failure:
        return HookAnswer("deny", notice)
    return HookAnswer(notices=(notice,))


def _cut(text: str, most: int = _MOST_CHARS) -> str:
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]}..."


_MILDEST_FIRST: tuple[Answered, ...] = ("allow", "ask", "deny")


def combine_answers(answers: Iterable[HookAnswer]) -> HookAnswer:
    """Combine the answers: deny beats ask, and ask beats allow; the first changed input counts."""
    found = list(answers)
    decisions = {one.decision for one in found}
    decision: Answered = ""
    for each in _MILDEST_FIRST:
        decision = each if each in decisions else decision
    inputs = (one.updated_input for one in found if one.updated_input is not None)
    return HookAnswer(
        decision=decision,
        reason="; ".join(one.reason for one in found if one.decision == decision and one.reason),
        updated_input=next(inputs, None),
        context="\n".join(one.context for one in found if one.context),
        stop_reason=next((one.stop_reason for one in found if one.stop_reason), ""),
        notices=tuple(notice for one in found for notice in one.notices),
    )
