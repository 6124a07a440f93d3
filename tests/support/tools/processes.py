"""The processes of this machine, as tests look at them."""

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
    """Return the processes that watch over commands of an agent: those that have claimed a call."""
    claimed = [pid for pid in below(agent) if any(path.endswith("/started") for path in open_files(pid))]
    return [pid for pid in claimed if parent_of(pid) not in claimed]


def below(pid: int) -> list[int]:
    """Return the processes that one started, and those that they started."""
    found: list[int] = []
    # Each thread has its own children.
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += (child, *below(child))
    return found


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
