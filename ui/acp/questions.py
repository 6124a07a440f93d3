"""Asks the editor about calls that wait: may it run, or what came of it when its process died."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from acp.schema import AllowedOutcome, PermissionOption, PermissionOptionKind, RequestPermissionResponse

from ...agent.policy.offers import EDITING, Offer
from ...agent.session.session import whoami
from ...state.calls import CallDecision, PendingCall, Settlement
from ..terminal.sanitize import exposed

if TYPE_CHECKING:
    from ...agent.session.session import Session

_MOST_RULE_CHARS = 300


class PermissionChoice(Protocol):
    """What picking an option means."""

    @property
    def is_for_more(self) -> bool:
        """Whether it is about other calls, too."""
        ...

    def decision(self, call: PendingCall, session: "Session") -> CallDecision: ...


@dataclass(frozen=True, slots=True)
class ApprovalChoice:
    approved: bool
    offer: Offer | None = None
    """What passes unasked from now on."""

    @property
    def is_for_more(self) -> bool:
        return self.offer is not None

    def decision(self, call: PendingCall, session: "Session") -> CallDecision:
        if self.offer is not None:
            session.accept(self.offer)
        return CallDecision(call_id=call.call_id, approved=self.approved, by=_by())


@dataclass(frozen=True, slots=True)
class OutcomeChoice:
    settle: Settlement
    is_for_more: bool = False

    def decision(self, call: PendingCall, session: "Session") -> CallDecision:
        return CallDecision(call_id=call.call_id, settle=self.settle, by=_by())


def _by() -> str:
    return f"{whoami()} (in an editor)"


@dataclass(frozen=True, slots=True)
class Question:
    """The options about one call, and what each of them means."""

    options: list[PermissionOption]
    choices: dict[str, PermissionChoice]

    def chosen(self, response: RequestPermissionResponse) -> PermissionChoice | None:
        """Return what the person picked; None if the question is left open."""
        picked = response.outcome
        return self.choices.get(picked.option_id) if isinstance(picked, AllowedOutcome) else None


def question_about(call: PendingCall, offers: Sequence[Offer]) -> Question:
    """Return what can be said about a call; `offers` is what "always" can mean for it."""
    rows = _outcomes() if call.kind == "outcome_unknown" else _verdicts(offers)
    options = [PermissionOption(option_id=name, name=words, kind=kind) for name, words, kind, _ in rows]
    return Question(options, {name: choice for name, _, _, choice in rows})


_Row = tuple[str, str, PermissionOptionKind, PermissionChoice]


def _verdicts(offers: Sequence[Offer]) -> list[_Row]:
    always: list[_Row] = [
        (f"always-{number}", _named(offer), "allow_always", ApprovalChoice(True, offer))
        for number, offer in enumerate(offers, 1)
        if len(offer.rule) <= _MOST_RULE_CHARS
    ]
    return [
        ("once", "Allow once", "allow_once", ApprovalChoice(True)),
        *always,
        ("reject", "Reject", "reject_once", ApprovalChoice(False)),
    ]


def _outcomes() -> list[_Row]:
    """Return the outcomes; where an editor picks the first that allows, the model has to look first."""
    return [
        (
            "check",
            "Let the model check: it looks before it does anything again",
            "allow_once",
            OutcomeChoice("check"),
        ),
        ("done", "It took effect: do not run it again", "allow_once", OutcomeChoice("done")),
        ("failed", "It failed, or did not happen", "reject_once", OutcomeChoice("failed")),
        ("rerun", "Run it again", "allow_once", OutcomeChoice("rerun")),
    ]


def _named(offer: Offer) -> str:
    if not offer.rule:
        return f"Allow all edits in this workspace for this session (mode {EDITING})"
    return f"Allow always in this session: {exposed(offer.rule)}"
