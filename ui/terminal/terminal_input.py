"""Asks a person at the terminal the questions of tools and tool servers."""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from ...actions.ports.user_input import UserAnswer, UserQuestion
from .text.form_fields import FormField, WrongValue, fields_of
from .text.sanitize import one_line, plain

_READ_BYTES = 4096
_DECLINES = UserAnswer("decline")
_CANCELS = UserAnswer("cancel")


class TerminalInput:
    """A `UserInput` for programs with a terminal: it asks one question at a time and reads a line as answer.

    An empty line declines the question. The end of the input cancels every question.
    """

    def __init__(self, input: TextIO | None = None, output: TextIO | None = None) -> None:
        """`input` and `output` are stdin and stderr by default; `input` needs a file descriptor."""
        self._input = input
        self._output = output
        self._read = b""
        self._asking: asyncio.Lock | None = None

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """Print the question and wait for the answer; implements `UserInput`."""
        self._asking = self._asking or asyncio.Lock()
        async with self._asking:
            who = f"{one_line(question.asked_by)} asks: " if question.asked_by else ""
            self._print(f"{who}{plain(question.text)}")
            if question.url:
                return await self._ask_visit(question.url)
            if question.schema:
                return await self._ask_values(fields_of(question.schema))
            return await self._ask_text(question.choices)

    async def _ask_text(self, choices: tuple[str, ...]) -> UserAnswer:
        for number, choice in enumerate(choices, 1):
            self._print(f"  {number}  {one_line(choice)}")
        while (line := await self._ask_line("> ")) is not None:
            if not line:
                return _DECLINES
            if not choices or line in choices:
                return UserAnswer(text=line)
            if line.isdecimal() and 1 <= int(line) <= len(choices):
                return UserAnswer(text=choices[int(line) - 1])
            self._print(f"Type a number from 1 to {len(choices)}.")
        return _CANCELS

    async def _ask_visit(self, url: str) -> UserAnswer:
        self._print(f"  {one_line(url)}")
        line = await self._ask_line("Type `done` after you have been there, or nothing to decline: ")
        return _CANCELS if line is None else UserAnswer() if line == "done" else _DECLINES

    async def _ask_values(self, fields: Sequence[FormField]) -> UserAnswer:
        """Ask for each value of a form; an empty line leaves an optional one out, and declines otherwise."""
        content: dict[str, Any] = {}
        for field in fields:
            for number, label in enumerate(field.labels, 1):
                self._print(f"  {number}  {label}")
            hint = f" ({field.hint})" if field.hint else ""
            while (line := await self._ask_line(f"{field.label}{hint}: ")) is not None:
                try:
                    if line:
                        content[field.name] = field.parse(line)
                    elif field.default is not None:
                        content[field.name] = field.default
                    elif field.is_required:
                        return _DECLINES
                    break
                except WrongValue as wrong:
                    self._print(str(wrong))
            if line is None:
                return _CANCELS
        return UserAnswer(content=content)

    async def _ask_line(self, label: str) -> str | None:
        """Return the next line without spaces around it; None at the end of the input."""
        self._print(label, end="")
        file = (self._input or sys.stdin).fileno()
        while b"\n" not in self._read:
            await _wait_readable(file)
            if not (piece := os.read(file, _READ_BYTES)):
                return None
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    def _print(self, text: str, end: str = "\n") -> None:
        print(text, end=end, file=self._output or sys.stderr, flush=True)


async def _wait_readable(file: int) -> None:
    """Wait until a file can be read, without a thread that would outlive a cancelled question."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(file, readable.set)
    except PermissionError:  # an ordinary file is always readable
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(file)
