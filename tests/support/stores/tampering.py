"""Changes records directly in the database; can compute the hash chain again afterwards."""

import json
from typing import Any

from sandbur.state.databases.chain import digest_of, make_first_digest
from sandbur.state.databases.schema import CHAINED, KEYS
from sandbur.state.store.store import Store


def move_of(store: Store, call_id: str, move: str, session_id: str = "s1") -> tuple[int, int, dict[str, Any]]:
    """Return row number, place in the chain and body of a record of a call."""
    rows = store.database.query(
        "SELECT n, record, body FROM calls WHERE session_id = ? AND call_id = ? AND move = ? ORDER BY n",
        (session_id, call_id, move),
    )
    n, record, body = rows[0]
    return int(n), int(record), json.loads(body)


def rewrite(store: Store, call_id: str, move: str, session_id: str = "s1", **changes: Any) -> int:
    """Change fields of a record of a call, None removes a field; return its place in the chain."""
    n, record, body = move_of(store, call_id, move, session_id)
    body = {name: value for name, value in (body | changes).items() if value is not None}
    store.database.commit(
        [
            (
                "UPDATE calls SET body = ? WHERE session_id = ? AND n = ?",
                (json.dumps(body, separators=(",", ":")), session_id, n),
            )
        ]
    )
    return record


def delete_move(store: Store, call_id: str, move: str, session_id: str = "s1") -> int:
    n, record, _ = move_of(store, call_id, move, session_id)
    store.database.commit([("DELETE FROM calls WHERE session_id = ? AND n = ?", (session_id, n))])
    return record


def chain_again(store: Store, session_id: str = "s1") -> None:
    """Number all records again and compute all digests again, as an attacker who knows the format would."""
    rows: list[tuple[int, str, tuple[Any, ...]]] = []
    for table, columns in CHAINED.items():
        found = store.database.query(
            f"SELECT record, {', '.join(columns)} FROM {table} WHERE session_id = ?", (session_id,)
        )
        rows += [(int(row[0]), table, tuple(row[1:])) for row in found]
    digest = make_first_digest(session_id)
    statements: list[tuple[str, tuple[Any, ...]]] = []
    for record, (_, table, values) in enumerate(sorted(rows, key=lambda row: row[0])):
        digest = digest_of(digest, table, values)
        keys = [values[CHAINED[table].index(key)] for key in KEYS[table]]
        condition = " AND ".join(f"{key} = ?" for key in KEYS[table])
        update = f"UPDATE {table} SET record = ?, digest = ? WHERE session_id = ? AND {condition}"
        statements.append((update, (record, digest, session_id, *keys)))
    head = "UPDATE heads SET records = ?, chain = ? WHERE session_id = ?"
    store.database.commit([*statements, (head, (len(rows), digest, session_id))])
    store.database.write_mark(session_id, len(rows))


def add_behind(store: Store, table: str, session_id: str = "s1", **changes: Any) -> str:
    """Append a copy of a table's newest row to the chain, with a valid digest; return its place."""
    columns, [*outer, last] = CHAINED[table], KEYS[table]
    rows = store.database.query(
        f"SELECT {', '.join(columns)} FROM {table} WHERE session_id = ? ORDER BY record DESC LIMIT 1",
        (session_id,),
    )
    values = dict(zip(columns, rows[0], strict=True)) | changes
    values[last] = int(values[last]) + 1
    [(records, chain)] = store.database.query(
        "SELECT records, chain FROM heads WHERE session_id = ?", (session_id,)
    )
    digest = digest_of(chain, table, list(values.values()))
    names = ("session_id", *columns, "record", "digest")
    insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    store.database.commit([(insert, (session_id, *values.values(), records, digest))])
    return "/".join(str(values[key]) for key in (*outer, last))
