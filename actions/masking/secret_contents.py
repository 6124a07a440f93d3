"""Decides which earlier contents of changed files may be stored: those that contain no secret."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from ...state.calls import FileChange
from ..workspace.protected.secret_files import is_secret_file

NOT_KEPT = (
    "(The earlier content of {names} was not stored, because it holds secrets: a rewind cannot restore it.)"
)
_MOST_NAMES = 3


class SecretFinder(Protocol):
    def holds_secret(self, data: bytes) -> bool: ...


async def drop_secret_contents(
    changes: Sequence[FileChange], pre_images: Mapping[str, bytes], finder: SecretFinder
) -> tuple[Mapping[str, bytes], str]:
    """Return the contents that may be stored, and a note about the other contents (an empty text if
    all may).
    """
    return await asyncio.to_thread(_drop_secret_contents, changes, pre_images, finder)


def find_secret_contents(
    changes: Sequence[FileChange], pre_images: Mapping[str, bytes], finder: SecretFinder
) -> set[str | None]:
    """Return the digests of the earlier contents that must not be stored."""
    secret = {change.before for change in changes if is_secret_file(change.path)}
    return secret | {digest for digest, content in pre_images.items() if finder.holds_secret(content)}


def _drop_secret_contents(
    changes: Sequence[FileChange], pre_images: Mapping[str, bytes], finder: SecretFinder
) -> tuple[Mapping[str, bytes], str]:
    secret = find_secret_contents(changes, pre_images, finder)
    left_out = [change.path.rpartition("/")[2] for change in changes if change.before in secret]
    if not left_out:
        return pre_images, ""
    more = f" and {len(left_out) - _MOST_NAMES} more" if len(left_out) > _MOST_NAMES else ""
    note = NOT_KEPT.format(names=", ".join(left_out[:_MOST_NAMES]) + more)
    return {digest: content for digest, content in pre_images.items() if digest not in secret}, note
