"""Prompts for every terminal: drawn in place or, where no line can be replaced, printed as they are typed.

prompt_toolkit has a prompt of its own for such terminals. In it, its key bindings are above those of the
prompt, the application of the prompt does not run, and a removed character prints another one.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.formatted_text import AnyFormattedText, fragment_list_to_text, to_formatted_text
from prompt_toolkit.output import DummyOutput, Output
from prompt_toolkit.utils import is_dumb_terminal
from rich.cells import cell_len


class EchoOutput(DummyOutput):
    """The output of a prompt whose rows cannot be replaced: it prints what is typed, and no more."""

    def __init__(self, screen: Output) -> None:
        self._screen = screen
        self._label = ""
        self._echoed: str | None = None
        """The text that is on the line after the label; None while no prompt is on the screen."""

    def show(self, label: AnyFormattedText, text: str) -> None:
        """Print the label of a prompt and its text; later only how the text has changed."""
        if self._echoed is None:
            self._label = fragment_list_to_text(to_formatted_text(label))
            self._echoed = ""
            self._print(self._label)
        text = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
        if text != self._echoed:
            self._change(self._echoed, text)
            self._echoed = text

    def _change(self, before: str, after: str) -> None:
        removed = before[len(after) :]
        if after.startswith(before):
            self._print(after[len(before) :])
        elif before.startswith(after) and "\n" not in removed:
            size = cell_len(removed)
            self._print("\b" * size + " " * size + "\b" * size)
        else:
            self._print(f"\n{self._label}{after}")

    def hint(self, text: str) -> None:
        """Print a hint below the line; the line is printed again below the hint."""
        self.end()
        self._print(f"{text}\n")

    def end(self) -> None:
        """End the line, so that other text begins on a line of its own."""
        if self._echoed is not None:
            self._echoed = None
            self._print("\n")

    def _print(self, text: str) -> None:
        self._screen.write(text.replace("\n", "\r\n"))
        self._screen.flush()


class LinePrompt(PromptSession[Any]):
    """A `PromptSession` that has the same keys on every terminal."""

    def __init__(self, message: AnyFormattedText, **options: Any) -> None:
        self._echo = EchoOutput(get_app_session().output) if is_dumb_terminal() else None
        super().__init__(message, output=self._echo, **options)
        if self._echo is not None:
            self.app.after_render += self._follow

    def hint(self, text: str) -> None:
        """Print a hint where the prompt has no row for it."""
        if self._echo is not None:
            self._echo.hint(text)
            self.app.invalidate()

    async def ask(self, default: str = "", handle_sigint: bool = True) -> Any:
        """Return the typed line, or what a key ends the prompt with."""
        try:
            return await self.prompt_async(
                default=default, handle_sigint=handle_sigint, set_exception_handler=False
            )
        finally:
            if self._echo is not None:
                self._echo.end()

    def _follow(self, _: object) -> None:
        # Not before the application reads keys: a key that is pressed before that could be discarded.
        if self._echo is not None:
            self._echo.show(self.message, self.default_buffer.text)


def show_above(work: Callable[[], None]) -> Awaitable[None]:
    """Call `work`, which prints above the input line; the line is erased first and then drawn again."""
    output = get_app().output

    def print_lines() -> None:
        if isinstance(output, EchoOutput):
            output.end()
        work()

    return run_in_terminal(print_lines)
