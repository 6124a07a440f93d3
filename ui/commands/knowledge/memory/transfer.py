"""`sandbur memory export` and `import`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .....actions.workspace.paths import format_count
from .....agent.knowledge.memory.memories import Memories
from .....agent.knowledge.memory.scopes import describe_owner
from .....state.errors import UsageError
from .....state.memory.fact_changes import Author
from .....state.memory.fact_transfer import export_facts, import_facts
from .....state.memory.facts import FactScope
from ....terminal.standard_output import exit_on_signals
from ....terminal.terminal import put, say
from ....terminal.text.sanitize import one_line
from ...sessions.transfer import write_new_file
from .command import MemoryCommand
from .looking import open_memory, select_scope, select_scopes

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
    say(f"Exported {format_count(number - 1, 'fact')} to {one_line(name)}.")
    return 0


async def import_memory(command: MemoryCommand) -> int:
    """Add the facts of an export that are not there yet."""
    lines = _read(command.words[0])
    async with open_memory(command) as memories:
        place = _make_placing(memories, command)
        author = Author(memories.actor)
        counts = import_facts(memories.facts, lines, author, place, memories.require_no_secret)
    were = "was" if counts.merged == 1 else "were"
    say(f"Added {format_count(counts.added, 'fact')}; {counts.merged:,} {were} there already.")
    if counts.without_path:
        say(f"{counts.without_path:,} of them have no path, because other facts have it.")
    for line in _describe_elsewhere(counts.scopes, memories, command.words[0]):
        say(one_line(line))
    return 0


def _make_placing(memories: Memories, command: MemoryCommand) -> Callable[[FactScope], FactScope]:
    """Return the scope for the facts of each scope of an export: as the flags say, or the same one."""
    if command.scope:
        wanted = select_scope(memories, command.scope)
        return lambda _: wanted
    own = memories.scopes.project
    return lambda scope: own if command.here and scope.kind == "project" else scope


def _describe_elsewhere(scopes: Mapping[FactScope, int], memories: Memories, name: str) -> Iterator[str]:
    """Yield whose the facts are that do not hold in this folder, and how to have them here."""
    elsewhere = {scope: count for scope, count in scopes.items() if scope not in memories.scopes.all}
    for scope, count in elsewhere.items():
        facts, verb = ("1 fact belongs", "is") if count == 1 else (f"{count:,} facts belong", "are")
        yield f"{facts} to {describe_owner(scope)}, and {verb} not found here."
    if any(scope.kind == "project" for scope in elsewhere):
        yield f"Have those of projects in this one: sandbur memory import {shlex.quote(name)} --here"


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
