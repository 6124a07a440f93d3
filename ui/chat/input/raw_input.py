"""Keeps the terminal in raw mode as long as a prompt is displayed.

prompt_toolkit sets the terminal to cooked mode whenever text is printed above a prompt. An Enter that is
typed then arrives as Ctrl-J, which begins a new line instead of sending the message.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.input import Input
from prompt_toolkit.key_binding.key_processor import KeyPress


class RawInput(Input):
    """Reads from `terminal`, and leaves it in raw mode when prompt_toolkit asks for cooked mode."""

    def __init__(self, terminal: Input) -> None:
        self._terminal = terminal

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()

    def lend(self) -> AbstractContextManager[None]:
        """Set cooked mode during the context, for another program that reads from the terminal."""
        return self._terminal.cooked_mode()

    def raw_mode(self) -> AbstractContextManager[None]:
        return self._terminal.raw_mode()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        return self._terminal.attach(input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        return self._terminal.detach()

    def fileno(self) -> int:
        return self._terminal.fileno()

    def typeahead_hash(self) -> str:
        return self._terminal.typeahead_hash()

    def read_keys(self) -> list[KeyPress]:
        return self._terminal.read_keys()

    def flush_keys(self) -> list[KeyPress]:
        return self._terminal.flush_keys()

    @property
    def closed(self) -> bool:
        return self._terminal.closed


def lend_terminal(source: Input) -> AbstractContextManager[None]:
    """Let another program read from the terminal of a suspended prompt."""
    return source.lend() if isinstance(source, RawInput) else nullcontext()
