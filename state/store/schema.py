"""The tables of the store, their version, and the way from older versions."""

SCHEMA_VERSION = 1

TABLES = (
    """CREATE TABLE meta (name VARCHAR(64) PRIMARY KEY, value TEXT NOT NULL)""",
    # Written once per session; `settings` changes only when flags or rules do.
    """CREATE TABLE sessions (
        id VARCHAR(64) PRIMARY KEY,
        tenant VARCHAR(64) NOT NULL,
        parent_id VARCHAR(64),
        parent_seq BIGINT,
        created_at VARCHAR(32) NOT NULL,
        settings TEXT NOT NULL)""",
    # Rewritten with every step, so it stays small; owner, epoch and lease_until belong to the writer.
    """CREATE TABLE heads (
        session_id VARCHAR(64) PRIMARY KEY,
        title TEXT NOT NULL,
        status VARCHAR(32) NOT NULL,
        updated_at VARCHAR(32) NOT NULL,
        last_seq BIGINT NOT NULL,
        owner VARCHAR(255) NOT NULL,
        epoch BIGINT NOT NULL,
        lease_until VARCHAR(32) NOT NULL)""",
    # One row per graph step: the fields that changed, or all of them in a snapshot.
    """CREATE TABLE steps (
        session_id VARCHAR(64) NOT NULL,
        seq BIGINT NOT NULL,
        position VARCHAR(64) NOT NULL,
        is_snapshot SMALLINT NOT NULL,
        at VARCHAR(32) NOT NULL,
        fields TEXT NOT NULL,
        PRIMARY KEY (session_id, seq))""",
    """CREATE TABLE messages (
        session_id VARCHAR(64) NOT NULL,
        log BIGINT NOT NULL,
        idx BIGINT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session_id, log, idx))""",
    # The effect journal: one row per move of a call, never changed.
    """CREATE TABLE calls (
        session_id VARCHAR(64) NOT NULL,
        n BIGINT NOT NULL,
        call_id VARCHAR(255) NOT NULL,
        move VARCHAR(16) NOT NULL,
        at VARCHAR(32) NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session_id, n))""",
    # Whole outputs of calls whose result shows a part of them.
    """CREATE TABLE outputs (
        session_id VARCHAR(64) NOT NULL,
        call_id VARCHAR(255) NOT NULL,
        chunk BIGINT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (session_id, call_id, chunk))""",
)

SESSION_TABLES = ("outputs", "calls", "messages", "steps", "heads")
"""The tables with a `session_id`, in the order in which a session is deleted from them."""
