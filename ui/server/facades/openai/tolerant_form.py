"""The form of requests of OpenAI: parameters that ask for nothing pass, others are refused with a reason."""

from typing import Any, Self, cast

from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator

from ...answers import RequestRefused
from ...routes.forms import Form

_TOOLS = "the tools of an agent run inside this server, which decides about them."
_FORM = "the agent decides the form of its answers."
_TEXTS = "answers are texts."
_WHY = {
    "tools": _TOOLS,
    "tool_choice": _TOOLS,
    "functions": _TOOLS,
    "function_call": _TOOLS,
    "web_search_options": _TOOLS,
    "response_format": _FORM,
    "text": _FORM,
    "prediction": _FORM,
    "modalities": _TEXTS,
    "audio": _TEXTS,
    "n": "a session has one answer to a message.",
    "store": "sessions are always stored.",
    "conversation": "responses follow each other by previous_response_id.",
    "prompt": "the agent has its own prompt; `instructions` follow it.",
}
"""Parameter -> why it cannot have other values here than those that change nothing."""
_CALLS = "answers of this server have no tool calls, so no message has the role {role}."
_ITEMS = "answers of this server have no tool calls, so the input has only messages."


class TolerantForm(Form):
    """Clients send many parameters with the value that means their absence: an unknown one may be empty."""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        named = cast("dict[str, Any]", given)
        return {
            name: value for name, value in named.items() if name in cls.model_fields or not _is_empty(value)
        }


class ExplainedForm(TolerantForm):
    """A body whose refused parameters are named with a reason."""

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(given)
        except ValidationError as wrong:
            for error in wrong.errors(include_url=False, include_context=False):
                if sentence := _find_reason(error["loc"], error["type"], error["input"]):
                    raise RequestRefused(400, "usage", sentence) from None
            raise


def _find_reason(place: tuple[int | str, ...], kind: str, given: Any) -> str:
    """Return why a parameter is refused; empty if only its form is wrong."""
    name = str(place[0]) if place else ""
    if name in _WHY:
        return f"`{name}`: {_WHY[name]} Leave it out."
    if kind == "extra_forbidden" and len(place) == 1:
        return f"`{name[:60]}` is not known here. Leave it out: the agent of the server decides the rest."
    if name == "messages" and place[-1] == "role" and given in ("tool", "function"):
        return f"`{name}`: {_CALLS.format(role=given)}"
    if name == "input" and place[-1] == "type":
        return f"`{name}`: {_ITEMS}"
    return ""


def _is_empty(value: Any) -> bool:
    return value is None or value == [] or value == {}
