"""PostgreSQL's errors, sorted by what can be done about them."""

import re

import psycopg

from state.store.servers import readings
from state.store.servers.readings import Reading, trouble_of
from state.store.servers.server import Trouble

_BY_STATE: dict[str, Reading] = {
    "22001": readings.TOO_LONG,
    "22012": readings.REFUSED,  # see `_failing` of the connection
    "23505": readings.DUPLICATE,
    "25006": readings.READ_ONLY,
    "25P03": readings.ENDED,
    "28000": readings.CREDENTIALS,
    "28P01": readings.CREDENTIALS,
    "3D000": readings.NO_DATABASE,
    "3F000": readings.NO_SCHEMA,
    "40001": readings.CROWDED,
    "40P01": readings.CROWDED,
    "42501": readings.NO_RIGHT,
    "42P01": readings.TABLE_LOST,
    "53100": readings.FULL,
    "53200": readings.NO_MEMORY,
    "53300": readings.TOO_MANY,
    "55P03": readings.LOCKED,
    "57014": readings.TOO_SLOW,
    "57P01": readings.ENDED,
    "57P02": readings.ENDED,
    "57P03": readings.STARTING,
    "57P05": readings.ENDED,
}
# A connection that cannot be made has no code, only the library's text.
_BY_TEXT = (
    (r"invalid connection option|invalid \S+ value|invalid integer", readings.BAD_OPTION),
    (r"password|role .* does not exist|authentication failed|no pg_hba", readings.CREDENTIALS),
    (r"database .* does not exist", readings.NO_DATABASE),
    (r"permission denied for database", readings.NO_RIGHT),
    (r"too many (clients|connections)|connection slots", readings.TOO_MANY),
    (r"starting up|shutting down|recovery|not (yet )?accepting", readings.STARTING),
    (r"translate host name|resolve host|Name or service|getaddrinfo", readings.UNKNOWN_HOST),
    (r"refused|No such file or directory\W+Is the server", readings.NOBODY_THERE),
    (r"SSL|certificate|TLS", readings.NO_TLS),
    (r"timeout|timed out|No route|unreachable", readings.NO_WAY),
)


def sorted_error(error: psycopg.Error, name: str) -> Trouble:
    return trouble_of(_reading(error), name)


def _reading(error: psycopg.Error) -> Reading:
    state = error.sqlstate
    text = re.sub(r"\s+", " ", str(error)).strip().rstrip(".")
    if state is not None:
        broke = readings.ENDED if state.startswith("08") else readings.other(text)
        return _BY_STATE.get(state, broke)
    for pattern, reading in _BY_TEXT:
        if re.search(pattern, text):
            return reading
    # Without a code, an error in the middle of the work is the driver's own: the connection is gone.
    return readings.ENDED if isinstance(error, psycopg.OperationalError) else readings.other(text)
