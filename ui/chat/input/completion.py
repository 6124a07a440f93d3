"""What the menu below the line offers: commands and their arguments, and files behind `@`."""

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ....agent.config.settings import MODES

COMMANDS = {
    "/mode": "change what runs unasked",
    "/rewind": "go back to an earlier step",
    "/help": "show the commands",
    "/exit": "leave; the session can be resumed",
}


class SlashCompleter(Completer):
    """Completes a command at the start of the input, and the modes after `/mode`."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/mode ") and text.count(" ") == 1:
            typed = text.removeprefix("/mode ")
            yield from (Completion(mode, -len(typed)) for mode in MODES if mode.startswith(typed))
        elif text.startswith("/") and " " not in text:
            for name, meaning in COMMANDS.items():
                if name.startswith(text):
                    yield Completion(name, -len(text), display_meta=meaning)
