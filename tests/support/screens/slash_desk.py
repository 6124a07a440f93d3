"""Runs slash commands without a screen, with a real runtime and session; keeps the output as text."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from prompt_toolkit.history import InMemoryHistory
from rich.console import Console

from sandbur.actions.ports import Model
from sandbur.actions.ports.events import Event, RunFinished
from sandbur.agent.runtime.agent_definition import Definition
from sandbur.agent.runtime.runtime import Runtime
from sandbur.agent.session.session import Session
from sandbur.ui.chat.decisions.questions import Questions
from sandbur.ui.chat.input.composer import Composer
from sandbur.ui.chat.slash.command import SlashCommand, SlashResult
from sandbur.ui.chat.slash.dispatch import run_command
from sandbur.ui.terminal.render import Renderer
from sandbur.ui.terminal.status import StatusFacts

Answer = TypeVar("Answer")


class SlashDesk:
    """The chat for slash commands; keeps their output as text."""

    def __init__(self, runtime: Runtime, session: Session) -> None:
        self.runtime = runtime
        self.session = session
        self.out = StringIO()
        console = Console(file=self.out, width=100, markup=False, highlight=False, emoji=False)
        self.renderer = Renderer(console, answers=True)
        self.questions = Questions(self.renderer)
        standing = StatusFacts("interactive", "demo", session.id)
        self.composer = Composer(InMemoryHistory(), self.renderer.glyphs, lambda: standing)
        self.asks = False
        self.more: Sequence[SlashCommand] = ()
        self.picks: list[str] = []
        """The choices and answers of the person, in order."""
        self.sent: list[str] = []
        self.finished: RunFinished | None = None

    def enter(self, session: Session) -> None:
        self.session = session

    def recall(self) -> None:
        self.renderer.lines([("", f"Resumed: {self.session.id}")])

    async def send(self, text: str) -> None:
        self.sent.append(text)
        await self.follow(self.session.send(text))

    async def record(self, text: str) -> None:
        await self.follow(self.session.send(text))

    async def follow(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self.renderer.show(event)
            if isinstance(event, RunFinished):
                self.finished = event

    async def wait(self, answer: Coroutine[Any, Any, Answer], leave: Callable[[int], bool]) -> Any:
        if self.picks:
            answer.close()
            return self.picks.pop(0)
        return await asyncio.wait_for(answer, 20)

    async def type(self, text: str) -> SlashResult | None:
        return await run_command(self, text)

    def read_output(self) -> str:
        """Return the output since the last call, without line ends inside of sentences."""
        text = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return text


def environment(folder: Path) -> dict[str, str]:
    return {
        "HOME": str(folder / "home"),
        "SANDBUR_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "PATH": "/usr/bin:/bin",
    }


@asynccontextmanager
async def slash_desk(
    folder: Path,
    model: Model | None = None,
    resume: str = "",
    env: Mapping[str, str] | None = None,
    is_agent: bool = True,
    **options: object,
) -> AsyncGenerator[SlashDesk]:
    """Open a session in a folder; `model` answers in place of the demo."""
    definition = None if model is None else Definition(model=model)
    given = {"cwd": folder} if resume else {"model": "demo", "cwd": folder}
    runtime = Runtime.open(
        {**given, **options}, env or environment(folder), definition=definition if is_agent else None
    )
    if definition is not None and not is_agent:
        # What the folder and the person bring counts as in the command, with this model.
        runtime._definition = definition
    try:
        session = await (runtime.resume(resume) if resume else runtime.create())
        yield SlashDesk(runtime, session)
    finally:
        await runtime.aclose()
