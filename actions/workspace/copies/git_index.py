"""Reads which files git tracks, from the index of a repository, without a call of git.

The format is described in gitformat-index(5); versions 2 to 4 are read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..paths import FileProblem, open_regular
from ..safe_open import resolve_real_path

_MOST_BYTES = 500_000_000
_MOST_LINK_BYTES = 10_000
_VERSIONS = (2, 3, 4)
_STATUS_BYTES = 40
"""The bytes of an entry before its hash."""
_HASH_BYTES = (20, 32)
"""The sizes of SHA-1 and SHA-256."""
_IS_EXTENDED, _LENGTH = 0x4000, 0xFFF


def find_index(git: Path) -> Path:
    """Return the path of the index for `.git`: a folder, or the file of a linked work tree or a submodule."""
    mark = b"gitdir:"
    with suppress(OSError, FileProblem), open_regular(git) as file:
        content = file.read(_MOST_LINK_BYTES).strip()
        if content.startswith(mark):
            return git.parent / os.fsdecode(content.removeprefix(mark).strip()) / "index"
    return git / "index"


def read_index(index: Path) -> frozenset[str]:
    """Return the tracked paths, relative to the work tree; nothing if the index is missing or damaged."""
    try:
        with open_regular(resolve_real_path(index)) as file:
            content = file.read(_MOST_BYTES)
    except (OSError, FileProblem):
        return frozenset()
    for size in _HASH_BYTES:
        with suppress(ValueError, IndexError, struct.error):
            return frozenset(map(os.fsdecode, _list_names(content, size)))
    return frozenset()


def _list_names(content: bytes, hash_bytes: int) -> Iterator[bytes]:
    """Yield the names of all entries.

    Raises `ValueError`, `IndexError` or `struct.error` if the content is not an index with such hashes.
    """
    signature, version, count = struct.unpack_from(">4sII", content)
    if signature != b"DIRC" or version not in _VERSIONS:
        raise ValueError(version)
    at, name = 12, b""
    for _ in range(count):
        start = at
        (flags,) = struct.unpack_from(">H", content, start + _STATUS_BYTES + hash_bytes)
        at = start + _STATUS_BYTES + hash_bytes + (4 if flags & _IS_EXTENDED else 2)
        shared = 0
        if version == max(_VERSIONS):
            removed, at = _read_number(content, at)
            shared = len(name) - removed
        end = content.index(0, at)
        if shared < 0 or min(shared + end - at, _LENGTH) != flags & _LENGTH:
            raise ValueError(at)
        name = name[:shared] + content[at:end]
        # Versions 2 and 3 fill entries up to a multiple of eight bytes, with one zero at least.
        at = end + 1 if version == max(_VERSIONS) else start + (end - start + 8) // 8 * 8
        yield name


def _read_number(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length and the position after it."""
    number = content[at] & 0x7F
    while content[at] & 0x80:
        at += 1
        number = ((number + 1) << 7) | (content[at] & 0x7F)
    return number, at + 1
