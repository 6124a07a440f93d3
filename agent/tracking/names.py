"""How folders, sessions and parts of sessions are called in the addresses of the tracking UI."""

import hashlib
import re
from pathlib import PurePath
from typing import NamedTuple

_APP = re.compile(r"(?P<session>.+?)(?:~step-(?P<step>.+)|~steps-(?P<first>\d{1,12})-(?P<last>\d{1,12}))?")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_ESCAPE = re.compile(r"((?:~[0-9A-F]{2})+)")
_NO_WORD = re.compile(r"[^\w.,@+]+")
_MAX_TITLE_CHARS = 48


class AppName(NamedTuple):
    """One run page: a session, the work on one step of its plan, or a page of its older steps."""

    session_id: str
    step_id: str | None = None
    first: int | None = None
    last: int | None = None


def app_id(name: AppName) -> str:
    """Return the name as one segment of a URL."""
    session = _escaped(name.session_id)
    if name.step_id is not None:
        return f"{session}~step-{_escaped(name.step_id)}"
    if name.first is not None:
        return f"{session}~steps-{name.first}-{name.last}"
    return session


def app_name(text: str) -> AppName | None:
    """Read what `app_id` returned; None if it is nothing of the kind."""
    found = _APP.fullmatch(text)
    if found is None:
        return None
    session, step, first, last = found["session"], found["step"], found["first"], found["last"]
    return AppName(
        _unescaped(session),
        None if step is None else _unescaped(step),
        None if first is None else int(first),
        None if last is None else int(last),
    )


def project_id(cwd: str) -> str:
    """Return a name for a working folder: its last part, and enough to tell it from others."""
    digest = hashlib.sha256(cwd.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_slug(PurePath(cwd).name) or 'folder'}-{digest}"


def partition_key(title: str) -> str | None:
    """Return a session's title as one readable segment of a URL, which all parts of the session share."""
    return _slug(title)[:_MAX_TITLE_CHARS].rstrip("-.") or None


def _slug(text: str) -> str:
    return _NO_WORD.sub("-", text[:200]).strip("-._")


def _escaped(text: str) -> str:
    return _UNSAFE.sub(
        lambda match: "".join(f"~{byte:02X}" for byte in match[0].encode("utf-8", "replace")), text
    )


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: bytes.fromhex(match[1].replace("~", "")).decode("utf-8", "replace"), text
    )
