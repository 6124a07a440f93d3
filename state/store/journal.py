"""The journal: each move of a tool call is on disk before the next move begins. Also writes the trace."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, cast, get_args

from pydantic import ValidationError

from ..calls import (
    Effect,
    FileChange,
    JournaledCall,
    KeptResult,
    Move,
    NestedCall,
    PendingCall,
    digest_arguments,
    nested_call_id,
    parent_call_id_of,
)
from ..conversation.content import Attachment
from ..conversation.messages import ToolResult, ToolUse, parse_json_object
from ..databases.chain import Entry, find_next_number, list_sound_rows
from ..databases.database import Database
from ..databases.file_parts import FilePart, OpenFile
from ..process.clock import now
from ..process.crashpoints import reach
from ..trace import ModelCalled, TraceRecord
from .call_moves import NESTED
from .files.contents import make_content_reader
from .files.file_history import FileHistory
from .recording import find_result
from .writer import SessionWriter

_MOVES = get_args(Move)
_DIGEST = "arguments_sha256"
_SEEN = "seen"
_KEPT = "kept_bytes"
RESTORE = "restore:"
"""The start of the call id under which a session records the changes of a rewind. The step follows."""


def find_undone_calls(database: Database, session_id: str, ancestors: tuple[str, ...]) -> set[str]:
    """Return the calls of `ancestors` that were completely undone when the session began."""
    rows = database.query(
        f"SELECT DISTINCT call_id FROM files WHERE session_id = ? AND SUBSTR(call_id, 1, {len(RESTORE)}) = ?",
        (session_id, RESTORE),
    )
    steps = [int(call_id.removeprefix(RESTORE)) for (call_id,) in rows]
    if not steps:
        return set()
    return {
        call_id
        for ancestor in ancestors
        for (call_id,) in database.query(
            "SELECT DISTINCT call_id FROM files WHERE session_id = ? AND seq >= ?", (ancestor, min(steps))
        )
        if _is_verifiable(database, ancestor, call_id)
    }


def _is_verifiable(database: Database, session_id: str, call_id: str) -> bool:
    """Return whether a call had no other effect than changes of files."""
    rows = database.query(
        "SELECT body FROM calls WHERE session_id = ? AND call_id = ? AND move = 'started'",
        (session_id, call_id),
    )
    return any((parse_json_object(body) or {}).get("effect") == "verifiable" for (body,) in rows)


def load_output(database: Database, session_id: str, call_id: str) -> bytes | None:
    """Return the complete output of a call with a shortened result, or None if it is not completely
    stored.
    """
    rows = list(list_sound_rows(database, "outputs", session_id, ("body",), "call_id = ?", (call_id,)))
    is_whole = [int(number) for _, number, _ in rows] == list(range(len(rows)))
    return b"".join(body for *_, body in rows) if rows and is_whole else None


_OUTPUT_CHUNK_BYTES = 256 * 1024


class CallJournal:
    """Appends moves in the session's own transactions, so that they are ordered with its steps.

    The calls of ancestors count, too: an effect has happened, whichever session caused it.
    """

    def __init__(
        self,
        database: Database,
        writer: SessionWriter,
        ancestors: Iterable[str] = (),
        may_lack_starts: bool = False,
    ) -> None:
        """Read the stored moves. With `may_lack_starts`, every call counts as started."""
        self._database = database
        self._writer = writer
        self._next_n = 0
        self._calls: dict[str, JournaledCall] = {}
        self._agreed: dict[str, str] = {}
        """The digests of the arguments that were proposed or decided in this process, by call."""
        self._nested: dict[str, dict[str, NestedCall]] = {}
        """The nested calls of the calls that were looked up, by parent and call id."""
        self._known: dict[str, str] | None = None
        self._kept: dict[str, int] = {}
        """The sizes of the complete outputs of calls whose results will be recorded next, in bytes."""
        self._lineage = (*ancestors, writer.session_id)
        undone = find_undone_calls(database, writer.session_id, self._lineage[:-1])
        for session_id in self._lineage:
            rows = database.query(
                "SELECT n, call_id, move, at, record FROM calls WHERE session_id = ? ORDER BY n",
                (session_id,),
            )
            is_own = session_id == writer.session_id
            for _, call_id, move, at, record in rows:
                if move == "decided" or record < 0:
                    continue
                counts = is_own or (call_id not in undone and self._has_effect(call_id, move))
                known = move if counts else "proposed"
                # A move that cannot be read may have been the start.
                if known not in _MOVES:
                    known = "started"
                if may_lack_starts and known == "proposed":
                    known = "started"
                self._calls[call_id] = self._make_move(call_id, known, at)
            self._next_n = int(rows[-1][0]) + 1 if rows else 0

    @cached_property
    def _files(self) -> FileHistory:
        return FileHistory(self._database, self._writer.session_id)

    def _has_effect(self, call_id: str, move: str) -> bool:
        """Return whether a move of an ancestor had an effect. A call that the ancestor refused had none."""
        before = self._calls.get(call_id)
        return move == "started" or (before is not None and before.starts > 0)

    def has_call(self, call_id: str) -> bool:
        return call_id in self._calls

    async def record_proposal(self, use: ToolUse, call: PendingCall | None) -> None:
        moved = self._make_move(use.call_id, "proposed", now())
        body = self._note_agreement(use.call_id, use.tool, call.effect if call else "read", use.arguments)
        if call is not None:
            # These arguments come from a hook and differ from the message. No person has read them yet.
            body |= {**_describe_verdict(call), **({"edited": True} if call.edited else {})}
        self._writer.queue(self._make_entry(moved, body))
        self._calls[use.call_id] = moved

    async def record_nested_proposal(self, nested: NestedCall) -> None:
        call = nested.call
        moved = self._make_move(call.call_id, "proposed", now())
        body = self._note_agreement(call.call_id, call.tool, call.effect, call.arguments)
        body |= {**_describe_verdict(call), NESTED: nested.model_dump(mode="json")}
        known = await self._load_nested(call.parent_call_id)
        self._writer.queue(self._make_entry(moved, body))
        self._calls[call.call_id] = moved
        known.setdefault(call.call_id, nested)

    async def load_nested_calls(self, parent_call_id: str) -> Sequence[NestedCall]:
        return tuple((await self._load_nested(parent_call_id)).values())

    async def _load_nested(self, parent_call_id: str) -> dict[str, NestedCall]:
        if nested_call_id(parent_call_id, 1) not in self._calls:
            # The usual case: the tool runs for the first time. It needs no look at the disk.
            return self._nested.setdefault(parent_call_id, {})
        if parent_call_id not in self._nested:
            found = await self._database.offload(lambda: self._find_nested(parent_call_id))
            self._nested.setdefault(parent_call_id, found)
        return self._nested[parent_call_id]

    def _find_nested(self, parent_call_id: str) -> dict[str, NestedCall]:
        """Return the nested calls of earlier processes by call id, as they were first proposed."""
        prefix = nested_call_id(parent_call_id, 1)[:-1]
        found: dict[str, NestedCall] = {}
        for session_id in self._lineage:
            rows = self._database.query(
                "SELECT call_id, body FROM calls WHERE session_id = ? AND move = 'proposed'"
                f" AND SUBSTR(call_id, 1, {len(prefix)}) = ? ORDER BY n",
                (session_id, prefix),
            )
            for call_id, body in rows:
                stored = (parse_json_object(body) or {}).get(NESTED)
                if stored is not None:
                    # A damaged proposal is proposed again, which is decided again.
                    with suppress(ValidationError):
                        found.setdefault(call_id, NestedCall.model_validate(stored))
        return found

    async def record_decision(self, call: PendingCall, by: str) -> None:
        intent = self._note_agreement(call.call_id, call.tool, call.effect, call.arguments)
        settled = {"who": by, "edited": call.edited, "settled_as": call.recovery.settled_as}
        body = {**intent, **_describe_verdict(call)} | {
            name: value for name, value in settled.items() if value
        }
        n, self._next_n = self._next_n, self._next_n + 1
        self._writer.queue(Entry("calls", (n, call.call_id, "decided", now(), _json(body))))

    async def record_start(
        self,
        pending: PendingCall,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
    ) -> None:
        call_id = pending.call_id
        call = self._make_move(call_id, "started", now())
        next_n = self._next_n
        body = _describe_intent(pending.tool, pending.effect, pending.arguments) | {
            "decided_by": pending.decided_by,
            **_describe_tool(pending),
        }
        entries = [self._make_entry(call, body), *self._make_change_entries(call_id, changes, pre_images)]
        reach("started_before_commit")
        if pending.effect == "read":
            await self._start_queued(entries)
        else:
            await self._start_committed(entries, next_n)
        self._calls[call_id] = call
        reach("started_after_commit")

    async def _start_queued(self, entries: Sequence[Entry]) -> None:
        """Queue a start for the next commit. After a crash, the call simply runs again.

        Only the request for the call must be on disk.
        """
        for entry in entries:
            self._writer.queue(entry)
        await self._writer.flush_held()

    async def _start_committed(self, entries: Sequence[Entry], next_n: int) -> None:
        try:
            await self._writer.commit(entries)
        except BaseException:  # a cancellation, too: a number that is not on disk is used again
            self._next_n = next_n
            raise

    async def record_result(
        self,
        result: ToolResult,
        flush: bool,
        changes: Sequence[FileChange] = (),
        pre_images: Mapping[str, bytes] | None = None,
        seen: Mapping[str, str] | None = None,
    ) -> None:
        call = self._make_move(result.call_id, "finished", now()).model_copy(update={"result": result})
        brief: dict[str, Any] = {"outcome": result.outcome}
        if seen:
            brief[_SEEN] = dict(seen)
            (await self.load_known_files()).update(seen)
        if kept_bytes := self._kept.pop(result.call_id, 0):
            brief[_KEPT] = kept_bytes
        entry = self._make_entry(call, {**brief, "result": result.model_dump(mode="json")})
        # The step that adds the result to the history makes a second copy in the journal unnecessary. No
        # history gets the result of a nested call.
        self._writer.queue_files(block for block in result.blocks if isinstance(block, Attachment))
        if parent_call_id_of(result.call_id):
            self._writer.queue(entry)
        else:
            self._writer.queue(entry, Entry("calls", (*entry.values[:-1], _json(brief))))
        await self.record_changes(result.call_id, changes, pre_images or {})
        self._calls[result.call_id] = call
        if flush:
            reach("finished_before_commit")
            await self._writer.flush()
            reach("finished_after_commit")

    async def store_output(self, call_id: str, output: bytes | OpenFile) -> None:
        size = len(output) if isinstance(output, bytes) else output.size
        self._kept[call_id] = size
        for number, start in enumerate(range(0, size, _OUTPUT_CHUNK_BYTES)):
            end = min(start + _OUTPUT_CHUNK_BYTES, size)
            is_here = isinstance(output, bytes)
            chunk = output[start:end] if is_here else FilePart(output, start, end - start)
            self._writer.queue(Entry("outputs", (call_id, number, chunk)))

    async def load_kept_result(self, call_id: str) -> KeptResult | None:
        if call_id not in self._calls:
            return None
        return await self._database.offload(lambda: self._find_kept_result(call_id))

    def _find_kept_result(self, call_id: str) -> KeptResult | None:
        """Return the result of a call that the session, or an ancestor, has stored."""
        for session_id in reversed(self._lineage):
            result = find_result(self._database, session_id, call_id)
            if result is not None:
                output = load_output(self._database, session_id, call_id)
                return KeptResult(
                    tool=result.tool,
                    content=result.display_text,
                    output=output,
                    output_bytes=len(output)
                    if output is not None
                    else self._load_output_size(session_id, call_id),
                )
        return None

    def _load_output_size(self, session_id: str, call_id: str) -> int:
        """Return the size of a call's complete output in bytes; 0 if its result was complete."""
        rows = self._database.query(
            "SELECT body FROM calls WHERE session_id = ? AND call_id = ? AND move = 'finished'",
            (session_id, call_id),
        )
        return max((int((parse_json_object(body) or {}).get(_KEPT, 0)) for (body,) in rows), default=0)

    async def record_changes(
        self, call_id: str, changes: Sequence[FileChange], pre_images: Mapping[str, bytes]
    ) -> None:
        for change in self._make_change_entries(call_id, changes, pre_images):
            self._writer.queue(change)

    def after_commit(self, work: Callable[[], None]) -> None:
        self._writer.after_commit(work)

    async def load_calls(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]:
        return {
            call_id: await self._with_result(self._calls[call_id])
            for call_id in call_ids
            if call_id in self._calls
        }

    async def load_known_files(self) -> dict[str, str]:
        if self._known is None:
            self._known = await self._database.offload(self._load_versions)
        return self._known

    def _load_versions(self) -> dict[str, str]:
        """Read the file versions that earlier processes of this session recorded. A fork has none."""
        rows = self._database.query(
            "SELECT body FROM calls WHERE session_id = ? AND move = 'finished' ORDER BY n",
            (self._writer.session_id,),
        )
        known: dict[str, str] = {}
        for (body,) in rows:
            seen = (parse_json_object(body) or {}).get(_SEEN)
            known |= cast(dict[str, str], seen) if isinstance(seen, dict) else {}
        return known

    async def load_agreed_digest(self, call_id: str) -> str:
        if call_id not in self._agreed:
            self._agreed[call_id] = await self._database.offload(lambda: self._find_agreed_digest(call_id))
        return self._agreed[call_id]

    def _find_agreed_digest(self, call_id: str) -> str:
        """Return the digest of the arguments that an earlier process recorded; empty if there is none."""
        for session_id in reversed(self._lineage):
            rows = self._database.query(
                "SELECT body FROM calls WHERE session_id = ? AND call_id = ?"
                " AND move IN ('proposed', 'decided') ORDER BY n DESC",
                (session_id, call_id),
            )
            if rows:
                return str((parse_json_object(rows[0][0]) or {}).get(_DIGEST, ""))
        return ""

    def _note_agreement(self, call_id: str, tool: str, effect: Effect, arguments: str) -> dict[str, Any]:
        body = _describe_intent(tool, effect, arguments)
        self._agreed[call_id] = body[_DIGEST]
        return body

    async def load_changes(self, call_id: str) -> tuple[FileChange, ...]:
        return await self._database.offload(lambda: tuple(self._files.load_changes(call_id)))

    def _make_move(self, call_id: str, move: Any, at: str) -> JournaledCall:
        before = self._calls.get(call_id)
        starts = (before.starts if before is not None else 0) + (move == "started")
        return JournaledCall(call_id=call_id, move=move, at=at, starts=starts)

    async def _with_result(self, call: JournaledCall) -> JournaledCall:
        if call.move != "finished" or call.result is not None:
            return call
        result = await self._database.offload(lambda: self._find_result(call.call_id))
        return call.model_copy(update={"result": result})

    def _find_result(self, call_id: str) -> ToolResult | None:
        """Return the result of a call that an earlier process stored, or None."""
        found = (find_result(self._database, owner, call_id) for owner in reversed(self._lineage))
        return next((result for result in found if result is not None), None)

    def _make_change_entries(
        self, call_id: str, changes: Sequence[FileChange], pre_images: Mapping[str, bytes] | None
    ) -> list[Entry]:
        """Return the rows for changed files. The old contents are queued for the next commit."""
        if not changes:
            return []
        self._writer.queue_loose(self._files.insert_contents(pre_images or {}))
        return self._files.make_entries(call_id, changes, self._writer.last_seq)

    def _make_entry(self, call: JournaledCall, body: dict[str, Any]) -> Entry:
        n, self._next_n = self._next_n, self._next_n + 1
        return Entry("calls", (n, call.call_id, call.move, call.at, _json(body)))


def _describe_intent(tool: str, effect: Effect, arguments: str) -> dict[str, Any]:
    return {"tool": tool, "effect": effect, _DIGEST: digest_arguments(arguments)}


def _describe_verdict(call: PendingCall) -> dict[str, str]:
    verdict = {"decision": call.decision, "decided_by": call.decided_by, "reason": call.reason}
    verdict |= {"origin": call.origin} if call.origin != "model" else {}
    return {name: text for name, text in verdict.items() if text} | _describe_tool(call)


def _describe_tool(call: PendingCall) -> dict[str, str]:
    """Return the version of the tool and the arguments that its author fixed, without empty values."""
    return {name: text for name, text in (("version", call.version), ("preset", call.preset)) if text}


def _json(body: dict[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


class TraceLog:
    """Writes trace records with the session's next commit."""

    def __init__(self, database: Database, writer: SessionWriter) -> None:
        self._writer = writer
        self._next_n = find_next_number(database, "traces", writer.session_id)

    def add(self, record: TraceRecord) -> None:
        n, self._next_n = self._next_n, self._next_n + 1
        body = record.model_dump_json(exclude_defaults=True, exclude={"kind"})
        self._writer.queue(Entry("traces", (n, self._writer.last_seq, record.kind, now(), body)))
        if isinstance(record, ModelCalled) and record.reply is not None:
            self._writer.queue_files(record.reply.files)

    async def flush(self) -> None:
        await self._writer.flush()


_NEWEST_TRACES = 20


def find_unused_reply(database: Database, session_id: str, seq: int) -> ModelCalled | None:
    """Return the newest model call if it came after step `seq`, the newest step, and if its reply is stored.

    In this case the process died while hooks judged the reply, so that no step contains it.
    """
    first = find_next_number(database, "traces", session_id) - _NEWEST_TRACES
    rows = list_sound_rows(database, "traces", session_id, ("seq", "event", "body"), after=(first - 1,))
    newest = [(int(at), body) for _, at, event, body in rows if event == "model_called"][-1:]
    for at, body in newest:
        if at == seq and '"reply":' in body:
            # Without a reply that can be read, the model is asked again.
            with suppress(ValidationError):
                return ModelCalled.model_validate_json(
                    body, context={"contents": make_content_reader(database)}
                )
    return None
