"""Places whose files run commands or change the rules by themselves: no mode edits them unasked."""

from collections.abc import Sequence
from posixpath import dirname, expanduser, join, lexists, realpath

from ...actions.workspace.protected.protected_places import find_protected_part

_REPOSITORY_FOLDERS = ("objects", "refs")
_REPOSITORY_ENTRIES = ("HEAD", *_REPOSITORY_FOLDERS)
_OF_WHICH_GIT_LOOKS = (*_REPOSITORY_ENTRIES, "commondir")
_OBEYED = ("config", "hooks")


_OF_THE_HOME = (
    ".ssh", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc",
    ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login",
    ".logout", ".xprofile", ".xsession", ".xinitrc", ".pam_environment", ".config/fish",
    ".config/environment.d", ".config/autostart",
)  # fmt: skip


def why_always_asked(real: str, own: Sequence[str] = ()) -> str | None:
    """Say which place a resolved path is, or is in, that not even yolo mode changes unasked.

    Who writes there turns the questions off, lets somebody log in, or runs with every shell from then on.
    """
    home = expanduser("~")
    places = {folder: f"{folder} belongs to Sandbur" for folder in own}
    places |= {realpath(join(home, name)): f"~/{name}" for name in _OF_THE_HOME}
    for place, why in places.items():
        if real == place or real.startswith(place.rstrip("/") + "/"):
            return why
    return None


def why_protected(real: str, own: Sequence[str] = ()) -> str | None:
    """Say which protected place a resolved path is, or is in; `own` are folders of Sandbur's own."""
    for folder in own:
        if real == folder or real.startswith(folder.rstrip("/") + "/"):
            return f"{folder} belongs to Sandbur"
    return find_protected_part(real) or _in_bare_repository(real)


def _in_bare_repository(real: str) -> str | None:
    """Tell of a folder that git takes for a repository, or that this path would make one."""
    parts = real.split("/")
    for at, part in enumerate(parts):
        entry = part.lower()
        if entry in _REPOSITORY_FOLDERS or at == len(parts) - 1:
            folder = "/".join(parts[:at]) or "/"
            if _makes_repository(folder, entry):
                return f"it makes a repository of {folder}, whose configuration git obeys"
    folder = dirname(real)
    while folder not in ("/", ""):
        if looks_like_repository(folder):
            return f"{folder} is a repository"
        folder = dirname(folder)
    return None


def _makes_repository(folder: str, entry: str) -> bool:
    """Tell whether a folder with one entry more has what git takes for a repository, or nearly has."""
    present = {name.lower() for name in _OF_WHICH_GIT_LOOKS if lexists(join(folder, name))}
    if entry in _OBEYED:
        return "head" in present and len(present) > 1
    if entry not in map(str.lower, _OF_WHICH_GIT_LOOKS):
        return False
    return "head" in present | {entry} and len(present | {entry}) > 1


def looks_like_repository(folder: str) -> bool:
    """Tell whether git may take the folder itself for a repository.

    What git needs beside `HEAD` may be files, and may lie where `commondir` says.
    """
    if not lexists(join(folder, "HEAD")):
        return False
    has_all = all(lexists(join(folder, name)) for name in _REPOSITORY_FOLDERS)
    return has_all or lexists(join(folder, "commondir"))
