"""Applies the tool choice of a run, and ends it after the required call."""

from ...state.application import ApplicationState
from ...state.conversation.messages import Message
from .burr_action import Changes
from .calls.proposals import answer_all

_NO_CALLS = "Not run: no tool may be called in this run. Answer without tools."


def use_up_tool_choice(state: ApplicationState, message: Message) -> Changes:
    """Return the change after a reply that contains the required call: later requests let the model choose.

    Without this change, the model would have to call tools forever.
    """
    options = state.run_options
    if options.tool_choice in ("", "auto", "none") or not message.tool_uses:
        return {}
    return {"run_options": options.model_copy(update={"tool_choice": ""})}


def refuse_calls(state: ApplicationState, message: Message) -> Changes | None:
    """Return the changes that refuse the calls of a reply if the run allows no calls; None if it
    allows them.
    """
    if state.run_options.tool_choice != "none":
        return None
    history = state.chat_history.append(*answer_all(message, {}, _NO_CALLS))
    return {"chat_history": history, "bad_rounds": state.bad_rounds + 1}
