"""An agent as one action of a Burr application; the application and the agent share one store.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model. If you kill the
program and run it again with the same file, it continues where it was:
`python examples/burr_graph.py letters.db`
"""

# Burr leaves some of its types open.
# pyright: basic, reportGeneralTypeIssues=false

import asyncio
import os
import sys
import tempfile

from burr.core import Application, ApplicationBuilder, ApplicationContext, State, action, when

from sandbur import Agent, AsyncSandburPersister, ModelRequest, tool
from sandbur.testing import ScriptedModel, ToolCall

FILE = sys.argv[1] if len(sys.argv) > 1 else f"{tempfile.mkdtemp(prefix='sandbur-example-')}/letters.db"
STORE = f"sqlite:///{FILE}"


@tool(effect="read")
def orders_of(customer: str) -> list[str]:
    """List what a customer has ordered."""
    return ["anvil", "rope"]


def next_words(request: ModelRequest) -> ToolCall | str:
    last = list(request.messages)[-1]
    if last.tool_results:
        return f"Dear Ada, you have ordered {last.tool_results[0].content}."
    return "Dear Ada, two things." if "shorter" in last.text else ToolCall("orders_of", customer="Ada")


agent = Agent(os.environ.get("SANDBUR_MODEL") or ScriptedModel(next_words), tools=[orders_of], store=STORE)


@action(reads=["task", "letter", "remarks"], writes=["letter"])
async def write(state: State, __context: ApplicationContext) -> State:
    task = f"Make it {state['remarks']}: {state['letter']}" if state["remarks"] else state["task"]
    # Each step has its own session, so that a step that was killed continues its run and starts no new one.
    async with agent.session(f"{__context.app_id}-{__context.sequence_id}") as session:
        result = await session.run(None if session.history else task)
        return state.update(letter=result.raise_for_status().output)


@action(reads=["letter"], writes=["remarks"])
async def review(state: State) -> State:
    return state.update(remarks="shorter" if len(state["letter"]) > 30 else "")


async def application(persister: AsyncSandburPersister) -> Application:
    start = {"task": "Write to Ada what she ordered.", "letter": "", "remarks": ""}
    return await (
        ApplicationBuilder()
        .with_actions(write, review)
        .with_transitions(("write", "review"), ("review", "write", ~when(remarks="")))
        .with_identifiers(app_id="letter-1", partition_key="letters")
        .initialize_from(
            persister, resume_at_next_action=True, default_state=start, default_entrypoint="write"
        )
        .with_state_persister(persister)
        .abuild()
    )


async def main() -> None:
    async with agent, AsyncSandburPersister.from_url(STORE) as persister:
        await persister.initialize()
        app = await application(persister)
        async for done, _, state in app.aiterate(halt_after=[]):
            print(f"{done.name}: {state['letter'] if done.name == 'write' else state['remarks'] or 'good'}")


if __name__ == "__main__":
    asyncio.run(main())
