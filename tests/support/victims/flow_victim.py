"""A session in which a message starts a flow, which dies: flow_victim.py URL FOLDER

Another run goes on from there as a person would. What came of it all is printed.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.victims.own_command_victim import go_on

from sandbur import Flow
from sandbur.agent.extensions.flows.router import FlowRouter
from sandbur.agent.session.session import Session
from sandbur.state.store.store import Store

MESSAGE = "please do it"
COMMAND = "echo once >> ../effects; echo said by it; sleep 0.2"
FLOW = Flow(
    "work",
    prefix="please",
    tool="run_shell_command",
    arguments={"command": COMMAND},
    answer="It is done: {rest}.",
)


def list_answers(session: Session) -> list[str]:
    return [one.text for one in session.state.chat_history if one.metadata == {"flow": "work"}]


async def main(url: str, place: str) -> None:
    folder = Path(place) / "work"
    folder.mkdir(exist_ok=True)
    store = Store.open(url)
    model: Any = ScriptedModel()
    session = await open_real(store, model, folder, mode="interactive", router=FlowRouter([FLOW]))
    await session.examine()
    asked = await go_on(session)
    sent = [one for one in session.state.chat_history if one.text == MESSAGE]
    if not sent:
        await collect(session.send(MESSAGE))
        asked += await go_on(session)
    effects = Path(place) / "effects"
    history = list(session.state.chat_history)
    print(
        json.dumps(
            {
                "effects": effects.read_text().split() if effects.exists() else [],
                "messages": sum(one.text == MESSAGE for one in history),
                "calls": [one.tool_results[0].outcome for one in history if one.is_flow_call],
                "answers": list_answers(session),
                "asked": asked,
                "model_calls": session.state.usage.llm_calls,
            }
        )
    )
    store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
