"""The table of slash commands, for help, completion and editors. docs/commands.md has to list the same."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from ....agent.extensions.extension import SlashEntry
from ....agent.extensions.registry import PACKAGES, list_shipped
from ...cli.argument_types import nearest
from ...terminal.text.sanitize import one_line
from .command import (
    DONE,
    EditorContext,
    SlashCommand,
    SlashContext,
    SlashOffer,
    SlashResult,
    command_of,
    tell,
    warn,
)

_NARROW = 70


async def show_help(context: SlashContext, words: str) -> SlashResult:
    """List the commands, or describe one of them."""
    wanted = words.strip().removeprefix("/")
    if not wanted:
        context.renderer.lines(help_lines(context.more, context.renderer.console.width), prose=True)
        return DONE
    command = find(wanted, context.more)
    if command is None:
        warn(context, describe_unknown(wanted, context.more))
    else:
        tell(context, f"{usage_of(command)}   {command.summary}")
    return DONE


async def list_in_editor(context: EditorContext, words: str) -> str:
    """Return the commands of an editor as a Markdown list."""
    return "\n".join(f"- `/{name}` {summary}" for name, summary in await context.list_commands())


def _row(
    name: str,
    usage: str,
    summary: str,
    home: str,
    editor: str = "",
    aliases: tuple[str, ...] = (),
    complete: str = "",
    waits: bool = False,
) -> SlashEntry:
    """Declare a command; its functions are given as `module.function` of this folder."""
    homes = {"home": _at(home), "editor": _at(editor), "complete": _at(complete)}
    return SlashEntry(name=name, usage=usage, summary=summary, aliases=aliases, waits=waits, **homes)


def _at(function: str) -> str:
    module, _, name = function.rpartition(".")
    return f".ui.chat.slash.{module}:{name}" if function else ""


# A row is one line, or one for the command and one for its functions.
# fmt: off
_BY_GROUP: Mapping[str, tuple[SlashEntry, ...]] = {
    "Chat": (
        _row("help", "[COMMAND]", "show the commands", "table.show_help", "table.list_in_editor"),
        _row("clear", "", "begin a new session in this chat",
             "session_commands.clear", aliases=("new",), waits=True),
        _row("exit", "", "leave; the session can be resumed", "basics.leave", aliases=("quit",)),
        _row("editor", "[TEXT]", "write a message in your editor", "file_commands.edit_message", waits=True),
        _row("copy", "[code]", "put the last answer on the clipboard",
             "file_commands.copy", complete="file_commands.list_diff_choices"),
    ),
    "Settings": (
        _row("mode", "[MODE]", "change what runs without a question",
             "basics.change_mode", "basics.change_mode_in_editor", complete="basics.complete_modes"),
        _row("model", "[PROVIDER/MODEL]", "go on with another model",
             "session_commands.change_model", "session_commands.change_model_in_editor",
             complete="session_commands.list_model_choices"),
        _row("budget", "[USD]", "limit what a run may cost", "session_commands.change_budget"),
        _row("permissions", "[allow RULE]", "list the rules, add or remove one",
             "session_commands.change_permissions", aliases=("rules",),
             complete="session_commands.list_rule_choices"),
        _row("tools", "", "list the tools and what they may do", "looking.show_tools"),
    ),
    "Session": (
        _row("expand", "[COUNT]", "show the last folded text in full", "looking.expand"),
        _row("steps", "[COUNT]", "list what was done, step by step", "looking.show_steps"),
        _row("status", "", "show the state of the session", "looking.show_status"),
        _row("cost", "", "show what the session used", "session_commands.show_cost", aliases=("usage",)),
        _row("rewind", "[STEP]", "go back to an earlier step", "rewind.rewind"),
        _row("fork", "[STEP]", "go on in a copy of the session", "session_commands.fork", waits=True),
        _row("resume", "[ID]", "go on in another session",
             "session_commands.resume", complete="session_commands.list_session_choices", waits=True),
        _row("sessions", "", "pick another session", "session_commands.resume", waits=True),
        _row("rename", "TITLE", "give the session a title", "session_commands.rename"),
        _row("export", "[FILE]", "write the session to a file", "session_commands.export"),
    ),
    "Context": (
        _row("context", "", "show what fills the model's window", "window.show_context"),
        _row("compact", "[FOCUS]", "replace older messages by a summary",
             "window.compress", "window.compress_in_editor", waits=True),
        _row("uncompact", "[N|all|list|show N]", "undo compressions, list them, show what one took out",
             "window.undo_compressions", complete="window.list_uncompact_choices", waits=True),
        _row("recall", "TEXT", "search memory, and everything since the session began",
             "window.recall_messages", "window.recall_in_editor"),
        _row("instructions", "[show|edit|add TEXT]", "list the instructions, change them",
             "file_commands.show_instructions"),
        _row("init", "[WISH]", "have AGENTS.md written for this project",
             "file_commands.begin_instructions", waits=True),
    ),
    "Files": (
        _row("diff", "[STEP]", "show what the session changed in files", "file_commands.show_diff"),
        _row("undo", "", "restore the files of the last turn", "file_commands.undo", waits=True),
    ),
    "Installation": (
        _row("theme", "[NAME]", "show the chat in other colours",
             "looking.change_theme", complete="looking.list_theme_choices"),
        _row("doctor", "", "check this installation", "looking.examine"),
    ),
}
# fmt: on


def _with_extensions(entries: list[SlashEntry]) -> tuple[SlashEntry, ...]:
    """Insert the commands of the shipped extensions, each after the command that its entry names."""
    for extension in list_shipped():
        for entry in extension.slash:
            names = [one.name for one in entries if one.group == entry.group]
            after = entry.after if entry.after in names else names[-1]
            at_entry = next(at for at, one in enumerate(entries) if one.name == after)
            entries.insert(at_entry + 1, entry)
    return tuple(entries)


ENTRIES = _with_extensions([row.but(group=group) for group, rows in _BY_GROUP.items() for row in rows])
"""The commands of Sandbur and of the extensions that ship, for the chat and for editors."""
COMMANDS = tuple(command_of(entry) for entry in ENTRIES if entry.home)
"""The commands of the chat."""


def package_entries() -> list[SlashEntry]:
    """Return the commands that installed packages add, except those with a name of `ENTRIES`."""
    taken = {name for one in ENTRIES for name in (one.name, *one.aliases)}
    found = (entry for extension in PACKAGES.loaded for entry in extension.slash)
    return [entry for entry in found if entry.name not in taken]


def editor_entries() -> list[SlashEntry]:
    """Return the commands that an editor has."""
    return [entry for entry in (*ENTRIES, *package_entries()) if entry.editor]


def find(name: str, more: Sequence[SlashCommand] = ()) -> SlashCommand | None:
    """Return the command of this name, ignoring case; the table comes before `more`."""
    wanted = name.lower()
    return next(
        (one for one in (*COMMANDS, *more) if wanted == one.name.lower() or wanted in one.aliases), None
    )


def describe_unknown(name: str, more: Sequence[SlashCommand] = ()) -> str:
    """Return the error message for an unknown command."""
    names = [name for one in (*COMMANDS, *more) for name in (one.name, *one.aliases)]
    near = nearest(name.lower(), names)
    wish = f"Did you mean /{near}?" if near else "/help lists them."
    return f"There is no command /{name[:40]}. {wish}"


def usage_of(command: SlashCommand) -> str:
    return f"{command.typed} {command.usage}".rstrip()


def help_lines(more: Sequence[SlashCommand] = (), cells: int = 100) -> Iterator[tuple[str, str]]:
    """Yield the commands by group; on a narrow screen each takes two lines."""
    everything = (*COMMANDS, *more)
    width = min(26, max(len(usage_of(one)) for one in everything)) if cells >= _NARROW else 0
    for group, members in groupby(everything, key=lambda one: one.group):
        yield "bold", group
        for one in members:
            usage, summary = one_line(usage_of(one)), one_line(one.summary)
            if width:
                yield "", f"  {usage:<{width}}  {summary}"
            else:
                yield from (("", usage), ("dim", summary))
    yield "dim", "Anything else is a message to the agent."


def completions(text: str, context: SlashContext | None = None) -> Iterator[tuple[SlashOffer, int]]:
    """Yield the completions at the end of `text`, each with the number of characters it replaces.

    `text` is the input up to the cursor; `context` is None until the session is open.
    """
    if not text.startswith("/") or "\n" in text:
        return
    more = () if context is None else context.more
    name, space, typed = text[1:].partition(" ")
    if not space:
        offered = (SlashOffer(one.typed, one.summary) for one in (*COMMANDS, *more))
        yield from ((one, len(text)) for one in offered if one.text.lower().startswith(text.lower()))
        return
    command = find(name, more)
    if command is None or command.complete is None or " " in typed:
        return
    for one in command.complete(context):
        if one.text.lower().startswith(typed.lower()):
            yield one, len(typed)
