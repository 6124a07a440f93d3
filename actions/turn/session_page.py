"""The page of a session: a short text that the model has in view in every request, whatever is compressed."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...state.application import KEEPS_PAGE, ApplicationState
from ...state.conversation.messages import Message, ToolResult, encodable, runtime_message
from ...state.conversation.transcript import Transcript
from ...state.errors import UsageError
from ..masking.span import PLACEHOLDER

MOST_PAGE_BYTES = 4096
_HEAD = (
    "[The page of this session, as it is now. Every compression keeps it. It is background, not a new"
    " message of the user.]\n"
)
_CLEARED = "[The page of this session is empty now.]"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def check_page(text: str, mask: Callable[[str], str]) -> str:
    """Return a page without spaces around it; `mask` returns a text with its secrets masked.

    Raises `UsageError` if it is larger than `MOST_PAGE_BYTES`, or contains a secret or control characters.
    """
    page = encodable(text).strip()
    if found := _CONTROL.search(page):
        raise UsageError(f"The page contains the control character U+{ord(found[0]):04X}.", "Remove it.")
    if (size := len(page.encode())) > MOST_PAGE_BYTES:
        raise UsageError(
            f"The page of a session may have {MOST_PAGE_BYTES:,} bytes, but this one has {size:,}.",
            "Shorten it: it is for what has to stay in view.",
        )
    if PLACEHOLDER.search(page) or mask(page) != page:
        raise UsageError(
            "The page contains a secret, so it is not stored.",
            "Leave the secret out, and name the variable or the file that has it.",
        )
    return page


def change_page(state: ApplicationState, page: str) -> dict[str, Any]:
    """Return the state changes that replace the page by one that `check_page` returned."""
    # An older program would not show the page to the model.
    return {"page": page, "graph_version": max(state.graph_version, KEEPS_PAGE)}


def apply_page_edits(state: ApplicationState, results: Iterable[ToolResult]) -> dict[str, Any]:
    """Return the state changes of the newest result that changes the page; empty if none does."""
    edits = [result.page for result in results if result.page is not None]
    return change_page(state, edits[-1].text) if edits else {}


def find_page(state: ApplicationState, results: Mapping[int, ToolResult]) -> str:
    """Return the page after the results of a round so far, which are named by the index of their call."""
    edits = [results[place].page for place in sorted(results)]
    return next((edit.text for edit in reversed(edits) if edit is not None), state.page or "")


def show_page_in_chat(state: ApplicationState) -> ApplicationState:
    """Return the state in whose global history the page is in view."""
    history = show_page(state, state.chat_history)
    return state if history is state.chat_history else state.model_copy(update={"chat_history": history})


def show_page(state: ApplicationState, history: Transcript, before: Sequence[Transcript] = ()) -> Transcript:
    """Return a history that ends with the page, unless it is in view in it, or in the ones `before` it.

    So an unchanged page is sent once, and adds nothing to what the provider has cached.
    """
    page = state.page
    if page is None or _is_in_view(page, (*before, history)):
        return history
    text = _HEAD + page if page else _CLEARED
    # A model call that fails drops this view; the next one shows the page again.
    return history.append_in_new_log(runtime_message(text))


def is_page_message(message: Message) -> bool:
    """Return whether a message only shows a page to the model."""
    return message.origin == "runtime" and message.text.startswith((_HEAD, _CLEARED))


def _is_in_view(page: str, histories: Sequence[Transcript]) -> bool:
    """Return whether the newest page that the histories show is this one; an empty one needs no mention."""
    for history in reversed(histories):
        for message in reversed(history):
            if is_page_message(message):
                return message.text.removeprefix(_HEAD) == page if page else message.text == _CLEARED
            for result in message.tool_results if message.role == "tool" else ():
                if result.page is not None:
                    return result.page.text == page and result.page.is_shown_by(result.content)
    return not page
