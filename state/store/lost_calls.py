"""What had been started behind the last good step of a damaged session: no history tells of it any more."""

import json

from pydantic import ValidationError

from state.store.codec import decode_message
from state.store.database import Database

MOST_CALLS = 20
_MOST_CHARS = 400


def calls_behind(database: Database, session_id: str, seq: int) -> tuple[str, ...]:
    """Return the calls started after step `seq` as `tool arguments`, without those that it waits for."""
    rows = database.query("SELECT record FROM steps WHERE session_id = ? AND seq = ?", (session_id, seq))
    if not rows:
        return ()
    record = int(rows[0][0])
    started = database.query(
        "SELECT call_id, body FROM calls WHERE session_id = ? AND record > ? AND move = 'started' ORDER BY n",
        (session_id, record),
    )
    arguments = _arguments_behind(database, session_id, record)
    # A call that the step itself waits for was proposed before it, so it is settled by its own record.
    lost = [(call_id, body) for call_id, body in started if call_id in arguments]
    found = {call_id: _described(body, arguments[call_id]) for call_id, body in lost}
    return tuple(found.values())[:MOST_CALLS]


def lost_note(calls: tuple[str, ...]) -> str:
    listed = "\n".join(f"- {call}" for call in calls)
    return (
        "A part of this conversation was damaged on disk and is left out. In it these calls had been started;"
        f" they may or may not have taken effect. Verify before you repeat any of them:\n{listed}"
    )


def _arguments_behind(database: Database, session_id: str, record: int) -> dict[str, str]:
    rows = database.query(
        "SELECT body FROM messages WHERE session_id = ? AND record > ?", (session_id, record)
    )
    found: dict[str, str] = {}
    for (body,) in rows:
        try:
            found |= {use.call_id: use.arguments for use in decode_message(body).tool_uses}
        except ValidationError:
            continue
    return found


def _described(body: str, arguments: str) -> str:
    try:
        tool = str(json.loads(body)["tool"])
    except (ValueError, KeyError, TypeError):
        tool = "a call"
    return f"{tool} {arguments}"[:_MOST_CHARS]
