"""`sandbur memory export` and `import`."""

from __future__ import annotations

import sys
from pathlib import Path

from .....state.errors import UsageError
from .....state.memory.fact_changes import Author
from .....state.memory.fact_transfer import export_facts, import_facts
from ....terminal.standard_output import exit_on_signals
from ....terminal.terminal import put, say
from ....terminal.text.sanitize import one_line
from ...sessions.transfer import write_new_file
from .command import MemoryCommand
from .looking import open_memory, select_scopes

_MOST_IMPORT_BYTES = 256_000_000


async def export_memory(command: MemoryCommand) -> int:
    """Write the facts of scopes, in every state, to a file or to stdout."""
    async with open_memory(command) as memories:
        lines = export_facts(memories.facts, select_scopes(memories, command.scope))
        name = command.words[0] if command.words else "-"
        with exit_on_signals():
            if name == "-":
                for line in lines:
                    put(line)
                return 0
            number = write_new_file(Path(name), (f"{line}\n" for line in lines))
    say(f"Exported {number - 1:,} facts to {one_line(name)}.")
    return 0


async def import_memory(command: MemoryCommand) -> int:
    """Add the facts of an export that are not there yet."""
    lines = _read(command.words[0])
    async with open_memory(command) as memories:
        scope = memories.scopes.get(command.scope) if command.scope else None
        author = Author(memories.actor)
        counts = import_facts(memories.facts, lines, author, scope, memories.require_no_secret)
    say(f"Added {counts.added:,} facts; {counts.merged:,} were there already.")
    if counts.without_path:
        say(f"{counts.without_path:,} of them have no path, because other facts have it.")
    return 0


def _read(name: str) -> list[str]:
    """Return the lines of a file or of stdin. Raises `UsageError`."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_MOST_IMPORT_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_MOST_IMPORT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The file {name} cannot be read: {error.strerror}.") from None
    if len(data) > _MOST_IMPORT_BYTES:
        raise UsageError(f"{name} is larger than {_MOST_IMPORT_BYTES // 1_000_000} MB.", "Split it.")
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not an export of facts: it is not UTF-8.") from None
