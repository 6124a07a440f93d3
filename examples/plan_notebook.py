"""A plan that a program begins, the model revises, and the program reopens after it was abandoned.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os

from sandbur import Agent, Plan, PlanStep, plan_tools, tool
from sandbur.testing import ScriptedModel, ToolCall

MODEL = os.environ.get("SANDBUR_MODEL")


@tool(effect="read")
def measure(room: str) -> str:
    """Measure the size of a room."""
    return f"{room}: 12 square metres"


SCRIPT = ScriptedModel(
    [
        ToolCall("measure", room="hall"),
        ToolCall("plan", command="revise", steps="Choose a colour => a name\nOrder the paint => a receipt"),
        ToolCall("finish_step", status="completed", summary="The hall has 12 square metres."),
        ToolCall("plan", command="abandon", text="The shop is closed."),
        "The shop is closed, so I stopped.",
        ToolCall("finish_step", status="completed", summary="It is white."),
        ToolCall("finish_step", status="completed", summary="Receipt 12."),
        "The paint is ordered.",
    ]
)
agent = Agent(MODEL or SCRIPT, tools=[measure, *plan_tools()], store="memory:")


def show(plan: Plan | None) -> None:
    """Print the status of a plan and of its steps."""
    if plan is not None:
        print(f"{plan.goal}: {plan.status}")
        for step in plan.steps:
            print(f"  {step.status}: {step.description} {step.outcome}".rstrip())


async def main() -> None:
    async with agent.session() as session:
        steps = ["Measure the hall", PlanStep("Buy paint", expects="a receipt")]
        result = await session.plan.create("Paint the hall", steps, expects="a painted hall")
        print(result.output, result.status)
        show(session.plan.current)
        result = await session.plan.reopen(session.plan.history[-1].number)
        print(result.output, result.status)
        show(session.plan.current)


if __name__ == "__main__":
    asyncio.run(main())
