"""The completion menu: commands and their arguments, and files after `@`."""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    ThreadedCompleter,
    merge_completers,
)
from prompt_toolkit.document import Document

from ..slash.command import SlashContext
from ..slash.table import completions
from .files.mentions import mention
from .files.project_files import ProjectFiles

FindsContext = Callable[[], SlashContext | None]
"""Returns the context of the chat, or None before its session is open."""


class SlashCompleter(Completer):
    """Completes a slash command at the start of the input, and its arguments."""

    def __init__(self, context: FindsContext = lambda: None) -> None:
        self._context = context

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for one, length in completions(document.text_before_cursor, self._context()):
            yield Completion(one.text, -length, display_meta=one.meaning)


_OPEN_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]*)|([^\s"]*))$')


class FileCompleter(Completer):
    """Completes a path after `@` anywhere in the input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _files(self) -> ProjectFiles:
        return ProjectFiles(self._folder)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        found = _OPEN_MENTION.search(document.text_before_cursor)
        if found is None:
            return
        for path in self._files.matching(found[1] or found[2] or ""):
            yield Completion(mention(path), -len(found[0]), display=path)


def completer_for(folder: Path, context: FindsContext) -> Completer:
    """Return a completer of slash commands and of the files of a folder, which are listed in a thread."""
    return merge_completers([SlashCompleter(context), ThreadedCompleter(FileCompleter(folder))])
