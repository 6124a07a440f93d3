"""A session that dies while a shell command of the person runs. Usage: own_command_victim.py URL FOLDER

Another process resumes the session, and prints the outcome and the history.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect

from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store

COMMAND = "echo once >> ../effects; echo said by it; sleep 0.2"
MESSAGE = "what did I do?"


async def go_on(session: Session) -> list[str]:
    """Resume the session; settle a command with an unknown outcome as done."""
    asked: list[str] = []
    while session.next_action != "prompt":
        if session.next_action == "human_confirm":
            waiting = [call for call in session.state.pending_tool_calls if call.decision == "undecided"]
            asked += [call.kind for call in waiting]
            decisions = [
                CallDecision(call_id=call.call_id, approved=True)
                if call.kind == "approval"
                else CallDecision(call_id=call.call_id, settle="done")
                for call in waiting
            ]
            await collect(session.decide(decisions))
        else:
            await collect(session.carry_on())
    return asked


def ran(session: Session) -> list[str]:
    return [message.for_model.text for message in session.state.chat_history if message.is_user_command]


async def main(url: str, place: str) -> None:
    folder = Path(place) / "work"
    folder.mkdir(exist_ok=True)
    store = Store.open(url)
    model: Any = ScriptedModel("you ran something", "you ran something")
    session = await open_real(store, model, folder, mode="interactive")
    await session.examine()
    asked = await go_on(session)
    typed = Path(place) / "typed"
    if not typed.exists() or (not ran(session) and not typed.read_text()):
        typed.write_text("")
        await collect(session.run_command(COMMAND))
        typed.write_text("and told")
    asked += await go_on(session)
    if not any(message.text == MESSAGE for message in session.state.chat_history):
        await collect(session.send(MESSAGE))
    effects = Path(place) / "effects"
    texts = [message.for_model.text for message in session.state.chat_history if message.role == "user"]
    print(
        json.dumps(
            {
                "effects": effects.read_text().split() if effects.exists() else [],
                "ran": ran(session),
                "asked": asked,
                "told": texts,
            }
        )
    )
    store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
