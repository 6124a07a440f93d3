"""The places of the user's files: the home folder, the data folder and the configuration folder."""

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...state.errors import ConfigError, UsageError

CONFIG_NAME = ".sandbur/config.toml"
MAX_CONFIG_BYTES = 1 << 20


def user_home(env: Mapping[str, str]) -> Path:
    """Return the home folder: the value of `HOME`, otherwise that of the system's user database."""
    named = env.get("HOME", "")
    if named.startswith("/"):
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise ConfigError(
            "HOME is not set and this user has no home folder.",
            "Set HOME, or SANDBUR_HOME and XDG_CONFIG_HOME, to folders that you own.",
        ) from None


def data_home(env: Mapping[str, str]) -> Path:
    """Return the data folder, which holds the store. The folder may not exist yet."""
    if named := env.get("SANDBUR_HOME"):
        return _absolute(named, env)
    # The XDG specification says to ignore relative values.
    base = env.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else user_home(env) / ".local/share") / "sandbur"


def config_home(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's `config.toml` and of the trust list. The folder may not exist."""
    base = env.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else user_home(env) / ".config") / "sandbur"


def expand_path(path: str, env: Mapping[str, str]) -> Path:
    """Return the path with a leading `~/` replaced by the home folder."""
    if path == "~" or path.startswith("~/"):
        return user_home(env) / path[2:]
    return Path(path)


def current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError(
            "The working folder no longer exists.", "Change to another one, or name one with -C DIR."
        ) from None


def repository_root(folder: Path) -> Path | None:
    """Return the nearest folder, from this one upwards, that contains a `.git`; None if there is none."""
    return next((here for here in (folder, *folder.parents) if (here / ".git").exists()), None)


def project_folders(cwd: Path) -> Iterator[Path]:
    """Yield the folders from the working folder up to the root of its repository."""
    root = repository_root(cwd) or cwd
    for folder in (cwd, *cwd.parents):
        yield folder
        if folder == root:
            return


TEXT_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "skills": (".agents/skills", ".sandbur/skills", ".claude/skills"),
    "commands": (".sandbur/commands", ".agents/commands", ".claude/commands"),
    "agents": (".sandbur/agents", ".claude/agents"),
    "plans": (".sandbur/plans",),
}
"""Kind of text files -> their folders, below a project's folders and below the home folder."""


def own_text_folders(kind: str, env: Mapping[str, str]) -> list[Path]:
    """Return the person's own folders of a kind; they need not exist."""
    return [config_home(env) / kind, *(user_home(env) / name for name in TEXT_FOLDERS[kind])]


def text_folders(kind: str, cwd: Path, env: Mapping[str, str]) -> list[Path]:
    """Return the existing folders of a kind: those of the project first, the nearest one first."""
    of_project = [place / name for place in project_folders(cwd) for name in TEXT_FOLDERS[kind]]
    folders = dict.fromkeys((*of_project, *own_text_folders(kind, env)))
    return [folder for folder in folders if is_folder(folder)]


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; False, where `Path.is_dir` raises, if it cannot be looked at."""
    return os.path.isdir(path)  # noqa: PTH112


def _absolute(path: str, env: Mapping[str, str]) -> Path:
    there = expand_path(path, env)
    return there if there.is_absolute() else current_folder() / there


def read_bytes(path: Path, max_bytes: int, flags: int = 0) -> tuple[bytes, int] | None:
    """Return the first `max_bytes` of the file and its size in bytes, or None if the file does not exist."""
    try:
        # Without O_NONBLOCK, opening a named pipe in place of the file would block without end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigError(
                f"{path} is a link to a file that does not exist.", "Repair or remove it."
            ) from None
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Correct or remove it.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise ConfigError(f"{path} is {kind}, but has to be a text file.", "Rename or remove it.")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(max_bytes), status.st_size


def read_whole(path: Path, max_bytes: int, flags: int = 0) -> bytes | None:
    """Return the content of the file, or None if it does not exist. Raises `ConfigError` if it is too
    long."""
    found = read_bytes(path, max_bytes, flags)
    if found is None:
        return None
    content, size = found
    if size > len(content):
        raise ConfigError(f"{path} has {size:,} bytes; the limit is {max_bytes:,}.", "Make it smaller.")
    return content


def decode_text(content: bytes, path: Path) -> str:
    """Decode UTF-8 text. Raises `ConfigError` for other bytes, and for a NUL character."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise ConfigError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}, column {column}.",
            "Save the file as UTF-8.",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ConfigError(f"{path} contains a NUL character in line {line}.", "Save it as plain UTF-8 text.")
    return text


def refuse_if_world_writable(path: Path) -> None:
    """Raise `ConfigError` if any user of the machine can write the file."""
    if path.exists() and path.stat().st_mode & stat.S_IWOTH:
        raise ConfigError(f"{path} can be changed by every user of this machine.", f"Run: chmod o-w {path}")
