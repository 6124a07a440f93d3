"""Computes the content of a disk after a power loss from the log that `disk_log.c` writes."""

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from support.required import unless

WRITE, TRUNCATE, RENAME, UNLINK, CREATE, SYNC, MKDIR, RMDIR = range(1, 9)
_HEAD = struct.Struct("=IIIIQQ")
_SECTOR = 512
COMPILER = shutil.which("cc") or shutil.which("gcc")
Policy = Literal["nothing", "everything", "anything"]
"""Which unsynced writes reach the disk; with `anything`, some of them, in any order and partly written."""

needs_compiler = unless(COMPILER is not None, "needs a C compiler")


def compile_library(folder: Path) -> Path:
    """Compile the library that logs; return its path."""
    library = folder / "disk_log.so"
    source = Path(__file__).with_name("disk_log.c")
    assert COMPILER is not None, "a C compiler is needed"
    subprocess.run([COMPILER, "-O1", "-fPIC", "-shared", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@dataclass(frozen=True)
class Change:
    what: int
    path: str
    other: str
    offset: int
    length: int
    data: bytes


def changes(log: Path) -> Iterator[Change]:
    """Yield the changes in the log, the oldest first."""
    raw, at = log.read_bytes(), 0
    while at < len(raw):
        what, path_length, other_length, _, offset, length = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        path, at = raw[at : at + path_length].decode(), at + path_length
        other, at = raw[at : at + other_length].decode(), at + other_length
        size = length if what == WRITE else 0
        yield Change(what, path.removesuffix(" (deleted)"), other, offset, length, raw[at : at + size])
        at += size


@dataclass
class Inode:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def content(self, policy: Policy, chance: random.Random) -> bytes:
        kept = {"nothing": [], "everything": self.pending}.get(policy)
        if kept is None:
            kept = [change for change in self.pending if chance.random() < 0.6]
            if chance.random() < 0.5:
                chance.shuffle(kept)
        content = bytearray(self.durable)
        for change in kept:
            _apply(content, _tear(change, chance) if policy == "anything" else change)
        return bytes(content)


def _apply(content: bytearray, change: Change) -> None:
    if change.what == TRUNCATE:
        del content[change.length :]
        content.extend(bytes(change.length - len(content)))
        return
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + len(change.data)] = change.data


def _tear(change: Change, chance: random.Random) -> Change:
    """Cut one write in four at a sector."""
    if change.what != WRITE or len(change.data) <= _SECTOR or chance.random() < 0.75:
        return change
    keep = _SECTOR * chance.randrange(1, -(-len(change.data) // _SECTOR))
    return Change(WRITE, change.path, "", change.offset, keep, change.data[:keep])


class Disk:
    """Files as the running system sees them, and the part of them that would survive a power loss.

    The bytes of a file are safe after a sync of the file, its name after a sync of its folder. Changes of
    names reach the disk in their order, as in every journaling file system.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Inode] = {}
        self._safe: dict[str, Inode] = {}
        self._folders: set[str] = set()
        self._names: list[tuple[str, Inode | None]] = []
        """The changes of names that are not safe yet: a name and its new inode."""

    def apply(self, change: Change) -> None:
        match change.what:
            case 1 | 2:  # WRITE, TRUNCATE
                self._inode(change.path).pending.append(change)
            case 3:  # RENAME
                moved = self._inode(change.path)
                del self.seen[change.path]
                self.seen[change.other] = moved
                self._names += [(change.other, moved), (change.path, None)]
            case 4:  # UNLINK
                self.seen.pop(change.path, None)
                self._names.append((change.path, None))
            case 5:  # CREATE
                self._inode(change.path)
            case 6:  # SYNC
                self._sync(change.path)
            case _:
                self._folders.add(change.path)

    def _inode(self, path: str) -> Inode:
        if path not in self.seen:
            self.seen[path] = Inode()
            self._names.append((path, self.seen[path]))
        return self.seen[path]

    def _sync(self, path: str) -> None:
        if path in self.seen:
            inode = self.seen[path]
            for change in inode.pending:
                _apply(inode.durable, change)
            inode.pending.clear()
            return
        still: list[tuple[str, Inode | None]] = []
        for name, inode in self._names:
            if os.path.dirname(name) == path:  # noqa: PTH120 -- many thousand times
                _name(self._safe, name, inode)
            else:
                still.append((name, inode))
        self._names = still

    def after_power_loss(self, policy: Policy, seed: int) -> dict[str, bytes]:
        """Return path -> content of the files on the disk after the power loss."""
        chance = random.Random(seed)
        names = dict(self._safe)
        kept = {"nothing": 0, "everything": len(self._names)}.get(policy)
        for name, inode in self._names[: chance.randint(0, len(self._names)) if kept is None else kept]:
            _name(names, name, inode)
        return {path: inode.content(policy, chance) for path, inode in names.items()}


def _name(names: dict[str, Inode], name: str, inode: Inode | None) -> None:
    if inode is None:
        names.pop(name, None)
    else:
        names[name] = inode


def write_image(image: dict[str, bytes], old_root: Path, new_root: Path) -> None:
    """Write the files of an image below another folder; an index in shared memory is never on a disk."""
    new_root.mkdir(parents=True, exist_ok=True)
    for path, content in image.items():
        if not path.endswith("-shm"):
            target = new_root / Path(path).relative_to(old_root)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.write_bytes(content)
