"""Gives the links of a copy the targets that they are to have in the original.

In a copy that does not take the place of the original, `FolderCopy.translate_link` changed the targets of
links.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ..content_cache import digest_of
from .folder_copy import FolderCopy
from .manifest import Manifest


class CopiedLinks:
    """The links of one copy, of which every target is translated back."""

    def __init__(self, copy: Path, original: Manifest, folder: Path) -> None:
        """`folder` is the place for links with translated targets; it is made when it is needed."""
        self._original = original
        self._copy = FolderCopy(original.root, copy)
        self._folder = folder

    def restore(self, path: str) -> Path | None:
        """Return a link with the target for the original: the link of the copy if its target stays.

        `path` is relative to the copy. The result is None if there is no link, or if none can be made.
        """
        link = self._copy.place / path
        try:
            target = os.readlink(link)  # noqa: PTH115 -- a Path would not keep the exact text
            wanted = self._translate(path, target)
            return link if wanted == target else self._keep(wanted)
        except OSError:
            return None

    def _translate(self, path: str, target: str) -> str:
        if not os.path.isabs(target):  # noqa: PTH117
            return target
        above = (self._original.root / path).parent
        for text in self._texts.get(target, ()):
            # A relative text is the one of this link only if it leads to the same place from here.
            if os.path.isabs(text) or os.path.normpath(above / text) == target:  # noqa: PTH117
                return text
        place = Path(target)
        if place.is_relative_to(self._copy.place):
            return str(self._original.root / place.relative_to(self._copy.place))
        return target

    @cached_property
    def _texts(self) -> Mapping[str, list[str]]:
        """Target in the copy -> the different targets in the original that became it."""
        found: dict[str, dict[str, None]] = {}
        for path, status in self._original.entries.items():
            if stat.S_ISLNK(status.mode):
                with suppress(OSError):
                    link = self._original.root / path
                    text = os.readlink(link)  # noqa: PTH115
                    if (target := self._copy.translate_link(link)) != text:
                        found.setdefault(target, {})[text] = None
        return {target: list(texts) for target, texts in found.items()}

    def _keep(self, target: str) -> Path:
        """Return a link with this target. Its name is the digest of the target."""
        link = self._folder / digest_of(os.fsencode(target))
        if not os.path.lexists(link):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            temporary = self._folder / f"{secrets.token_hex(6)}.part"
            temporary.symlink_to(target)
            temporary.replace(link)
        return link
