"""A session that dies while its history is compressed. Usage: compact_victim.py URL FOLDER

Another process resumes the session, and prints the next request to the model.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect

from sandbur.actions.ports import ModelRequest
from sandbur.state.store.store import Store

SUMMARY = "they counted to three"


class Answering(ScriptedModel):
    """A model that answers every message, and requests for a summary with a summary."""

    def stream(self, request: ModelRequest) -> Any:
        self.turns = [SUMMARY if request.purpose == "summary" else "well"]
        return super().stream(request)


async def main(url: str, folder: str) -> None:
    model = Answering()
    session = await open_real(Store.open(url), model, Path(folder), mode="interactive")
    if session.next_action != "prompt":
        await collect(session.carry_on())
    is_compressed = any(SUMMARY in message.text for message in session.state.chat_history)
    words = [message.text.split()[0] for message in session.state.chat_history if message.origin == "person"]
    for text in ("one", "two", "three"):
        if not is_compressed and text not in words:
            await collect(session.send(text + " " + "x" * 2000))
    if not is_compressed:
        await collect(session.send("/compact"))
    await collect(session.send("and now?"))
    asked = [message.text for message in model.requests[-1].messages]
    print(json.dumps({"asked": asked, "open": session.state.turn_open, "next": session.next_action}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
