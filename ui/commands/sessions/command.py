"""`sandbur sessions`: lists, shows and deletes what the store holds."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from ....state.errors import UsageError
from ...argument_types import duration, one_of, position, size
from ...grammar import ID, Action, Command, flag, switch, word
from ...open_session import opened
from ...terminal.lines import (
    local_time,
    plan_lines,
    step_lines,
    step_objects,
    title,
    usage_text,
    waiting_lines,
)
from ...terminal.sanitize import one_line, plain
from ...terminal.terminal import Glyphs, glyphs_for, make_console, put, say, shortened

if TYPE_CHECKING:
    from ....state.messages import Block, Message
    from ....state.session import SessionSummary, SessionView, WaitingMessage

_MAX_RESULT_CHARS = 300


def view_lines(view: "SessionView", waiting: "Sequence[WaitingMessage]" = ()) -> Iterator[str]:
    """Yield the whole session as lines that are safe on a terminal."""
    glyphs = glyphs_for(sys.stdout.encoding)
    summary, state = view.summary, view.state
    yield f"session   {summary.id}"
    yield f"title     {one_line(summary.title)}"
    yield f"folder    {one_line(summary.cwd)}"
    yield f"model     {one_line(summary.model)} {glyphs.dot} mode {state.execution_mode}"
    yield f"status    {summary.status} {glyphs.dot} {summary.steps} steps {glyphs.dot} {_position(view)}"
    yield f"started   {local_time(summary.created_at)}, last used {local_time(summary.updated_at)}"
    if summary.parent_id:
        yield f"fork of   {summary.parent_id} at {summary.parent_seq}"
    yield f"usage     {usage_text(state.usage, glyphs)}"
    if state.vibe_plan:
        yield ""
        yield from (text for _, text in plan_lines(state.vibe_plan, glyphs))
    yield ""
    for message in state.chat_history:
        yield from _message_lines(message, glyphs)
    for call in state.pending_tool_calls:
        if call.decision == "undecided":
            yield from waiting_lines(call, summary.id, summary.cwd)
    if waiting:
        yield ""
    for one in waiting:
        how = "steers" if one.kind == "steer" else "queued"
        yield f"waits     {how}: {one_line(one.text)}"


def view_object(view: "SessionView", waiting: "Sequence[WaitingMessage]" = ()) -> dict[str, Any]:
    from ....agent.graph import next_action
    from ...json_output import pending_objects, plan_objects, usage_object

    state = view.state
    undecided = [call for call in state.pending_tool_calls if call.decision == "undecided"]
    return {
        **asdict(view.summary),
        "mode": state.execution_mode,
        "workflow_mode": state.workflow_mode,
        "goal": state.current_goal,
        "next_action": next_action(view.position, state),
        "steps_planned": plan_objects(state.vibe_plan),
        "pending": pending_objects(undecided),
        "waiting": [{"number": one.number, "kind": one.kind, "text": one.text} for one in waiting],
        "usage": usage_object(state.usage),
        "messages": [message.model_dump(exclude={"wire"}) for message in state.chat_history],
    }


def _position(view: "SessionView") -> str:
    from ....agent.graph import next_action

    return f"next: {next_action(view.position, view.state)}"


def _message_lines(message: "Message", glyphs: Glyphs) -> Iterator[str]:
    sign = {"person": glyphs.prompt, "model": glyphs.point}.get(message.origin, glyphs.dot)
    for block in message.blocks:
        text = _block_text(block)
        if text:
            yield f"{sign} {text}"


def _block_text(block: "Block") -> str:
    match block.kind:
        case "text":
            return plain(block.text).strip("\n")
        case "tool_use":
            return f"calls {title(block.tool, block.arguments)}"
        case "tool_result":
            content = one_line(block.shown[:_MAX_RESULT_CHARS])
            return f"{block.outcome}: {content}"
        case "image" | "document":
            return one_line(block.label)
        case "thinking":
            return ""


_HEAD = ("id", "last used", "status", "model", "folder", "title")
_GAP = 2
_LEAST_TITLE, _WANTED_TITLE = 8, 30
"""Cells."""


_ACTIONS: Mapping[str, Action] = {
    "list": Action("", "every session of the store, the newest first", ("--json",), (
        ("sandbur sessions", "a table"),
        ("sandbur sessions --json | jq -r '.[0].id'", "the newest id"),
    )),
    "show": Action("ID", "a session: plan, messages, what waits", ("--json", "--steps"), (
        ("sandbur sessions show 3f2a", "the start of an id is enough"),
        ("sandbur sessions show 3f2a --steps", "its steps, with the numbers for `fork --at`"),
    )),
    "rename": Action("ID TITLE", "call a session something else", (), (
        ('sandbur sessions rename 3f2a "the slow build"', "a title names it as an id does"),
    )),
    "verify": Action("ID", "whether its record is whole, and every move of its calls in order",
                     ("--verbose", "--json"), (("sandbur sessions verify 3f2a -v", "every move"),)),
    "delete": Action("ID", "remove a session for good"),
    "prune": Action("", "remove sessions that nobody uses any more",
                    ("--older-than", "--keep", "--max-size", "--dry-run", "--json"), (
        ("sandbur sessions prune --dry-run", "only say what would go"),
        ("sandbur sessions prune --older-than 8w --keep 50", ""),
        ("sandbur sessions prune --max-size 500MB", "the oldest go, too, until the rest fits"),
    )),
    "export": Action("ID [FILE]", "write a session into a file", ("--format", "--as-recorded"), (
        ("sandbur sessions export 3f2a run.jsonl", "to import it elsewhere"),
        ("sandbur sessions export 3f2a run.html --format html", "to read it"),
    )),
    "import": Action("FILE", "take a session from such a file", ("--yes",), (
        ("sandbur sessions import run.jsonl", "asks about the settings that it brings"),
    )),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SessionsCommand(Command):
    GROUPS = ("prune", "place")
    ACTIONS: ClassVar = _ACTIONS
    action: str = word("|".join(_ACTIONS), None, "list", nargs="?", type=one_of(tuple(_ACTIONS)))
    session: str = word("ID", f"{ID}; for import: FILE, or - for stdin", nargs="?")
    file: str = word("FILE", "where export writes, - is stdout; for rename: TITLE", nargs="?")
    json: bool = switch("--json", "JSON on stdout")
    steps: bool = switch("--steps", "show: every step in one line")
    verbose: bool = switch("-v --verbose", "verify: every move of every call")
    export_format: str = flag(
        "--format", "export: jsonl (to import again) | html | md (to read)", "jsonl",
        type=one_of(("jsonl", "html", "md")), metavar="FORMAT",
    )  # fmt: skip
    as_recorded: bool = switch("--as-recorded", "export: with secrets that an older version did not mask")
    older_than: timedelta = flag(
        "--older-than", "not used for so long, such as 12h, 30d (the default), 8w", timedelta(days=30),
        "prune", type=duration, metavar="AGE",
    )  # fmt: skip
    keep: int = flag(
        "--keep", "the newest N always stay (default 20)", 20, "prune", type=position, metavar="N"
    )
    max_size: int | None = flag(
        "--max-size", "the oldest go too until the rest takes no more, such as 500MB", None, "prune",
        type=size, metavar="SIZE",
    )  # fmt: skip
    """Bytes."""
    dry_run: bool = switch("--dry-run", "only say what would go", "prune")
    yes: bool = switch("--yes", "import: take the session with the settings that it brings, unasked")

    @property
    def tells_more(self) -> bool:
        return self.verbose

    def check(self) -> None:
        """Check how many words follow `sandbur sessions ACTION`, and that its flags are for this action."""
        action, command = self.action, f"sandbur sessions {self.action}"
        if action in ("show", "rename", "verify", "delete", "export") and not self.session:
            raise UsageError(f"`{command}` needs the ID of a session.", "`sandbur sessions` lists them.")
        if action == "import" and not self.session:
            raise UsageError(f"`{command}` needs a FILE, or - for stdin.")
        if action == "rename" and not self.file.strip():
            raise UsageError(f"`{command}` needs a TITLE.", 'sandbur sessions rename ID "a new title"')
        extra = self.session if action in ("list", "prune") else self.file
        if extra and action not in ("export", "rename"):
            helps = "show ID` shows one" if action == "list" else "--help` helps"
            raise UsageError(f"`{extra}` is one word too many.", f"`sandbur sessions {helps}.")
        usual = SessionsCommand()
        if action != "prune" and self._pruning() != usual._pruning():
            raise UsageError(
                "--older-than, --keep, --max-size and --dry-run belong to `sandbur sessions prune`."
            )
        if self.steps and action != "show":
            raise UsageError("--steps belongs to `sandbur sessions show ID`.")
        if self.yes and action != "import":
            raise UsageError("--yes belongs to `sandbur sessions import FILE`.")
        if (self.export_format != usual.export_format or self.as_recorded) and action != "export":
            raise UsageError("--format and --as-recorded belong to `sandbur sessions export ID`.")

    def _pruning(self) -> tuple[object, ...]:
        return self.older_than, self.keep, self.max_size, self.dry_run

    async def run(self) -> int:
        module, function = _DOING[self.action]
        return await getattr(import_module(module, __package__), function)(self)


_DOING = {
    "list": (".command", "list_sessions"),
    "show": (".command", "show_session"),
    "rename": (".command", "rename_session"),
    "verify": (".verify", "verify_session"),
    "delete": (".command", "delete_session"),
    "prune": (".prune", "prune_sessions"),
    "export": (".transfer", "export_session"),
    "import": (".transfer", "import_session"),
}
"""Action -> the module of this package and the function in it."""


async def list_sessions(command: SessionsCommand) -> int:
    async with opened(command) as runtime:
        sessions = runtime.store.sessions()
    if command.json:
        put(json.dumps([asdict(session) for session in sessions], indent=1))
    elif not sessions:
        say("There is no session yet. Start one: sandbur")
    elif sys.stdout.isatty():
        _print_table(sessions)
    else:
        for session in sessions:
            put("\t".join(_cells(session)))
    return 0


async def show_session(command: SessionsCommand) -> int:
    if command.steps:
        return await _show_steps(command)
    async with opened(command) as runtime:
        view = runtime.store.show(runtime.store.find(command.session))
        waiting = runtime.store.inbox(view.summary.id).stored(view.state.inbox_taken)
    if command.json:
        put(json.dumps(view_object(view, waiting), indent=1))
    else:
        put("\n".join(view_lines(view, waiting)))
    return 0


async def _show_steps(command: SessionsCommand) -> int:
    from ....state.store.timeline import timeline

    async with opened(command) as runtime:
        session_id = runtime.store.find(command.session)
        steps = timeline(runtime.store.database, session_id)
    if command.json:
        put(json.dumps(step_objects(steps), indent=1))
    elif steps:
        put("\n".join(step_lines(steps, session_id)))
    return 0


async def delete_session(command: SessionsCommand) -> int:
    from ....agent.session.leftovers import clear_scratch

    async with opened(command) as runtime:
        session_id = runtime.store.find(command.session)
        runtime.store.delete(session_id)
        clear_scratch(runtime.settings.home, session_id)
    say(f"Deleted session {session_id}.")
    return 0


async def rename_session(command: SessionsCommand) -> int:
    from ....agent.session.secrets import masker_for
    from ...headless import clean

    async with opened(command) as runtime:
        session_id = runtime.store.find(command.session)
        masked = masker_for(runtime.env, runtime.settings.cwd).text(clean(command.file))
        kept = runtime.store.rename(session_id, masked)
    if command.json:
        put(json.dumps({"id": session_id, "title": kept}))
    else:
        say(f"Session {session_id} is called: {one_line(kept)}")
    return 0


def _cells(session: "SessionSummary") -> tuple[str, ...]:
    return (
        session.id,
        local_time(session.updated_at),
        session.status,
        one_line(session.model),
        one_line(session.cwd),
        one_line(session.title),
    )


def _print_table(sessions: "list[SessionSummary]") -> None:
    """Print a line for each; what can be copied is whole, the title takes what is left."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    console = make_console(sys.stdout)
    rest = glyphs_for(console.encoding).rest
    rows = [_HEAD, *map(_cells, sessions)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    shown = _fitting(widths, console.width)
    room = max(_LEAST_TITLE, console.width - sum(widths[at] + _GAP for at in shown))
    for number, row in enumerate(rows):
        cells = [set_cell_size(row[at], widths[at] + _GAP) for at in shown]
        line = "".join(cells) + shortened(row[-1], room, rest)
        console.print(Text(line.rstrip(), style="" if number else "bold"), soft_wrap=True)


def _fitting(widths: list[int], width: int) -> list[int]:
    """Return the columns that go in front of the title: model and folder only where they leave it room."""
    wanted = min(widths[-1], _WANTED_TITLE)
    for columns in (range(5), (0, 1, 2, 4)):
        if sum(widths[at] + _GAP for at in columns) + wanted <= width:
            return list(columns)
    return [0, 1, 2]
