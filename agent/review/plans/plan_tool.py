"""The tool `plan`: the model looks at its plan and at earlier ones, revises it, ends it, or reopens one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, Field

from ....actions.ports import BadArguments, ToolContext, ToolOutcome, ToolTraits
from ....actions.tools.builtin import BuiltinTool
from ....actions.tools.schema import Count, PlainText, ToolArguments
from ....state.conversation.plan_notebook import NotedStep, PlanChange

NAME = "plan"
_LOOKS = ("view", "history")
_CHANGES = ("revise", "finish", "abandon", "reopen")
COMMANDS = (*_LOOKS, *_CHANGES)
MOST_CHARS = 4000
_DESCRIPTION = """\
Look at your plan or change it; call it alone. Commands: view; revise (the steps that are not begun become \
`steps`); finish (the whole plan is done, with its outcome in `text`); abandon (with the reason in `text`); \
history (the earlier plans, or the one with `number`); reopen (go on with the earlier plan `number`)."""
_MARK = re.compile(r"\s*(?:\d{1,2}[.)]\s+|[-*]\s+)?")
_NESTED = "A plan can be looked at and changed only by a call of your own."


def _check_command(command: str) -> str:
    if command not in COMMANDS:
        raise ValueError(f"must be one of {', '.join(COMMANDS)}")
    return command


Sentence = Annotated[str, Field(max_length=MOST_CHARS)]


class PlanArguments(ToolArguments):
    command: Annotated[PlainText, AfterValidator(_check_command)] = Field(description=" | ".join(COMMANDS))
    steps: Annotated[str, Field(max_length=40_000)] = Field(
        default="", description="The steps still to do, one a line: STEP => WHAT SHOWS THAT IT IS DONE"
    )
    expects: Sentence = Field(default="", description="What shows that the goal of the plan is reached.")
    text: Sentence = Field(default="", description="The outcome, or the reason.")
    number: Count | None = Field(default=None, description="The number of an earlier plan.")


class PlanTool(BuiltinTool[PlanArguments]):
    traits = ToolTraits(subject="command", asks="never", changes_plan=True)

    def __init__(self) -> None:
        super().__init__(NAME, _DESCRIPTION, PlanArguments)

    def paths(self, arguments: PlanArguments) -> Sequence[str]:
        return ()

    async def run(self, arguments: PlanArguments, context: ToolContext) -> ToolOutcome:
        notebook = context.notebook
        if notebook is None:
            return ToolOutcome("error", _NESTED)
        if arguments.command == "view":
            return ToolOutcome("ok", notebook.render())
        if arguments.command == "history":
            return ToolOutcome("ok", notebook.render_past(arguments.number or 0))
        change = _to_change(arguments)
        if why := notebook.refuse(change):
            return ToolOutcome("error", why)
        return ToolOutcome("ok", _confirm(change), plan_change=change)


def plan_tools() -> tuple[PlanTool, ...]:
    """Return the tool by which a model keeps its plan: `plan`, with the commands view, revise, finish,
    abandon, history and reopen.
    """
    return (PlanTool(),)


def _to_change(arguments: PlanArguments) -> PlanChange:
    command = cast('Literal["revise", "finish", "abandon", "reopen"]', arguments.command)
    return PlanChange(
        command=command,
        steps=tuple(parse_steps(arguments.steps)) if command == "revise" else (),
        expects=arguments.expects.strip(),
        text=arguments.text.strip() if command in ("finish", "abandon") else "",
        number=(arguments.number or 0) if command == "reopen" else 0,
    )


def parse_steps(text: str) -> Iterator[NotedStep]:
    """Yield the step of each line. A number or a dash before it is left out; `=>` divides what it does from
    what shows that it is done.
    """
    for line in text.splitlines():
        description, _, expects = line[cast(re.Match[str], _MARK.match(line)).end() :].partition("=>")
        if description.strip():
            yield NotedStep(description=description.strip(), expects=expects.strip())
        elif expects.strip():
            raise BadArguments(f"steps: the line `=> {expects.strip()[:60]}` has no step before `=>`.")


def _confirm(change: PlanChange) -> str:
    match change.command:
        case "revise" if change.steps:
            return f"The plan is revised. Steps still to do: {len(change.steps)}."
        case "revise":
            return "The plan is revised. Its steps stay."
        case "reopen":
            return f"Plan {change.number} goes on with its first step that is not done."
        case _:
            return "The plan is ended."
