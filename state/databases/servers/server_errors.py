"""Classifies the errors of a database server by their remedy, with messages for people."""

from typing import Literal

from ...errors import StoreError

Kind = Literal["lost", "busy", "duplicate", "refused", "final"]
"""The kind of an error. `lost`: the connection broke, or none can be made; the last transaction may have
happened. `busy`: nothing happened, and the same transaction will work soon. `duplicate`: a row exists
already. `refused`: the guard's claim did not change one row. `final`: another try would not help.
"""

Diagnosis = tuple[Kind, str, str]
"""The kind of the error, a clause about the store, and a hint."""


class ServerError(Exception):
    """A classified error of a driver. `error` is for the person if another try does not help."""

    def __init__(self, kind: Kind, error: StoreError) -> None:
        super().__init__(error.message)
        self.kind: Kind = kind
        self.error = error


def _diagnose_final(what: str, hint: str = "") -> Diagnosis:
    return "final", what, hint


def _diagnose_busy(what: str, hint: str) -> Diagnosis:
    return "busy", what, hint


def _diagnose_lost(what: str, hint: str) -> Diagnosis:
    return "lost", what, hint


_RESUME_LATER = "Check that the server runs and can be reached, then resume."
_LOAD = "Look at the load of the server, then resume."
DUPLICATE: Diagnosis = ("duplicate", "already contains a row that must be written", "")
REFUSED: Diagnosis = ("refused", "was changed by another process", "")
CONFLICT = _diagnose_busy("is changed all the time by other processes", "Try again when they have finished.")
LOCKED = _diagnose_busy("is locked by another process", "Try again when it has finished.")
STARTING = _diagnose_busy("is starting or stopping", _RESUME_LATER)
TOO_MANY = _diagnose_busy(
    "has too many connections", "Close other programs, or raise max_connections on the server."
)
CREDENTIALS = _diagnose_final(
    "refuses the user name or the password",
    "Check them in the URL, in PGPASSWORD or ~/.pgpass for PostgreSQL, in MYSQL_PWD for MySQL.",
)
NO_DATABASE = _diagnose_final("does not exist", "Create the database, or correct its name.")
NO_RIGHT = _diagnose_final(
    "does not permit this user to do that",
    "Let its administrator grant the missing right, or use a database that the user owns.",
)
NO_SCHEMA = _diagnose_final(
    "has no schema to create tables in", "Set the role's search_path, or create the schema."
)
READ_ONLY = _diagnose_final(
    "is read-only", "Name the primary server: this one is a replica, or was set to read-only."
)
TABLE_LOST = _diagnose_final(
    "has lost a table of Sandbur", "Restore it from a backup, or name another store."
)
_CHECK_RECORDS = "See which sessions are damaged: sandbur doctor. Restore them from a backup of the server."
NO_UTF8 = _diagnose_final("has a text that is no UTF-8", _CHECK_RECORDS)
DAMAGED = _diagnose_final("has damaged pages", _CHECK_RECORDS)
DAMAGED_INDEX = _diagnose_final(
    "has a damaged index", "Let the administrator of the server rebuild it with REINDEX, then resume."
)
FULL = _diagnose_final("has no space left", "Free some space on the server, then resume.")
NO_MEMORY = _diagnose_final("has no memory left", _LOAD)
TOO_SLOW = _diagnose_final("took longer than 30 seconds for one statement", _LOAD)
TOO_LONG = _diagnose_final("has no room for a value that must be written")
TOO_LARGE = _diagnose_final(
    "got more data than it accepts at once", "Raise max_allowed_packet on the server, then resume."
)
BLOCKED = _diagnose_final(
    "has blocked this host after too many errors", "Let its administrator run FLUSH HOSTS."
)
NO_TLS = _diagnose_final(
    "could not be reached over TLS",
    "Check its TLS options after the `?` of its URL (sslmode, sslrootcert; ssl-mode, ssl-ca).",
)
BAD_OPTION = _diagnose_final(
    "has an option that its driver does not accept", "Correct the text after the `?` of its URL."
)
UNKNOWN_HOST = _diagnose_lost("is on an unknown host", "Correct the host in its URL, or check the network.")
NO_SERVER = _diagnose_lost("does not answer: no server listens at this address", _RESUME_LATER)
UNREACHABLE = _diagnose_lost("cannot be reached over the network", _RESUME_LATER)
ENDED = _diagnose_lost("ended the connection", _RESUME_LATER)


def diagnose_other(text: str) -> Diagnosis:
    """Return the diagnosis of an unknown error, with the text of the driver."""
    return "final", f"failed: {text[:300]}", "Check it with `sandbur doctor`."


def make_server_error(reading: Diagnosis, name: str) -> ServerError:
    kind, what, hint = reading
    return ServerError(kind, StoreError(f"The store {name} {what}.", hint))
