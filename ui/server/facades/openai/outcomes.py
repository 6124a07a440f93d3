"""The outcome of a turn in the terms of the API: the whole text, the reason of its end, and the tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote

from .....state.lazy_dataclass import dataclass
from ...answers import RequestRefused
from .turn_follower import WAITING
from .turns import BETWEEN_TEXTS, StoredTurn

_MOST_ARGUMENT_CHARS = 300
_LIMITS = ("turn_limit", "budget_limit", "timeout")
_FAILED = ("error", "rate_limited")


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The end of a turn, or of its part until a person has to decide."""

    text: str
    """The answer without the notice."""
    notice: str = ""
    """What the client has to know about the end: what waits, or that the run was cancelled."""
    is_cut: bool = False
    """Whether a limit ended the run."""
    is_cancelled: bool = False
    usage: Mapping[str, int] = field(default_factory=dict[str, int])

    def write_notice(self, has_text: bool) -> str:
        return BETWEEN_TEXTS + self.notice if has_text else self.notice

    @property
    def whole_text(self) -> str:
        return self.text + self.write_notice(bool(self.text)) if self.notice else self.text

    def count(self, name: str) -> int:
        return int(self.usage.get(name) or 0)


def make_outcome(turn: StoredTurn | None, session_id: str, base_url: str) -> TurnOutcome:
    """Return what a turn came to. Raises `RequestRefused` if its run failed.

    None as turn: it begins when a person has decided about calls of the turn before.
    """
    page = f"{base_url}/#/s/{quote(session_id, safe='')}"
    if turn is None:
        return TurnOutcome("", f"Your message is stored; calls before it wait for a decision: {page}")
    result = turn.result or {}
    if turn.status in _FAILED:
        failure: Mapping[str, str] = result.get("error") or {}
        why = failure.get("message", "the log says why.")
        status = 429 if turn.status == "rate_limited" else 502
        raise RequestRefused(status, "run_failed", f"The run of session {session_id} failed: {why}")
    notice = ""
    if turn.status in WAITING:
        calls = "\n".join(_describe_call(call) for call in result.get("pending", ()))
        notice = f"This waits for a decision:\n{calls}\nDecide: {page}"
    elif turn.status == "interrupted":
        notice = f"The run was cancelled. The next message goes on: {page}"
    return TurnOutcome(
        turn.answer,
        notice,
        is_cut=turn.status in _LIMITS,
        is_cancelled=turn.status == "interrupted",
        usage=result.get("usage") or {},
    )


def _describe_call(call: Mapping[str, Any]) -> str:
    text = f"{call.get('tool')} {call.get('arguments')}"
    return f"- {text[:_MOST_ARGUMENT_CHARS]}"
