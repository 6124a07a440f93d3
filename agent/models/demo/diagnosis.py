"""The demo's diagnosis of a slow machine: its measurements, the analysis of their output, and the report."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from ....state.conversation.messages import Outcome, ToolResult, ToolUse
from .english import ENGLISH
from .languages import LANGUAGES, speaks_of_disk, speaks_of_web
from .phrases import Phrases, Topic

_Finding = tuple[str, str]
"""A fact, and the problem that it shows. The problem is empty if there is none."""

# In Chinese text no blank separates an address from the words after it.
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(?:/[^\s'\"`<>\u3000-\u303f\u3400-\u9fff\uff00-\uffef]*)?")
_WEB_PORTS = (80, 443, 8080, 8000, 3000, 5000, 8443, 8888, 9000)
_TLS_PORTS = (443, 8443)
_MOST_TRIED_PORTS = 3
_LOCAL_LIMIT_S, _ASKED_LIMIT_S = 2, 10
_READABLE: tuple[Outcome, ...] = ("ok", "error", "timeout")
"""The outcomes whose output is used: that of a command that failed or timed out may still be useful."""

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
    """One measurement of a step, in one language."""

    phrases: Phrases
    topic: str
    title: str
    """The description of the step. The address of a web request is added to it."""
    command: str
    read: Callable[[str], Iterator[_Finding]]
    """Turns the outputs of the commands into findings; yields none if nothing can be parsed."""
    follow_up: Callable[[str, str], str]
    """Builds the second command from the step's title and the first output; empty if none is needed."""


def _rows(pattern: str, text: str) -> list[tuple[str, ...]]:
    """Return the groups of each line whose start matches `pattern`."""
    return [found.groups("") for found in re.finditer(f"^{pattern}", text, re.MULTILINE)]


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _read_load(phrases: Phrases, text: str) -> Iterator[_Finding]:
    loads = _rows(r"(?:.*load averages?:)?\s*(\d+[.,]\d+),?\s+\d+[.,]\d+,?\s+\d+[.,]\d+(?:\s|$)", text)
    cores = _rows(r"cores: (\d+)", text)
    if loads and cores:
        load, count = _number(loads[0][0]), int(cores[0][0])
        share = load / count
        fact = phrases.load.format(load=load, cores=count, share=share)
        yield fact, phrases.overloaded.format(share=share) if share > 1.0 else ""
    memory = {name: int(size) for name, size in _rows(r"(\w+):\s+(\d+) kB", text)}
    if (total := memory.get("MemTotal")) and "MemAvailable" in memory:
        share = 100 * memory["MemAvailable"] / total
        available = memory["MemAvailable"] // 1024
        fact = phrases.memory.format(available=available, total=total // 1024, share=share)
        yield fact, phrases.little_memory.format(share=share) if share < 10 else ""
    row = r"\s*(\d+)\s+(\d+[.,]?\d*)\s+(\d+[.,]?\d*)\s+([\d:-]*\d:\d\d)\s+(\S.*?)\s*$"
    # In a process's first minute its CPU share means little, and the agent itself is such a process.
    settled = [found for found in _rows(row, text) if not re.fullmatch(r"0?0:\d\d", found[3])]
    for pid, cpu, used, _, name in settled[:1]:
        process, share = phrases.process.format(name=name, pid=pid), _number(cpu)
        fact = phrases.busiest.format(process=process, cpu=share, memory=_number(used))
        yield fact, phrases.busy_core.format(process=process, cpu=share) if share >= 80 else ""


def _read_disks(phrases: Phrases, text: str) -> Iterator[_Finding]:
    rows = _rows(r"(\S+)\s+(\d+)\s+\d+\s+(-?\d+)\s+(\d+)%\s+(/.*?)\s*$", text)
    real = [
        (int(used), mount, int(free))
        for device, total, free, used, mount in rows
        if int(total) and (mount == "/" or re.match(r"/(?!dev/loop)", device))
    ]
    if real:
        used, mount, free = max(real, key=lambda disk: disk[0])
        full = [phrases.full.format(mount=mount, used=used) for used, mount, _ in real if used >= 90]
        fact = phrases.fullest.format(mount=mount, used=used, free=free // 1024)
        yield fact, phrases.semicolon.join(full)


def _read_folders(phrases: Phrases, text: str) -> Iterator[_Finding]:
    found = sorted(((int(size), name) for size, name in _rows(r"(\d+)\s+(\S.*?)\s*$", text)), reverse=True)
    if found:
        inside = [phrases.folder_size.format(name=name, size=size // 1024) for size, name in found[1:4]]
        largest = phrases.largest.format(folders=phrases.comma.join(inside)) if inside else ""
        yield f"{phrases.folder.format(size=found[0][0] // 1024)}{largest}", ""


def _listeners(text: str) -> dict[int, str]:
    """Return port -> address of each listening TCP socket, from the output of `ss` or `netstat`."""
    rows = _rows(r"(?:LISTEN|tcp).*?(\S+):(\d+)\s+\S+:\*", text)
    return {int(port): address.partition("%")[0] for address, port in reversed(rows)}


def _url_in(text: str) -> str:
    found = _URL.search(text)
    return found[0].rstrip(".,;:!?)") if found else ""


def _time_web(title: str, output: str) -> str:
    """Build the command that times the requested address, and local servers on the usual web ports."""
    if not _rows(r"/.*curl$", output):
        return ""
    asked, listeners = _url_in(title), _listeners(output)
    limits = {asked: _ASKED_LIMIT_S} if asked else {}
    for port in [port for port in _WEB_PORTS if port in listeners][:_MOST_TRIED_PORTS]:
        address = listeners[port]
        host = "127.0.0.1" if address in ("0.0.0.0", "*", "[::]", "::") else address
        limits.setdefault(f"{'https' if port in _TLS_PORTS else 'http'}://{host}:{port}/", _LOCAL_LIMIT_S)
    return "; ".join(_CURL.format(limit_s=limit, url=shlex.quote(url)) for url, limit in limits.items())


def _read_web(phrases: Phrases, text: str) -> Iterator[_Finding]:
    timings = _rows(r"== (\S+) (\d{3}) ([\d.,]+) ([\d.,]+) ([\d.,]+)$", text)
    ports = sorted(_listeners(text))
    if "== listed" in text:
        listed = phrases.comma.join(map(str, ports)) or phrases.no_ports
        yield phrases.ports.format(ports=listed), "" if ports or timings else phrases.no_listener
        if not timings:
            yield phrases.not_timed, ""
    for url, status, *seconds in timings:
        yield _judge_response(phrases, url, int(status), *map(_number, seconds))
    if timings and not any(int(status) for _, status, *_ in timings):
        yield phrases.nothing_answered, phrases.no_answer_anywhere


def _judge_response(
    phrases: Phrases, url: str, status: int, lookup_s: float, first_byte_s: float, total_s: float
) -> _Finding:
    if not status:
        return phrases.no_answer.format(url=url, total=total_s), ""
    problems = {
        phrases.fails.format(url=url, status=status): status >= 500,
        phrases.slow_lookup.format(url=url, lookup=lookup_s): lookup_s > 0.5,
        phrases.slow_first_byte.format(url=url, first_byte=first_byte_s): first_byte_s > 1.0,
    }
    fact = phrases.answered.format(url=url, status=status, total=total_s, first_byte=first_byte_s)
    return fact, phrases.semicolon.join(problem for problem, is_one in problems.items() if is_one)


def _no_follow_up(title: str, output: str) -> str:
    return ""


def _probes_in(phrases: Phrases) -> dict[Topic, Probe]:
    def probe(
        topic: Topic,
        command: str,
        read: Callable[[Phrases, str], Iterator[_Finding]],
        follow_up: Callable[[str, str], str] = _no_follow_up,
    ) -> Probe:
        titles = phrases.topics[topic], phrases.titles[topic]
        return Probe(phrases, *titles, command, partial(read, phrases), follow_up)

    return {
        "load": probe("load", _LOAD_COMMAND, _read_load),
        "web": probe("web", _WEB_COMMAND, _read_web, _time_web),
        "disk": probe("disk", _DISK_COMMAND, _read_disks),
        "folders": probe("folders", _FOLDER_COMMAND, _read_folders),
    }


_PROBES = [_probes_in(phrases) for phrases in LANGUAGES]
LOAD, WEB, DISK, FOLDERS = _PROBES[LANGUAGES.index(ENGLISH)].values()


def plan_steps(goal: str, ended: Sequence[str], phrases: Phrases = ENGLISH) -> list[str]:
    """Return the titles of the measurements for a goal, without those in the summaries `ended`."""
    topics: tuple[Topic, ...] = ("disk", "folders") if speaks_of_disk(goal) else ("load", "disk")
    topics = ("load", "web", "disk") if speaks_of_web(goal) else topics
    dealt_with = {summary.partition(phrases.colon.strip())[0] for summary in ended}
    titles = dict(phrases.titles)
    if url := _url_in(goal):
        titles["web"] += f"{phrases.colon}{url}"
    return [titles[topic] for topic in topics if phrases.topics[topic] not in dealt_with]


class Next(NamedTuple):
    """The next command of a step, or the end of the step."""

    reply: str
    """The text with the command, or the summary at the end."""
    command: str = ""
    status: Literal["completed", "failed"] = "completed"


def next_in_step(title: str, done: Sequence[tuple[ToolUse, ToolResult]]) -> Next | None:
    """Return the command of a step, then its follow-up, then the conclusion.

    A command whose outcome is unknown is repeated once. Return None if no measurement has this title.
    """
    probes = (probe for known in _PROBES for probe in known.values())
    probe = next((probe for probe in probes if title.startswith(probe.title)), None)
    if probe is None:
        return None
    outputs = [result.content for _, result in done if result.outcome in _READABLE]
    command = probe.follow_up(title, outputs[0]) if outputs else probe.command
    command = command if len(outputs) < 2 else ""
    tries = [use.arguments for use, _ in done]
    outcome = done[-1][1].outcome if done else "ok"
    if command and outcome in ("ok", "error"):
        return Next("", command)
    if command and outcome in ("unknown", "interrupted") and tries.count(tries[-1]) < 2:
        return Next(probe.phrases.run_again, command)
    return _conclusion(probe, outputs, [result for _, result in done])


def _conclusion(probe: Probe, outputs: list[str], results: list[ToolResult]) -> Next:
    phrases, findings = probe.phrases, list(probe.read("\n".join(outputs)))
    lines = [(one.outcome, f"{one.content.strip()}\n".splitlines()[0][:200]) for one in results]
    known = phrases.troubles
    troubles = [known[outcome].format(line=line) for outcome, line in lines if outcome in known]
    trouble = " ".join(dict.fromkeys(troubles))
    if not findings:
        why = trouble or phrases.unreadable.format(line=lines[-1][1])
        return Next(phrases.not_measured.format(topic=probe.topic, why=why).strip(), status="failed")
    facts = phrases.semicolon.join(fact for fact, _ in findings)
    summary = phrases.measured.format(topic=probe.topic, facts=facts, trouble=trouble).strip()
    problems = phrases.semicolon.join(problem for _, problem in findings if problem)
    if problems:
        summary += f"{phrases.problem_mark}{phrases.problems.format(problems=problems)}"
    return Next(summary)


def report(steps: Sequence[tuple[str, str]], phrases: Phrases = ENGLISH) -> str:
    """Return the report on steps, each given by status and summary. The verdict comes first, then the
    findings."""
    parts = [(status, *summary.partition(phrases.problem_mark)) for status, summary in steps]
    measured = [problem.strip() for status, _, _, problem in parts if status == "completed"]
    problems = list(filter(None, measured))
    verdict = phrases.unexplained if measured else phrases.unmeasured
    if problems:
        verdict = phrases.likely.format(problems=phrases.also.join(problems))
    found = "\n".join(
        f"- {facts}{'' if status == 'completed' else phrases.failed_mark}" for status, facts, _, _ in parts
    )
    return f"{verdict}\n\n{found}".strip()
