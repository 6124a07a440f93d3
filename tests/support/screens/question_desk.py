"""Simulates a person who answers questions of the chat with typed keys."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from io import StringIO

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from sandbur.state.calls import CallDecision
from sandbur.ui.chat.decisions.questions import Questions
from sandbur.ui.terminal.render import Renderer

Decisions = list[CallDecision] | None


class QuestionDesk:
    """Types answers to questions through a pipe, each text when a question accepts keys."""

    def __init__(self, keys: PipeInput) -> None:
        self.out = StringIO()
        console = Console(file=self.out, width=100, markup=False, highlight=False, emoji=False)
        self.questions = Questions(Renderer(console, answers=True))
        self._keys = keys

    async def answer(self, question: Awaitable[Decisions], typed: tuple[str, ...]) -> Decisions:
        asking = asyncio.ensure_future(question)
        for text in typed:
            await self.until(True, 5)
            self._keys.send_text(text)
            await self.until(False, 0.3)
        async with asyncio.timeout(5):
            return await asking

    async def until(self, listening: bool, seconds: float) -> None:
        """Wait until a question accepts keys (`listening`), or until no question does."""
        for _ in range(int(seconds / 0.02)):
            if self.questions.is_listening is listening:
                return
            await asyncio.sleep(0.02)


@contextmanager
def pipe_keys() -> Iterator[PipeInput]:
    """Yield a pipe whose text is the input of all prompts in this context."""
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe
