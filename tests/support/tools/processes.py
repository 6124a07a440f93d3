"""Lists processes of this machine for tests."""

import os
from contextlib import suppress
from pathlib import Path


def alive(marker: str) -> list[str]:
    """Return the command lines of the processes that name `marker`, zombies not counted."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = entry.joinpath("stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker in command and state != "Z" and int(entry.name) != os.getpid():
            found.append(command)
    return found


def supervisors(agent: int) -> list[int]:
    """Return the supervisors of an agent's commands that have claimed a call."""
    claimed = [pid for pid in below(agent) if any(path.endswith("/started") for path in open_files(pid))]
    return [pid for pid in claimed if parent_of(pid) not in claimed]


def at_work_in(folder: Path) -> list[int]:
    """Return the processes that have their working folder or an open file below a folder."""
    place = f"{folder.resolve()}/"
    found = (int(entry.name) for entry in Path("/proc").glob("[0-9]*") if int(entry.name) != os.getpid())
    return [
        pid
        for pid in found
        if any(f"{path}/".startswith(place) for path in (*open_files(pid), working_folder(pid)))
    ]


def working_folder(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def below(pid: int) -> list[int]:
    """Return all descendants of a process."""
    found: list[int] = []
    # The kernel lists children by the thread that started them.
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += (child, *below(child))
    return found


def state_of(pid: int) -> str:
    """Return the letter of a process's state; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def open_files(pid: int) -> list[str]:
    try:
        return [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []
