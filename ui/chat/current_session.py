"""The session that the chat talks to, and the facts about it for the status line."""

from ...actions.turn.commands import MODES
from ...agent.config.settings import Settings
from ...agent.runtime.runtime import Runtime
from ...agent.session.session import Session
from ...state.application import ExecutionMode
from ..terminal.status import StatusFacts, count_all_tokens


class CurrentSession:
    """Holds the session of the chat. Commands and changes by other processes replace it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._entered: Session | None = None
        self._yolo_sessions: set[str] = set()
        """The sessions that were begun in yolo mode, or that the person changed to it."""
        self.has_run = False
        """True once there is something to resume."""
        self.taken_back = ""
        """The message that was put back on the line when its answer was interrupted."""

    @property
    def is_open(self) -> bool:
        return self._entered is not None

    @property
    def session(self) -> Session:
        assert self._entered is not None, "no session is open yet"
        return self._entered

    def set(self, session: Session) -> None:
        self._entered = session
        self.note_mode()

    def note_mode(self) -> None:
        """Remember whether the session is in yolo mode, which the person has then consented to for it."""
        if self.session.state.execution_mode == "yolo":
            self._yolo_sessions.add(self.session.id)

    def change_mode(self) -> None:
        """Switch to the next mode; yolo is included only if the person consented to it for this session."""
        if self._entered is None:
            return
        consents = self._entered.id in self._yolo_sessions
        modes: list[ExecutionMode] = [mode for mode in MODES if consents or mode != "yolo"]
        now = self._entered.state.execution_mode
        following = modes[(modes.index(now) + 1) % len(modes)] if now in modes else modes[0]
        self._entered.change_mode(following)

    def status_facts(self) -> StatusFacts:
        """Return the facts for the status line between two runs."""
        return _facts_of(self._entered, self.runtime.settings)


def _facts_of(session: Session | None, settings: Settings) -> StatusFacts:
    """Return the facts of a session; None means that it is not open yet, so only settings are known."""
    if session is None:
        return StatusFacts(settings.mode, sandbox=settings.sandbox)
    state = session.state
    window = session.ports.model.context_window
    usage = state.usage
    return StatusFacts(
        mode=state.execution_mode,
        model=session.ports.model.name,
        session=session.id,
        sub_agent="" if session.settings.spawned_by is None else session.settings.spawned_by.agents[-1],
        context_used=_estimate_tokens(session) / window if window else None,
        tokens=count_all_tokens(usage),
        cost_usd=usage.cost_usd,
        budget_left=session.limits.max_budget_usd,
        sandbox=session.ports.calls.sandbox,
        context_window=window,
        model_calls=usage.llm_calls,
        is_trial=bool(session.settings.trial),
    )


def _estimate_tokens(session: Session) -> float:
    """Estimate the tokens of the next request, in the same way as the compression does."""
    state = session.state
    return (session.offered.size_bytes + state.chat_history.size_bytes) * state.tokens_per_byte
