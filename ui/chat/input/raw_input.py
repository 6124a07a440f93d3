"""The keys of the prompt from a terminal that stays raw as long as the prompt is up.

prompt_toolkit puts the terminal into cooked mode whenever something is printed above a prompt. An Enter that
is typed then arrives as Ctrl-J, which is another key here: the message would not be sent.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.input import Input
from prompt_toolkit.key_binding.key_processor import KeyPress


class RawInput(Input):
    """Reads from `terminal` and does not change its modes where prompt_toolkit would set cooked mode."""

    def __init__(self, terminal: Input) -> None:
        self._terminal = terminal

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()

    def lend(self) -> AbstractContextManager[None]:
        """Give the terminal its usual modes, for another program that reads from it."""
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
