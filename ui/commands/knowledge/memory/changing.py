"""`sandbur memory add`, `edit`, `forget` and `restore`."""

from __future__ import annotations

import sys

from .....state.errors import UsageError
from .....state.memory.fact_store import Addition
from .....state.memory.facts import MEMORIES, MOST_TEXT_BYTES, FactScope, shorten_id
from .....state.memory.origins import FactOrigin
from ....chat.decisions.questions import OneKey
from ....terminal.terminal import is_interactive, put, say
from ....terminal.text.sanitize import plain
from .command import MemoryCommand
from .fact_lines import (
    COMMAND,
    describe_cascade,
    describe_correction,
    describe_ended,
    describe_origin_cascade,
    describe_reversal,
    list_rows,
)
from .looking import open_memory, select_scope
from .tracing import find_session


async def add_fact(command: MemoryCommand) -> int:
    """Add a fact and print its id."""
    text = _read_text(command.words[0])
    async with open_memory(command) as memories:
        scope = select_scope(memories, command.scope or "project")
        sources = [memories.find(one).id for one in command.from_facts]
        added = memories.add(
            text, scope, kind=command.kind, path=make_path(command.path), derived_from=sources
        )
    put(added.fact.id)
    for line in describe_addition(added, scope, COMMAND):
        say(plain(line))
    return 0


async def edit_fact(command: MemoryCommand) -> int:
    """Correct a fact, and print the id of the new one."""
    async with open_memory(command) as memories:
        fact = memories.find(command.words[0])
        correction = memories.correct(fact.id, _read_text(command.words[1]), command.reason)
    put(correction.new.id)
    for line in describe_correction(correction, COMMAND):
        say(plain(line))
    return 0


async def forget_fact(command: MemoryCommand) -> int:
    """Show what a fact takes along, ask, and forget it."""
    if command.from_call or command.from_session:
        return await _forget_origin(command)
    async with open_memory(command) as memories:
        cascade = memories.facts.preview_forget(memories.find(command.words[0]).id)
        for line in describe_cascade(cascade):
            say(plain(line))
        if not command.yes:
            await _confirm(len(cascade.ids))
        memories.forget(cascade.fact.id, command.reason, cascade.ids)
    say(f"Forgotten. Undo it with: sandbur memory restore {shorten_id(cascade.fact.id)}")
    return 0


async def _forget_origin(command: MemoryCommand) -> int:
    """Show everything that came from a call or a session, ask, and forget it."""
    async with open_memory(command) as memories:
        origin = FactOrigin(find_session(memories, command.from_session), command.from_call)
        cascade = memories.preview_forget_origin(origin)
        for line in describe_origin_cascade(cascade):
            say(plain(line))
        if not command.yes:
            await _confirm(len(cascade.ids))
        memories.forget_origin(origin, command.reason, cascade.ids)
    say(f"Forgotten. Undo it with: sandbur memory restore {shorten_id(cascade.ids[0])}")
    return 0


async def restore_fact(command: MemoryCommand) -> int:
    """Undo what ended a fact, and print what changed."""
    async with open_memory(command) as memories:
        reversal = memories.restore(memories.find(command.words[0]).id, command.reason)
    for line in describe_reversal(reversal):
        say(plain(line))
    return 0


def make_path(name: str) -> str:
    """Return the path of a fact as the store has it: from `tests.md` or `/memories/project/tests.md`."""
    for kind in ("user", "project", "agent"):
        name = name.removeprefix(f"{MEMORIES}{kind}/")
    return f"{MEMORIES}{name.removeprefix(MEMORIES)}" if name else ""


def describe_addition(added: Addition, scope: FactScope, verb: str) -> list[str]:
    """Return sentences about an added fact, one with its text that ended, and those with nearly its words.

    `verb` is the command in whose words it is undone.
    """
    where = {"user": "for all projects", "project": f"for the project {scope.key}"}
    place = where.get(scope.kind, f"for the agent {scope.key}")
    lines = [f"Remembered {place}." if added.is_new else f"This is known {place}; it is confirmed."]
    successor = None
    if added.ended is not None:
        successor = added.ended.successor
        lines += describe_ended(added.ended, added.fact, verb)
    similar = [one for one in added.similar if successor is None or one.id != successor.id]
    if similar:
        lines += ["Facts with nearly the same words; correct one if they contradict each other:"]
        lines += list_rows(similar)
    return lines


def _read_text(given: str) -> str:
    if given != "-":
        return given
    data = sys.stdin.buffer.read(MOST_TEXT_BYTES + 1)
    if len(data) > MOST_TEXT_BYTES:
        raise UsageError(f"A fact may have {MOST_TEXT_BYTES:,} bytes.", "Split or shorten it.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError("The text on stdin is not UTF-8.", "Send a text.") from None


async def _confirm(number: int) -> None:
    """Ask the person at the terminal. Raises `UsageError` if the answer is not yes."""
    if not is_interactive():
        raise UsageError("Nothing was forgotten: nobody can confirm it here.", "Add --yes.")
    what = "it" if number == 1 else f"these {number} facts"
    if (await OneKey(f"Forget {what}? [y/n] ", "yn", safe="n").ask_alone()).key != "y":
        raise UsageError("Nothing was forgotten.")
