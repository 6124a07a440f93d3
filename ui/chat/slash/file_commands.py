"""Files and texts of the chat: `/diff`, `/undo`, `/instructions`, `/init`, `/copy`, `/editor`."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ....actions.workspace.paths import format_count
from ....agent.config.paths import repository_root
from ....agent.history.time_travel.branches import restore_files, restore_plan
from ....agent.history.time_travel.rewinds import apply_rewinds, preview_rewinds
from ....agent.history.time_travel.touched_files import TouchedFiles, differences_of_steps
from ....agent.history.timeline import TimelineStep, list_timeline
from ....agent.runtime.prompts import FILE_NAME, find_instructions
from ....agent.session.run_result import answer
from ....state.conversation.messages import runtime_message
from ....state.errors import UsageError
from ...commands.past.fork import format_restored
from ...terminal.text.diffs import Line, number_diff
from ...terminal.text.sanitize import one_line, plain
from ..input.editor import EditorFailed, choose_editor, in_editor
from .command import DONE, SlashContext, SlashOffer, SlashResult, tell, warn

if TYPE_CHECKING:
    from ....agent.history.time_travel.touched_files import FileDifference

_TMUX = ("tmux", "load-buffer", "-w", "-")
_SCREEN_BYTES = 600
_UNKNOWN_END = "Whether the terminal puts them on its clipboard is not known: it does not report it."
_MAX_CLIPBOARD_BYTES = 100_000
"""The most bytes that terminals accept in an escape sequence."""
_CLIPBOARD_WAIT_S = 5.0
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CLIPBOARD_PROGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
)
"""The environment variable that must be set, and the program."""
_MOST_LINES = 400
_INIT = """\
Write the file AGENTS.md at the root of this project: what an agent that comes new to it has to know. Look \
at the project first: its README, its build and test files, its folders, a few typical sources, its \
history if there is one. Then write, in at most 60 lines: what the project is, how it is built, run, \
tested and linted (the exact commands, tried where that is harmless), where things are, which conventions \
the code follows, and what to leave alone. No general advice, and nothing that you have not seen \
here.{more}"""
_MORE = " There is an AGENTS.md already: read it, keep what is right, correct what is not."


async def show_diff(context: SlashContext, words: str) -> SlashResult:
    """Print the file changes of this session, since its beginning or since a step."""

    store, session = context.runtime.store, context.session
    if words and not (words.isascii() and words.isdigit() and len(words) < 16):
        raise UsageError(f"`{words[:40]}` is not the number of a step.", "/steps lists them.")
    since = int(words) if words else -1

    def find_differences() -> list[FileDifference]:
        if not store.index.exists(session.id):
            return []
        touched = TouchedFiles(store, session.id)
        last = max(touched.steps, default=-1)
        return differences_of_steps(touched, Path(session.settings.cwd), since, last)

    changed = await store.database.offload(find_differences)
    lines = [line for one in changed for line in _difference_lines(one)]
    if len(lines) > _MOST_LINES:
        left_out = len(lines) - _MOST_LINES
        lines = [
            *lines[:_MOST_LINES],
            ("dim", f"({format_count(left_out, 'line')} more: sandbur sessions export)"),
        ]
    context.renderer.lines(lines or [("dim", "This session has changed no files.")])
    return DONE


def _difference_lines(one: FileDifference) -> Iterator[Line]:
    note = f" ({one_line(one.note)})" if one.note else ""
    yield "bold", f"{one_line(one.name)}  {one.status}{note}"
    yield from number_diff(plain(one.diff)) if one.diff else ()


async def undo(context: SlashContext, words: str) -> SlashResult:
    """Restore the files that the last turn changed, and its memory; nothing that is replaced is lost."""
    session, runtime = context.session, context.runtime
    step = await _last_message(context)
    if step is None:
        tell(context, "There are no messages yet.")
        return DONE
    folders = [Path(each) for each in (session.settings.cwd, *session.settings.add_dirs)]
    plan = await restore_plan(runtime.store, session.id, step.seq, folders)
    memory = await preview_rewinds(runtime.store, session.id, step.seq)
    if not plan.steps and not memory.done:
        left = [f"{path}: {reason}" for path, reason in plan.skipped]
        lines = (f"  {one_line(line)}" for line in (*left, *memory.kept))
        tell(context, "The last turn changed no files that could be brought back.", *lines)
        return DONE
    names = [one_line(str(one.path)) for one in plan.steps]
    for head, found in (("these files were changed", names), ("memory was changed", memory.lines)):
        if found:
            lines = (f"  {one_line(line)}" for line in found)
            tell(context, f"Since `{one_line(step.text)}` {head}:", *lines)
    question = context.questions
    choices = {"y": "bring them back", "n": "leave them"}
    key = await context.wait(question.key("Bring them back?", choices), question.leave)
    if key == "y":
        await _take_back(context, step, names)
    return DONE


async def _take_back(context: SlashContext, step: TimelineStep, names: Sequence[str]) -> None:
    """Restore these files and the memory of the turn, and inform the model."""
    store, session = context.runtime.store, context.session
    if names:
        tell(context, *format_restored(*await restore_files(store, session.id, step.seq, session.id)))
    memory = await apply_rewinds(store, session.id, step.seq)
    tell(context, *map(one_line, (*memory.lines, *memory.hints)))
    if not session.state.turn_open:
        changed = ", ".join((*names, *map(one_line, memory.done)))
        note = f"The person has taken back what the last turn changed in these files: {changed}"
        session.change_history(session.state.chat_history.append(runtime_message(note)))
        await context.follow(session.note("/undo", "The model is informed."))


async def _last_message(context: SlashContext) -> TimelineStep | None:
    store, session_id = context.runtime.store, context.session.id
    if not store.index.exists(session_id):
        return None
    steps = await store.database.offload(lambda: list_timeline(store.database, session_id))
    return next((step for step in reversed(steps) if _can_be_undone(step)), None)


def _can_be_undone(step: TimelineStep) -> bool:
    """Return whether a step began a turn, or a call that a command of the person made, such as an apply.

    What a shell command after a `!` changed belongs to the turn before it.
    """
    is_own_call = step.kind == "command" and not step.text.startswith(("/", "!"))
    return step.kind == "message" or (is_own_call and bool(step.text))


async def show_instructions(context: SlashContext, words: str) -> SlashResult:
    """List or print the active instructions, edit those of the project, or add a line to them."""
    action, _, rest = words.partition(" ")
    if action == "add" and rest.strip():
        file = _instructions_file(context)
        before = _text_of(file)
        break_ = "" if not before or before.endswith("\n") else "\n"
        _rewrite(context, file, f"{before}{break_}- {' '.join(rest.split())}\n")
    elif words == "edit":
        file = _instructions_file(context)
        _rewrite(context, file, await edit_in_editor(_text_of(file), ".md"))
    elif action == "show" or not words:
        _list_instructions(context, is_whole=action == "show")
    else:
        raise UsageError(
            "/instructions lists the instructions in force.", "/instructions show, edit, or add TEXT"
        )
    return DONE


def _list_instructions(context: SlashContext, is_whole: bool) -> None:
    cwd = Path(context.session.settings.cwd)
    found = find_instructions(cwd, context.runtime.env)
    for each in found.instructions:
        lines = len(each.text.splitlines())
        context.renderer.lines([("bold", one_line(f"{each.path}  {format_count(lines, 'line')}"))])
        if is_whole:
            tell(context, each.text)
    tell(context, *found.problems)
    if found.instructions:
        tell(context, "A session keeps the instructions of its beginning; /clear begins one with these.")
    else:
        tell(context, f"There is no {FILE_NAME} here. With /init, the agent writes one.")


def _instructions_file(context: SlashContext) -> Path:
    """Return the project's own file; raises `UsageError` for a symbolic link."""
    cwd = Path(context.session.settings.cwd)
    file = (repository_root(cwd) or cwd) / FILE_NAME
    if file.is_symlink():
        raise UsageError(f"{file} is a link.", "Edit the file that it points to yourself.")
    return file


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8") if file.exists() else ""
    except (OSError, UnicodeError) as problem:
        raise UsageError(f"{file} cannot be read: {problem}.") from None


def _rewrite(context: SlashContext, file: Path, text: str) -> None:
    """Replace the content of a file atomically."""
    if text == _text_of(file):
        tell(context, "Nothing was changed.")
        return
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with temporary.open("x", encoding="utf-8") as written:
            if file.exists():
                os.fchmod(written.fileno(), file.stat().st_mode & 0o777)
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        temporary.replace(file)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"{file} cannot be written: {problem.strerror}.") from None
    tell(context, f"{one_line(str(file))} is written; new sessions read it.")


async def begin_instructions(context: SlashContext, words: str) -> SlashResult:
    """Ask the agent to write AGENTS.md after looking at the project."""
    cwd = Path(context.session.settings.cwd)
    has_one = ((repository_root(cwd) or cwd) / FILE_NAME).is_file()
    wish = f" The person adds: {words}" if words else ""
    await context.send(_INIT.format(more=(_MORE if has_one else "") + wish))
    return DONE


async def copy(context: SlashContext, words: str) -> SlashResult:
    """Copy the last answer, or its last block of code, to the clipboard."""
    if words not in ("", "code"):
        raise UsageError("/copy takes the last answer.", "/copy code takes its last block of code.")
    text = _last_answer(context)
    if words == "code":
        blocks = _CODE.findall(text)
        text = blocks[-1] if blocks else ""
    if not text:
        warn(context, "There is no code in the last answer." if words else "There is no answer yet.")
        return DONE
    size = f"{len(text):,} characters"
    is_in_tmux = bool(os.environ.get("TMUX")) and await _take(_TMUX, text)
    is_sent = is_in_tmux or _send_to_terminal(context, text)
    if programs := await _pipe(text, os.environ):
        tell(context, f"Copied {size}, by {' and '.join(programs)}.")
    elif is_in_tmux:
        tell(context, f"{size} are in the buffer of tmux: prefix ] pastes them. {_UNKNOWN_END}")
    elif is_sent:
        tell(context, f"Sent {size} to the terminal. {_UNKNOWN_END}")
    else:
        warn(
            context,
            "Nothing was copied: the terminal could not be used for it, nor any of wl-copy, xclip, xsel and"
            " pbcopy.",
        )
    return DONE


def _last_answer(context: SlashContext) -> str:
    if found := answer(context.session.state):
        return found
    history = reversed(context.session.state.chat_history)
    return next((one.text for one in history if one.origin == "model" and one.text.strip()), "")


def _send_to_terminal(context: SlashContext, text: str) -> bool:
    """Send the text to the terminal by OSC 52, which does not report success."""
    console, body = context.renderer.console, text.encode("utf-8", "replace")
    if not console.is_terminal or len(body) > _MAX_CLIPBOARD_BYTES:
        return False
    order = f"\x1b]52;c;{base64.b64encode(body).decode()}\x07"
    if os.environ.get("STY"):
        # screen passes on what is wrapped, in pieces of a limited size.
        pieces = (order[at : at + _SCREEN_BYTES] for at in range(0, len(order), _SCREEN_BYTES))
        order = "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    console.file.write(order)
    console.file.flush()
    return True


async def _pipe(text: str, env: Mapping[str, str]) -> list[str]:
    """Pipe the text to a clipboard program; return a list with its name, empty if none accepts the text."""
    for needed, command in _CLIPBOARD_PROGRAMS:
        if (needed and not env.get(needed)) or shutil.which(command[0]) is None:
            continue
        if await _take(command, text):
            return [command[0]]
    return []


async def _take(command: Sequence[str], text: str) -> bool:
    null = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=null, stderr=null
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(_CLIPBOARD_WAIT_S):
            await process.communicate(text.encode("utf-8", "replace"))
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        return False
    return process.returncode == 0


async def edit_message(context: SlashContext, words: str) -> SlashResult:
    """Open the editor for a message; the text goes into the input line and is not sent."""
    text = await edit_in_editor(words, ".md")
    if text.strip():
        context.composer.put_in(text.rstrip("\n"))
    return DONE


async def edit_in_editor(text: str, suffix: str) -> str:
    """Open a text in the person's editor and return the edited text; raises `UsageError`."""
    try:
        editor = choose_editor()
        if not editor:
            raise UsageError("There is no editor.", "Set VISUAL or EDITOR.")
        return await in_editor(editor, text, suffix)
    except EditorFailed as problem:
        raise UsageError(str(problem)) from None


def list_diff_choices(_: SlashContext | None) -> list[SlashOffer]:
    return [SlashOffer("code", "the last block of code only")]
