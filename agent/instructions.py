"""Find the `AGENTS.md` files that speak about the working folder."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.paths import repository_root, user_home
from agent.text_files import decoded, read_bytes

FILE_NAME = "AGENTS.md"
MAX_BYTES = 64 * 1024
"""Of one file; the rest is left out, and that is said."""


@dataclass(frozen=True, slots=True)
class Instructions:
    path: Path
    text: str
    cut_bytes: int = 0
    """How much of the file was left out."""


def find_instructions(cwd: Path, env: Mapping[str, str]) -> tuple[Instructions, ...]:
    """Return the files from the working folder upwards, outermost first; raises `ConfigError`.

    The way up ends at the root of the repository; outside of one at the home folder, else at `/`. Above the
    working folder a file of a stranger (neither ours nor root's) is passed over: `/tmp` belongs to everybody.
    """
    folder = Path(os.path.realpath(cwd))
    found = (_read(here / FILE_NAME, must_be_ours=here != folder) for here in _way_up(folder, env))
    return tuple(instructions for instructions in found if instructions)[::-1]


def _way_up(folder: Path, env: Mapping[str, str]) -> list[Path]:
    last = repository_root(folder) or Path(os.path.realpath(user_home(env)))
    way = [folder, *folder.parents]
    return way[: way.index(last) + 1] if last in way else way


def _read(path: Path, must_be_ours: bool) -> Instructions | None:
    if must_be_ours and not _is_ours(path):
        return None
    found = read_bytes(path, MAX_BYTES)
    if found is None:
        return None
    content, size = found
    if size > len(content):
        # Cut behind a whole line, or at least not inside a character.
        line_end = content.rfind(b"\n") + 1
        content = content[:line_end] or content.decode(errors="ignore").encode()
    text = decoded(content.removeprefix(b"\xef\xbb\xbf"), path).strip()
    return Instructions(path, text, size - len(content)) if text else None


def _is_ours(path: Path) -> bool:
    try:
        return path.lstat().st_uid in (os.geteuid(), 0)
    except OSError:
        return False
