"""What sub-agents do: in the live row of the call that started each, and below their step of a plan."""

from collections.abc import Callable

from ....actions.ports.events import (
    ApprovalNeeded,
    MessageAdded,
    RunFinished,
    SubAgentEvent,
    ToolOutput,
    ToolRequested,
    UsageChanged,
    find_notice,
)
from ....state.lazy_dataclass import dataclass
from ..lines import title
from ..status import count_all_tokens, short_count
from ..text.sanitize import one_line
from .calls_view import CallsView
from .plan_progress import PlanProgress

_MOST_CHARS = 120
_MOST_DESCRIPTION_CHARS = 40


@dataclass(slots=True)
class _Progress:
    call_id: str
    """The call in the session of the view."""
    tokens: int | None = 0
    what: str = "begins"


class SubAgentsView:
    """Writes one line for each thing that a sub-agent does; its call shows the newest."""

    def __init__(self, calls: CallsView, plan: PlanProgress, note: Callable[[str], None]) -> None:
        self._calls = calls
        self._note = note
        self._plan = plan
        self._known: dict[str, _Progress] = {}
        """By the id of the sub-agent's session."""

    def show(self, event: SubAgentEvent) -> None:
        agent = event.agent
        if notice := find_notice(event):
            self._note(notice)
        if agent.agent_id not in self._known:
            above = self._known.get(agent.parent_id)
            self._known[agent.agent_id] = _Progress(agent.call_id if above is None else above.call_id)
        progress = self._known[agent.agent_id]
        if isinstance(event.event, UsageChanged):
            progress.tokens = count_all_tokens(event.event.usage)
        elif text := _describe(event):
            used = "" if not progress.tokens else f"  {short_count(progress.tokens)} tokens"
            self._calls.add_output(ToolOutput(progress.call_id, f"\n{text}{used}"))
            progress.what = text
        if isinstance(event.event, RunFinished):
            progress.what = event.event.status.replace("_", " ")
        if agent.parent_id not in self._known:
            used = "" if not progress.tokens else f"  {short_count(progress.tokens)} tokens"
            about = f"{one_line(agent.name)} ({one_line(agent.description)[:_MOST_DESCRIPTION_CHARS]})"
            self._plan.note_agent(agent.agent_id, f"{about}: {progress.what}{used}", progress.call_id)


def _describe(event: SubAgentEvent) -> str:
    """Return what a sub-agent does now, as one line; empty for an event that says nothing about it."""
    below = event.agent.branch.partition("/")[2]
    who = f"{one_line(below)}: " if below else ""
    match event.event:
        case ToolRequested(tool=tool, arguments=arguments):
            return f"{who}{title(tool, arguments)}"[:_MOST_CHARS]
        case MessageAdded(role="assistant", content=content) if content.strip():
            return f"{who}{one_line(content)}"[:_MOST_CHARS]
        case ApprovalNeeded():
            return f"{who}waits for a decision"
        case _:
            return ""
