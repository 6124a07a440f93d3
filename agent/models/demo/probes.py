"""The measurements of the demo: which commands they run, and what their output means."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


def read_sections(output: str) -> Mapping[str, str]:
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


def read_processes(text: str) -> list[Process]:
    """Return the processes of `ps -o pid,pcpu,pmem,etime,comm` that have run for a while."""
    found = [match for match in _PROCESS.finditer(text) if not _YOUNG.fullmatch(match[4])]
    return [Process(int(m[1]), _number(m[2]), _number(m[3]), m[5]) for m in found]


def read_disks(text: str) -> list[Disk]:
    """Return the real file systems of `df -P`, each once."""
    found: dict[tuple[str, int], Disk] = {}
    for match in _DISK.finditer(text):
        device, mount = match[1], match[6]
        is_real = device.startswith("/") and not device.startswith("/dev/loop")
        if (is_real or mount == "/") and int(match[2]) > 0:
            disk = Disk(mount, int(match[2]), int(match[4]), int(match[5]))
            found.setdefault((device, disk.total), disk)
    return list(found.values())


def read_listeners(text: str) -> list[Listener]:
    """Return who listens for TCP, from `ss`, `netstat` or `/proc/net/tcp`, each port once."""
    found: dict[int, Listener] = {}
    for listener in (*_listed(text), *_in_table(text)):
        found.setdefault(listener.port, listener)
    return sorted(found.values(), key=lambda listener: listener.port)


def read_timings(text: str) -> list[Timing]:
    return [
        Timing(m[1], int(m[2]), _number(m[3]), _number(m[4]), _number(m[5]), _number(m[6]))
        for m in _TIMING.finditer(text)
    ]


def read_folders(text: str) -> list[tuple[int, str]]:
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


_LOAD_COMMAND = """\
echo '== load'; cat /proc/loadavg 2>/dev/null || uptime
echo '== cores'; nproc 2>/dev/null || getconf _NPROCESSORS_ONLN
echo '== memory'; grep -E '^(MemTotal|MemAvailable|SwapTotal|SwapFree):' /proc/meminfo
echo '== processes'; ps -eo pid,pcpu,pmem,etime,comm 2>/dev/null | LC_ALL=C sort -k2,2 -rn | head -n 20"""
_DISK_COMMAND = "echo '== space'; df -Pk 2>/dev/null; echo '== inodes'; df -Pi 2>/dev/null"
_FOLDER_COMMAND = "du -xk -d 1 . 2>/dev/null | sort -rn | head -n 8"
_WEB_COMMAND = """\
echo '== listeners'; ss -tln 2>/dev/null || netstat -tln 2>/dev/null || cat /proc/net/tcp /proc/net/tcp6
echo '== servers'; ps -eo comm 2>/dev/null | sort -u | grep -E -x 'nginx|apache2|httpd|caddy|haproxy|node'
echo '== curl'; command -v curl"""
_CURL = (
    "curl -sS -k --noproxy '*' -o /dev/null -m {limit_s} "
    "-w '== %{{url_effective}} %{{http_code}} %{{time_namelookup}} %{{time_connect}} %{{time_starttransfer}} "
    "%{{time_total}}\\n' {url}"
)
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(?:/[^\s'\"`<>]*)?")
_USUAL_WEB_PORTS = (80, 443, 8080, 8000, 3000, 5000, 8443, 8888, 9000)
_OTHER_SERVICES = frozenset((
    21, 22, 23, 25, 53, 88, 110, 111, 139, 143, 389, 445, 465, 587, 631, 636, 873, 993, 995, 1433,
    1521, 2049, 1883, 2181, 2375, 2379, 3306, 3389, 4222, 4369, 5432, 5672, 5900, 6379, 6666, 8883,
    9042, 9092, 9300, 11211, 11434, 25672, 27017, 61613, 61616,
))  # fmt: skip
_MAX_TRIED_PORTS = 3
_LOCAL_LIMIT_S = 2
_ASKED_LIMIT_S = 10


@dataclass(frozen=True, slots=True)
class Reading:
    facts: tuple[str, ...]
    """Empty: nothing could be read."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    topic: str
    title: str
    """The step's description; a request about an address adds it behind a colon."""
    command: str
    conclude: Callable[[Sequence[str]], Reading]
    follow_up: Callable[[str, str], str | None] = lambda title, output: None
    """Make the second command of the step's title and the first output."""


def url_in(text: str) -> str | None:
    found = _URL.search(text)
    return found[0].rstrip(".,;:!?)") if found else None


def _conclude_load(outputs: Sequence[str]) -> Reading:
    parts = read_sections(outputs[0])
    facts: list[str] = []
    problems: list[str] = []
    load, cores = load_average(parts.get("load", "")), whole_number(parts.get("cores", ""))
    if load is not None and cores:
        facts.append(f"load {load:.2f} over the last minute on {cores} cores ({load / cores:.2f} per core)")
        if load / cores > 1.0:
            problems.append(f"more work than cores: {load / cores:.2f} runnable tasks per core")
    _read_memory(parts.get("memory", ""), facts, problems)
    for process in read_processes(parts.get("processes", ""))[:1]:
        name, cpu = f"{process.name} (pid {process.pid})", f"{process.cpu_percent:.1f} %"
        facts.append(f"busiest process {name} with {cpu} CPU and {process.memory_percent:.1f} % memory")
        if process.cpu_percent >= 80:
            problems.append(f"{name} keeps a core busy at {cpu}")
    return Reading(tuple(facts), tuple(problems))


def _read_memory(text: str, facts: list[str], problems: list[str]) -> None:
    total, available = kilobytes(text, "MemTotal"), kilobytes(text, "MemAvailable")
    if not total or available is None:
        return
    percent = 100 * available / total
    facts.append(f"{available // 1024} of {total // 1024} MB memory available ({percent:.0f} %)")
    if percent < 10:
        problems.append(f"only {percent:.0f} % of the memory is available")
    swap, free = kilobytes(text, "SwapTotal"), kilobytes(text, "SwapFree")
    if swap and free is not None:
        used = 100 * (swap - free) / swap
        facts.append(f"swap {used:.0f} % used")
        if used > 50:
            problems.append(f"swap is {used:.0f} % used")


def _conclude_disk(outputs: Sequence[str]) -> Reading:
    parts = read_sections(outputs[0])
    facts: list[str] = []
    problems: list[str] = []
    for kind in ("space", "inodes"):
        disks = sorted(read_disks(parts.get(kind, "")), key=lambda disk: disk.used_percent)
        for disk in disks[-1:]:
            free = f", {disk.free // 1024} MB free" if kind == "space" else ""
            facts.append(f"fullest by {kind}: {disk.mount} at {disk.used_percent} %{free}")
        problems += [f"{d.mount} is {d.used_percent} % full ({kind})" for d in disks if d.used_percent >= 90]
    return Reading(tuple(facts), tuple(problems))


def _conclude_folders(outputs: Sequence[str]) -> Reading:
    found = read_folders(outputs[0])
    if not found:
        return Reading(())
    total = found[0][0]
    parts = [f"{folder} {size // 1024} MB" for size, folder in found[1:4]]
    largest = f"; largest inside: {', '.join(parts)}" if parts else ""
    return Reading((f"this folder holds {total // 1024} MB{largest}",))


def _measure_web(title: str, output: str) -> str | None:
    """Time the address of the request, and whoever listens on this machine like a web server."""
    parts = read_sections(output)
    if not parts.get("curl", "").strip().startswith("/"):
        return None
    asked = url_in(title)
    candidates = [entry for entry in read_listeners(parts.get("listeners", "")) if _may_be_web(entry.port)]
    candidates.sort(key=lambda entry: (entry.port not in _USUAL_WEB_PORTS, entry.port))
    local = [_local_url(entry) for entry in candidates[:_MAX_TRIED_PORTS]]
    timed = [_timed(asked, _ASKED_LIMIT_S)] if asked else []
    timed += [_timed(url, _LOCAL_LIMIT_S) for url in local if not asked or not asked.startswith(url)]
    return "; ".join(timed) or None


def _timed(url: str, limit_s: int) -> str:
    return _CURL.format(limit_s=limit_s, url=shlex.quote(url))


def _may_be_web(port: int) -> bool:
    return port not in _OTHER_SERVICES


def _local_url(listener: Listener) -> str:
    scheme = "https" if listener.port in (443, 8443) else "http"
    return f"{scheme}://{listener.address}:{listener.port}/"


def _conclude_web(outputs: Sequence[str]) -> Reading:
    parts = read_sections(outputs[0])
    if "listeners" not in parts:
        return Reading(())
    ports = [str(listener.port) for listener in read_listeners(parts["listeners"])]
    servers = parts.get("servers", "").split()
    facts = [f"listening TCP ports: {', '.join(ports) or 'none'}"]
    facts.append(f"web server processes: {', '.join(servers) or 'none of the usual ones'}")
    if len(outputs) < 2:
        facts.append("nothing was timed" if ports else "nobody listens here, so nothing was timed")
        return Reading(tuple(facts), () if ports else ("no web server listens on this machine",))
    problems: list[str] = []
    timed = read_timings(outputs[1])
    for timing in timed:
        fact, problem = _judged(timing)
        facts.append(fact)
        problems += problem
    if timed and not any(timing.status for timing in timed):
        problems.append("no address answers HTTP")
    return Reading(tuple(facts), tuple(problems))


def _judged(timing: Timing) -> tuple[str, list[str]]:
    if not timing.status:
        return f"{timing.url} gave no HTTP answer ({timing.total_s:.3f} s)", []
    fact = (
        f"{timing.url} answered {timing.status} in {timing.total_s:.3f} s "
        f"(first byte after {timing.first_byte_s:.3f} s)"
    )
    problems: list[str] = []
    if timing.status >= 500:
        problems.append(f"{timing.url} fails with {timing.status}")
    if timing.lookup_s > 0.5:
        problems.append(f"looking up the name of {timing.url} takes {timing.lookup_s:.3f} s")
    if timing.first_byte_s > 1.0:
        problems.append(f"{timing.url} needs {timing.first_byte_s:.3f} s until its first byte")
    return fact, problems


LOAD = Probe("Load", "Measure CPU load, memory and the busiest process", _LOAD_COMMAND, _conclude_load)
WEB = Probe(
    "Web",
    "Find out who listens for web requests and time the answers",
    _WEB_COMMAND,
    _conclude_web,
    _measure_web,
)
DISK = Probe("Disk", "Check how full the disks are, by space and by inodes", _DISK_COMMAND, _conclude_disk)
FOLDERS = Probe("Folders", "Find the largest folders below this one", _FOLDER_COMMAND, _conclude_folders)
PROBES = (LOAD, WEB, DISK, FOLDERS)
