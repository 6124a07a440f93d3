"""PostgreSQL as a store, with one round trip per transaction. Errors are classified by their remedy."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.abc import RV, Buffer, PQGen
from psycopg.adapt import Loader
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Identifier
from psycopg.types.numeric import IntLoader
from psycopg.waiting import Ready

from ..damaged_values import decode_text
from ..database import DocumentSearch, Statement, TextIndex
from ..schema import TITLE_START_CHARS
from ..url import ServerUrl
from . import server_errors
from .requirements import ANSWER_S, to_plain_values, use_percent_marks
from .server_errors import Diagnosis, ServerError, make_server_error

_BY_STATE: dict[str, Diagnosis] = {
    "22001": server_errors.TOO_LONG,
    "22012": server_errors.REFUSED,  # see `_fail_unless_claimed`
    "23505": server_errors.DUPLICATE,
    "25006": server_errors.READ_ONLY,
    "25P03": server_errors.ENDED,
    "28000": server_errors.CREDENTIALS,
    "28P01": server_errors.CREDENTIALS,
    "3D000": server_errors.NO_DATABASE,
    "3F000": server_errors.NO_SCHEMA,
    "40001": server_errors.CONFLICT,
    "40P01": server_errors.CONFLICT,
    "42501": server_errors.NO_RIGHT,
    "22021": server_errors.NO_UTF8,
    "42P01": server_errors.TABLE_LOST,
    "53100": server_errors.FULL,
    "53200": server_errors.NO_MEMORY,
    "53300": server_errors.TOO_MANY,
    "55P03": server_errors.LOCKED,
    "57014": server_errors.TOO_SLOW,
    "57P01": server_errors.ENDED,
    "57P02": server_errors.ENDED,
    "57P03": server_errors.STARTING,
    "57P05": server_errors.ENDED,
    "XX001": server_errors.DAMAGED,
    "XX002": server_errors.DAMAGED_INDEX,
}
# A failed connection has no error code, only a text.
_BY_TEXT = (
    (r"invalid connection option|invalid \S+ value|invalid integer", server_errors.BAD_OPTION),
    (r"password|role .* does not exist|authentication failed|no pg_hba", server_errors.CREDENTIALS),
    (r"database .* does not exist", server_errors.NO_DATABASE),
    (r"permission denied for database", server_errors.NO_RIGHT),
    (r"too many (clients|connections)|connection slots", server_errors.TOO_MANY),
    (r"starting up|shutting down|recovery|not (yet )?accepting", server_errors.STARTING),
    (r"translate host name|resolve host|Name or service|getaddrinfo", server_errors.UNKNOWN_HOST),
    (r"refused|No such file or directory\W+Is the server", server_errors.NO_SERVER),
    (r"SSL|certificate|TLS", server_errors.NO_TLS),
    (r"timeout|timed out|No route|unreachable", server_errors.UNREACHABLE),
)


def classify_error(error: psycopg.Error, name: str) -> ServerError:
    return make_server_error(_diagnose(error), name)


def _diagnose(error: psycopg.Error) -> Diagnosis:
    state = error.sqlstate
    text = re.sub(r"\s+", " ", str(error)).strip().rstrip(".")
    if state is not None:
        broke = server_errors.ENDED if state.startswith("08") else server_errors.diagnose_other(text)
        return _BY_STATE.get(state, broke)
    for pattern, reading in _BY_TEXT:
        if re.search(pattern, text):
            return reading
    # An error without a code comes from the driver and means that the connection is lost.
    return (
        server_errors.ENDED
        if isinstance(error, psycopg.OperationalError)
        else server_errors.diagnose_other(text)
    )


_SETTINGS = (
    # The last setting prevents a client that was stopped inside a transaction from blocking others.
    "SET statement_timeout = '30s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s'"
)
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "sandbur",
    # A server that disappeared silently is noticed after 30 s.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


_LOGGER = logging.getLogger("psycopg")
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"


class PostgresServer:
    """A database on a PostgreSQL server. The tables are in the first schema of the search path."""

    idle_limit_s = 300.0
    long_text = "TEXT"
    blob = "BYTEA"
    table_suffix = ""
    title_start = f"substr(title, 1, {TITLE_START_CHARS})"
    has_partial_indexes = True
    # The information_schema is not used, because it hides tables that the role may not read.
    columns = (
        "SELECT c.relname, a.attname FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid"
        " WHERE n.nspname = current_schema() AND a.attnum > 0 AND NOT a.attisdropped"
        " AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    )
    text_index = TextIndex(
        condition="session_id IN (SELECT session_id FROM session_texts"
        " WHERE to_tsvector('simple', words) @@ plainto_tsquery('simple', ?))",
        term="{}",
        creations=(
            "CREATE INDEX IF NOT EXISTS session_texts_search ON session_texts"
            " USING gin (to_tsvector('simple', words))",
        ),
    )
    document_search: DocumentSearch | None = DocumentSearch(
        key="id",
        # Without the fence, a limit could make the server read the table instead of the index.
        find="WITH m AS MATERIALIZED (SELECT id FROM documents WHERE to_tsvector('simple', terms)"
        " @@ to_tsquery('simple', ?)) SELECT id FROM m",
        term="{}",
        prefix="{}:*",
        one_of=" | ",
        group="({})",
        all_of=" & ",
        creations=(
            "CREATE INDEX IF NOT EXISTS documents_search ON documents"
            " USING gin (to_tsvector('simple', terms))",
        ),
    )
    creation_lock: Sequence[Statement] = (("SELECT pg_advisory_xact_lock(7310579302446157)", ()),)
    clock = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    skip_locked = " FOR UPDATE SKIP LOCKED"
    notification = "SELECT pg_notify(?, '')"

    def __init__(self, url: ServerUrl, answer_s: float = ANSWER_S) -> None:
        self.name = url.name
        self._answer_s = answer_s
        given = {
            "host": url.host,
            "port": url.port,
            "user": url.user,
            "password": url.password,
            "dbname": url.database,
        }
        self._parameters = {
            **_DEFAULTS,
            **{key: value for key, value in given.items() if value},
            **url.options,
            "client_encoding": "UTF8",
        }

    def connect(self) -> PostgresConnection:
        silence = logging.NullHandler()
        _LOGGER.addHandler(silence)
        try:
            return PostgresConnection(self._connect(), self.name, silence)
        except BaseException:
            _LOGGER.removeHandler(silence)
            raise

    def _connect(self) -> _Connection:
        try:
            # Prepared statements are not used, because they do not work through a connection pooler.
            address = make_conninfo("", **self._parameters)
            connection = _Connection.connect(address, autocommit=True, prepare_threshold=None)
            connection.answer_s = self._answer_s
        except psycopg.Error as error:
            raise classify_error(error, self.name) from error
        try:
            connection.execute(_SETTINGS)
        except psycopg.Error as error:
            connection.close()
            raise classify_error(error, self.name) from error
        return connection


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that fails if the server does not answer in time. The driver alone would wait forever."""

    answer_s = ANSWER_S

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        return super().wait(self._wait_with_deadline(gen), *args, **kwargs)

    def _wait_with_deadline(self, gen: PQGen[RV]) -> PQGen[RV]:
        deadline = time.monotonic() + self.answer_s
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == Ready.NONE and time.monotonic() > deadline:
                    self.close()
                    raise psycopg.OperationalError("the server did not answer: timeout expired")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value


class _AnyText(Loader):
    """Reads texts of a database whose encoding, SQL_ASCII, lets any bytes be a text."""

    def load(self, data: Buffer) -> str:
        return decode_text(bytes(data))


class PostgresConnection:
    """A connection to the server. It is in autocommit mode between transactions."""

    def __init__(self, connection: psycopg.Connection, name: str, silence: logging.Handler) -> None:
        """While `silence` handles the driver's warnings, they are not printed to the terminal."""
        self._connection = connection
        self._name = name
        self._silence = silence
        # The server returns sums of integers as NUMERIC.
        connection.adapters.register_loader("numeric", IntLoader)

    @property
    def is_usable(self) -> bool:
        return self._connection.info.transaction_status == TransactionStatus.IDLE

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        statement, values = _encode(sql), self._plain(parameters)
        with self._translate_errors():
            try:
                return self._connection.execute(statement, values).fetchall()
            except UnicodeDecodeError:
                with self._connection.cursor() as cursor:
                    for name in ("text", "varchar"):
                        cursor.adapters.register_loader(name, _AnyText)
                    return cursor.execute(statement, values).fetchall()

    def commit(self, statements: Sequence[Statement], claim: Statement | None) -> None:
        """Send all statements as one text. If a statement fails, the COMMIT after it does not run."""
        ready = [(sql, self._plain(parameters)) for sql, parameters in statements]
        if claim is not None:
            ready.insert(0, (_fail_unless_claimed(claim[0]), self._plain(claim[1])))
        with self._translate_errors(), psycopg.ClientCursor(self._connection) as cursor:
            # One message costs a third less than a pipeline with one message per statement.
            written = [cursor.mogrify(_encode(sql), parameters) for sql, parameters in ready]
            cursor.execute(";".join((_BEGIN, *written, "COMMIT")).encode())

    def listen(self, channel: str) -> None:
        with self._translate_errors():
            self._connection.execute(SQL("LISTEN {}").format(Identifier(channel)))

    def wait_for_notification(self, seconds: float) -> bool:
        with self._translate_errors():
            return bool(list(self._connection.notifies(timeout=seconds, stop_after=1)))

    def close(self) -> None:
        self._connection.close()
        _LOGGER.removeHandler(self._silence)

    def abandon(self) -> None:
        # The driver must not end the session on the server, because the session belongs to the parent
        # process.
        with Path(os.devnull).open("r+b") as nowhere:
            os.dup2(nowhere.fileno(), self._connection.fileno())
        self.close()

    def _plain(self, parameters: Sequence[Any]) -> tuple[Any, ...]:
        return to_plain_values(parameters, self._name, allows_nul=False)

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as error:
            self._roll_back()
            raise classify_error(error, self._name) from error

    def _roll_back(self) -> None:
        if not self._connection.closed and not self.is_usable:
            with suppress(psycopg.Error):  # the connection is dropped if this fails
                self._connection.rollback()


def _encode(sql: str) -> bytes:
    """Return a statement as bytes, because the types of the driver accept a text only as a literal."""
    return use_percent_marks(sql).encode()


def _fail_unless_claimed(claim: str) -> str:
    """Return a statement that runs `claim` and fails unless `claim` changes exactly one row.

    The failure is a division by zero, which no other statement of the store can cause.
    """
    return f"WITH held AS ({claim} RETURNING 1) SELECT 1 / (CASE COUNT(*) WHEN 1 THEN 1 ELSE 0 END) FROM held"
