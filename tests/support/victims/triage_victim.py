"""A process that dies while a tool of its session runs, and the tool for the process that resumes."""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from support.models.scripted import Recorder, ScriptedModel, collect, open_session

from sandbur.actions.ports import Prepared, ToolContext
from sandbur.state.calls import FileChange
from sandbur.state.store.store import Store

CHANGE = FileChange(path="/x", before=None, before_mode=None, after="0" * 64)


def act(*texts: str) -> list[tuple[str, dict[str, str]]]:
    return [("act", {"text": text}) for text in texts]


class Checked(Recorder):
    """A tool with a check that finds out whether the effect happened."""

    def __init__(self, found: Any) -> None:
        super().__init__(effect="verifiable")
        self.found = found

    async def prepare(self, arguments: str, context: ToolContext) -> Prepared:
        return Prepared((CHANGE,), {})

    async def verify(self, changes: Sequence[FileChange]) -> Any:
        assert tuple(changes) == (CHANGE,)
        return self.found


async def _die(text: str) -> str:
    os.kill(os.getpid(), 9)
    return text


async def main(url: str, effect: Any, *texts: str) -> None:
    tool = Checked("unknown") if effect == "verifiable" else Recorder(effect=effect)
    tool._work = _die
    await collect((await open_session(Store.open(url), ScriptedModel(act(*texts)), tool)).send("go"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
