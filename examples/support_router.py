"""A support desk that asks no model where it need not: flows answer the messages of a known form.

Their calls are judged and recorded like any other. A flow starts a sub-agent for offers; a skill is done by
one. The rest goes to the model, whose words are scripted: SANDBUR_MODEL=PROVIDER/MODEL asks a real one.

desk.yaml in examples/support_router_files has the flows that need no code; two more are written here. The
skill for complaints is a text, which the model gets with the message that chose it by a trigger.
"""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any, cast

from burr.core import ApplicationBuilder, State, action

from sandbur import Agent, Flow, events, flow, tool
from sandbur.testing import ScriptedModel

ORDERS = {"4711": {"status": "on its way", "parcels": [{"carrier": "ship"}]}}


@tool(effect="read")
def find_order(number: str) -> dict[str, Any]:
    """Find an order by its number."""
    return ORDERS[number]


@action(reads=[], writes=["days"])
def read_days(state: State[Any], days: str) -> State[Any]:
    return state.update(days=int(days))


@action(reads=["days"], writes=["answer"])
def decide(state: State[Any]) -> State[Any]:
    return state.update(answer="Granted." if state["days"] <= 5 else "Your manager has to agree.")


def ask_for_leave(days: str) -> Any:
    """Decide about leave in two steps: a state machine of its own."""
    builder = cast("Any", ApplicationBuilder()).with_actions(read_days.bind(days=days), decide)
    return builder.with_transitions(("read_days", "decide")).with_entrypoint("read_days").build()


@flow(prefix="thank you", effect="read")
def thanks(rest: str) -> str:
    """Answer thanks."""
    return "You are welcome."


LEAVE = Flow("leave", phrase="I want {days} days of leave", graph=ask_for_leave, effect="read")
MESSAGES = [
    "When do you open?",
    "Where is order 4711?",
    "And order 12?",
    "I want 3 days of leave.",
    "Thank you!",
    "Offer me three anvils",
    "Invoice 88 is too high.",
    "My anvil came damaged!",
]
ANSWERS = ["Invoice 88 has two anvils and the post.", "I am sorry. Which order is it?"]
FILES = Path(__file__).with_name("support_router_files")


async def main() -> None:
    home = Path.cwd()
    for skill in ("complaints", "invoices"):
        shutil.copytree(FILES / skill, home / ".agents" / "skills" / skill, dirs_exist_ok=True)
    place: dict[str, Any] = {
        "store": f"sqlite:///{home}/support.db",
        "env": {**os.environ, "HOME": str(home)},
    }
    chosen = os.environ.get("SANDBUR_MODEL")
    offers = ScriptedModel(["Three anvils are 90 euros."])
    seller = Agent(chosen or offers, name="seller", description="Makes offers.", **place)
    parts: dict[str, Any] = {"tools": [find_order], "flows": [LEAVE, thanks], "agents": [seller]}
    model = chosen or ScriptedModel(ANSWERS)
    agent = Agent.from_file(FILES / "desk.yaml", model=model, **parts, **place)
    async with agent, agent.session() as session:
        for message in MESSAGES:
            started = "the model"
            async for event in session.stream(message):
                if isinstance(event, events.FlowMatched):
                    what = "the skill" if event.does.startswith("skill") else "the flow"
                    started = f"{what} {event.flow}, by {event.why}"
                elif isinstance(event, events.SubAgentEvent) and isinstance(event.event, events.RunStarted):
                    started += f", and the agent {event.agent.name}"
            result = session.result
            assert result is not None
            print(f"{result.output} ({started}; {result.usage.llm_calls} model calls)")


if __name__ == "__main__":
    asyncio.run(main())
