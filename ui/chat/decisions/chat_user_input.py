"""Asks the person in the chat what a running tool or a tool server wants to know."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from ....actions.ports.user_input import UserAnswer, UserQuestion
from ...terminal.text.diffs import Line
from ...terminal.text.form_fields import MOST_FIELDS, FormField, WrongValue, fields_of
from ...terminal.text.sanitize import one_line, plain
from ..input.live_line import LiveLine
from ..input.wait_for_input import AnswerT
from .questions import EMPTY_LINE, GivenAnswer, Questions

_MOST_KEYS = 9
"""The number of choices that a single key can pick."""
_DECLINES = UserAnswer("decline")
_CANCELS = UserAnswer("cancel")
_NO_RUN = UserAnswer("cancel", "The user can be asked during a run only.")
_TOO_LONG = UserAnswer("cancel", f"The user is asked for {MOST_FIELDS} values at most.")


class ChatInput:
    """A `UserInput` for the chat: one question at a time, in place of the input line."""

    def __init__(self, questions: Questions, live: LiveLine) -> None:
        self._questions = questions
        self._live = live
        self._turn = asyncio.Lock()
        self._asking: asyncio.Task[Any] | None = None

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """Show the question and wait for the answer; Ctrl-C and Escape leave it without one."""
        fields = fields_of(question.schema)
        if len(fields) > MOST_FIELDS:
            return _TOO_LONG
        return await self.hold(lambda: self._ask(question, fields), _NO_RUN, _CANCELS)

    async def hold(
        self, ask: Callable[[], Coroutine[Any, Any, AnswerT]], without_run: AnswerT, unanswered: AnswerT
    ) -> AnswerT:
        """Return the answer of a dialogue that has the screen and the keys, one dialogue at a time.

        `unanswered` is the answer if the run ends first or the terminal is lost.
        """
        async with self._turn:
            if not self._live.is_open:
                return without_run
            asking = self._asking = asyncio.ensure_future(self._show(ask, unanswered))
            try:
                await asyncio.wait([asking])
            except asyncio.CancelledError:
                await self.stop()
                raise
            finally:
                self._asking = None
            return unanswered if asking.cancelled() else asking.result()

    async def stop(self) -> None:
        """Close the open question, because its run has ended."""
        if (asking := self._asking) is not None:
            asking.cancel()
            await asyncio.wait([asking])

    async def _show(self, ask: Callable[[], Coroutine[Any, Any, AnswerT]], unanswered: AnswerT) -> AnswerT:
        with self._live.pause():
            try:
                return await ask()
            except (EOFError, OSError):  # the terminal is lost
                return unanswered

    async def _ask(self, question: UserQuestion, fields: Sequence[FormField]) -> UserAnswer:
        self._questions.show("Question", self._body(question), one_line(question.asked_by))
        if question.url:
            return await self._ask_visit()
        if question.schema:
            return await self._ask_values(fields)
        return await self._ask_text(question.choices)

    def _body(self, question: UserQuestion) -> Iterator[Line]:
        for line in plain(question.text).split("\n"):
            yield from self._questions.wrap_fact("", line)
        if question.url:
            yield from self._questions.wrap_fact("address: ", one_line(question.url))

    async def _ask_visit(self) -> UserAnswer:
        keys = {"y": "been there", "n": "decline"}
        answer = await self._press("Visit the address, then press y.", keys)
        return _CANCELS if answer is None else UserAnswer() if answer.key == "y" else _DECLINES

    async def _ask_text(self, choices: Sequence[str]) -> UserAnswer:
        field = FormField("answer", "Answer", "string", tuple(choices), tuple(map(one_line, choices)), True)
        value = await self._ask_value(field)
        return value if isinstance(value, UserAnswer) else UserAnswer(text=value)

    async def _ask_values(self, fields: Sequence[FormField]) -> UserAnswer:
        """Ask for each value of a form, and whether all of them are to be sent."""
        content: dict[str, Any] = {}
        for field in fields:
            value = await self._ask_value(field)
            if isinstance(value, UserAnswer):
                return value
            if value is not None:
                content[field.name] = value
        if len(fields) == 1:
            return UserAnswer(content=content)
        answer = await self._press("Send this?", {"y": "send", "n": "decline"})
        return _CANCELS if answer is None else UserAnswer(content=content) if answer.key == "y" else _DECLINES

    async def _ask_value(self, field: FormField) -> Any:
        """Return a value; None to leave it out, a `UserAnswer` for a question without an answer."""
        choices = self._choices_of(field)
        label = f"{field.label} ({field.hint})" if field.hint else field.label
        while (answer := await self._questions.reply(label, choices)) != GivenAnswer():
            if answer == EMPTY_LINE:
                return _DECLINES if field.is_required and field.default is None else field.default
            try:
                return field.parse(answer.text or answer.key)
            except WrongValue as wrong:
                self._questions.renderer.lines([("yellow", f"  {wrong}")])
        return _CANCELS

    def _choices_of(self, field: FormField) -> dict[str, str]:
        """Return what the person can press for a value; many choices are listed, and typed by number."""
        rest = {"enter": "declines" if field.is_required else "leaves it out", "Esc": "no answer"}
        if field.default is not None:
            rest["enter"] = "takes the default"
        if field.kind == "boolean":
            return {"y": "yes", "n": "no", **rest}
        numbered = {str(number): label for number, label in enumerate(field.labels, 1)}
        if field.kind != "array" and len(numbered) <= _MOST_KEYS:
            return {**numbered, **rest}
        rows = [("", f"  {number}  {label}") for number, label in numbered.items()]
        self._questions.renderer.lines(rows)
        return rest

    async def _press(self, question: str, keys: dict[str, str]) -> GivenAnswer | None:
        """Return the key pressed; None if the question is left open."""
        while (answer := await self._questions.reply(question, keys)) != GivenAnswer():
            if answer.key in keys:
                return answer
            self._questions.renderer.lines([("yellow", f"  That is none of the keys {'/'.join(keys)}.")])
        return None
