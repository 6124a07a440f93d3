"""What the menu below the line offers: commands and their arguments, and files behind `@`."""

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    ThreadedCompleter,
    merge_completers,
)
from prompt_toolkit.document import Document

from ....agent.config.settings import MODES
from .mentions import mention

if TYPE_CHECKING:
    from .project_files import ProjectFiles

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


_OPEN_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]*)|([^\s"]*))$')


class FileCompleter(Completer):
    """Completes a path behind `@` anywhere in the input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _files(self) -> "ProjectFiles":
        from .project_files import ProjectFiles

        return ProjectFiles(self._folder)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        found = _OPEN_MENTION.search(document.text_before_cursor)
        if found is None:
            return
        for path in self._files.matching(found[1] or found[2] or ""):
            yield Completion(mention(path), -len(found[0]), display=path)


def completer_for(folder: Path) -> Completer:
    """Return what completes the input in a folder; files are looked for in a thread."""
    return merge_completers([SlashCompleter(), ThreadedCompleter(FileCompleter(folder))])
