"""Lists sessions for shell completion; reads the store's file without opening the store."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from .....agent.config.paths import config_home, data_home
from .....state.maintenance.session_names import NamedSession, load_session_names
from ....terminal.text.sanitize import plain

_MOST = 50
_SHORT = 8
_MOST_TITLE = 60
_SQLITE = "sqlite:///"


def list_sessions(shell: str, kind: str, word: str) -> Iterator[str]:
    """Yield a line for each matching session: all, or only those `waiting` for a decision."""
    place = _store(os.environ)
    if place is not None:
        yield from lines(shell, load_session_names(*place, only_waiting=kind == "waiting"), word)


def lines(shell: str, sessions: list[NamedSession], word: str) -> Iterator[str]:
    """Yield the sessions whose id begins with `word`; if there is none, those whose title contains it.

    The completion is an id, which needs no quoting. Only fish requires that a completion contains the typed
    word: fish gets the title, and quotes it itself.
    """
    wanted = word.lower()
    by_id = [one for one in sessions if one.id.startswith(wanted)]
    found = by_id or [one for one in sessions if wanted in _format_session(one.title).lower()]
    for one in found[:_MOST]:
        short = one.id[: _length(one.id, sessions)]
        title = _format_session(one.title)
        if shell == "bash":
            yield short
        elif shell == "fish" and not by_id and title == one.title and not title.startswith("-"):
            yield f"{title}\t{short}"
        else:
            yield f"{short}\t{title[:_MOST_TITLE] or one.status}"


def _length(session_id: str, sessions: list[NamedSession]) -> int:
    """Return the length of the shortest prefix that no other id has, at least `_SHORT`."""
    others = {one.id for one in sessions if one.id != session_id}
    lengths = (length for length in range(_SHORT, len(session_id)))
    return next(
        (n for n in lengths if not any(o.startswith(session_id[:n]) for o in others)), len(session_id)
    )


def _format_session(title: str) -> str:
    return " ".join(plain(title).split())


def _store(env: Mapping[str, str]) -> tuple[Path, str] | None:
    """Return the path of the store and the tenant, or None if the store is on a server."""
    configuration = _read_configuration(env)
    url = env.get("SANDBUR_STORE", "").strip() or str(configuration.get("store", ""))
    tenant = env.get("SANDBUR_TENANT", "").strip() or str(configuration.get("tenant", ""))
    if url and not url.startswith(_SQLITE):
        return None
    file = Path(url.removeprefix(_SQLITE)) if url else data_home(env) / "sandbur.db"
    return file, tenant


def _read_configuration(env: Mapping[str, str]) -> Mapping[str, object]:
    """Return the configuration of the user, or an empty one if it cannot be read."""
    try:
        content = (config_home(env) / "config.toml").read_bytes()
    except OSError:
        return {}
    try:
        return tomllib.loads(content.decode())
    except ValueError:
        return {}
