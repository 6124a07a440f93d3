"""What a database server has to offer to hold a store, and the kinds of trouble it can make."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, Protocol

from ..errors import StoreError
from .database import Statement

Kind = Literal["lost", "busy", "duplicate", "refused", "final"]
"""lost: the connection broke, or none can be made; what was sent last may have landed.
busy: nothing happened, and the same will work in a moment. duplicate: a row is there already.
refused: the guard's claim did not change one row. final: trying again would not help."""

ANSWER_S = 40.0
"""How long a server may be silent: longer than it may work at one statement."""


class Trouble(Exception):
    """A driver's error, sorted; `error` is what a person is told if it cannot be mended."""

    def __init__(self, kind: Kind, error: StoreError) -> None:
        super().__init__(error.message)
        self.kind: Kind = kind
        self.error = error


class Connection(Protocol):
    """One connection, used by one thread at a time; every failure is a `Trouble`."""

    @property
    def is_usable(self) -> bool:
        """Whether it is open and in no transaction."""
        ...

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]: ...

    def commit(self, statements: Sequence[Statement], claim: Statement | None) -> None:
        """Run `claim`, which has to change exactly one row, and the statements in one transaction."""
        ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Let go of it in a forked child, without ending the parent's session."""
        ...


class Server(Protocol):
    """A kind of server at an address."""

    name: str
    """The URL without its password."""
    idle_limit_s: float
    """A connection that was not used for so long is not used again."""
    long_text: str
    blob: str
    table_suffix: str
    columns: str
    """A query for (table, column) of every table that `CREATE TABLE` would meet."""
    creation_lock: Sequence[Statement]
    """What keeps two first starts apart, as part of the transaction that creates the tables."""

    def connect(self) -> Connection: ...


@cache
def with_percent(sql: str) -> str:
    """Return the statement with `%s` for each `?`, as both drivers want it."""
    assert not any("?" in literal for literal in re.findall(r"'[^']*'", sql)), sql
    return sql.replace("%", "%%").replace("?", "%s")


def plain(parameters: Sequence[Any], name: str, *, allows_nul: bool) -> tuple[Any, ...]:
    """Return the parameters as a server takes them; raises `Trouble` for text that it cannot keep."""
    for value in parameters:
        if isinstance(value, str) and not _is_storable(value, allows_nul):
            reason = "a character that it cannot keep in a text (NUL, or half of a surrogate pair)"
            raise Trouble("final", StoreError(f"The store {name} was given {reason}; nothing was written."))
    return tuple(int(value) if isinstance(value, bool) else value for value in parameters)


def _is_storable(text: str, allows_nul: bool) -> bool:
    if not allows_nul and "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


Reading = tuple[Kind, str, str]

_RESUME_LATER = "Check that the server runs and can be reached, then resume."
_LOAD = "Look at the load of the server, then resume."

DUPLICATE: Reading = ("duplicate", "holds a row already that was to be written", "")
REFUSED: Reading = ("refused", "was changed by another process", "")
CROWDED: Reading = (
    "busy",
    "is changed by other processes all the time",
    "Try again when they have finished.",
)
LOCKED: Reading = ("busy", "is locked by another process", "Try again when it has finished.")
STARTING: Reading = ("busy", "is starting or stopping", _RESUME_LATER)
TOO_MANY: Reading = (
    "busy",
    "has too many connections",
    "Close other programs, or raise max_connections on the server.",
)
CREDENTIALS: Reading = (
    "final",
    "refuses the user name or the password",
    "Check them in the URL, in PGPASSWORD or ~/.pgpass for PostgreSQL, in MYSQL_PWD for MySQL.",
)
NO_DATABASE: Reading = ("final", "does not exist", "Create the database, or correct its name.")
NO_RIGHT: Reading = (
    "final",
    "does not permit this user to do that",
    "Let its administrator grant what is missing, or use a database that the user owns.",
)
NO_SCHEMA: Reading = (
    "final",
    "has no schema to create tables in",
    "Set the role's search_path, or create the schema.",
)
READ_ONLY: Reading = (
    "final",
    "is read-only",
    "Name the primary server: this one is a replica, or was set to read-only.",
)
TABLE_LOST: Reading = (
    "final",
    "has lost a table of Sandbur",
    "Restore it from a backup, or name another store.",
)
FULL: Reading = ("final", "has no space left", "Free some space on the server, then resume.")
NO_MEMORY: Reading = ("final", "has no memory left", _LOAD)
TOO_SLOW: Reading = ("final", "took longer than 30 seconds for one statement", _LOAD)
TOO_LONG: Reading = ("final", "has no room for a value that was to be written", "")
TOO_LARGE: Reading = (
    "final",
    "was given more than it takes at once",
    "Raise max_allowed_packet on the server, then resume.",
)
BLOCKED: Reading = (
    "final",
    "has blocked this host after too many errors",
    "Let its administrator run FLUSH HOSTS.",
)
NO_TLS: Reading = (
    "final",
    "could not be reached over TLS",
    "Check the options for it behind the `?` of its URL (sslmode, sslrootcert; ssl-mode, ssl-ca).",
)
BAD_OPTION: Reading = (
    "final",
    "has an option that its driver does not take",
    "Correct what is behind the `?` of its URL.",
)
UNKNOWN_HOST: Reading = (
    "lost",
    "is on a host that nobody knows",
    "Correct the host in its URL, or check the network.",
)
NOBODY_THERE: Reading = ("lost", "is not there: no server answers at this address", _RESUME_LATER)
NO_WAY: Reading = ("lost", "cannot be reached over the network", _RESUME_LATER)
ENDED: Reading = ("lost", "ended the connection", _RESUME_LATER)


def other(text: str) -> Reading:
    """Return a driver's own text, where nothing fits better."""
    return "final", f"failed: {text[:300]}", "Check it with `sandbur doctor`."


def trouble_of(reading: Reading, name: str) -> Trouble:
    kind, what, hint = reading
    return Trouble(kind, StoreError(f"The store {name} {what}.", hint))
