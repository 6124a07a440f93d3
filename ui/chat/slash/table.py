"""The table of slash commands: help and completion are generated from it, docs/commands.md has to match."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from ....agent.extensions.registry import list_shipped
from ...cli.argument_types import nearest
from ...terminal.text.sanitize import one_line
from .command import (
    DONE,
    Complete,
    RunsCommand,
    SlashCommand,
    SlashContext,
    SlashOffer,
    SlashResult,
    at,
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


_themes = at("looking.list_theme_choices")
_modes = at("basics.complete_modes")
_parts = at("files.list_diff_choices")
_models = at("choices.list_model_choices")
_rules = at("choices.list_rule_choices")
_sessions = at("choices.list_session_choices")


def _row(
    name: str,
    usage: str,
    summary: str,
    home: str | RunsCommand,
    aliases: tuple[str, ...] = (),
    complete: Complete | None = None,
    waits: bool = False,
) -> SlashCommand:
    run = at(home) if isinstance(home, str) else home
    return SlashCommand(name, usage, summary, "", run, aliases, complete, at_question=not waits)


_BY_GROUP: Mapping[str, tuple[SlashCommand, ...]] = {
    "Chat": (
        _row("help", "[COMMAND]", "show the commands", show_help),
        _row("clear", "", "begin a new session in this chat", "choices.clear", ("new",), waits=True),
        _row("exit", "", "leave; the session can be resumed", "basics.leave", ("quit",)),
        _row("editor", "[TEXT]", "write a message in your editor", "files.edit_message", waits=True),
        _row("copy", "[code]", "put the last answer on the clipboard", "files.copy", complete=_parts),
    ),
    "Settings": (
        _row("mode", "[MODE]", "change what runs unasked", "basics.change_mode", complete=_modes),
        _row(
            "model", "[PROVIDER/MODEL]", "go on with another model", "choices.change_model", complete=_models
        ),
        _row("budget", "[USD]", "limit what a run may cost", "choices.change_budget"),
        _row(
            "permissions",
            "[allow RULE]",
            "list the rules, add or remove one",
            "choices.change_permissions",
            ("rules",),
            complete=_rules,
        ),
        _row("tools", "", "list the tools and what they may do", "looking.show_tools"),
    ),
    "Session": (
        _row("plan", "", "show the plan and how far it is", "looking.show_plan"),
        _row("expand", "[COUNT]", "show whole what was folded last", "looking.expand"),
        _row("steps", "[COUNT]", "list what was done, step by step", "looking.show_steps"),
        _row("status", "", "show where the session stands", "looking.show_status"),
        _row("cost", "", "show what the session used", "choices.show_cost", ("usage",)),
        _row("rewind", "[STEP]", "go back to an earlier step", "rewind.rewind"),
        _row("fork", "[STEP]", "go on in a copy of the session", "choices.fork", waits=True),
        _row(
            "resume",
            "[ID]",
            "go on in another session",
            "choices.resume",
            complete=_sessions,
            waits=True,
        ),
        _row("sessions", "", "pick another session", "choices.resume", waits=True),
        _row("rename", "TITLE", "give the session a title", "choices.rename"),
        _row("export", "[FILE]", "write the session to a file", "choices.export"),
    ),
    "Context": (
        _row("context", "", "show what fills the model's window", "window.show_context"),
        _row(
            "compact",
            "[FOCUS]",
            "put a summary in the place of older messages",
            "window.compress",
            waits=True,
        ),
        _row("uncompact", "", "bring those messages back", "window.take_back", waits=True),
        _row(
            "memory",
            "[show|edit|add TEXT]",
            "list the instructions, change them",
            "files.show_memory",
        ),
        _row(
            "init",
            "[WISH]",
            "have AGENTS.md written for this project",
            "files.begin_instructions",
            waits=True,
        ),
    ),
    "Files": (
        _row("diff", "[STEP]", "show what the session changed in files", "files.show_diff"),
        _row("undo", "", "bring back the files of the last turn", "files.undo", waits=True),
    ),
    "Installation": (
        _row("theme", "[NAME]", "show the chat in other colours", "looking.change_theme", complete=_themes),
        _row("doctor", "", "check this installation", "looking.examine"),
    ),
}


def _with_extensions(rows: list[SlashCommand]) -> tuple[SlashCommand, ...]:
    """Return the rows with those of the extensions that ship, each after the one that it names."""
    for extension in list_shipped():
        for entry in extension.slash:
            names = [row.name for row in rows if row.group == entry.group]
            after = entry.after if entry.after in names else names[-1]
            at_row = next(at for at, row in enumerate(rows) if row.name == after)
            rows.insert(at_row + 1, command_of(entry))
    return tuple(rows)


COMMANDS = _with_extensions([replace(row, group=group) for group, rows in _BY_GROUP.items() for row in rows])


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
