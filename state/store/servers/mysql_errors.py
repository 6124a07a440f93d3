"""MySQL's and MariaDB's errors, sorted by what can be done about them."""

import re
import ssl

from state.store.servers import readings
from state.store.servers.readings import Reading, trouble_of
from state.store.servers.server import Trouble

_BY_CODE: dict[Reading, tuple[int, ...]] = {
    readings.DUPLICATE: (1062,),
    readings.CROWDED: (1020, 1213),
    readings.LOCKED: (1205,),
    readings.TOO_MANY: (1040, 1203, 1226),
    readings.CREDENTIALS: (1045, 1130, 1251, 1698, 2059),
    readings.NO_DATABASE: (1049,),
    readings.NO_RIGHT: (1044, 1142, 1143, 1227, 1370),
    readings.READ_ONLY: (1290, 1792, 1836),
    readings.TABLE_LOST: (1146,),
    readings.FULL: (1021, 1114),
    readings.NO_MEMORY: (1037, 1038, 1041),
    readings.TOO_LARGE: (1153,),
    readings.TOO_SLOW: (1317, 1969, 3024),
    readings.TOO_LONG: (1366, 1406),
    readings.BLOCKED: (1129,),
    readings.NO_TLS: (2026, 3159, 4005),
    # 0: the driver's side is closed already.
    readings.ENDED: (0, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1927, 2006, 2013, 2055, 4031),
}
_READINGS = {code: reading for reading, codes in _BY_CODE.items() for code in codes}
_NOT_CONNECTED = (2002, 2003, 2005)


def sorted_error(error: Exception, name: str) -> Trouble:
    return trouble_of(_reading(error), name)


def _reading(error: Exception) -> Reading:
    if isinstance(getattr(error, "original_exception", error), ssl.SSLError):
        return readings.NO_TLS
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = re.sub(r"\s+", " ", str(error.args[-1] if error.args else error)).strip().rstrip(".")
    if code in _NOT_CONNECTED:
        return _unreachable(text)
    return _READINGS.get(code) or readings.other(text)


def _unreachable(text: str) -> Reading:
    if re.search(r"Name or service|resolution|nodename|getaddrinfo", text):
        return readings.UNKNOWN_HOST
    return readings.NOBODY_THERE if re.search(r"refused|No such file", text) else readings.NO_WAY
