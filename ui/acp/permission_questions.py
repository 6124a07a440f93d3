"""Asks the editor about waiting calls: whether one may run, or what the outcome of an interrupted one is."""

from collections.abc import Sequence

from acp.schema import AllowedOutcome, PermissionOption, PermissionOptionKind, RequestPermissionResponse

from ...agent.policy.rules.rule_suggestions import EDITING, RuleSuggestion
from ...agent.session.decisions import ApprovalAnswer, make_decision
from ...agent.session.session import Session
from ...state.calls import CallDecision, PendingCall, Settlement
from ...state.lazy_dataclass import dataclass
from ..terminal.text.sanitize import expose

_MOST_RULE_CHARS = 300


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """The meaning of an option: a decision, or the outcome of a call."""

    approved: bool = False
    offer: RuleSuggestion | None = None
    """The rule to add, so that further calls run without a question."""
    settle: Settlement | None = None

    @property
    def is_for_more(self) -> bool:
        """Whether the choice applies to other calls, too."""
        return self.offer is not None

    def decision(self, call: PendingCall, session: Session) -> CallDecision:
        if self.offer is not None:
            session.waiting.accept(self.offer)
        verdict: ApprovalAnswer = "approve" if self.approved else "deny"
        answer = self.settle or verdict
        return make_decision(call.call_id, answer)


@dataclass(frozen=True, slots=True)
class Question:
    """The options about one call, and what each of them means."""

    options: list[PermissionOption]
    choices: dict[str, PermissionChoice]

    def read_choice(self, response: RequestPermissionResponse) -> PermissionChoice | None:
        """Return the person's choice; None if the question is left open."""
        picked = response.outcome
        return self.choices.get(picked.option_id) if isinstance(picked, AllowedOutcome) else None


def question_about(call: PendingCall, offers: Sequence[RuleSuggestion]) -> Question:
    """Return the options for a call; `offers` are the rules that "always" can add."""
    rows = _outcomes() if call.kind == "outcome_unknown" else _verdicts(offers)
    options = [PermissionOption(option_id=name, name=words, kind=kind) for name, words, kind, _ in rows]
    return Question(options, {name: choice for name, _, _, choice in rows})


_Row = tuple[str, str, PermissionOptionKind, PermissionChoice]


def _verdicts(offers: Sequence[RuleSuggestion]) -> list[_Row]:
    always: list[_Row] = [
        (f"always-{number}", _name_options(offer), "allow_always", PermissionChoice(True, offer))
        for number, offer in enumerate(offers, 1)
        if len(offer.rule) <= _MOST_RULE_CHARS
    ]
    return [
        ("once", "Allow once", "allow_once", PermissionChoice(True)),
        *always,
        ("reject", "Reject", "reject_once", PermissionChoice(False)),
    ]


def _outcomes() -> list[_Row]:
    """Return the outcomes; the first allowing one, which some editors pick by default, makes the model
    check."""
    return [
        (
            "check",
            "Let the model check: it looks before it does anything again",
            "allow_once",
            PermissionChoice(settle="check"),
        ),
        ("done", "It took effect: do not run it again", "allow_once", PermissionChoice(settle="done")),
        ("failed", "It failed, or did not happen", "reject_once", PermissionChoice(settle="failed")),
        ("rerun", "Run it again", "allow_once", PermissionChoice(settle="rerun")),
    ]


def _name_options(offer: RuleSuggestion) -> str:
    if not offer.rule:
        return f"Allow all edits in this workspace for this session (mode {EDITING})"
    if offer.kind == "sandbox":
        return "Allow in the sandbox, and do not ask again for commands in this session"
    return f"Allow always in this session: {expose(offer.rule)}"
