"""Runs programs in namespaces in which folders are copies at the same paths, and tests whether that works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from ....state.lazy_dataclass import dataclass
from .launch import FAILED

MountKind = Literal["overlay", "bind"]
_LAUNCH = str(Path(__file__).with_name("launch.py"))
_PROBE_S = 20.0
_MOUNTS = "/proc/self/mountinfo"


@dataclass(frozen=True, slots=True)
class CopyMount:
    """A folder whose place a copy takes."""

    kind: MountKind
    folder: Path
    """The folder, with links resolved."""
    content: Path
    """The upper layer of an overlay, or the whole copy."""
    work: Path | None = None
    """The empty folder that an overlay needs beside its upper layer, on the same file system."""
    between: Path | None = None
    """The upper layer of another overlay, which this one shows and does not change."""


def launch_words(
    name: str,
    mounts: Sequence[CopyMount],
    cwd: Path,
    program: Sequence[str],
    lock: Path | None = None,
    ends_with: int = 0,
) -> list[str]:
    """Return the words of a process that starts a program for which the folders are copies.

    `name` is the name of the overlays in the list of mounts. `lock` is a file that one process locks at a
    time. `ends_with` is the process with which the program ends; 0: none.
    """
    order = {
        "name": name,
        "cwd": os.fspath(cwd),
        "lock": None if lock is None else os.fspath(lock),
        "parent": ends_with,
        "mounts": [
            [one.kind, *map(os.fspath, filter(None, (one.folder, one.content, one.work, one.between)))]
            for one in mounts
        ],
    }
    return [sys.executable, "-I", "-S", _LAUNCH, json.dumps(order), *program]


def why_not(mounts: Sequence[CopyMount]) -> str:
    """Mount copies for a moment. Return why that does not work, as a clause, or an empty text."""
    if sys.platform != "linux":
        return "only Linux has overlays for every user"
    for mount in (one for one in mounts if one.kind == "overlay"):
        if inner := next(list_mounts_below(mount.folder), None):
            return f"{inner} is another file system, which an overlay would show as an empty folder"
    words = launch_words("sandbur-probe", mounts, Path("/"), ("/bin/true",))
    try:
        probe = subprocess.run(
            words, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if probe.returncode == 0:
        return ""
    reason = " ".join(probe.stderr.decode(errors="replace").split())[-300:]
    return _explain(reason or f"exit {probe.returncode}")


def _explain(reason: str) -> str:
    """Return the reason with its usual cause."""
    if reason.startswith("unshare:") or "uid_map" in reason:
        return f"this machine allows no user namespaces: {reason}"
    if reason.startswith("mount:"):
        return f"this file system or kernel mounts no overlay here: {reason}"
    return reason


def list_mounts_below(folder: Path) -> Iterator[Path]:
    """Yield the mount points below a folder, not the folder itself."""
    for point, _ in _read_mounts():
        if point != folder and point.is_relative_to(folder):
            yield point


def is_mounted(name: str, mount: CopyMount) -> bool:
    """Return whether this process sees the copy in place of the folder."""
    if mount.kind == "bind":
        try:
            return mount.folder.samefile(mount.content)
        except OSError:
            return False
    return any(point == mount.folder and source == name for point, source in _read_mounts())


def find_mounted(start: str, folder: Path) -> str:
    """Return the name of an overlay with this start that this process sees at or above a folder, or an empty
    text."""
    return next(
        (name for point, name in _read_mounts() if name.startswith(start) and folder.is_relative_to(point)),
        "",
    )


def _read_mounts() -> Iterator[tuple[Path, str]]:
    """Yield the mount point and the source of each mount that this process sees."""
    try:
        content = Path(_MOUNTS).read_bytes()
    except OSError:
        return
    for line in content.splitlines():
        before, _, after = line.partition(b" - ")
        point = before.split(b" ")[4]
        _, source = after.split(b" ")[:2]
        yield Path(os.fsdecode(_unescape(point))), os.fsdecode(_unescape(source))


def _unescape(text: bytes) -> bytes:
    parts = text.split(b"\\")
    return parts[0] + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in parts[1:])


def is_failed_launch(code: int) -> bool:
    """Return whether an exit code is that of a launch that did not start its program."""
    return code == FAILED
