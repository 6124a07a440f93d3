"""Reads the calls of a run with all of their records in the journal and the file history."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from ....actions.masking.references import mask_arguments
from ....actions.tools.registry import traits_of
from ....state.calls import FileChange, PendingCall, parent_call_id_of
from ....state.conversation.messages import ToolResult, ToolUse, find_subject, parse_json_object
from ....state.lazy_dataclass import dataclass
from ....state.process.clock import count_milliseconds
from ....state.store.call_moves import (
    find_nested_call,
    find_recorded_result,
    list_placed_moves,
    waits_for_nested,
)
from ....state.store.recording import (
    CallMove,
    Lineage,
    list_tool_uses,
    load_output_sizes,
)
from ....state.store.store import Store
from ...session.secrets import masker_for_display
from ..timeline import cut_line, title_call
from .run_report import CallAccount, CutText, FileDiff, RecordedVerdict, Room, cut

_MAX_BYTES = 400_000
"""Larger contents are not compared. In bytes."""

ContentOf = Callable[[str], bytes | None]


class FoundContents:
    """Finds contents by their digests: in the store, in the arguments of calls, or in the workspace."""

    def __init__(self, stored: ContentOf, mask: Callable[[str], str]) -> None:
        """`stored` reads a stored content; `mask` removes secrets from a content."""
        self.mask = mask
        self._stored = stored
        self._written: dict[str, str] = {}
        self._places: dict[str, str] = {}

    def wrote(self, content: str) -> None:
        """Note the content of a file that a call wrote. There may be no other copy of it."""
        if len(content) <= _MAX_BYTES:
            self._written[hashlib.sha256(content.encode()).hexdigest()] = content

    def is_at(self, digest: str | None, path: str) -> None:
        """Note the last known path of a content."""
        if digest is not None:
            self._places[digest] = path

    def find(self, digest: str) -> bytes | None:
        if digest in self._written:
            return self._written[digest].encode()
        found = self._stored(digest)
        return found if found is not None else self._in_workspace(digest)

    def _in_workspace(self, digest: str) -> bytes | None:
        path = Path(self._places.get(digest, ""))
        try:
            if not path.is_file() or path.stat().st_size > _MAX_BYTES:
                return None
            content = path.read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None


def file_diff(change: FileChange, contents: FoundContents, most_lines: int) -> FileDiff:
    """Return the diff of a file change that a call made."""
    kind = "changed"
    if change.before_mode is None:
        kind = "created"
    elif change.after is None and change.after_mode is None:
        kind = "deleted"
    elif change.before == change.after:
        kind = "touched"
    if not change.is_restorable:
        return FileDiff(change.path, kind, (), note="its earlier content is not known")
    before = _lines(change.before, contents)
    after = _lines(change.after, contents)
    if before is None or after is None:
        which = "before" if before is None else "after"
        return FileDiff(
            change.path, kind, (), note=f"its content {which} the change is not stored, or is not text"
        )
    lines = tuple(islice(unified_diff(before, after, lineterm=""), 2, None))
    note = "" if lines or kind in ("created", "deleted") else "its content did not change"
    visible = lines[:most_lines]
    return FileDiff(change.path, kind, visible, len(lines) - len(visible), note)


def _lines(digest: str | None, contents: FoundContents) -> list[str] | None:
    """Return the lines of a content; an empty list for a missing file; None if it is unknown or not text."""
    if digest is None:
        return []
    content = contents.find(digest)
    if content is None or len(content) > _MAX_BYTES or b"\0" in content:
        return None
    try:
        return contents.mask(content.decode("utf-8")).splitlines()
    except UnicodeDecodeError:
        return None


_SUBJECT_CHARS = 160


class CallBook:
    """Collects the moves of every call, and builds the account of each call from them."""

    def __init__(self, store: Store, lineage: Lineage) -> None:
        self._calls: dict[str, CallAccount] = {}
        self.masker = masker_for_display(store.index.settings(lineage[-1][0]).cwd)
        self._contents = FoundContents(store.open_files(lineage[-1][0]).read_content, self.masker.text)
        self._moves: dict[str, list[CallMove]] = {}
        self._nested: dict[str, dict[str, PendingCall]] = {}
        """The nested calls by the ids of their parent and of the call."""
        self._requested = 0
        """How many calls messages have requested so far."""
        self._changes: dict[str, dict[str, FileChange]] = {}
        self._sizes: dict[str, int] = {}
        for _, move in list_placed_moves(store.database, lineage):
            self._moves.setdefault(move.call_id, []).append(move)
            if (made := find_nested_call(move)) is not None:
                self._nested.setdefault(made.parent_call_id, {}).setdefault(made.call_id, made)
        for owner, limit in lineage:
            for _, call_id, change in store.open_files(owner).list_changes(-1, limit):
                self._changes.setdefault(call_id, {})[change.path] = change
                self._contents.is_at(change.after, change.path)
            self._sizes |= load_output_sizes(store.database, owner)
        self.room = Room.for_calls(len(self._moves))

    def add_request(self, use: ToolUse) -> CallAccount:
        """Return the account of the call that a message requests, with the calls that its tool made."""
        self._requested += 1
        call = self._add_call(use, str(self._requested))
        for place, made in enumerate(self._nested.get(use.call_id, {}).values(), 1):
            request = ToolUse(call_id=made.call_id, tool=made.tool, arguments=made.arguments)
            call.calls.append(below := self._add_call(request, f"{call.number}.{place}"))
            below.runs_in = "" if made.sub_agent is None else made.sub_agent.session_id
            # The result is only in the journal.
            for result in filter(None, map(find_recorded_result, self._moves[made.call_id])):
                self.note_result(result)
        return call

    def _add_call(self, use: ToolUse, number: str) -> CallAccount:
        moves = self._moves.get(use.call_id, [])
        arguments = mask_arguments(use.arguments, self.masker)
        call = CallAccount(
            call_id=use.call_id,
            tool=use.tool,
            arguments=cut(arguments, self.room.output_chars * 2),
            subject=cut_line(find_subject(arguments), _SUBJECT_CHARS),
            number=number,
            verdicts=list(_list_verdicts(moves)),
            started=list(_list_starts(moves)),
            output_bytes=self._sizes.get(use.call_id, 0),
            arguments_sha256=next((move.text("arguments_sha256") for move in reversed(moves)
                                   if move.text("arguments_sha256")), ""),
        )  # fmt: skip
        self._calls[use.call_id] = call
        self._note_written(use)
        return call

    def note_edit(self, call_id: str, arguments: str) -> None:
        """Replace the arguments of a call by those that a person wrote."""
        call = self._calls.get(call_id)
        if call is not None:
            arguments = mask_arguments(arguments, self.masker)
            call.arguments = cut(arguments, self.room.output_chars * 2)
            call.subject = cut_line(find_subject(arguments), _SUBJECT_CHARS)
            self._note_written(ToolUse(call_id=call_id, tool=call.tool, arguments=arguments))

    def note_result(self, result: ToolResult) -> bool:
        """Add the result of a call; return whether the call is known."""
        call = self._calls.get(result.call_id)
        if call is not None and not result.put_away:
            call.outcome = result.outcome
            call.content = cut(self.masker.text(result.display_text), self.room.output_chars)
            call.duration_ms = result.duration_ms
        return call is not None

    def find(self, call_id: str) -> CallAccount | None:
        return self._calls.get(call_id)

    def close(self) -> None:
        """Make the diffs of all changed files. Call this after the last call was added."""
        for call_id, changes in self._changes.items():
            call = self._calls.get(call_id)
            if call is not None:
                call.diffs = tuple(
                    file_diff(change, self._contents, self.room.diff_lines) for change in changes.values()
                )
                says_the_same = traits_of(call.tool).writes_files and call.outcome == "ok"
                if says_the_same and any(diff.lines for diff in call.diffs):
                    call.content = CutText("")

    def _note_written(self, use: ToolUse) -> None:
        content = (parse_json_object(use.arguments) or {}).get(traits_of(use.tool).content)
        if isinstance(content, str):
            self._contents.wrote(content)


def _list_verdicts(moves: Iterable[CallMove]) -> Iterator[RecordedVerdict]:
    for move in moves:
        if (move.text("settled_as") or move.text("decision")) and not waits_for_nested(move):
            yield _verdict(move)


def _list_starts(moves: Iterable[CallMove]) -> Iterator[str]:
    """Yield the times of the starts, without those that ended because a nested call needed a decision."""
    last = ""
    for move in moves:
        if move.move == "started":
            yield from filter(None, [last])
            last = move.at
        elif waits_for_nested(move):
            last = ""
    yield from filter(None, [last])


def _verdict(move: CallMove) -> RecordedVerdict:
    """Return the decision in a move. The oldest moves do not contain the decision if the gate allowed the
    call.
    """
    return RecordedVerdict(
        at=move.at,
        by=move.text("decided_by") or "policy",
        who=move.text("who"),
        decision=move.text("settled_as") or move.text("decision") or "approved",
        reason=move.text("reason"),
        is_edited=bool(move.body.get("edited")),
    )


@dataclass(frozen=True, slots=True)
class RecordedCall:
    call_id: str
    title: str
    """The tool and its subject on one line; untrusted text."""
    step: int
    """The number of the step in which the model proposed the call."""
    last_step: int
    """The number of the step of the call's last move."""
    verdicts: Sequence[RecordedVerdict]
    """The decisions in their order. The last one counts."""
    starts: int = 0
    outcome: str = ""
    """The outcome; empty if there is none yet."""
    started_at: str = ""
    """The time of its last start, UTC in ISO 8601; empty if it did not start."""
    seconds: float | None = None
    """The duration from its last start to its end, in seconds; None if unknown."""

    @property
    def is_nested(self) -> bool:
        """Return whether the tool of another call made the call."""
        return bool(parent_call_id_of(self.call_id))

    @property
    def was_asked(self) -> bool:
        """Return whether a person had to decide about the call."""
        return len(self.verdicts) > 1 or self.verdicts[0].decision == "undecided"


def read_recorded_calls(store: Store, session_id: str) -> list[RecordedCall]:
    """Return the calls in the order of their proposals, beginning with those of ancestors."""
    lineage = store.index.lineage(session_id)
    titles = {
        use.call_id: title_call(use) for owner, _ in lineage for use in list_tool_uses(store.database, owner)
    }
    calls: dict[str, RecordedCall] = {}
    for step, move in list_placed_moves(store.database, lineage):
        known = calls.get(move.call_id)
        if known is not None:
            calls[move.call_id] = replace(_apply_move(known, move), last_step=step)
        elif move.move == "proposed":
            if (made := find_nested_call(move)) is not None:
                titles[move.call_id] = title_call(made)
            title = titles.get(move.call_id, move.text("tool"))
            calls[move.call_id] = RecordedCall(move.call_id, title, step, step, (_verdict(move),))
    return list(calls.values())


def _apply_move(call: RecordedCall, move: CallMove) -> RecordedCall:
    match move.move:
        case "decided" if waits_for_nested(move):
            return call
        case "decided":
            return replace(call, verdicts=(*call.verdicts, _verdict(move)))
        case "started":
            return replace(call, starts=call.starts + 1, started_at=move.at)
        case "finished":
            seconds = count_milliseconds(call.started_at, move.at) / 1000 if call.started_at else None
            return replace(call, outcome=move.text("outcome"), seconds=seconds)
        case _:
            return call
