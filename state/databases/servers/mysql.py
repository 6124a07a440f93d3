"""MariaDB and MySQL as a store, with two round trips per transaction. Errors are classified by their
remedy.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from typing import Any

import pymysql
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.converters import conversions

from ...errors import StoreError
from ..damaged_values import decode_text, find_kinds, restore_types
from ..database import DocumentSearch, Statement, TextIndex
from ..schema import TITLE_START_CHARS
from ..url import ServerUrl
from . import server_errors
from .requirements import ANSWER_S, to_plain_values, use_percent_marks
from .server_errors import Diagnosis, ServerError, make_server_error

_BY_CODE: dict[Diagnosis, tuple[int, ...]] = {
    server_errors.DUPLICATE: (1062,),
    server_errors.CONFLICT: (1020, 1213),
    server_errors.LOCKED: (1205,),
    server_errors.TOO_MANY: (1040, 1203, 1226),
    server_errors.CREDENTIALS: (1045, 1130, 1251, 1698, 2059),
    server_errors.NO_DATABASE: (1049,),
    server_errors.NO_RIGHT: (1044, 1142, 1143, 1227, 1370),
    server_errors.READ_ONLY: (1290, 1792, 1836),
    server_errors.TABLE_LOST: (1146,),
    server_errors.FULL: (1021, 1114),
    server_errors.NO_MEMORY: (1037, 1038, 1041),
    server_errors.TOO_LARGE: (1153,),
    server_errors.TOO_SLOW: (1317, 1969, 3024),
    server_errors.DAMAGED: (1194, 1195, 1877),
    server_errors.DAMAGED_INDEX: (1034, 1712),
    server_errors.TOO_LONG: (1366, 1406),
    server_errors.BLOCKED: (1129,),
    server_errors.NO_TLS: (2026, 3159, 4005),
    # The code 0 means that the driver has closed the connection already.
    server_errors.ENDED: (0, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1927, 2006, 2013, 2055, 4031),
}
_READINGS = {code: reading for reading, codes in _BY_CODE.items() for code in codes}
_NOT_CONNECTED = (2002, 2003, 2005)


def classify_error(error: Exception, name: str) -> ServerError:
    return make_server_error(_diagnose(error), name)


def _diagnose(error: Exception) -> Diagnosis:
    if isinstance(getattr(error, "original_exception", error), ssl.SSLError):
        return server_errors.NO_TLS
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = re.sub(r"\s+", " ", str(error.args[-1] if error.args else error)).strip().rstrip(".")
    if code in _NOT_CONNECTED:
        return _diagnose_unreachable(text)
    return _READINGS.get(code) or server_errors.diagnose_other(text)


def _diagnose_unreachable(text: str) -> Diagnosis:
    if re.search(r"Name or service|resolution|nodename|getaddrinfo", text):
        return server_errors.UNKNOWN_HOST
    return server_errors.NO_SERVER if re.search(r"refused|No such file", text) else server_errors.UNREACHABLE


_KNOWN = ("unix_socket", "connect_timeout", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key")
_CONTEXTS = {
    "required": (ssl.CERT_NONE, False),
    "require": (ssl.CERT_NONE, False),
    "verify_ca": (ssl.CERT_REQUIRED, False),
    "verify_identity": (ssl.CERT_REQUIRED, True),
    "verify_full": (ssl.CERT_REQUIRED, True),
}
"""Maps a mode to the verification of the certificate, and whether its host name must match."""
_ALIASES = {"socket": "unix_socket", "sslmode": "ssl-mode", "sslrootcert": "ssl-ca"}


def read_connect_options(url: ServerUrl) -> dict[str, Any]:
    """Return the arguments of the driver. Raises `StoreError` for unknown options."""
    given = {_normalize_option(key): value for key, value in url.options.items()}
    options: dict[str, Any] = _read_tls_options(url, given)
    socket = given.get("unix_socket", url.host if url.host.startswith("/") else "")
    if socket:
        options["unix_socket"] = socket
    if timeout := given.get("connect_timeout"):
        if not timeout.isdigit() or not int(timeout):
            raise _make_url_error(url, "connect_timeout is not a number of seconds")
        options["connect_timeout"] = min(int(timeout), 3600)
    if unknown := sorted(set(given) - set(_KNOWN)):
        raise _make_url_error(url, f"{unknown[0]} is not known")
    return options


def _normalize_option(key: str) -> str:
    return _ALIASES.get(key, key.replace("_", "-") if key.startswith("ssl") else key)


def _read_tls_options(url: ServerUrl, given: dict[str, str]) -> dict[str, Any]:
    """Return the arguments for `ssl-mode`. MySQL's own names and those of `sslmode` are accepted."""
    default = "verify_ca" if "ssl-ca" in given else "required" if "ssl-cert" in given else "preferred"
    mode = given.get("ssl-mode", default).lower().replace("-", "_")
    if mode in ("preferred", "prefer"):
        return {}
    if mode in ("disabled", "disable"):
        return {"ssl_disabled": True}
    if mode not in _CONTEXTS:
        raise _make_url_error(
            url, "ssl-mode must be DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"
        )
    return {"ssl": _make_tls_context(url, given, *_CONTEXTS[mode])}


def _make_tls_context(
    url: ServerUrl, given: dict[str, str], verify: ssl.VerifyMode, names: bool
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=given.get("ssl-ca"))
        if "ssl-cert" in given:
            context.load_cert_chain(given["ssl-cert"], given.get("ssl-key"))
    except OSError as error:
        raise _make_url_error(url, f"a certificate file cannot be read ({error.strerror or error})") from None
    # The certificates that MySQL creates by itself do not pass the strict check.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = names
    context.verify_mode = verify
    return context


class _Driver(pymysql.Connection):
    """A connection of the driver. Those that prefer TLS, and verify nothing, share one context."""

    def _create_ssl_ctx(self, sslp: ssl.SSLContext | Mapping[str, Any]) -> ssl.SSLContext:
        # The driver's own context reads all certificates of the system: 50 ms of CPU for each connection.
        return sslp if isinstance(sslp, ssl.SSLContext) else _make_unverified_context()


@cache
def _make_unverified_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _make_url_error(url: ServerUrl, what: str) -> StoreError:
    return StoreError(
        f"The URL of the store {url.name} is not valid: {what}.",
        f"The text after its `?` may contain {', '.join(_KNOWN)}.",
    )


_PIECE_BYTES = 1_000_000
_SETTINGS = (
    # If a client is stopped inside a transaction, the server ends its session, which frees its locks.
    "SET SESSION innodb_lock_wait_timeout = 10, wait_timeout = 30, net_write_timeout = 30",
    # `||` and quotes work as in other databases. A value that does not fit is an error.
    "SET SESSION sql_mode = 'PIPES_AS_CONCAT,ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
)
_STATEMENT_TIMEOUTS = {True: "max_statement_time = 30", False: "max_execution_time = 30000"}
"""Maps whether the server is MariaDB to its setting for the time limit."""
_FOR_READING = {FIELD_TYPE.DECIMAL: int, FIELD_TYPE.NEWDECIMAL: int}
"""The server returns sums of integers as DECIMAL."""


class MysqlServer:
    """A database on a MariaDB or MySQL server."""

    idle_limit_s = 20.0  # less than the wait_timeout of the server
    long_text = "LONGTEXT"
    blob = "LONGBLOB"
    table_suffix = " ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    title_start = f"title({TITLE_START_CHARS})"
    has_partial_indexes = False
    columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()"
    text_index = TextIndex(
        condition="session_id IN (SELECT session_id FROM session_texts"
        " WHERE MATCH(words) AGAINST (? IN BOOLEAN MODE))",
        term="+{}",
        clause="FULLTEXT INDEX session_texts_search (words)",
    )
    document_search: DocumentSearch | None = DocumentSearch(
        key="id",
        find="SELECT id FROM documents WHERE MATCH(terms) AGAINST (? IN BOOLEAN MODE)",
        term="{}",
        prefix="{}*",
        one_of=" ",
        group="+({})",
        all_of=" ",
        clause="FULLTEXT INDEX documents_search (terms)",
    )
    creation_lock: Sequence[Statement] = ()  # CREATE TABLE IF NOT EXISTS is safe by itself
    clock = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
    skip_locked = " FOR UPDATE SKIP LOCKED"
    notification = ""

    def __init__(self, url: ServerUrl, answer_s: float = ANSWER_S) -> None:
        self.name = url.name
        password = url.password or os.environ.get("MYSQL_PWD", "")
        self._parameters: dict[str, Any] = {
            "host": url.host or "localhost",
            "port": int(url.port or 3306),
            "user": url.user or None,
            "password": password.encode(),  # as a text, it would be limited to latin-1
            "database": url.database,
            "charset": "utf8mb4",
            "collation": "utf8mb4_bin",
            "connect_timeout": 10,
            "read_timeout": answer_s,
            "write_timeout": answer_s,
            "autocommit": True,
            "conv": {**conversions, **_FOR_READING},
            # With FOUND_ROWS, an update counts the rows that it finds, even if it does not change them.
            "client_flag": CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS,
            "program_name": "sandbur",
            **read_connect_options(url),
        }

    def connect(self) -> MysqlConnection:
        try:
            connection = _Driver(**self._parameters)
        except (pymysql.Error, OSError) as error:  # OSError means a certificate that cannot be read
            raise classify_error(error, self.name) from error
        except RuntimeError as error:  # the driver raises this if `cryptography` is missing
            raise ServerError(
                "final", StoreError(f"The store {self.name} cannot be opened: {error}.")
            ) from error
        try:
            return MysqlConnection(connection, self.name)
        except pymysql.Error as error:
            connection.close()
            raise classify_error(error, self.name) from error


class MysqlConnection:
    """A connection to the server. It is in autocommit mode between transactions."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._name = name
        self.is_usable = True
        is_mariadb = "mariadb" in connection.get_server_info().lower()
        self._script = ";".join((*_SETTINGS, f"SET SESSION {_STATEMENT_TIMEOUTS[is_mariadb]}"))
        self._run(self._script)
        self._max_packet = int(self._rows("SELECT @@max_allowed_packet")[0][0])

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._translate_errors():
            text = self._fill_in((sql, parameters))
            try:
                rows, names = self._fetch(text)
            except UnicodeDecodeError:
                rows, names = self._fetch_undecodable(text)
        return restore_types(rows, find_kinds(sql, names)) if rows else rows

    def commit(self, statements: Sequence[Statement], claim: Statement | None) -> None:
        """Send the claim and the statements at once. Send COMMIT after the claim changed one row."""
        claims = [] if claim is None else [claim]
        first, *others = self._join_statements(["BEGIN", *map(self._fill_in, [*claims, *statements])])
        with self._translate_errors():
            self.is_usable = False
            if not self._begin(first, has_claim=bool(claims)):
                raise ServerError(
                    "refused", StoreError(f"The store {self._name} was changed by another process.")
                )
            for script in (*others, "COMMIT"):
                self._run(script)
            self.is_usable = True

    def close(self) -> None:
        self.is_usable = False
        if self._connection.open:
            self._connection.close()

    def abandon(self) -> None:
        """Do nothing: the driver sends nothing to the server before it is closed."""

    def _fill_in(self, statement: Statement) -> str:
        sql, parameters = statement
        values = to_plain_values(parameters, self._name, allows_nul=True)
        return use_percent_marks(_to_mysql(sql)) % tuple(self._connection.escape(value) for value in values)

    def _join_statements(self, statements: Sequence[str]) -> list[str]:
        """Join the statements into few scripts that the server accepts. The claim is in the first script."""
        pieces: list[list[str]] = [[]]
        size = 0
        for position, statement in enumerate(statements):
            length = len(statement) if statement.isascii() else len(statement.encode())
            if length + 1 > self._max_packet:
                raise _make_size_error(self._name, length, self._max_packet)
            if size + length > min(_PIECE_BYTES, self._max_packet) and position > 1:
                pieces.append([])
                size = 0
            pieces[-1].append(statement)
            size += length + 1
        return [";".join(piece) for piece in pieces]

    def _begin(self, script: str, *, has_claim: bool) -> bool:
        """Run a script that starts with BEGIN and possibly a claim. Return whether the claim changed
        one row.
        """
        with self._connection.cursor() as cursor:
            cursor.execute(script)
            holds = not has_claim or (cursor.nextset() and cursor.rowcount == 1)
            # If the claim fails, the following statements may fail, too. This does no harm.
            with nullcontext() if holds else suppress(pymysql.Error):
                while cursor.nextset():
                    pass
        return holds

    def _run(self, script: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(script)
            while cursor.nextset():
                pass

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._fetch(sql)[0]

    def _fetch(self, sql: str | bytes) -> tuple[list[tuple[Any, ...]], tuple[str, ...]]:
        """Return the rows and the names of their columns."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()), tuple(column[0] for column in cursor.description)

    def _fetch_undecodable(self, sql: str) -> tuple[list[tuple[Any, ...]], tuple[str, ...]]:
        """Fetch rows with texts that are no UTF-8. The rest of the first answer is not read."""
        self._connection.close()
        self._connection.connect()
        self._run(self._script)
        usual = self._connection.encoding
        # Every byte is a character of latin-1, so that each text becomes its bytes again.
        self._connection.encoding = "latin-1"
        try:
            rows, names = self._fetch(sql.encode())
        finally:
            self._connection.encoding = usual
        return [tuple(map(_decode_latin, row)) for row in rows], names

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except ServerError:
            self._roll_back()
            raise
        except (pymysql.Error, OSError) as error:
            self._roll_back()
            raise classify_error(error, self._name) from error

    def _roll_back(self) -> None:
        if self._connection.open and not self.is_usable:
            with suppress(pymysql.Error, OSError):  # the connection is dropped if this fails
                self._run("ROLLBACK")
                self.is_usable = True


def _decode_latin(value: Any) -> Any:
    return decode_text(value.encode("latin-1")) if isinstance(value, str) else value


def _make_size_error(name: str, size: int, limit: int) -> ServerError:
    message = f"The store {name} accepts at most {limit:,} bytes at once, but {size:,} bytes must be written."
    return ServerError("final", StoreError(message, "Raise max_allowed_packet on the server, then resume."))


@cache
def _to_mysql(sql: str) -> str:
    """Return the statement in MySQL's syntax for an insert whose row may exist already."""
    sql = re.sub(
        r"ON CONFLICT \((\w+)[\w, ]*\) DO NOTHING",
        r"ON DUPLICATE KEY UPDATE \1 = \1",
        sql,
        flags=re.IGNORECASE,
    )
    sql = re.sub(
        r"ON CONFLICT \([\w, ]+\) DO UPDATE SET", "ON DUPLICATE KEY UPDATE", sql, flags=re.IGNORECASE
    )
    return re.sub(r"\bexcluded\.(\w+)", r"VALUES(\1)", sql, flags=re.IGNORECASE)
