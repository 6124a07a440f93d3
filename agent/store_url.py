"""Read `--store`: which database a session is kept in."""

import re
from pathlib import Path

from agent.paths import current_folder
from state.errors import SandburError, StoreError
from state.store.servers.url import SCHEMES, server_url

_SQLITE = "sqlite:///"


def default_store_url(home: Path) -> str:
    return f"{_SQLITE}{home / 'sandbur.db'}"


def checked_store_url(text: str, source: str, error: type[SandburError]) -> str:
    """Return the URL, a file's with an absolute path; no error repeats the text: it may hold a password."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", text)
    name = scheme.group().lower() if scheme else ""
    if name.partition("+")[0] in SCHEMES:
        return _checked_server_url(text, source, error)
    path = text.removeprefix(_SQLITE)
    if name != "sqlite" or path == text:
        what = f"`{name}:`" if name and name != "sqlite" else "this"
        raise error(
            f"{source}: {what} is no store URL.",
            "Write sqlite:///PATH, postgresql://HOST/DATABASE or mysql://HOST/DATABASE.",
        )
    if not path or path.endswith("/") or path == ":memory:" or "\0" in path:
        raise error(f"{source}: the store needs a file that lasts.", "Write sqlite:///PATH with a file name.")
    file = Path(path)
    return f"{_SQLITE}{file if file.is_absolute() else current_folder() / file}"


def _checked_server_url(text: str, source: str, error: type[SandburError]) -> str:
    try:
        server_url(text)
    except StoreError as problem:
        raise error(f"{source}: {problem.message}", problem.hint) from None
    return text
