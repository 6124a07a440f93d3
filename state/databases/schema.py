"""The tables of the store and their version; `{long_text}` and `{blob}` stand for a database's own types."""

SCHEMA_VERSION = 3
READABLE_EXPORTS = (2, 3)
"""Schemas of exports that can be imported: each later one only added tables."""

TABLES = (
    """CREATE TABLE meta (name VARCHAR(64) PRIMARY KEY, value VARCHAR(255) NOT NULL)""",
    # Written once per session; `settings` changes only when flags or rules do.
    """CREATE TABLE sessions (
        id VARCHAR(64) PRIMARY KEY,
        tenant VARCHAR(64) NOT NULL,
        parent_id VARCHAR(64),
        parent_seq BIGINT,
        created_at VARCHAR(32) NOT NULL,
        settings {long_text} NOT NULL)""",
    # Rewritten with every commit of a session, so it stays small. `records` and `chain`: how many chained
    # rows the session has, and the digest of the newest; `owner`, `epoch`, `lease_until`: its writer.
    """CREATE TABLE heads (
        session_id VARCHAR(64) PRIMARY KEY,
        title {long_text} NOT NULL,
        status VARCHAR(32) NOT NULL,
        updated_at VARCHAR(32) NOT NULL,
        wake_at VARCHAR(32) NOT NULL,
        last_seq BIGINT NOT NULL,
        records BIGINT NOT NULL,
        chain VARCHAR(40) NOT NULL,
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
        fields {long_text} NOT NULL,
        record BIGINT NOT NULL,
        digest VARCHAR(40) NOT NULL,
        PRIMARY KEY (session_id, seq))""",
    """CREATE TABLE messages (
        session_id VARCHAR(64) NOT NULL,
        log BIGINT NOT NULL,
        idx BIGINT NOT NULL,
        body {long_text} NOT NULL,
        record BIGINT NOT NULL,
        digest VARCHAR(40) NOT NULL,
        PRIMARY KEY (session_id, log, idx))""",
    # The effect journal: one row per move of a call, never changed.
    """CREATE TABLE calls (
        session_id VARCHAR(64) NOT NULL,
        n BIGINT NOT NULL,
        call_id VARCHAR(255) NOT NULL,
        move VARCHAR(16) NOT NULL,
        at VARCHAR(32) NOT NULL,
        body {long_text} NOT NULL,
        record BIGINT NOT NULL,
        digest VARCHAR(40) NOT NULL,
        PRIMARY KEY (session_id, n))""",
    # Whole outputs of calls whose result shows a part of them.
    """CREATE TABLE outputs (
        session_id VARCHAR(64) NOT NULL,
        call_id VARCHAR(255) NOT NULL,
        chunk BIGINT NOT NULL,
        body {blob} NOT NULL,
        record BIGINT NOT NULL,
        digest VARCHAR(40) NOT NULL,
        PRIMARY KEY (session_id, call_id, chunk))""",
    # What calls changed in files; `seq` is the newest step at that time.
    """CREATE TABLE files (
        session_id VARCHAR(64) NOT NULL,
        n BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        call_id VARCHAR(255) NOT NULL,
        path {long_text} NOT NULL,
        body {long_text} NOT NULL,
        record BIGINT NOT NULL,
        digest VARCHAR(40) NOT NULL,
        PRIMARY KEY (session_id, n))""",
    # File contents before a change, by SHA-256, compressed, in chunks; `session_id` only tells who wrote
    # them: every session reads them, and as each writes its own rows, two never collide on one content.
    """CREATE TABLE blobs (
        digest VARCHAR(64) NOT NULL,
        session_id VARCHAR(64) NOT NULL,
        chunk BIGINT NOT NULL,
        size BIGINT NOT NULL,
        body {blob} NOT NULL,
        PRIMARY KEY (digest, session_id, chunk))""",
    # Who ran it, what model calls took, how runs ended; `seq` is the newest step at that time.
    """CREATE TABLE traces (
        session_id VARCHAR(64) NOT NULL,
        n BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        event VARCHAR(16) NOT NULL,
        at VARCHAR(32) NOT NULL,
        body {long_text} NOT NULL,
        record BIGINT NOT NULL,
        digest VARCHAR(40) NOT NULL,
        PRIMARY KEY (session_id, n))""",
    # What people note about steps; written beside the session's own writer, so no part of its chain.
    """CREATE TABLE annotations (
        session_id VARCHAR(64) NOT NULL,
        id BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        created_at VARCHAR(32) NOT NULL,
        updated_at VARCHAR(32) NOT NULL,
        body {long_text} NOT NULL,
        PRIMARY KEY (session_id, id))""",
    # Rows that were found damaged, and are not used any more; `place` is their key.
    """CREATE TABLE quarantine (
        session_id VARCHAR(64) NOT NULL,
        source VARCHAR(16) NOT NULL,
        place VARCHAR(255) NOT NULL,
        at VARCHAR(32) NOT NULL,
        reason VARCHAR(255) NOT NULL,
        PRIMARY KEY (session_id, source, place))""",
)

CHAINED = {
    "steps": ("seq", "position", "is_snapshot", "at", "fields"),
    "messages": ("log", "idx", "body"),
    "calls": ("n", "call_id", "move", "at", "body"),
    "outputs": ("call_id", "chunk", "body"),
    "files": ("n", "seq", "call_id", "path", "body"),
    "traces": ("n", "seq", "event", "at", "body"),
}
"""Table -> the columns that its digest covers, in this order."""

KEYS = {
    "steps": ("seq",),
    "messages": ("log", "idx"),
    "calls": ("n",),
    "outputs": ("call_id", "chunk"),
    "files": ("n",),
    "traces": ("n",),
}
"""Chained table -> its primary key within a session."""

SESSION_TABLES = (*CHAINED, "annotations", "quarantine", "heads")
"""The tables with a `session_id`, in the order in which a session is deleted from them."""
