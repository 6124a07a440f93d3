"""`Compaction`: what an agent does when a conversation gets too long for its model."""

from collections.abc import Mapping
from typing import Any, Literal

from ...actions.ports import Model
from ...state.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The compression of older messages when a request does not fit into the model's context window.

    The older messages always stay in the store.
    """

    kind: Literal["summary", "truncate", "off"] = "summary"
    """`summary`: a model summarizes the older messages. `truncate`: they are left out, and a note says so.
    `off`: the run ends with the error `context_full`."""
    at: float | None = None
    """The part of the window that a request may fill, from 0.1 to 0.95. None: `compress_at` of the agent."""
    model: str | Model | None = None
    """The model that summarizes. None: the model of the agent."""
    prompt: str = ""
    """The request for a summary. `{messages}` stands for the older messages; without it they follow the
    text."""
    keep_messages: int | None = None
    """How many of the newest messages stay unchanged if they fit. A tool result stays with its call. None: as
    many as fill a quarter of the window."""


def compaction_settings(compaction: Compaction | None) -> Mapping[str, Any]:
    """Return the settings that a `Compaction` sets, by key."""
    if compaction is None:
        return {}
    found = {
        "compaction": compaction.kind,
        "compress_at": compaction.at,
        "compaction_model": compaction.model if isinstance(compaction.model, str) else None,
        "compaction_prompt": compaction.prompt or None,
        "compaction_keep": compaction.keep_messages,
    }
    return {key: value for key, value in found.items() if value is not None}


def find_summary_model(compaction: Compaction | None) -> Model | None:
    """Return the model object that summarizes, or None if it is given by name or not at all."""
    model = None if compaction is None else compaction.model
    return None if isinstance(model, str) else model
