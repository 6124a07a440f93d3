"""Questions in the chat: one key out of a few, or a line of text; a signal ends them."""

from prompt_toolkit import PromptSession
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from ui.composer import Leave
from ui.one_key import OneKey
from ui.render import Renderer
from ui.stdin import clean


class Questions:
    """Asks one question at a time."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self._question: OneKey | None = None
        self._open: PromptSession[str] | None = None

    @property
    def is_listening(self) -> bool:
        """True while a key or a line would be taken."""
        if self._question is not None:
            return self._question.listens
        return self._open is not None and self._open.app.is_running

    def leave(self, exit_code: int) -> bool:
        """End a running question; return whether there was one that can be ended this way."""
        if self._open is None or not self._open.app.is_running:
            return False
        self._open.app.exit(exception=Leave(exit_code))
        return True

    async def key(self, question: str, choices: dict[str, str]) -> str:
        """Return the key pressed for a choice; empty if the question is left open."""
        self.renderer.lines(("", f"  [{key}] {text}") for key, text in choices.items())
        self._question = OneKey(f"{question} [{'/'.join(choices)}] ", choices)
        self._open = self._question.prompt
        try:
            key = await self._question.ask()
        finally:
            self._question = self._open = None
        mark = self.renderer.glyphs.prompt
        self.renderer.lines([("bold", f"  {mark} {choices.get(key, 'left open')}")])
        return key

    async def line(self, question: str, default: str = "") -> str | None:
        """Return a line of text; None if the person thinks better of it."""
        self._open = PromptSession(question, key_bindings=_line_keys())
        try:
            return clean(await self._open.prompt_async(default=default))
        except EOFError:
            return None
        finally:
            self._open = None


def _line_keys() -> KeyBindings:
    """Return bindings that take Ctrl-C, typed or sent, as "never mind"."""
    keys = KeyBindings()
    keys.add("c-c")(_never_mind)
    keys.add("<sigint>")(_never_mind)
    return keys


def _never_mind(event: KeyPressEvent) -> None:
    event.app.exit(exception=EOFError())
