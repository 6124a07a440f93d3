"""Runs one message or one decision, and prints the result in the chosen format."""

import asyncio
import select
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from os import read
from pathlib import Path

from ...actions.ports.events import Event, RunFinished, RunStarted, find_notice, is_undecided
from ...actions.turn.commands import (
    COMMANDS,
    is_command,
    parse_command,
    parse_mode_command,
    parse_shell_command,
)
from ...actions.turn.model_call import refusal_of
from ...agent.extensions.prompt_commands import find_commands
from ...agent.session.recovery import recover
from ...agent.session.session import Session
from ...state.calls import PendingCall
from ...state.conversation.attachments import AttachedFile
from ...state.conversation.messages import UserContent, is_visible
from ...state.errors import OutputLost, SandburError, UsageError
from ..chat.input.files.attached_files import with_named_files
from ..cli.grammar import Progress
from ..cli.open_session import open_runtime, open_session, read_attachments
from ..commands.chat import ChatCommand
from ..terminal.drive import View, drive
from ..terminal.lines import end_lines, waiting_lines
from ..terminal.render import Renderer
from ..terminal.standard_output import answer_stream
from ..terminal.terminal import is_piped, make_console, put, say
from ..terminal.text.sanitize import one_line, plain
from .json_output import encode, make_failure, result_object, stream_object

_MAX_BYTES = 10_000_000
_PATIENCE_S = 3.0
"""How long to wait for a silent pipe, in seconds, if a prompt or a session to resume is given."""


def headless_prompt(words: str | None, continues: bool) -> str | None:
    """Return the message to send, or None to resume the session; raises `UsageError` if there is neither."""
    if words == "-":
        prompt = read_stdin()
    else:
        prompt = "\n\n".join(
            part for part in (clean(words or ""), _read_piped(words, continues)) if part.strip()
        )
    if is_visible(prompt):
        refuse_yolo(prompt)
        return prompt
    if continues and words is None:
        return None
    raise UsageError("The prompt is empty.", 'Say what to do: sandbur -p "..." or echo ... | sandbur -p -')


def refuse_yolo(prompt: str) -> None:
    """Raise `UsageError` if a text that no person typed at a terminal switches to yolo mode."""
    if not prompt.lstrip().startswith("/"):
        return

    if parse_mode_command(prompt) == "yolo":
        raise UsageError(
            "`/mode yolo` is accepted only from a person in the chat.", "Use the flag -y or --mode yolo."
        )


def clean(text: str) -> str:
    """Return text without surrogates, which represent undecodable bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read_piped(words: str | None, continues: bool) -> str:
    if not is_piped():
        return ""
    if words is None and not continues:
        return read_stdin()
    ready, _, _ = select.select([0], [], [], _PATIENCE_S)
    if not ready:
        say("No input came from stdin, so it is ignored. `-p -` waits for input, `< /dev/null` gives none.")
        return ""
    return read_stdin()


def read_stdin(what: str = "prompt") -> str:
    """Return all of stdin; raises `UsageError` if it cannot be read or does not end."""
    if sys.stdin.isatty():
        say(f"Type the {what}, then press Ctrl-D on an empty line.")
    parts: list[bytes] = []
    size = 0
    try:
        while part := read(0, 1 << 16):
            parts.append(part)
            size += len(part)
            if size > _MAX_BYTES:
                raise UsageError(
                    f"stdin holds more than {_MAX_BYTES // 1_000_000} MB.",
                    f"Name a file in the {what} instead.",
                )
    except OSError as error:
        raise UsageError(f"stdin cannot be read: {error.strerror}.") from None
    return b"".join(parts).decode("utf-8", "replace").removeprefix("\ufeff")


DEMO_GOAL = "My web site is slow, find out why."


async def run_headless(command: ChatCommand) -> int:
    """Send the prompt, or resume the session; return the exit code."""
    if command.name == "demo" and command.prompt is None:
        prompt = DEMO_GOAL
    else:
        prompt = headless_prompt(command.prompt, command.continues)
    message: UserContent | None
    files = read_attachments(command)
    async with open_runtime(command) as runtime:
        session = await open_session(runtime, command)
        if prompt is not None and prompt.startswith("/"):
            prompt = _expand_command_file(prompt, session.settings.cwd, runtime.env)
        if prompt is not None and command.prompt not in (None, "-"):
            prompt, named = await _attach_named(
                session, prompt, clean(command.prompt or ""), command.progress
            )
            files = (*files, *named)
        message = (*files, *([prompt] if prompt else [])) if files else prompt
        if message is None:
            message = await _find_remaining(session)
        warn(session.notices, command.progress)
        events = session.send(message) if message is not None else recover(session)
        return await run_to_end(session, events, session.state.pending_tool_calls, command.progress)


async def _attach_named(
    session: Session, prompt: str, words: str, progress: Progress
) -> tuple[str, Sequence[AttachedFile]]:
    """Return the prompt with the texts of the files that the words of the command line name with `@`, and
    the other files.

    Text from stdin attaches nothing, because it may come from others.
    """
    if "@" not in words:
        return prompt, ()
    judge = partial(session.rules.judge_reading, mode=session.state.execution_mode)
    refusal = partial(refusal_of, session.ports.model)
    cwd = Path(session.settings.cwd)
    named = await asyncio.to_thread(with_named_files, words, cwd, judge, refusal)
    warn((one_line(line) for _, line in named.notices), progress)
    if isinstance(named.content, str):
        return prompt + named.content.removeprefix(words), ()
    files = [part for part in named.content if not isinstance(part, str)]
    return prompt + "".join(
        part.removeprefix(words) for part in named.content if isinstance(part, str)
    ), files


async def _find_remaining(session: Session) -> UserContent | None:
    """Return the first queued message, or None. A slash command or shell command stays for the chat."""
    waiting = session.inbox.waiting
    if session.next_action != "prompt":
        # Steering messages are read when the turn continues.
        return None
    first = waiting[0].text if waiting and waiting[0].message is None else ""
    is_order = is_command(first) or parse_shell_command(first) is not None
    if is_order and not any(one.kind == "steer" for one in waiting):
        return None
    return await session.inbox.next_queued()


async def _tell_of_waiting(session: Session) -> None:
    """Print the number of messages in the inbox, which came too late for this run."""
    await session.inbox.read()
    if number := len(session.inbox.waiting):
        many = "1 message waits." if number == 1 else f"{number} messages wait."
        say(f"{many} Send it with: sandbur -p -r {session.id}")


def _expand_command_file(prompt: str, cwd: str, env: Mapping[str, str]) -> str:
    """Return the message of a command file if the prompt is the command of a file; otherwise the prompt."""
    if not prompt.lstrip().startswith("/"):
        return prompt

    typed = parse_command(prompt)
    if typed is None or typed[0].lower() in COMMANDS:
        return prompt
    found = find_commands(Path(cwd), env)
    command = found.commands.get(typed[0])
    if command is None and found.notices:
        say("\n".join(map(plain, found.notices)))
    return prompt if command is None else command.message(typed[1])


async def run_to_end(
    session: Session,
    events: AsyncIterator[Event],
    known: Iterable[PendingCall],
    progress: Progress,
    is_recording: bool = False,
) -> int:
    """Show a run in the selected format; explain on stderr why it ended early and how to continue.

    `known` are the calls that an earlier run proposed and that may run now. With `is_recording`, the events
    only record a decision; no call runs.
    """
    view = view_for(progress, known)
    try:
        finished, _ = await drive(session, events, view, leave=lambda: say(resume_line(session)))
    except OutputLost as lost:
        say(f"sandbur: {lost}")
        say(resume_line(session))
        return lost.exit_code
    if is_recording and finished.exit_code == 0:
        goes_on = f"Continue the run with: sandbur -r {session.id}, or with: sandbur resume --due"
        say(f"Recorded. {'Other calls still wait.' if finished.pending else goes_on}")
    explain(finished, session)
    if finished.exit_code == 0 and not progress.is_quiet:
        await _tell_of_waiting(session)
    return finished.exit_code


def resume_line(session: Session) -> str:
    """Return how to continue a session after this process."""
    if session.store.database.is_volatile:
        return "The session ends with this process, because its store is in memory."
    return f"Resume with: sandbur -r {session.id}"


def warn(notices: Iterable[str], progress: Progress) -> None:
    if not progress.is_quiet:
        for notice in notices:
            say(one_line(notice))


def explain(finished: RunFinished, session: Session) -> None:
    """Print why a run stopped: the calls that wait for a decision, or the error."""
    if finished.exit_code == 0 and not finished.pending:
        return

    for _, text in end_lines(finished):
        say(text)
    known_as = None if session.store.database.is_volatile else session.id
    calls = session.state.pending_tool_calls if finished.pending else ()
    waiting = [call for call in calls if call.decision == "undecided"]
    for call in waiting:
        say("\n".join(waiting_lines(call, known_as, session.settings.cwd)))
    if known_as is not None and any(call.kind == "approval" for call in waiting):
        say(f"Decide with: sandbur approve {known_as} --all, or: sandbur deny {known_as} --all")
    say(resume_line(session))


def report_failure(error: SandburError, output_format: str) -> None:
    """Print the result object of a run that failed before its session was open."""
    line = result_object(make_failure(error))
    if output_format == "stream-json":
        line = {"type": line["type"], "session_id": line["session_id"], "seq": 1, **line}
    if output_format != "text":
        with suppress(BrokenPipeError, OutputLost):
            put(encode(line))


def view_for(progress: Progress, known: Iterable[PendingCall]) -> View:
    if progress.output_format == "stream-json":
        return StreamView()
    if progress.output_format == "json":
        return JsonView()
    return TextView(progress, known)


class TextView:
    """Prints the answer on stdout, and the progress on stderr unless `-q` is given."""

    def __init__(self, progress: Progress, known: Iterable[PendingCall]) -> None:
        self._progress: View | None = None
        if not progress.is_quiet:
            console = make_console(sys.stderr)
            self._progress = renderer = Renderer(console, answers=False, verbose=progress.is_verbose)
            renderer.know(known)

    def show(self, event: Event) -> None:
        if self._progress is not None:
            with suppress(OSError):
                self._progress.show(event)
        if isinstance(event, RunFinished) and event.result:
            answer = event.result
            if answer_stream().isatty():
                answer = plain(answer)
            print(answer.rstrip("\n"), file=answer_stream(), flush=True)

    def tick(self) -> None:
        if self._progress is not None:
            with suppress(OSError):
                self._progress.tick()


class JsonView:
    """Prints one JSON object at the end, and on stderr why a decision was not possible."""

    def show(self, event: Event) -> None:
        if isinstance(event, RunFinished):
            print(encode(result_object(event)), file=answer_stream(), flush=True)
        elif is_undecided(event):
            say(plain(find_notice(event)))

    def tick(self) -> None:
        pass


class StreamView:
    """Prints one JSON object per event, each on one line."""

    def __init__(self, session_id: str | None = None) -> None:
        self._session_id = session_id
        self._seq = 0

    def show(self, event: Event) -> None:
        if isinstance(event, RunStarted | RunFinished):
            self._session_id = event.session_id or self._session_id
        line = stream_object(event)
        if line is not None:
            self._seq += 1
            head = {"type": line["type"], "session_id": self._session_id, "seq": self._seq}
            print(encode({**head, **line}), file=answer_stream(), flush=True)

    def tick(self) -> None:
        pass
