"""Places whose files run commands or change the rules by themselves: no mode edits them unasked."""

from collections.abc import Sequence
from pathlib import Path
from posixpath import basename, dirname, join, lexists

from ...actions.workspace.protected_places import protected_part

_REPOSITORY_ENTRIES = ("HEAD", "objects", "refs")
_PART_OF_REPOSITORY = frozenset((*_REPOSITORY_ENTRIES, "config", "hooks"))


def why_protected(real: str, own: Sequence[str] = ()) -> str | None:
    """Say which protected place a resolved path is, or is in; `own` are folders of Sandbur's own."""
    for folder in own:
        if real == folder or real.startswith(folder.rstrip("/") + "/"):
            return f"{folder} belongs to Sandbur"
    return protected_part(real) or _in_bare_repository(real)


def _in_bare_repository(real: str) -> str | None:
    """Tell of a folder that git takes for a repository, or that this path would make one."""
    if basename(real) in _PART_OF_REPOSITORY:
        folder = dirname(real)
        present = sum(lexists(join(folder, entry)) for entry in _REPOSITORY_ENTRIES)
        if present >= 2:
            return f"{folder} is a repository"
    folder = dirname(real)
    while folder not in ("/", ""):
        if looks_like_repository(folder):
            return f"{folder} is a repository"
        folder = dirname(folder)
    return None


def looks_like_repository(folder: str) -> bool:
    """Tell whether git would take the folder itself for a repository."""
    return lexists(join(folder, "HEAD")) and all(Path(folder, part).is_dir() for part in ("objects", "refs"))
