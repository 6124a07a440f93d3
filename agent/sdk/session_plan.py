"""`session.plan`: the plan of a session and its earlier plans, for programs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Generic

from ...actions.ports.events import Event
from ...actions.turn.plan.notebook import find_current, list_past
from ...state.application import RunOptions
from ...state.conversation.approved_plan import ApprovedPlan
from ...state.conversation.plan_notebook import NotedStep, PastPlan, PlanChange, StepStatus
from ...state.errors import UsageError
from ...state.lazy_dataclass import dataclass
from ..extensions.extension import load
from ..session.session import Session
from .runs.result import OutputT, RunResult

_PLANS = ".agent.review.plans"


@dataclass(frozen=True, slots=True)
class NotebookStep:
    """A step of a plan."""

    description: str
    expects: str = ""
    """The result that shows that the step is done."""
    status: StepStatus = "pending"
    outcome: str = ""
    """How the step ended, as the model describes it."""


@dataclass(frozen=True, slots=True)
class NotebookPlan:
    """A plan of a session, as it is now."""

    goal: str
    steps: tuple[NotebookStep, ...]
    status: str
    """`done`, `abandoned` or `unfinished`; of the current plan during its turn `open`."""
    name: str = ""
    expects: str = ""
    """The result that shows that the goal is reached."""
    outcome: str = ""
    number: int = 0
    """The number of an earlier plan; 0: the current one."""
    was_approved: bool = False
    """Whether a person or a program approved it with what it may do."""

    @classmethod
    def of(cls, plan: PastPlan, is_open: bool = False) -> NotebookPlan:
        steps = (NotebookStep(one.description, one.expects, one.status, one.outcome) for one in plan.steps)
        return cls(
            plan.goal,
            tuple(steps),
            "open" if is_open and plan.status == "unfinished" else plan.status,
            plan.name,
            plan.expects,
            plan.outcome,
            plan.number,
            bool(plan.approved_text),
        )


PlanStart = Callable[[Session, RunOptions], AsyncIterator[Event]]
RunPlan = Callable[[PlanStart, bool], Awaitable[RunResult[OutputT]]]
"""Runs what a function starts; True if that begins a turn."""


class SessionPlan(Generic[OutputT]):
    """The plan of a session. The rules are those of the model's tool `plan`.

    A plan with permissions or a budget needs an approval. A change that is not possible raises `UsageError`.
    """

    def __init__(self, session: Callable[[], Session], run: RunPlan[OutputT]) -> None:
        self._session, self._run = session, run

    @property
    def current(self) -> NotebookPlan | None:
        """Return the current plan, or None. Between turns it is the plan of the last turn."""
        state = self._session().state
        found = find_current(state)
        return None if found is None else NotebookPlan.of(found, state.turn_open)

    @property
    def history(self) -> tuple[NotebookPlan, ...]:
        """Return the earlier plans, the newest last; at most 20."""
        return tuple(map(NotebookPlan.of, list_past(self._session().state)))

    async def create(
        self, goal: str, steps: Sequence[str | NotebookStep], *, expects: str = "", message: str = ""
    ) -> RunResult[OutputT]:
        """Begin a turn with these steps in place of those that the model would plan; return its result.

        `message` is what the history has as the person's message; empty: the goal.
        """
        if not goal.strip() or not steps:
            raise UsageError("A plan needs a goal and steps.", 'plan.create("goal", ["first step"])')
        change = PlanChange(command="begin", goal=goal.strip(), expects=expects, steps=_note(steps))
        return await self._change(change, message or goal)

    async def create_from(self, text: str, *, approve: bool = False, message: str = "") -> RunResult[OutputT]:
        """Begin a turn with a plan as Markdown, in the form of saved plans; return its result.

        With `approve`, the program approves exactly this text with all that it may do. Raises `UsageError`
        with the line of a text that is no plan, and for permissions or a budget that are not approved.
        """
        plan = self._parse(text, "The plan")
        change: PlanChange = load(f"{_PLANS}.saved_plans:begin_saved")("", plan)
        if change.plan is not None and not approve:
            raise UsageError(
                "This plan names what it may do or use.", "Pass approve=True to approve exactly this text."
            )
        return await self._change(change, message or plan.goal)

    def revise(self, steps: Sequence[str | NotebookStep] = (), *, expects: str = "") -> None:
        """Replace the steps that have not begun, in a run that waits or was interrupted.

        The next step stores the change.
        """
        self._session().revise_plan(PlanChange(command="revise", steps=_note(steps), expects=expects))

    async def finish(self, outcome: str) -> RunResult[OutputT]:
        """End the plan as done; its turn ends, and so do its permissions."""
        return await self._change(PlanChange(command="finish", text=outcome), "/plan finish")

    async def abandon(self, reason: str) -> RunResult[OutputT]:
        """End the plan; its open steps become `abandoned`, its turn ends, and so do its permissions."""
        return await self._change(PlanChange(command="abandon", text=reason), "/plan abandon")

    async def reopen(self, number: int, *, approve: bool = False) -> RunResult[OutputT]:
        """Go on with an earlier plan, from its first step that is not done; return the result of the turn.

        A plan that was approved then needs `approve` again.
        """
        found = next((one for one in list_past(self._session().state) if one.number == number), None)
        plan = None
        if found is not None and found.approved_text:
            if not approve:
                raise UsageError(
                    f"Plan {number} was approved then.", "Pass approve=True to approve it again."
                )
            plan = self._parse(found.approved_text, f"Plan {number}")
        change = PlanChange(command="reopen", number=number, plan=plan)
        return await self._change(change, f"Go on with plan {number}.")

    async def _change(self, change: PlanChange, message: str) -> RunResult[OutputT]:
        begins = change.command in ("begin", "reopen")
        return await self._run(lambda session, options: session.change_plan(change, message, options), begins)

    def _parse(self, text: str, place: str) -> ApprovedPlan:
        settings = self._session().settings
        permissions: Any = load(f"{_PLANS}.permissions:Permissions")
        compilers = permissions(Path(settings.cwd), list(map(Path, settings.add_dirs))).by_key
        plan: ApprovedPlan = load(f"{_PLANS}.saved_plans:parse_text")(text, compilers, place)
        return plan


def _note(steps: Sequence[str | NotebookStep]) -> tuple[NotedStep, ...]:
    made = (NotebookStep(step) if isinstance(step, str) else step for step in steps)
    return tuple(NotedStep(description=step.description, expects=step.expects) for step in made)
