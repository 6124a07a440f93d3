"""Read numbers out of what system commands print; what is not there is None or missing, never guessed."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SECTION = re.compile(r"^== (\w+)$", re.MULTILINE)
_LOAD = re.compile(
    r"^\s*(\d+[.,]\d+)\s+(\d+[.,]\d+)\s+(\d+[.,]\d+)\s|load averages?:\s*(\d+[.,]\d+)", re.MULTILINE
)
_PROCESS = re.compile(
    r"^\s*(\d+)\s+(\d+(?:[.,]\d+)?)\s+(\d+(?:[.,]\d+)?)\s+([\d:-]*\d:\d\d)\s+(\S.*?)\s*$", re.MULTILINE
)
_YOUNG = re.compile(r"0?0:\d\d")
"""Less than a minute: the share of the CPU says little yet, and the agent itself is among them."""
_DISK = re.compile(r"^(\S+)\s+(\d+)\s+(\d+)\s+(-?\d+)\s+(\d+)%\s+(/.*?)\s*$", re.MULTILINE)
_LISTENER = re.compile(
    r"^(?:LISTEN\s+\d+\s+\d+\s+(\S+):(\d+)\s|tcp\S*\s+\d+\s+\d+\s+(\S+):(\d+)\s.*\bLISTEN\b)", re.MULTILINE
)
_LISTENER_TABLE = re.compile(r"^\s*\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) \S+ 0A ", re.MULTILINE)
_TIMING = re.compile(r"^== (\S+) (\d{3}) ([\d.,]+) ([\d.,]+) ([\d.,]+) ([\d.,]+)$", re.MULTILINE)
_FOLDER = re.compile(r"^(\d+)\s+(\S.*?)\s*$", re.MULTILINE)


class Process(NamedTuple):
    pid: int
    cpu_percent: float
    memory_percent: float
    name: str


class Disk(NamedTuple):
    mount: str
    total: int
    free: int
    used_percent: int


class Listener(NamedTuple):
    address: str
    port: int


class Timing(NamedTuple):
    url: str
    status: int
    """0: no HTTP answer."""
    lookup_s: float
    connect_s: float
    first_byte_s: float
    total_s: float


def sections(output: str) -> Mapping[str, str]:
    """Split an output at its `== name` lines."""
    parts = _SECTION.split(output)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def load_average(text: str) -> float | None:
    """Return the load of the last minute from `/proc/loadavg` or `uptime`."""
    found = _LOAD.search(text)
    return _number(found[1] or found[4]) if found else None


def whole_number(text: str) -> int | None:
    found = re.search(r"^\s*(\d+)\s*$", text, re.MULTILINE)
    return int(found[1]) if found else None


def kilobytes(text: str, name: str) -> int | None:
    """Return one value of `/proc/meminfo`."""
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else None


def processes(text: str) -> list[Process]:
    """Return the processes of `ps -o pid,pcpu,pmem,etime,comm` that have run for a while."""
    found = [match for match in _PROCESS.finditer(text) if not _YOUNG.fullmatch(match[4])]
    return [Process(int(m[1]), _number(m[2]), _number(m[3]), m[5]) for m in found]


def disks(text: str) -> list[Disk]:
    """Return the real file systems of `df -P`, each once."""
    found: dict[tuple[str, int], Disk] = {}
    for match in _DISK.finditer(text):
        device, mount = match[1], match[6]
        is_real = device.startswith("/") and not device.startswith("/dev/loop")
        if (is_real or mount == "/") and int(match[2]) > 0:
            disk = Disk(mount, int(match[2]), int(match[4]), int(match[5]))
            found.setdefault((device, disk.total), disk)
    return list(found.values())


def listeners(text: str) -> list[Listener]:
    """Return who listens for TCP, from `ss`, `netstat` or `/proc/net/tcp`, each port once."""
    found: dict[int, Listener] = {}
    for listener in (*_listed(text), *_in_table(text)):
        found.setdefault(listener.port, listener)
    return sorted(found.values(), key=lambda listener: listener.port)


def timings(text: str) -> list[Timing]:
    return [
        Timing(m[1], int(m[2]), _number(m[3]), _number(m[4]), _number(m[5]), _number(m[6]))
        for m in _TIMING.finditer(text)
    ]


def folders(text: str) -> list[tuple[int, str]]:
    """Return (kilobytes, folder) of `du -k`, the largest first."""
    return sorted(((int(m[1]), m[2]) for m in _FOLDER.finditer(text)), reverse=True)


def _number(text: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return 0.0


def _listed(text: str) -> Iterator[Listener]:
    for match in _LISTENER.finditer(text):
        address = (match[1] or match[3]).partition("%")[0]
        everywhere = address in ("0.0.0.0", "*", "[::]", "::", "") or address.startswith("127.")
        yield Listener("127.0.0.1" if everywhere else address, int(match[2] or match[4]))


def _in_table(text: str) -> Iterator[Listener]:
    for match in _LISTENER_TABLE.finditer(text):
        yield Listener("127.0.0.1", int(match[2], 16))
