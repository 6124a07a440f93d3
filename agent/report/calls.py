"""The calls of a run with everything that the journal and the file history know of them."""

import json
from collections.abc import Sequence
from typing import Any, cast

from agent.report.account import Call, Cut, FileDiff, Verdict
from agent.report.cutting import Room, cut
from agent.report.file_diffs import Contents, file_diff
from state.files import FileChange
from state.messages import ToolResult, ToolUse
from state.store.call_moves import CallMove, call_moves
from state.store.store import Store

_SUBJECT_CHARS = 160


class CallBook:
    """Knows the moves of every call; makes each call known once, and completes it."""

    def __init__(self, store: Store, lineage: Sequence[tuple[str, int | None]], room: Room) -> None:
        self._store = store
        self._room = room
        self._calls: dict[str, Call] = {}
        self._contents = Contents(store.files(lineage[-1][0]).content)
        self._moves: dict[str, list[CallMove]] = {}
        self._changes: dict[str, dict[str, FileChange]] = {}
        self._sizes: dict[str, int] = {}
        for owner, limit in lineage:
            for move in call_moves(store.database, owner):
                self._moves.setdefault(move.call_id, []).append(move)
            for call_id, change in store.files(owner).changes_after(-1, limit):
                self._changes.setdefault(call_id, {})[change.path] = change
                self._contents.is_at(change.after, change.path)
            self._sizes |= _output_sizes(store, owner)

    def asked(self, use: ToolUse) -> Call:
        """Return the call that a message asks for."""
        moves = self._moves.get(use.call_id, [])
        call = Call(
            call_id=use.call_id,
            tool=use.tool,
            arguments=cut(use.arguments, self._room.output_chars * 2),
            subject=subject_of(use.arguments),
            number=len(self._calls) + 1,
            verdicts=[verdict for move in moves if (verdict := _verdict(move))],
            started=[move.at for move in moves if move.move == "started"],
            output_bytes=self._sizes.get(use.call_id, 0),
            arguments_sha256=next((move.text("arguments_sha256") for move in reversed(moves)
                                   if move.text("arguments_sha256")), ""),
        )  # fmt: skip
        self._calls[use.call_id] = call
        self._note_written(use)
        return call

    def edited(self, call_id: str, arguments: str) -> None:
        """Take in what a person made of the arguments."""
        call = self._calls.get(call_id)
        if call is not None:
            call.arguments = cut(arguments, self._room.output_chars * 2)
            call.subject = subject_of(arguments)
            self._note_written(ToolUse(call_id=call_id, tool=call.tool, arguments=arguments))

    def answered(self, result: ToolResult) -> Call | None:
        call = self._calls.get(result.call_id)
        if call is not None:
            call.outcome = result.outcome
            call.content = cut(result.content, self._room.output_chars)
            call.duration_ms = result.duration_ms
        return call

    def find(self, call_id: str) -> Call | None:
        return self._calls.get(call_id)

    def close(self) -> None:
        """Compare the files, now that everything that was written is known."""
        for call_id, changes in self._changes.items():
            call = self._calls.get(call_id)
            if call is not None:
                call.diffs = tuple(self._diff(change) for change in changes.values())
                if call.outcome == "ok" and any(diff.lines for diff in call.diffs):
                    call.content = _beside_diffs(call)

    def _diff(self, change: FileChange) -> FileDiff:
        return file_diff(change, self._contents, self._room.diff_lines)

    def _note_written(self, use: ToolUse) -> None:
        content = _fields(use.arguments).get("content") if use.tool == "write_file" else None
        if isinstance(content, str):
            self._contents.wrote(content)


def subject_of(arguments: str) -> str:
    """Return the first argument that is a text, on one line."""
    texts = (value for value in _fields(arguments).values() if isinstance(value, str))
    line = " ".join(next(texts, "")[: _SUBJECT_CHARS * 4].split())
    return line if len(line) <= _SUBJECT_CHARS else f"{line[:_SUBJECT_CHARS]} ..."


def _beside_diffs(call: Call) -> Cut:
    """Return what a call said, unless the differences say the same."""
    return Cut("") if call.tool in ("write_file", "edit_file") else call.content


def _fields(arguments: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _verdict(move: CallMove) -> Verdict | None:
    decision = move.text("settled_as") or move.text("decision")
    if not decision:
        return None
    return Verdict(
        at=move.at,
        by=move.text("decided_by"),
        who=move.text("who"),
        decision=decision,
        reason=move.text("reason"),
        is_edited=bool(move.body.get("edited")),
    )


def _output_sizes(store: Store, session_id: str) -> dict[str, int]:
    rows = store.database.query(
        "SELECT call_id, SUM(LENGTH(body)) FROM outputs WHERE session_id = ? GROUP BY call_id", (session_id,)
    )
    return {call_id: int(size) for call_id, size in rows}
