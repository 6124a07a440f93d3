"""Changes the plan of a session and keeps its earlier plans."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ....state.application import NOTES_PLANS, ApplicationState, VibeStep
from ....state.conversation.approved_plan import ApprovedPlan
from ....state.conversation.messages import ToolResult, assistant_message, runtime_message
from ....state.conversation.plan_notebook import (
    MOST_PAST_PLANS,
    NotedStep,
    PastPlan,
    PastStep,
    PlanChange,
    PlanFacts,
    StepStatus,
)
from ...ports import Ports
from ...ports.events import MessageAdded, Notice, PlanChanged, StepChanged
from ..burr_action import Changes
from ..steering import find_person_messages
from .approved import find_last_number, mask_plan, name_steps_before, to_vibe_steps
from .decision_tools import MAX_STEPS, START_PLAN
from .plan_budget import begin_counting
from .step_turn import step_line, with_step

_MOST_OUTCOME_CHARS = 500
_NO_PLAN = "There is no plan."
_MAY_BEGIN = f" {START_PLAN.name} begins one."
_NO_STEPS = "Give the steps that are still to do. To end the plan, finish or abandon it."
_TOO_MANY = f"A plan can have at most {MAX_STEPS} steps that are still to do."
_APPROVED = (
    "The user approved this plan, so only the user can change its steps. End the open step, as failed if the"
    " plan has to change, and propose the changed plan."
)
_ASKS_AGAIN = "The user approved plan {number} then, and has to approve it again. Propose it again:\n{text}"
_OPEN = "A plan is open. Finish or abandon it first."
_HELD = (
    "The user approved the plan of this turn, and no other plan takes its place before the turn ends. Answer"
    " the user, or propose a plan for what is still to do."
)
_ENDED_NOTES = {
    "done": "The plan is finished: {text}\nAnswer the user now.",
    "abandoned": "The plan is abandoned: {text}\nIts open steps are not done. Answer the user now.",
}
_ENDED_BY_USER = {
    "finish": "[The user ended the plan as done: {text}]",
    "abandon": "[The user abandoned the plan: {text}]",
}


class Notebook:
    """The plans of one state, for a tool. Implements `actions.ports.PlanNotebook`."""

    def __init__(self, state: ApplicationState) -> None:
        self._state = state

    def refuse(self, change: PlanChange) -> str:
        why = refuse(self._state, change)
        return why + _MAY_BEGIN if why == _NO_PLAN else why

    def render(self) -> str:
        return render_current(self._state) or _NO_PLAN + _MAY_BEGIN

    def render_past(self, number: int = 0) -> str:
        past = list_past(self._state)
        if not number:
            lines = (f"{one.number}. [{one.status}] {one.name or one.goal}" for one in past)
            return "\n".join(lines) or "There are no earlier plans."
        found = next((one for one in past if one.number == number), None)
        return _describe_unknown(past, number) if found is None else render_past(found)


def render_current(state: ApplicationState) -> str:
    """Return the current plan as text; empty without a plan."""
    plan = find_current(state)
    return "" if plan is None else render_past(plan, "open" if state.turn_open else "")


def render_past(plan: PastPlan, phase: str = "") -> str:
    """Return a plan as text; `phase` replaces its status."""
    name = f" ({plan.name})" if plan.name else ""
    lines = [f"Plan{f' {plan.number}' if plan.number else ''}{name} [{phase or plan.status}]: {plan.goal}"]
    lines += [f"Expected outcome: {plan.expects}"] if plan.expects else []
    for number, step in enumerate(plan.steps, 1):
        lines.append(f"{number}. [{step.status}] {step.description}")
        lines += [f"   expected: {step.expects}"] if step.expects else []
        lines += [f"   outcome: {step.outcome}"] if step.outcome else []
    return "\n".join([*lines, *([f"Outcome: {plan.outcome}"] if plan.outcome else [])])


def list_past(state: ApplicationState) -> tuple[PastPlan, ...]:
    """Return the earlier plans, the newest last. Between turns the plan of the last turn is one of them."""
    if state.turn_open or not state.vibe_plan:
        return state.past_plans
    return (*state.past_plans, _to_past(state, _next_number(state)))[-MOST_PAST_PLANS:]


def find_current(state: ApplicationState) -> PastPlan | None:
    """Return the current plan in the form of an earlier one, with the number 0; None without a plan."""
    return _to_past(state, 0) if state.vibe_plan else None


def file_plan(state: ApplicationState) -> Changes:
    """Return the state changes that keep the current plan as an earlier one, because another one follows."""
    if not state.vibe_plan or state.graph_version < NOTES_PLANS:
        return {}
    filed = (*state.past_plans, _to_past(state, _next_number(state)))
    return {"past_plans": filed[-MOST_PAST_PLANS:]}


def _next_number(state: ApplicationState) -> int:
    return state.past_plans[-1].number + 1 if state.past_plans else 1


def _to_past(state: ApplicationState, number: int) -> PastPlan:
    facts, steps, approved = state.plan_facts, state.vibe_plan, state.approved_plan
    # The steps of a plan before an approved one do not belong to it.
    own = steps if approved is None else steps[-len(approved.steps) :]
    is_done = all(step.status in ("completed", "skipped") for step in own)
    return PastPlan(
        number=number,
        goal=state.current_goal or "",
        status=facts.end or ("done" if is_done else "unfinished"),
        steps=tuple(
            PastStep(
                description=step.description,
                status=step.status,
                expects=step.expects,
                outcome=step.analysis[:_MOST_OUTCOME_CHARS],
            )
            for step in steps
        ),
        name=facts.name,
        expects=facts.expects,
        outcome=facts.outcome[:_MOST_OUTCOME_CHARS],
        approved_text=approved.text if approved is not None else "",
    )


def refuse(state: ApplicationState, change: PlanChange) -> str:
    """Return why a change is not possible in this state, as a sentence that says what to do; empty if it
    is possible.
    """
    match change.command:
        case "reopen":
            return _refuse_reopening(state, change)
        case "begin":
            return _OPEN if _is_open(state) else ""
        case _ if not state.vibe_plan:
            return _NO_PLAN
        case _ if state.plan_facts.end:
            return f"The plan has ended already: {state.plan_facts.end}."
        case "revise":
            return _refuse_revision(state, change)
        case _:
            what = "outcome" if change.command == "finish" else "reason"
            return "" if change.text.strip() else f"To {change.command} a plan, give the {what}."


def _refuse_revision(state: ApplicationState, change: PlanChange) -> str:
    if state.approved_plan is not None:
        return _APPROVED
    if not (change.steps or change.name or change.expects):
        return _NO_STEPS
    return _TOO_MANY if len(change.steps) > MAX_STEPS else ""


def _refuse_reopening(state: ApplicationState, change: PlanChange) -> str:
    if _is_open(state):
        return _OPEN
    past = list_past(state)
    found = next((one for one in past if one.number == change.number), None)
    if found is None:
        return _describe_unknown(past, change.number)
    if change.plan is None and state.turn_open and state.approved_plan is not None:
        return _HELD
    if found.approved_text and change.plan is None:
        return _ASKS_AGAIN.format(number=found.number, text=found.approved_text)
    return ""


def _describe_unknown(past: Sequence[PastPlan], number: int) -> str:
    known = ", ".join(str(one.number) for one in past)
    return f"There is no earlier plan {number}. The earlier plans are: {known or 'none'}."


def _is_open(state: ApplicationState) -> bool:
    return state.phase in ("planning", "working")


def apply_change(state: ApplicationState, change: PlanChange) -> Changes:
    """Return the state changes of a change that `refuse` accepts."""
    version = {"graph_version": max(state.graph_version, NOTES_PLANS)}
    match change.command:
        case "revise":
            return {**_revise(state, change), **version}
        case "finish" | "abandon":
            return {**_end(state, change), **version}
        case "reopen":
            return {**_reopen(state, change), **version}
        case "begin":
            return {**file_plan(state), **_begin(state, change), **version}


def _revise(state: ApplicationState, change: PlanChange) -> Changes:
    facts = _rename(state.plan_facts, change)
    if not change.steps:
        return {"plan_facts": facts}
    started = tuple(step for step in state.vibe_plan if step.status != "pending")
    phase = {"phase": "working"} if state.phase == "answering" else {}
    steps = _to_steps(change.steps, find_last_number(started))
    return {"plan_facts": facts, "vibe_plan": (*started, *steps), **phase}


def _rename(facts: PlanFacts, change: PlanChange) -> PlanFacts:
    named = {"name": change.name or facts.name, "expects": change.expects or facts.expects}
    return facts.model_copy(update=named)


def _to_steps(steps: Sequence[NotedStep | PastStep], last: int = 0) -> tuple[VibeStep, ...]:
    return tuple(
        VibeStep(
            step_id=str(number),
            description=step.description,
            expects=step.expects,
            after=name_steps_before(step.after, last) if isinstance(step, NotedStep) else None,
        )
        for number, step in enumerate(steps, last + 1)
    )


def _end(state: ApplicationState, change: PlanChange) -> Changes:
    """Return the changes that end the plan. The permissions of an approved plan end with it."""
    end = "done" if change.command == "finish" else "abandoned"
    facts = _rename(state.plan_facts, change).model_copy(update={"end": end, "outcome": change.text})
    changes: Changes = {"plan_facts": facts, "active_step_id": None}
    if state.turn_open:
        changes["phase"] = "answering"
    plan, step = state.vibe_plan, state.active_step
    if step is not None:
        status = "completed" if end == "done" else "abandoned"
        # The step keeps its history in memory: the last results in it are not on disk yet.
        closed = step.model_copy(update={"status": status, "analysis": change.text})
        plan = with_step(state, closed)
        line = assistant_message(step_line(closed), "runtime")
        note = runtime_message(_ENDED_NOTES[end].format(text=change.text))
        changes["chat_history"] = state.chat_history.append(*find_person_messages(step), line, note)
    return {**changes, "vibe_plan": tuple(map(_give_up, plan))}


def _give_up(step: VibeStep) -> VibeStep:
    return step if step.has_ended else step.model_copy(update={"status": "abandoned"})


def _reopen(state: ApplicationState, change: PlanChange) -> Changes:
    past = file_plan(state).get("past_plans", state.past_plans)
    found = next(one for one in list_past(state) if one.number == change.number)
    others = tuple(one for one in past if one.number != found.number)
    facts = _rename(PlanFacts(name=found.name, expects=found.expects), change)
    steps = _find_remaining_steps(found, change.plan)
    started = {**_start(found.goal, steps, change.plan), **_leave_plan_mode(state, change.plan)}
    return {**started, "plan_facts": facts, "past_plans": others}


def _find_remaining_steps(past: PastPlan, plan: ApprovedPlan | None) -> tuple[VibeStep, ...]:
    """Return the steps of an earlier plan, with those that were completed or skipped.

    If nothing would be left to do, the completed ones begin again, and without any the skipped ones.
    """
    steps = _to_steps(past.steps) if plan is None else to_vibe_steps(plan)
    kinds: tuple[tuple[StepStatus, ...], ...] = (("completed", "skipped"), ("skipped",))
    for kept in kinds:
        found = _keep_ended(steps, past.steps, kept)
        if any(step.status == "pending" for step in found):
            return found
    return steps


def _keep_ended(
    steps: Sequence[VibeStep], past: Sequence[PastStep], kept: Collection[StepStatus]
) -> tuple[VibeStep, ...]:
    """Return the steps of a plan with the status and the outcome that they had in an earlier one.

    Those of an approved plan are the last ones there: steps of a plan before it may precede them.
    """
    known = {
        step.step_id: one
        for step, one in zip(reversed(steps), reversed(past), strict=False)
        if one.description == step.description and one.status in kept
    }
    return tuple(
        step.model_copy(update={"status": one.status, "analysis": one.outcome})
        if (one := known.get(step.step_id)) is not None
        else step
        for step in steps
    )


def _begin(state: ApplicationState, change: PlanChange) -> Changes:
    expects = change.expects if change.plan is None else change.plan.expects
    facts = {"plan_facts": PlanFacts(name=change.name, expects=expects)}
    if (plan := change.plan) is None:
        return {**_start(change.goal, _to_steps(change.steps), None), **facts}
    return {**_start(plan.goal, to_vibe_steps(plan), plan), **facts, **_leave_plan_mode(state, plan)}


def _leave_plan_mode(state: ApplicationState, plan: ApprovedPlan | None) -> Changes:
    """Return the change of the mode for an approved plan: in plan mode none of its steps could be done."""
    is_held_back = plan is not None and state.execution_mode == "plan"
    return {"execution_mode": "interactive"} if is_held_back else {}


def _start(goal: str, steps: tuple[VibeStep, ...], plan: ApprovedPlan | None) -> Changes:
    return {
        "workflow_mode": "vibe",
        "phase": "working",
        "current_goal": goal,
        "vibe_plan": steps,
        "active_step_id": None,
        "approved_plan": plan,
        "parallel_steps": (),
        "replans": 0,
        **({"plan_usage": None} if plan is None else begin_counting(plan)),
    }


def apply_plan_changes(state: ApplicationState, changes: Changes, results: Iterable[ToolResult]) -> Changes:
    """Return `changes` with those that the results of tools make to the plan."""
    for change in (one.plan_change for one in results if one.plan_change is not None):
        after = state.model_copy(update=changes)
        # Permissions come from a person alone.
        if change.plan is None and change.command != "begin" and not refuse(after, change):
            changes = {**changes, **apply_change(after, change)}
    return changes


def begin_by_person(closed: ApplicationState, change: PlanChange, ports: Ports) -> Changes:
    """Return the changes of a turn that begins with a plan. `closed` is the state after the last turn."""
    idle = closed.model_copy(update={"turn_open": False, "phase": "idle"})
    if why := refuse(idle, change):
        ports.emit(Notice(why))
        return {}
    changes = apply_change(idle, change)
    ports.emit(PlanChanged(changes["vibe_plan"]))
    return {**changes, "plan_change": change}


def end_by_person(closed: ApplicationState, change: PlanChange, ports: Ports) -> Changes:
    """Return the changes by which a person ends the plan, of which the next request tells the model."""
    idle = closed.model_copy(update={"turn_open": False, "phase": "idle"})
    # An approved plan allows nothing between turns. It stays, so that a reopening asks about it again.
    names = ("vibe_plan", "current_goal", "plan_facts", "approved_plan")
    kept = {name: getattr(idle, name) for name in names}
    if why := refuse(idle, change):
        ports.emit(Notice(why))
        return {**kept, "chat_history": idle.chat_history, "turn_open": False}
    changes = apply_change(idle, change)
    note = runtime_message(_ENDED_BY_USER[change.command].format(text=change.text))
    ports.emit(PlanChanged(changes["vibe_plan"]))
    ended = {**kept, **changes, "chat_history": idle.chat_history.append(note), "turn_open": False}
    return {**ended, "plan_change": change}


def announce_plan(before: ApplicationState, changes: Changes, ports: Ports) -> None:
    """Emit the events of changes that `apply_change` returned."""
    after = before.model_copy(update=changes)
    ports.emit(PlanChanged(after.vibe_plan))
    step = next((one for one in after.vibe_plan if one.step_id == before.active_step_id), None)
    if step is not None and step.has_ended:
        ports.emit(MessageAdded("assistant", step_line(step)))
        ports.emit(StepChanged(step.step_id, step.status, step.analysis))


def mask_change(change: PlanChange, mask: Callable[[str], str]) -> PlanChange:
    """Return a change of the plan without secrets."""
    texts: dict[str, Any] = {key: mask(getattr(change, key)) for key in ("goal", "name", "expects", "text")}
    steps = tuple(
        step.model_copy(update={"description": mask(step.description), "expects": mask(step.expects)})
        for step in change.steps
    )
    return change.model_copy(update={**texts, "steps": steps, "plan": mask_plan(change.plan, mask)})
