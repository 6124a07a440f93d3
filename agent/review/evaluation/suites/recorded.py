"""Tasks from past sessions: the first message of a person, the files as they were before, and a check that
compares the outcome with the recorded one."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .....actions.workspace.paths import format_count
from .....actions.workspace.protected.secret_files import is_secret_file
from .....state.conversation.messages import ToolUse, parse_json_or_text
from .....state.errors import SandburError, SessionNotFound, UsageError
from .....state.lazy_dataclass import dataclass
from .....state.store.call_moves import list_placed_moves
from .....state.store.sessions.listing import LabelFilter
from .....state.store.store import Store
from ....history.replay.replay_steps import Moment, read_recording
from ....history.time_travel.touched_files import TouchedFiles
from ..digests import describe_function
from ..runs.records import is_record
from .task import CheckResult, Solution, Task

_HERE = "/app"
"""The workspace in instructions and arguments, wherever it is."""
_MOST_BYTES = 20_000_000
_MOST_FILES = 5_000
_TITLE_CHARS = 40
_MOST_NAME_CHARS = 100
_UUID_CHARS, _ID_CHARS = 36, 8


class EffectCall(NamedTuple):
    """A call of a tool that may have had an effect."""

    tool: str
    arguments: Any
    """The arguments as a JSON value; the path of the workspace in them is `/app`."""


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """What the first turn of a past session did."""

    session_id: str
    instruction: str
    result: str
    """The last answer of the turn."""
    files: Mapping[str, bytes | None] = field(default_factory=dict[str, "bytes | None"])
    """Path in the workspace -> content after the turn, of each file that it changed; None: removed."""
    calls: tuple[EffectCall, ...] = ()
    """The calls that had effects, without those that only read."""

    @property
    def digest(self) -> str:
        files = {
            path: None if content is None else hashlib.sha256(content).hexdigest()
            for path, content in sorted(self.files.items())
        }
        text = json.dumps([self.session_id, self.instruction, self.result, files, self.calls])
        return hashlib.sha256(text.encode()).hexdigest()


CompareOutcomes = Callable[[RecordedOutcome, Solution], "CheckResult | Awaitable[CheckResult]"]


class SameOutcome:
    """The check of a recorded task: a function of the recorded outcome and of what a run left."""

    def __init__(self, recorded: RecordedOutcome, compare: CompareOutcomes) -> None:
        self._recorded, self._compare = recorded, compare
        self.digest = f"{recorded.digest} {describe_function(compare)}"

    async def __call__(self, solution: Solution) -> CheckResult:
        found = self._compare(self._recorded, solution)
        return await found if inspect.isawaitable(found) else found


def compare_outcomes(recorded: RecordedOutcome, solution: Solution) -> float:
    """Return the share of files that are as the recorded turn left them.

    If the turn changed no file, the calls of the tools that had effects have to be the same ones: 1 or 0.
    """
    if recorded.files:
        same = sum(_read(solution.workspace / path) == one for path, one in recorded.files.items())
        return same / len(recorded.files)
    tools = {call.tool for call in recorded.calls}
    uses = (use for message in solution.history for use in message.tool_uses if use.tool in tools)
    made = [_make_call(use, solution.workspace) for use in uses]
    return float(sorted(map(_write_call, made)) == sorted(map(_write_call, recorded.calls)))


def find_sessions(store: Store, words: Sequence[str]) -> list[str]:
    """Return the ids of the sessions that are named by their id, its start, a title, or by a tag.

    Raises `UsageError` for a word that names none.
    """
    found: list[str] = []
    for word in words:
        try:
            found.append(store.find(word))
        except SessionNotFound:
            tagged = [one.id for one in store.newest_sessions(LabelFilter(tags=(word,)))]
            if not tagged:
                raise UsageError(
                    f"No session has the id or the tag {word!r}.", "See them: sandbur sessions list"
                ) from None
            found += reversed(tagged)
    return [one for one in dict.fromkeys(found) if not is_record(store, one)]


def shorten_id(session_id: str) -> str:
    """Return the start of an id that was made at random; an id that a person chose stays whole."""
    return session_id[:_ID_CHARS] if len(session_id) == _UUID_CHARS else session_id


def read_tasks(
    store: Store, session_ids: Sequence[str], check: CompareOutcomes | None, workspace: Path | None
) -> list[Task]:
    """Return a task for each session. One that cannot be a task is left out, and a notice says why.

    Raises `UsageError` if no session is left.
    """
    others = {} if workspace is None else _read_folder(workspace)
    tasks: list[Task] = []
    left_out: list[str] = []
    for session_id in session_ids:
        try:
            tasks.append(_read_task(store, session_id, check, workspace, others))
        except SandburError as error:
            left_out.append(f"Left out: {error.message}")
    if not tasks:
        raise UsageError(" ".join(left_out) or "No session was named.", "Name another session.")
    first = tasks[0]
    return [_with_notices(first, (*left_out, *first.notices)), *tasks[1:]]


def _read_task(
    store: Store,
    session_id: str,
    check: CompareOutcomes | None,
    workspace: Path | None,
    others: Mapping[str, bytes],
) -> Task:
    turn = _read_turn(store, session_id)
    settings = store.index.settings(session_id)
    root = Path(settings.cwd)
    touched = TouchedFiles(store, session_id)
    files, lost = _read_versions(touched, root, turn, turn.first - 1)
    after, unknown = _read_versions(touched, root, turn, turn.last)
    recorded = RecordedOutcome(
        session_id,
        _place(turn.instruction, root),
        turn.answer,
        {path: content for path, content in after.items() if content != files.get(path)},
        tuple(_list_calls(store, session_id, turn, root)),
    )
    if check is None and not (recorded.files or recorded.calls):
        raise UsageError(
            f"Session {session_id} changed no file and had no effect that could be compared.",
            "Give a check: Suite.from_sessions(..., check=function)",
        )
    beginning = {path: content for path, content in {**others, **files}.items() if content is not None}
    notices = _list_notices(turn, session_id, workspace, (*lost, *unknown), recorded, check)
    title = " ".join(recorded.instruction.split())[:_TITLE_CHARS].strip()
    name = f"{shorten_id(session_id)} {''.join(one for one in title if one.isprintable())}"[
        :_MOST_NAME_CHARS
    ].strip()
    return Task(
        recorded.instruction,
        beginning,
        SameOutcome(recorded, check or compare_outcomes),
        name,
        notices=tuple(notices),
    )


class _Turn(NamedTuple):
    """The first turn of a session."""

    instruction: str
    answer: str
    first: int
    last: int
    has_files: bool
    """Whether files came with the message."""
    later: int
    """The number of later messages of the person."""
    uses: tuple[ToolUse, ...]


def _read_turn(store: Store, session_id: str) -> _Turn:
    """Return the first turn; raises `UsageError` if the session has no message of a person."""
    moments = list(read_recording(store, session_id).moments())
    begins = [one for one in moments if one.action == "prompt" and one.message and one.message.text.strip()]
    if not begins:
        raise UsageError(f"Session {session_id} has no message of a person.")
    first = begins[0]
    end = begins[1].seq if len(begins) > 1 else moments[-1].seq + 1
    replies = [one.reply for one in moments if first.seq <= one.seq < end and one.reply is not None]
    assert first.message is not None
    return _Turn(
        first.message.text,
        next((one.text for one in reversed(replies) if one.text), ""),
        first.seq,
        end - 1,
        _has_files(first),
        len(begins) - 1,
        tuple(use for reply in replies for use in reply.tool_uses),
    )


def _has_files(moment: Moment) -> bool:
    return moment.message is not None and any(True for _ in moment.message.files)


def _read_versions(
    touched: TouchedFiles, root: Path, turn: _Turn, step: int
) -> tuple[dict[str, bytes | None], list[str]]:
    """Return the files that the turn touched as they were after a step, and what is not known of them."""
    found: dict[str, bytes | None] = {}
    unknown: list[str] = []
    for path in sorted({one.change.path for one in touched.changes(turn.first, turn.last)}):
        if not Path(path).is_relative_to(root):
            unknown.append(f"{path} is outside of the workspace")
            continue
        inside = Path(path).relative_to(root).as_posix()
        version = touched.version(path, step)
        content = touched.content(path, version)
        if version.problem or (version.exists and content is None):
            unknown.append(f"{inside}: {version.problem or 'its content is no longer available'}")
        else:
            found[inside] = content
    return found, unknown


def _list_calls(store: Store, session_id: str, turn: _Turn, root: Path) -> Iterator[EffectCall]:
    """Yield the calls of a turn that were started, may have an effect and were not refused."""
    moves = [move for _, move in list_placed_moves(store.database, store.index.lineage(session_id))]
    acted = {one.call_id for one in moves if one.move == "started" and one.text("effect") != "read"}
    failed = {one.call_id for one in moves if one.move == "finished" and one.text("outcome") != "ok"}
    for use in turn.uses:
        if use.call_id in acted - failed:
            yield _make_call(use, root)


def _make_call(use: ToolUse, root: Path) -> EffectCall:
    return EffectCall(use.tool, parse_json_or_text(_place(use.arguments, root)))


def _write_call(call: EffectCall) -> str:
    return json.dumps([call.tool, call.arguments], sort_keys=True)


def _place(text: str, root: Path) -> str:
    """Replace the path of a workspace by `/app`, which each run replaces by its own."""
    return text if root == Path("/") else text.replace(str(root), _HERE)


def _list_notices(
    turn: _Turn,
    session_id: str,
    workspace: Path | None,
    unknown: Sequence[str],
    recorded: RecordedOutcome,
    check: CompareOutcomes | None,
) -> Iterator[str]:
    """Yield a sentence for each thing in which the task differs from the recorded session."""
    name = f"Session {shorten_id(session_id)}"
    if workspace is None:
        yield f"{name}: the workspace has only the files that the run changed; --workspace DIR adds others."
    else:
        yield f"{name}: files that the run did not change are as they are in {workspace} now."
    for one in dict.fromkeys(unknown):
        yield f"{name}: {one}; the file is not compared."
    if turn.later:
        yield f"{name}: {format_count(turn.later, 'later message')} left out; the task is the first one."
    if turn.has_files:
        yield f"{name}: the files of its message are not sent."
    if check is None and recorded.files and len(recorded.calls) > len(recorded.files):
        yield f"{name}: files are compared; other effects of its calls are not."


def _read_folder(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder without `.git`, links and files with secrets; raises `UsageError`."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.", "--workspace takes a folder.")
    found: dict[str, bytes] = {}
    size = 0
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if ".git" in inside.parts or path.is_symlink() or not path.is_file() or is_secret_file(str(path)):
            continue
        size += path.stat().st_size
        if size > _MOST_BYTES or len(found) >= _MOST_FILES:
            raise UsageError(
                f"The folder {folder} has more than {_MOST_FILES} files or {_MOST_BYTES // 1_000_000} MB.",
                "Name a smaller one.",
            )
        found[inside.as_posix()] = path.read_bytes()
    return found


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _with_notices(task: Task, notices: tuple[str, ...]) -> Task:
    return replace(task, notices=notices)
