"""Questions to a person that wait until a program, such as a web page, provides the answer."""

import asyncio
from collections.abc import Mapping

from ...actions.ports.user_input import UserAnswer, UserQuestion
from ...state.errors import UsageError
from ...state.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    id: str
    """The id, which is unique among the questions of one `QuestionBoard`."""
    question: UserQuestion


class QuestionBoard:
    """A `UserInput` for web pages and other front ends, which list the open questions and answer them.

    Questions are only in memory: a question ends with the run of the tool that asked it.
    """

    def __init__(self) -> None:
        self._number = 0
        self._open: dict[str, tuple[OpenQuestion, asyncio.Future[UserAnswer]]] = {}
        self._changed = asyncio.Event()

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """Add a question and wait for its answer. This implements `UserInput`."""
        self._number += 1
        one = OpenQuestion(str(self._number), question)
        future: asyncio.Future[UserAnswer] = asyncio.get_running_loop().create_future()
        self._open[one.id] = one, future
        self._changed.set()
        try:
            return await future
        finally:
            del self._open[one.id]

    @property
    def questions(self) -> Mapping[str, UserQuestion]:
        """Return id -> open question, oldest first."""
        return {id: one.question for id, (one, _) in self._open.items()}

    async def next_question(self) -> OpenQuestion:
        """Return the oldest open question. If there is none, wait for one."""
        while not (waiting := [one for one, future in self._open.values() if not future.done()]):
            self._changed.clear()
            await self._changed.wait()
        return waiting[0]

    def answer(self, id: str, answer: UserAnswer | str) -> None:
        """Answer a question; a text is accepted as an answer. Raises `UsageError` if the question is not
        open."""
        _, future = self._open.get(id, (None, None))
        if future is None or future.done():
            raise UsageError(f"No question {id[:40]!r} is open.", "It was answered, or its run has ended.")
        future.set_result(UserAnswer(text=answer) if isinstance(answer, str) else answer)
