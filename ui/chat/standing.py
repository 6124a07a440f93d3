"""What the status line tells of a session."""

from typing import TYPE_CHECKING

from ..terminal.status import StatusFacts, tokens_of

if TYPE_CHECKING:
    from ...agent.config.settings import Settings
    from ...agent.session.session import Session


def facts_of(session: "Session | None", settings: "Settings") -> StatusFacts:
    """Return what holds between two runs; without a session what is known before it is open."""
    if session is None:
        return StatusFacts(settings.mode, sandbox=settings.sandbox)
    state = session.state
    window = session.model.context_window
    usage = state.usage
    return StatusFacts(
        mode=state.execution_mode,
        model=session.model_name,
        session=session.id,
        context_used=_estimated(session) / window if window else None,
        tokens=tokens_of(usage),
        cost_usd=usage.cost_usd,
        budget_left=session.budget_usd,
        sandbox=session.sandbox,
        context_window=window,
        model_calls=usage.llm_calls,
    )


def _estimated(session: "Session") -> float:
    """Return how many tokens the next request is going to take, as the compression reckons."""
    state = session.state
    return (session.offered.size_bytes + state.chat_history.size_bytes) * state.tokens_per_byte
