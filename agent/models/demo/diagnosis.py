"""How the demo looks into a slow machine: what it measures, what the output means, and its verdict."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ....state.messages import ToolResult, ToolUse

_Finding = tuple[str, str]
"""A fact, and the problem that it is; empty: none."""

_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(?:/[^\s'\"`<>]*)?")
_WEB_WORDS = re.compile(r"https?://|\b(web|web ?site|site|server|page|shop|api|http|url)s?\b", re.IGNORECASE)
_DISK_WORDS = re.compile(r"\b(disk|disc|storage|space|partition|drive)s?\b", re.IGNORECASE)
_WEB_PORTS = (80, 443, 8080, 8000, 3000, 5000, 8443, 8888, 9000)
_TLS_PORTS = (443, 8443)
_MOST_TRIED_PORTS = 3
_LOCAL_LIMIT_S, _ASKED_LIMIT_S = 2, 10
_PROBLEM = " Problem: "
_TROUBLES = {
    "denied": "A command was denied: {line}",
    "timeout": "A command ran into its time limit.",
    "unknown": "Whether a command ran is unknown.",
    "interrupted": "Whether a command ran is unknown.",
}

_LOAD_COMMAND = """\
cat /proc/loadavg 2>/dev/null || uptime; echo "cores: $(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)"
grep -E '^(MemTotal|MemAvailable):' /proc/meminfo
ps -eo pid,pcpu,pmem,etime,comm 2>/dev/null | LC_ALL=C sort -k2,2 -rn | head -n 20"""
_DISK_COMMAND = "df -Pk 2>/dev/null"
_FOLDER_COMMAND = "du -xk -d 1 . 2>/dev/null | sort -rn | head -n 8"
_WEB_COMMAND = "ss -tln 2>/dev/null || netstat -tln 2>/dev/null && echo '== listed'; command -v curl"
_CURL = (
    "curl -sS -k --noproxy '*' -o /dev/null -m {limit_s} "
    "-w '== %{{url_effective}} %{{http_code}} %{{time_namelookup}} %{{time_starttransfer}} "
    "%{{time_total}}\\n' {url}"
)


class Probe(NamedTuple):
    topic: str
    title: str
    """The step's description; a request about an address adds it after a colon."""
    command: str
    read: Callable[[str], Iterator[_Finding]]
    """Turn the outputs of the step's commands into findings; none: nothing could be read."""
    follow_up: Callable[[str, str], str] = lambda title, output: ""
    """Make the second command of the step's title and the first output; empty: there is none."""


def _rows(pattern: str, text: str) -> list[tuple[str, ...]]:
    """Return the groups of every line that begins like this."""
    return [found.groups("") for found in re.finditer(f"^{pattern}", text, re.MULTILINE)]


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _read_load(text: str) -> Iterator[_Finding]:
    loads = _rows(r"(?:.*load averages?:)?\s*(\d+[.,]\d+),?\s+\d+[.,]\d+,?\s+\d+[.,]\d+(?:\s|$)", text)
    cores = _rows(r"cores: (\d+)", text)
    if loads and cores:
        load, count = _number(loads[0][0]), int(cores[0][0])
        share = load / count
        fact = f"load {load:.2f} over the last minute on {count} cores ({share:.2f} per core)"
        yield fact, f"more work than cores: {share:.2f} runnable tasks per core" if share > 1.0 else ""
    memory = {name: int(size) for name, size in _rows(r"(\w+):\s+(\d+) kB", text)}
    if (total := memory.get("MemTotal")) and "MemAvailable" in memory:
        share = 100 * memory["MemAvailable"] / total
        fact = f"{memory['MemAvailable'] // 1024} of {total // 1024} MB memory available ({share:.0f} %)"
        yield fact, f"only {share:.0f} % of the memory is available" if share < 10 else ""
    row = r"\s*(\d+)\s+(\d+[.,]?\d*)\s+(\d+[.,]?\d*)\s+([\d:-]*\d:\d\d)\s+(\S.*?)\s*$"
    # In its first minute the share says little yet, and the agent itself is among them.
    settled = [found for found in _rows(row, text) if not re.fullmatch(r"0?0:\d\d", found[3])]
    for pid, cpu, used, _, name in settled[:1]:
        who, share = f"{name} (pid {pid})", _number(cpu)
        fact = f"busiest process {who} with {share:.1f} % CPU and {_number(used):.1f} % memory"
        yield fact, f"{who} keeps a core busy at {share:.1f} %" if share >= 80 else ""


def _read_disks(text: str) -> Iterator[_Finding]:
    rows = _rows(r"(\S+)\s+(\d+)\s+\d+\s+(-?\d+)\s+(\d+)%\s+(/.*?)\s*$", text)
    real = [
        (int(used), mount, int(free))
        for device, total, free, used, mount in rows
        if int(total) and (mount == "/" or re.match(r"/(?!dev/loop)", device))
    ]
    if real:
        used, mount, free = max(real, key=lambda disk: disk[0])
        full = [f"{mount} is {used} % full" for used, mount, _ in real if used >= 90]
        yield f"fullest: {mount} at {used} %, {free // 1024} MB free", "; ".join(full)


def _read_folders(text: str) -> Iterator[_Finding]:
    found = sorted(((int(size), name) for size, name in _rows(r"(\d+)\s+(\S.*?)\s*$", text)), reverse=True)
    if found:
        inside = ", ".join(f"{name} {size // 1024} MB" for size, name in found[1:4])
        largest = f"; largest inside: {inside}" if inside else ""
        yield f"this folder holds {found[0][0] // 1024} MB{largest}", ""


def _listeners(text: str) -> dict[int, str]:
    """Return port and address of who listens for TCP, from `ss` or `netstat`."""
    rows = _rows(r"(?:LISTEN|tcp).*?(\S+):(\d+)\s+\S+:\*", text)
    return {int(port): address.partition("%")[0] for address, port in reversed(rows)}


def _url_in(text: str) -> str:
    found = _URL.search(text)
    return found[0].rstrip(".,;:!?)") if found else ""


def _time_web(title: str, output: str) -> str:
    """Time the address of the request, and whoever listens on this machine where web servers do."""
    if not _rows(r"/.*curl$", output):
        return ""
    asked, listeners = _url_in(title), _listeners(output)
    limits = {asked: _ASKED_LIMIT_S} if asked else {}
    for port in [port for port in _WEB_PORTS if port in listeners][:_MOST_TRIED_PORTS]:
        address = listeners[port]
        host = "127.0.0.1" if address in ("0.0.0.0", "*", "[::]", "::") else address
        limits.setdefault(f"{'https' if port in _TLS_PORTS else 'http'}://{host}:{port}/", _LOCAL_LIMIT_S)
    return "; ".join(_CURL.format(limit_s=limit, url=shlex.quote(url)) for url, limit in limits.items())


def _read_web(text: str) -> Iterator[_Finding]:
    timings = _rows(r"== (\S+) (\d{3}) ([\d.,]+) ([\d.,]+) ([\d.,]+)$", text)
    ports = sorted(_listeners(text))
    if "== listed" in text:
        problem = "" if ports or timings else "no web server listens on this machine"
        yield f"listening TCP ports: {', '.join(map(str, ports)) or 'none'}", problem
        if not timings:
            yield "nothing was timed", ""
    for url, status, *seconds in timings:
        yield _judged(url, int(status), *map(_number, seconds))
    if timings and not any(int(status) for _, status, *_ in timings):
        yield "nothing answered", "no address answers HTTP"


def _judged(url: str, status: int, lookup_s: float, first_byte_s: float, total_s: float) -> _Finding:
    if not status:
        return f"{url} gave no HTTP answer ({total_s:.3f} s)", ""
    problems = {
        f"{url} fails with {status}": status >= 500,
        f"looking up the name of {url} takes {lookup_s:.3f} s": lookup_s > 0.5,
        f"{url} needs {first_byte_s:.3f} s until its first byte": first_byte_s > 1.0,
    }
    fact = f"{url} answered {status} in {total_s:.3f} s (first byte after {first_byte_s:.3f} s)"
    return fact, "; ".join(problem for problem, is_one in problems.items() if is_one)


LOAD = Probe("Load", "Measure CPU load, memory and the busiest process", _LOAD_COMMAND, _read_load)
WEB = Probe(
    "Web", "Find out who listens for web requests and time the answers", _WEB_COMMAND, _read_web, _time_web
)
DISK = Probe("Disk", "Check how full the disks are", _DISK_COMMAND, _read_disks)
FOLDERS = Probe("Folders", "Find the largest folders below this one", _FOLDER_COMMAND, _read_folders)


def planned_steps(goal: str, ended: Sequence[str]) -> list[str]:
    """Return the titles of the goal's measurements but for those of which the `ended` summaries tell."""
    probes = (DISK, FOLDERS) if _DISK_WORDS.search(goal) else (LOAD, DISK)
    probes = (LOAD, WEB, DISK) if _WEB_WORDS.search(goal) else probes
    dealt_with = {summary.partition(":")[0] for summary in ended}
    titles = {WEB: f"{WEB.title}: {url}"} if (url := _url_in(goal)) else {}
    return [titles.get(probe, probe.title) for probe in probes if probe.topic not in dealt_with]


class Next(NamedTuple):
    """A command that a step runs, or how it ends."""

    said: str
    """Beside the command; the summary of the end."""
    command: str = ""
    status: Literal["completed", "failed"] = "completed"


def next_in_step(title: str, done: Sequence[tuple[ToolUse, ToolResult]]) -> Next:
    """Run the step's command, then the one that its output asks for; a lost one once more; conclude."""
    probe = next((probe for probe in (LOAD, WEB, DISK, FOLDERS) if title.startswith(probe.title)), None)
    if probe is None:
        return Next(f"The demo has no program for: {title or 'this step'}", status="failed")
    # What failed or ran too long may still have printed something.
    outputs = [result.content for _, result in done if result.outcome in ("ok", "error", "timeout")]
    command = probe.follow_up(title, outputs[0]) if outputs else probe.command
    command = command if len(outputs) < 2 else ""
    tries = [use.arguments for use, _ in done]
    outcome = done[-1][1].outcome if done else "ok"
    if command and outcome in ("ok", "error"):
        return Next("", command)
    if command and outcome in ("unknown", "interrupted") and tries.count(tries[-1]) < 2:
        return Next("It is unknown whether that command ran. It only reads, so I run it again.", command)
    return _conclusion(probe, outputs, [result for _, result in done])


def _conclusion(probe: Probe, outputs: list[str], results: list[ToolResult]) -> Next:
    findings = list(probe.read("\n".join(outputs)))
    lines = [(one.outcome, f"{one.content.strip()}\n".splitlines()[0][:200]) for one in results]
    told = [_TROUBLES[outcome].format(line=line) for outcome, line in lines if outcome in _TROUBLES]
    trouble = " ".join(dict.fromkeys(told))
    if not findings:
        why = trouble or f"The command printed nothing readable. {lines[-1][1]}"
        return Next(f"{probe.topic}: not measured. {why}".strip(), status="failed")
    found = "; ".join(problem for _, problem in findings if problem)
    facts = f"{probe.topic}: {'; '.join(fact for fact, _ in findings)}. {trouble}".strip()
    return Next(f"{facts}{_PROBLEM}{found}." if found else facts)


def report(steps: Sequence[tuple[str, str]]) -> str:
    """Sum the plan up of status and summary of its steps: the verdict first, then what each found."""
    measured = [summary.partition(_PROBLEM) for status, summary in steps if status == "completed"]
    problems = [problem.strip() for _, _, problem in measured if problem]
    verdict = (
        "Nothing that was measured on this machine explains it. What was not looked at: the application's "
        "own logs, its database, and the network between it and its users."
    )
    if problems:
        verdict = "Most likely the cause: " + " Also: ".join(problems)
    elif not measured:
        verdict = "I could not measure anything, so I cannot say what the cause is."
    found = "\n".join(
        f"- {summary.partition(_PROBLEM)[0]}{'' if status == 'completed' else ' (failed)'}"
        for status, summary in steps
    )
    return f"{verdict}\n\n{found}".strip()
