"""A question that one key answers, but only after it has been on the screen for a moment."""

import asyncio
from collections.abc import Iterable

from prompt_toolkit import PromptSession
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.renderer import CPR_Support
from prompt_toolkit.utils import is_dumb_terminal

from ui.terminal import forget_typed

DEAF_S = 0.2
"""Keys that come sooner after the question appeared were not meant for it."""
_NO_ANSWER = ("c-c", "<sigint>", "c-d", "escape")


class OneKey:
    """One question; every key but the offered ones does nothing."""

    def __init__(self, question: str, keys: Iterable[str]) -> None:
        self.listens = False
        self._is_shown = False
        self.prompt: PromptSession[str] = PromptSession(
            question, key_bindings=self._bindings(keys), erase_when_done=True
        )
        # One line needs no cursor position; the answer would be dropped below, and waited for at the end.
        self.prompt.app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED

    async def ask(self) -> str:
        """Return the key pressed, empty for Ctrl-C, Ctrl-D and Escape."""
        clear_typeahead(self.prompt.app.input)
        if is_dumb_terminal():
            self._shown(None)
        else:
            self.prompt.app.after_render += self._shown
        return await self.prompt.prompt_async()

    def _shown(self, _: object) -> None:
        if self._is_shown:
            return
        self._is_shown = True
        forget_typed()
        # A timer and not a clock: keys that wait to be read are read before a timer that is due.
        asyncio.get_running_loop().call_later(DEAF_S, self._listen)

    def _listen(self) -> None:
        self.listens = True

    def _bindings(self, keys: Iterable[str]) -> KeyBindings:
        bindings = KeyBindings()
        for ignored in (Keys.Any, Keys.BracketedPaste, "enter", "c-j"):
            bindings.add(ignored)(_nothing)
        for key in keys:
            self._bind(bindings, key, key)
        for key in _NO_ANSWER:
            self._bind(bindings, key, "")
        return bindings

    def _bind(self, bindings: KeyBindings, key: str, answer: str) -> None:
        @bindings.add(key)
        def _(event: KeyPressEvent) -> None:
            if self.listens:
                event.app.exit(result=answer)


def _nothing(event: KeyPressEvent) -> None:
    pass
