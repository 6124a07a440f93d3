"""What has to be true of the moves of a call: nothing starts unless somebody allowed exactly that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from state.store.call_moves import CallMove

_NEVER_RAN = ("denied", "error", "interrupted", "unknown")
"""Outcomes of calls that were refused, unusable, superseded, or lost."""


@dataclass(frozen=True, slots=True)
class Approval:
    by: str
    """`policy`, `rule` or `person`."""
    arguments_sha256: str


@dataclass(slots=True)
class CallTrail:
    """A call as far as its moves were followed."""

    call_id: str
    wish_sha256: str = ""
    """Of the arguments in the message that asks for the call; empty if none does."""
    moves: list[CallMove] = field(default_factory=list[CallMove])
    proposed: CallMove | None = None
    approval: Approval | None = None
    verdict: str = ""
    """The newest one: undecided, approved, denied or invalid."""
    starts: int = 0
    is_open: bool = False
    """Started, and not finished."""
    is_finished: bool = False
    may_restart: bool = False
    """Somebody, or a check of its effect, said that it may run once more."""

    def forked(self) -> "CallTrail":
        """Return what a fork knows of the call: a person's approval was given to another session."""
        approval = self.approval if self.approval and self.approval.by != "person" else None
        return CallTrail(
            self.call_id,
            self.wish_sha256,
            list(self.moves),
            self.proposed,
            approval,
            self.verdict if approval or self.verdict != "approved" else "undecided",
            self.starts,
            self.is_open,
            may_restart=self.starts > 0,
        )

    def judged_again(self, call: Mapping[str, Any], arguments_sha256: str) -> None:
        """Take in how the pending call stood when a run began."""
        self.verdict = str(call.get("decision", ""))
        by = str(call.get("decided_by", ""))
        if self.verdict == "approved" and by != "person":
            self.approval = Approval(by, arguments_sha256)
        elif self.verdict != "approved":
            self.approval = None
        self.may_restart = self.may_restart or call.get("settled_as") == "rerun"

    def take(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        """Follow one move; yield what is wrong with it.

        `is_traced`: it is from a time in which verdicts and the beginnings of runs were recorded, too.
        """
        self.moves.append(move)
        check = {
            "proposed": self._propose,
            "decided": self._decide,
            "started": self._start,
            "finished": self._finish,
        }.get(move.move)
        if check is None or not move.body:
            yield f"is no move that this version knows: {move.move}" if move.body else "cannot be read"
            return
        yield from check(move, is_traced)

    def _propose(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        if self.proposed is not None and self.proposed.session_id == move.session_id:
            yield f"proposes a call that record {self.proposed.record} has proposed already"
        if self.wish_sha256 and move.text("arguments_sha256") != self.wish_sha256:
            yield "proposes other arguments than the model's message asks for"
        self.proposed, self.verdict = move, move.text("decision")
        is_allowed = self.verdict == "approved" or not (self.verdict or is_traced)
        by = move.text("decided_by")
        self.approval = Approval(by, move.text("arguments_sha256")) if is_allowed else None

    def _decide(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        if self.proposed is None:
            yield "decides about a call that was never proposed"
        elif not move.body.get("edited") and not _same(self.proposed, move):
            yield f"decides about other arguments than record {self.proposed.record} proposes"
        if self.is_finished:
            yield "decides about a call that has finished"
        if not move.text("who"):
            yield "does not say who decided"
        self.verdict = move.text("decision")
        settled = move.text("settled_as")
        if self.is_open and not settled:
            yield "decides about a call that runs already"
        self.may_restart = self.may_restart or settled == "rerun"
        is_allowed = self.verdict == "approved" and settled in ("", "rerun")
        self.approval = (
            Approval(move.text("decided_by"), move.text("arguments_sha256")) if is_allowed else None
        )

    def _start(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        if self.proposed is None:
            yield "starts a call that was never proposed"
        elif self.approval is None:
            yield f"starts a call that nobody approved: the last word was `{self.verdict or 'none'}`"
        else:
            yield from self._compared(move, self.approval, is_traced)
        if self.is_finished:
            yield "starts a call that has finished"
        elif self.is_open and is_traced and not self.may_restart:
            yield "starts a call again that was running, and nobody said that it may"
        self.starts += 1
        self.is_open, self.may_restart = True, False

    def _compared(self, move: CallMove, approval: Approval, is_traced: bool) -> Iterator[str]:
        if approval.arguments_sha256 != move.text("arguments_sha256"):
            yield "starts with other arguments than those that were approved"
        by = move.text("decided_by")
        if (is_traced or by) and by != approval.by:
            yield f"says that `{by or 'nobody'}` approved it, but `{approval.by or 'nobody'}` did"

    def _finish(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        outcome = move.text("outcome")
        if self.proposed is None:
            yield "finishes a call that was never proposed"
        if self.is_finished:
            yield "finishes a call that has finished already"
        elif not self.starts and outcome not in _NEVER_RAN:
            yield f"finishes a call as `{outcome}` that was never started"
        self.is_finished, self.is_open = True, False


def _same(one: CallMove, other: CallMove) -> bool:
    return one.text("arguments_sha256") == other.text("arguments_sha256")
