"""The effect journal: every move of every tool call, on disk before the next thing happens."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from state.calls import Effect, JournaledCall, Move
from state.crashpoints import reach
from state.messages import Message, ToolResult
from state.store.clock import now
from state.store.codec import decode_message
from state.store.database import Database, Statement
from state.store.writer import SessionWriter
from state.transcript import Transcript

_OUTPUT_CHUNK_BYTES = 256 * 1024


class CallJournal:
    """Appends moves in the session's own transactions, so that they are ordered with its steps."""

    def __init__(self, database: Database, writer: SessionWriter) -> None:
        self._database = database
        self._writer = writer
        self._session_id = writer.session_id
        rows = database.query(
            "SELECT n, call_id, move, at, body FROM calls WHERE session_id = ? ORDER BY n",
            (self._session_id,),
        )
        self._next_n = int(rows[-1][0]) + 1 if rows else 0
        self._moves: dict[str, tuple[Move, str, str]] = {row[1]: (row[2], row[3], row[4]) for row in rows}

    def has_seen(self, call_id: str) -> bool:
        return call_id in self._moves

    async def proposed(self, call_id: str, tool: str, effect: Effect, arguments: str) -> None:
        """Record the intent, committed together with the step that proposes it."""
        digest = hashlib.sha256(arguments.encode()).hexdigest()
        body = {"tool": tool, "effect": effect, "arguments_sha256": digest}
        self._writer.queue([self._move(call_id, "proposed", body)])

    async def started(self, call_id: str, tool: str, effect: Effect, arguments: str) -> None:
        digest = hashlib.sha256(arguments.encode()).hexdigest()
        body = {"tool": tool, "effect": effect, "arguments_sha256": digest}
        reach("started_before_commit")
        self._writer.commit([self._move(call_id, "started", body)])
        reach("started_after_commit")

    async def finished(self, message: Message, history: Transcript, offset: int, flush: bool) -> None:
        result = _result_of(message)
        message_rows = self._writer.logs.write_early(history, offset, message)
        last = history.spans[-1]
        body = {"outcome": result.outcome, "log": last.log.number, "idx": last.end + offset}
        rows = [*message_rows, self._move(result.call_id, "finished", body)]
        if not flush:
            self._writer.queue(rows)
            return
        reach("finished_before_commit")
        self._writer.commit(rows)
        reach("finished_after_commit")

    async def kept(self, call_id: str, output: bytes) -> None:
        self._writer.queue(
            [
                (
                    "INSERT INTO outputs (session_id, call_id, chunk, body) VALUES (?, ?, ?, ?)",
                    (self._session_id, call_id, number, output[start : start + _OUTPUT_CHUNK_BYTES]),
                )
                for number, start in enumerate(range(0, len(output), _OUTPUT_CHUNK_BYTES))
            ]
        )

    async def recorded(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]:
        return {
            call_id: self._journaled(call_id, *self._moves[call_id])
            for call_id in call_ids
            if call_id in self._moves
        }

    def _journaled(self, call_id: str, move: Move, at: str, body: str) -> JournaledCall:
        if move != "finished":
            return JournaledCall(call_id=call_id, move=move, at=at)
        place = json.loads(body)
        rows = self._database.query(
            "SELECT body FROM messages WHERE session_id = ? AND log = ? AND idx = ?",
            (self._session_id, place["log"], place["idx"]),
        )
        result = _result_of(decode_message(rows[0][0]))
        return JournaledCall(call_id=call_id, move=move, at=at, result=result)

    def _move(self, call_id: str, move: Move, body: dict[str, Any]) -> Statement:
        at, text = now(), json.dumps(body, separators=(",", ":"))
        self._moves[call_id] = (move, at, text)
        n, self._next_n = self._next_n, self._next_n + 1
        return (
            "INSERT INTO calls (session_id, n, call_id, move, at, body) VALUES (?, ?, ?, ?, ?, ?)",
            (self._session_id, n, call_id, move, at, text),
        )


def _result_of(message: Message) -> ToolResult:
    block = message.blocks[0]
    if not isinstance(block, ToolResult):
        raise TypeError("a tool message holds exactly one tool result")
    return block
