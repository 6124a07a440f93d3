"""The tool calls of a run with everything that was decided about them, and by whom."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from state.store.call_moves import CallMove
from state.store.database import Database
from state.store.line_texts import message_line
from state.store.placed_moves import placed_moves
from state.store.store import Store

_PAGE_ROWS = 500


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said about a call: by the policy when it was proposed, or by a person later."""

    decision: str
    """`approved`, `denied`, `undecided` or `invalid`; of a call of unknown outcome: `done` and so on."""
    by: str
    """`policy`, `rule`, `runtime` or `person`."""
    at: str
    """UTC, ISO 8601."""
    who: str = ""
    """user@host of a person."""
    reason: str = ""
    is_edited: bool = False


@dataclass(frozen=True, slots=True)
class RecordedCall:
    call_id: str
    title: str
    """The tool and what it was about, on one line; untrusted."""
    step: int
    """The step in which the model asked for it."""
    last_step: int
    """The step of its last move."""
    verdicts: Sequence[Verdict]
    """In order; the last one counts."""
    starts: int = 0
    outcome: str = ""
    """Empty if it has none yet."""
    started_at: str = ""
    """UTC, ISO 8601; the last time."""
    seconds: float | None = None
    """From its last start to its end."""

    @property
    def was_asked(self) -> bool:
        """True if a person had to decide."""
        return len(self.verdicts) > 1 or self.verdicts[0].decision == "undecided"


def recorded_calls(store: Store, session_id: str) -> list[RecordedCall]:
    """Return the calls in the order in which they were proposed, those of ancestors first."""
    lineage = store.index.lineage(session_id)
    titles = _titles(store.database, lineage)
    calls: dict[str, RecordedCall] = {}
    for step, move in placed_moves(store.database, lineage):
        known = calls.get(move.call_id)
        if known is not None:
            calls[move.call_id] = replace(_moved(known, move), last_step=step)
        elif move.move == "proposed":
            title = titles.get(move.call_id, move.text("tool"))
            calls[move.call_id] = RecordedCall(move.call_id, title, step, step, (_verdict(move),))
    return list(calls.values())


def _moved(call: RecordedCall, move: CallMove) -> RecordedCall:
    match move.move:
        case "decided":
            return replace(call, verdicts=(*call.verdicts, _verdict(move)))
        case "started":
            return replace(call, starts=call.starts + 1, started_at=move.at)
        case "finished":
            seconds = _seconds(call.started_at, move.at)
            return replace(call, outcome=move.text("outcome"), seconds=seconds)
        case _:
            return call


def _seconds(began: str, ended: str) -> float | None:
    if not began:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


def _verdict(move: CallMove) -> Verdict:
    return Verdict(
        decision=move.text("settled_as") or move.text("decision") or "approved",
        by=move.text("decided_by") or "policy",
        at=move.at,
        who=move.text("who"),
        reason=move.text("reason"),
        is_edited=bool(move.body.get("edited")),
    )


def _titles(database: Database, lineage: Sequence[tuple[str, int | None]]) -> dict[str, str]:
    return {
        call_id: title
        for session_id, _ in lineage
        for body in _asking(database, session_id)
        for call_id, title in message_line(body).calls
    }


def _asking(database: Database, session_id: str) -> Iterator[str]:
    """Yield the stored messages that ask for calls."""
    place = (-1, -1)
    while True:
        rows = database.query(
            "SELECT log, idx, body FROM messages WHERE session_id = ? AND (log > ? OR (log = ? AND idx > ?))"
            f" AND body LIKE ? ORDER BY log, idx LIMIT {_PAGE_ROWS}",
            (session_id, place[0], *place, '%"tool_use"%'),
        )
        yield from (body for _, _, body in rows)
        if len(rows) < _PAGE_ROWS:
            return
        place = int(rows[-1][0]), int(rows[-1][1])
