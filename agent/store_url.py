"""Read `--store`: which database a session is kept in."""

import re
from pathlib import Path

from agent.paths import current_folder
from state.errors import SandburError

_SQLITE = "sqlite:///"
_NETWORK = {"postgresql": "PostgreSQL", "postgres": "PostgreSQL", "mysql": "MySQL", "mariadb": "MySQL"}


def default_store_url(home: Path) -> str:
    return f"{_SQLITE}{home / 'sandbur.db'}"


def checked_store_url(text: str, source: str, error: type[SandburError]) -> str:
    """Return the URL with an absolute path; no error repeats the text, which may hold a password."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", text)
    name = scheme.group().lower() if scheme else ""
    if database := _NETWORK.get(name.partition("+")[0]):
        raise error(
            f"{source}: {database} stores come as an extra that is not shipped yet.",
            "Use sqlite:///PATH, or leave it out for the default store.",
        )
    path = text.removeprefix(_SQLITE)
    if name != "sqlite" or path == text:
        what = f"`{name}:`" if name and name != "sqlite" else "this"
        raise error(f"{source}: {what} is no store URL.", "Write sqlite:///PATH, as in sqlite:///runs.db.")
    if not path or path.endswith("/") or path == ":memory:" or "\0" in path:
        raise error(f"{source}: the store needs a file that lasts.", "Write sqlite:///PATH with a file name.")
    file = Path(path)
    return f"{_SQLITE}{file if file.is_absolute() else current_folder() / file}"
