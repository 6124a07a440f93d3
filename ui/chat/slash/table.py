"""The one table of slash commands: help, completion and documentation are made of it."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from ....agent.config.settings import MODES
from ...argument_types import nearest
from ...terminal.sanitize import one_line
from .command import DONE, SlashCommand, SlashContext, SlashOffer, SlashResult, at, tell, warn

_MODE_MEANINGS = {
    "interactive": "asks before anything but looking",
    "plan": "changes nothing",
    "auto-edit": "edits files of the workspace unasked",
    "yolo": "asks nothing",
}


async def show_help(context: SlashContext, words: str) -> SlashResult:
    """List the commands, or say what one of them is for."""
    wanted = words.strip().removeprefix("/")
    if not wanted:
        context.renderer.lines(help_lines(context.more))
        return DONE
    command = find(wanted, context.more)
    if command is None:
        warn(context, unknown(wanted, context.more))
    else:
        tell(context, f"{usage_of(command)}   {command.summary}")
    return DONE


def _modes(_: SlashContext | None) -> Iterator[SlashOffer]:
    return (SlashOffer(mode, _MODE_MEANINGS[mode]) for mode in MODES)


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "[COMMAND]", "show the commands", "Chat", show_help),
    SlashCommand("mode", "[MODE]", "change what runs unasked", "Chat", at("basics.change_mode"), (), _modes),
    SlashCommand("exit", "", "leave; the session can be resumed", "Chat", at("basics.leave"), ("quit",)),
    SlashCommand("rewind", "[STEP]", "go back to an earlier step", "Session", at("rewind.rewind")),
    SlashCommand("mcp", "", "list what tool servers wrote to be sent", "More", at("server_prompts.show")),
)  # fmt: skip
GROUPS = tuple(dict.fromkeys(command.group for command in COMMANDS))


def find(name: str, more: Sequence[SlashCommand] = ()) -> SlashCommand | None:
    """Return the command of this name, whose case does not count; the table's own go before `more`."""
    wanted = name.lower()
    return next(
        (one for one in (*COMMANDS, *more) if wanted == one.name.lower() or wanted in one.aliases), None
    )


def unknown(name: str, more: Sequence[SlashCommand] = ()) -> str:
    """Return the sentence about a command that there is not."""
    names = [name for one in (*COMMANDS, *more) for name in (one.name, *one.aliases)]
    near = nearest(name.lower(), names)
    wish = f"Did you mean /{near}?" if near else "/help lists them."
    return f"There is no command /{name[:40]}. {wish}"


def usage_of(command: SlashCommand) -> str:
    return f"{command.typed} {command.usage}".rstrip()


def help_lines(more: Sequence[SlashCommand] = ()) -> Iterator[tuple[str, str]]:
    """Yield the list of the commands by their groups."""
    known = sorted(COMMANDS, key=lambda one: GROUPS.index(one.group))
    everything = (*known, *more)
    width = min(26, max(len(usage_of(one)) for one in everything))
    for group, members in groupby(everything, key=lambda one: one.group):
        yield "bold", group
        yield from (("", one_line(f"  {usage_of(one):<{width}}  {one.summary}")) for one in members)
    yield "dim", "Anything else is a message to the agent."


def completions(text: str, context: SlashContext | None = None) -> Iterator[tuple[SlashOffer, int]]:
    """Yield what could stand where `text` ends, each with how many characters it takes the place of.

    `text` is the input up to the cursor; `context` is there once the session is open.
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
