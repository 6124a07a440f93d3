"""Protected places: files that run commands or change rules. No mode edits them without approval."""

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
    ".config/environment.d", ".config/autostart", ".gitconfig", ".config/git",
    ".config/systemd", "Library/LaunchAgents",
)  # fmt: skip


def why_always_asked(real: str, own: Sequence[str] = ()) -> str | None:
    """Return the protected place of a resolved path that needs approval even in yolo mode, or None.

    A change there can disable approvals, permit a login, or run code with every shell. `own` are the folders
    of Sandbur itself.
    """
    home = expanduser("~")
    places = {folder: f"{folder} belongs to Sandbur" for folder in own}
    places |= {realpath(join(home, name)): f"~/{name}" for name in _OF_THE_HOME}
    for place, why in places.items():
        if real == place or real.startswith(place.rstrip("/") + "/"):
            return why
    return None


def why_protected(real: str, own: Sequence[str] = ()) -> str | None:
    """Return the protected place of a resolved path, or None. `own` are the folders of Sandbur itself."""
    for folder in own:
        if real == folder or real.startswith(folder.rstrip("/") + "/"):
            return f"{folder} belongs to Sandbur"
    return find_protected_part(real) or _in_bare_repository(real)


def _in_bare_repository(real: str) -> str | None:
    """Return why git would treat a folder above the path as a repository, or None if it would not."""
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
    """Return whether a folder, with `entry` added, has all or nearly all parts of a git repository."""
    present = {name.lower() for name in _OF_WHICH_GIT_LOOKS if lexists(join(folder, name))}
    if entry in _OBEYED:
        return "head" in present and len(present) > 1
    if entry not in map(str.lower, _OF_WHICH_GIT_LOOKS):
        return False
    return "head" in present | {entry} and len(present | {entry}) > 1


def looks_like_repository(folder: str) -> bool:
    """Return whether git may treat the folder itself as a repository.

    The other parts of a repository besides `HEAD` may be files, or may be in the folder that `commondir`
    names.
    """
    if not lexists(join(folder, "HEAD")):
        return False
    has_all = all(lexists(join(folder, name)) for name in _REPOSITORY_FOLDERS)
    return has_all or lexists(join(folder, "commondir"))
