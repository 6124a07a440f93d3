"""The effect journal: every move of every tool call, on disk before the next thing happens."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from state.calls import Effect, JournaledCall
from state.crashpoints import reach
from state.messages import ToolResult
from state.store.clock import now
from state.store.codec import decode_message
from state.store.database import Database, Statement
from state.store.writer import SessionWriter

_OUTPUT_CHUNK_BYTES = 256 * 1024


class CallJournal:
    """Appends moves in the session's own transactions, so that they are ordered with its steps.

    What the sessions did that this one was forked from counts, too: an effect is in the world, whoever
    began it.
    """

    def __init__(self, database: Database, writer: SessionWriter, ancestors: Iterable[str] = ()) -> None:
        self._database = database
        self._writer = writer
        self._session_id = writer.session_id
        self._next_n = 0
        self._calls: dict[str, JournaledCall] = {}
        self._lineage = (*ancestors, self._session_id)
        for session_id in self._lineage:
            rows = database.query(
                "SELECT n, call_id, move, at FROM calls WHERE session_id = ? ORDER BY n", (session_id,)
            )
            self._calls |= {row[1]: JournaledCall(call_id=row[1], move=row[2], at=row[3]) for row in rows}
            self._next_n = int(rows[-1][0]) + 1 if rows else 0

    def has_seen(self, call_id: str) -> bool:
        return call_id in self._calls

    async def proposed(self, call_id: str, tool: str, effect: Effect, arguments: str) -> None:
        call = JournaledCall(call_id=call_id, move="proposed", at=now())
        row = self._row(call, _intent(tool, effect, arguments))
        self._writer.queue(row)
        self._calls[call_id] = call

    async def started(self, call_id: str, tool: str, effect: Effect, arguments: str) -> None:
        call = JournaledCall(call_id=call_id, move="started", at=now())
        reach("started_before_commit")
        self._writer.commit([self._row(call, _intent(tool, effect, arguments))])
        self._calls[call_id] = call
        reach("started_after_commit")

    async def finished(self, result: ToolResult, flush: bool) -> None:
        call = JournaledCall(call_id=result.call_id, move="finished", at=now(), result=result)
        brief = {"outcome": result.outcome}
        row = self._row(call, {**brief, "result": result.model_dump(mode="json")})
        # The step that puts the result into the history needs no second copy of it in the journal.
        self._writer.queue(row, with_step=(row[0], (*row[1][:-1], _json(brief))))
        self._calls[result.call_id] = call
        if flush:
            reach("finished_before_commit")
            self._writer.flush()
            reach("finished_after_commit")

    async def kept(self, call_id: str, output: bytes) -> None:
        for number, start in enumerate(range(0, len(output), _OUTPUT_CHUNK_BYTES)):
            chunk = output[start : start + _OUTPUT_CHUNK_BYTES]
            self._writer.queue(
                (
                    "INSERT INTO outputs (session_id, call_id, chunk, body) VALUES (?, ?, ?, ?)",
                    (self._session_id, call_id, number, chunk),
                )
            )

    async def recorded(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]:
        return {call_id: self._with_result(call_id) for call_id in call_ids if call_id in self._calls}

    def _with_result(self, call_id: str) -> JournaledCall:
        call = self._calls[call_id]
        if call.move == "finished" and call.result is None:
            call = call.model_copy(update={"result": self._stored_result(call_id)})
        return call

    def _stored_result(self, call_id: str) -> ToolResult | None:
        """Find a result of an earlier process: in its journal row, or in the history it went to."""
        pattern = f"%{json.dumps(call_id, ensure_ascii=False)[1:-1]}%"
        for session_id in reversed(self._lineage):
            rows = self._database.query(
                "SELECT body FROM calls WHERE session_id = ? AND call_id = ? AND move = 'finished'",
                (session_id, call_id),
            )
            for (body,) in rows:
                if stored := json.loads(body).get("result"):
                    return ToolResult.model_validate(stored)
            rows = self._database.query(
                "SELECT body FROM messages WHERE session_id = ? AND body LIKE ?", (session_id, pattern)
            )
            blocks = (block for (body,) in rows for block in decode_message(body).blocks)
            found = (b for b in blocks if isinstance(b, ToolResult) and b.call_id == call_id)
            if (result := next(found, None)) is not None:
                return result
        return None

    def _row(self, call: JournaledCall, body: dict[str, Any]) -> Statement:
        n, self._next_n = self._next_n, self._next_n + 1
        return (
            "INSERT INTO calls (session_id, n, call_id, move, at, body) VALUES (?, ?, ?, ?, ?, ?)",
            (self._session_id, n, call.call_id, call.move, call.at, _json(body)),
        )


def _intent(tool: str, effect: Effect, arguments: str) -> dict[str, str]:
    digest = hashlib.sha256(arguments.encode()).hexdigest()
    return {"tool": tool, "effect": effect, "arguments_sha256": digest}


def _json(body: dict[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)
