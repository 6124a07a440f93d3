"""A session that revises, abandons and reopens its plan, and dies: notebook_victim.py URL FOLDER

Another run goes on from there. The plans and the lines about them are printed.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.victims.own_command_victim import go_on

from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.review.plans.plan_tool import PlanTool
from sandbur.state.conversation.plan_notebook import NotedStep, PlanChange
from sandbur.state.store.store import Store

FIRST, SECOND = "move the parser", "go on with the plan"
DONE = [("finish_step", {"status": "completed", "summary": "it is done"})]
TURNS: list[Any] = [
    [("start_plan", {"goal": "Move the parser"})],
    [("submit_plan", {"steps": [{"description": "Move it"}, {"description": "Test it"}]})],
    [("plan", {"command": "revise", "steps": "Write the notes => they exist"})],
    DONE,
    [("plan", {"command": "abandon", "text": "not today"})],
    "I stopped.",
    [("plan", {"command": "reopen", "number": 1})],
    DONE,
    "All done.",
    DONE,
    "Read.",
]
BEGUN = PlanChange(command="begin", name="read", goal="Read it", steps=(NotedStep(description="Read"),))


def count_calls(store: Store) -> int:
    return store.show("s1").state.usage.llm_calls if store.index.exists("s1") else 0


async def main(url: str, place: str) -> None:
    folder = Path(place) / "work"
    folder.mkdir(exist_ok=True)
    store = Store.open(url)
    model: Any = ScriptedModel(*TURNS[count_calls(store) :])
    toolbox = {**builtin_tools(), "plan": PlanTool()}
    session = await open_real(store, model, folder, toolbox=toolbox)
    await session.examine()
    await go_on(session)
    for message in (FIRST, SECOND):
        if all(one.text != message for one in session.state.chat_history):
            await collect(session.send(message))
    if session.state.plan_change is None:
        await collect(session.change_plan(BEGUN, "read it"))
    state = session.state
    texts = [one.text for one in state.chat_history]
    print(
        json.dumps(
            {
                "steps": [[one.description, one.status] for one in state.vibe_plan],
                "past": [
                    [one.number, one.status, [s.description for s in one.steps]] for one in state.past_plans
                ],
                "abandoned": sum(text == "Step 2 abandoned: not today" for text in texts),
                "messages": [texts.count(text) for text in (FIRST, SECOND, "read it")],
                "answers": [texts.count(text) for text in ("I stopped.", "All done.", "Read.")],
                "reopened": sum(r.tool == "plan" for one in state.chat_history for r in one.tool_results),
                "calls": state.usage.llm_calls,
            }
        )
    )
    store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
