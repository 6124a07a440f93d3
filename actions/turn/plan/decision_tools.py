"""The tools by which a model steers the graph. They have no effect outside the session."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from ....state.conversation.messages import Message, ToolUse
from ...ports import ToolSpec, build_object_schema

MAX_STEPS = 30


class _Decision(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)


class StartPlan(_Decision):
    goal: str = Field(min_length=1)


class PlannedStep(_Decision):
    description: str = Field(min_length=1)
    after: list[int] | None = None
    """The numbers of the earlier steps of the list that have to end before, from 1; None: all of them."""

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, given: Any) -> Any:
        """Take a text for a description: small models send a list of texts."""
        return {"description": given} if isinstance(given, str) else given


class SubmitPlan(_Decision):
    steps: list[PlannedStep] = Field(max_length=MAX_STEPS)

    @field_validator("steps")
    @classmethod
    def _require_earlier_steps(cls, steps: list[PlannedStep]) -> list[PlannedStep]:
        for number, step in enumerate(steps, 1):
            if why := explain_wrong_order(number, step.after or ()):
                raise PydanticCustomError("order", "{why}", {"why": why})
        return steps


def explain_wrong_order(number: int, after: Iterable[int]) -> str:
    """Return why a step of a plan cannot come after these steps; empty if it can."""
    wrong = next((one for one in after if not 0 < one < number), None)
    if wrong is None:
        return ""
    earlier = (
        "the first step comes after nothing" if number == 1 else f"its earlier steps are 1 to {number - 1}"
    )
    return f"step {number} cannot come after step {wrong}: {earlier}"


class FinishStep(_Decision):
    status: Literal["completed", "failed"]
    summary: str = Field(min_length=1)


DecisionT = TypeVar("DecisionT", bound=_Decision)


START_PLAN = ToolSpec(
    "start_plan",
    "Begin a plan. Use it instead of working tools when the goal needs several separate steps that each"
    " have their own result. Never inside a plan step.",
    build_object_schema(
        {"goal": {"type": "string", "description": "The whole goal in one or two sentences."}}
    ),
)
_DESCRIPTION: Mapping[str, Any] = {
    "description": {
        "type": "string",
        "description": "What this step does and what shows it is done.",
    }
}
_AFTER: Mapping[str, Any] = {
    "after": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "Numbers of the earlier steps of this list, from 1, whose results it needs; empty if"
        " it needs none. Steps that need nothing of each other run at the same time, each by a sub-agent, so"
        " they must not change the same files. Leave it out if it comes after all earlier steps.",
    }
}


def _make_submit_plan(step: Mapping[str, Any]) -> ToolSpec:
    steps = {"type": "array", "items": build_object_schema(step, ["description"])}
    return ToolSpec(
        "submit_plan",
        "Hand in the plan when you are asked for one: the steps still to do, in order.",
        build_object_schema({"steps": steps}),
    )


SUBMIT_PLAN = _make_submit_plan(_DESCRIPTION)
_SUBMIT_ORDERED_PLAN = _make_submit_plan({**_DESCRIPTION, **_AFTER})
FINISH_STEP = ToolSpec(
    "finish_step",
    "Close the current plan step, once you have seen the results of its calls. Call it alone.",
    build_object_schema(
        {
            "status": {"type": "string", "enum": ["completed", "failed"]},
            "summary": {
                "type": "string",
                "description": "What was found or done, with the facts that later steps and the answer need.",
            },
        }
    ),
)
DECISION_TOOLS = (START_PLAN, SUBMIT_PLAN, FINISH_STEP)


def list_decision_tools(orders_steps: bool) -> tuple[ToolSpec, ...]:
    """Return the planning tools. If `orders_steps` is true, a step of a plan may name the steps before it."""
    return (START_PLAN, _SUBMIT_ORDERED_PLAN, FINISH_STEP) if orders_steps else DECISION_TOOLS


_KINDS: dict[str, type[BaseModel]] = {
    START_PLAN.name: StartPlan,
    SUBMIT_PLAN.name: SubmitPlan,
    FINISH_STEP.name: FinishStep,
}
FINAL_ANSWER = "final_answer"
RESERVED_NAMES = frozenset((*(tool.name for tool in DECISION_TOOLS), FINAL_ANSWER))


def final_answer(parameters: Mapping[str, Any], has_planning: bool = True) -> ToolSpec:
    """Return the tool whose arguments are the model's structured answer."""
    alone = "Call it alone, and never inside a plan step." if has_planning else "Call it alone."
    return ToolSpec(
        FINAL_ANSWER,
        "Hand in the final answer, in the form that these parameters describe, once the whole work is done."
        f" {alone} Unless your text is the answer as JSON of that form, it is the only way to answer.",
        parameters,
    )


PLAN_FINISHED = (
    "The plan is finished. Answer the user now: what was asked, what the steps showed, what is left."
)


def find_decision(
    message: Message, spec: ToolSpec, kind: type[DecisionT]
) -> tuple[ToolUse, DecisionT] | None:
    """Return the first valid call of this decision tool and its arguments, or None if there is no
    such call.
    """
    for use in message.tool_uses:
        if use.tool == spec.name:
            try:
                return use, kind.model_validate_json(use.arguments)
            except ValidationError:
                continue
    return None


def why_unusable(use: ToolUse, expected: ToolSpec | None) -> str:
    """Describe what is wrong with a call of a decision tool, so that the model can correct it."""
    if use.tool == FINAL_ANSWER:
        return (
            "final_answer ends the turn: call it alone, once the whole work is done, outside of plan steps."
        )
    if expected is None or use.tool != expected.name:
        return (
            f"{use.tool} does not fit here: start_plan begins a plan, submit_plan only answers a request for"
            " a plan, and finish_step only closes a plan step whose results you have seen, alone."
        )
    try:
        _KINDS[use.tool].model_validate_json(use.arguments)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "arguments"
        return f"{use.tool}: {place}: {first['msg']}. Send it again, corrected."
    return f"{use.tool} must be the only call of your message. Send it again, alone."


def steps_from_text(text: str) -> list[PlannedStep]:
    """Parse a plan from a text: a JSON plan, or its numbered or bulleted lines."""
    match = re.search(r"\{.*\}", text, re.DOTALL)
    if match:
        try:
            plan = SubmitPlan.model_validate(json.loads(match[0]))
            return plan.steps
        except (ValueError, RecursionError):
            pass
    lines = (re.match(r"\s{0,3}(?:\d{1,2}[.)]|[-*•])\s+(.+)", line) for line in text.splitlines())
    return [PlannedStep(description=line[1].strip()) for line in lines if line and line[1].strip()][
        :MAX_STEPS
    ]
