"""What can go wrong with a database server, in a person's words: each as (kind, what, hint)."""

from state.errors import StoreError
from state.store.servers.server import Kind, Trouble

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
