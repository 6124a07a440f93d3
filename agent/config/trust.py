"""The list of trusted folders, files and links. Trust is bound to the exact content that was trusted."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from ...actions.workspace.atomic_write import write_durably
from ...actions.workspace.paths import FileProblem
from ...state.conversation.messages import Record
from ...state.errors import ConfigError
from .paths import (
    CONFIG_NAME,
    MAX_CONFIG_BYTES,
    config_home,
    decode_text,
    read_bytes,
    refuse_if_world_writable,
)

_MAX_LIST_BYTES = 16 << 20
_AGENT = b"an agent"
"""The content of an entry for an agent, which is not bound to a content."""


class _TrustList(Record):
    version: Literal[1] = 1
    folders: dict[str, str] = Field(default_factory=dict)
    """Real path of a folder -> SHA-256 of its configuration; path of a file -> SHA-256 of its content; path
    of a link -> SHA-256 of the path of its target."""


def trust(folder: Path, env: Mapping[str, str], content: bytes | None = None) -> None:
    """Trust the folder with exactly this content (default: its present content), and not with later
    changes."""
    _add(env, os.path.realpath(folder), _configuration(folder) if content is None else content)


def is_trusted(folder: Path, env: Mapping[str, str], content: bytes | None = None) -> bool:
    """Return whether this folder was trusted with exactly this content (default: its present content)."""
    return _holds(env, os.path.realpath(folder), _configuration(folder) if content is None else content)


def trust_link(link: Path, target: Path, env: Mapping[str, str]) -> None:
    """Trust a link of a repository to exactly this file outside of the repository."""
    _add(env, _make_absolute(link), os.fsencode(target))


def is_trusted_link(link: Path, target: Path, env: Mapping[str, str]) -> bool:
    return _holds(env, _make_absolute(link), os.fsencode(target))


def trust_place(place: Path, content: bytes, env: Mapping[str, str]) -> None:
    """Trust a file, or the content of a folder, with exactly these bytes, and not with later changes."""
    _add(env, _make_absolute(place), content)


def is_trusted_place(place: Path, content: bytes, env: Mapping[str, str]) -> bool:
    return _holds(env, _make_absolute(place), content)


def trust_agent(source: str, folder: Path, env: Mapping[str, str]) -> None:
    """Allow sessions of this folder to load the agent `package.module:name`."""
    _add(env, _make_absolute(folder / source), _AGENT)


def is_trusted_agent(source: str, folder: Path, env: Mapping[str, str]) -> bool:
    return _holds(env, _make_absolute(folder / source), _AGENT)


def trust_agent_file(path: Path, digest: str, env: Mapping[str, str]) -> None:
    """Trust an agent file with exactly the content of this digest. Older versions stay trusted, too."""
    _add(env, f"{_make_absolute(path)}#{digest}", digest.encode())


def is_trusted_agent_file(path: Path, digest: str, env: Mapping[str, str]) -> bool:
    return _holds(env, f"{_make_absolute(path)}#{digest}", digest.encode())


def list_trusted(env: Mapping[str, str]) -> list[str]:
    """Return the paths of all trusted folders, files and links."""
    return sorted(_load(env).folders)


def take_back(path: Path, env: Mapping[str, str]) -> bool:
    """Remove the trust in a folder or link; return whether it was trusted."""
    known = _load(env)
    # A deleted folder cannot be resolved, so its path in the list counts, too.
    names = {os.path.realpath(path), _make_absolute(path), str(path)}
    names |= {name for name in known.folders if name.rpartition("#")[0] in names}
    left = {name: digest for name, digest in known.folders.items() if name not in names}
    if len(left) == len(known.folders):
        return False
    _write(_list_path(env), known.model_copy(update={"folders": left}))
    return True


def _add(env: Mapping[str, str], name: str, content: bytes) -> None:
    known = _load(env)
    _write(_list_path(env), known.model_copy(update={"folders": {**known.folders, name: _digest(content)}}))


def _holds(env: Mapping[str, str], name: str, content: bytes) -> bool:
    return _load(env).folders.get(name) == _digest(content)


def _configuration(folder: Path) -> bytes:
    """Return the present configuration of a folder; empty if it has none."""
    found = read_bytes(folder / CONFIG_NAME, MAX_CONFIG_BYTES)
    return b"" if found is None else found[0]


def _make_absolute(link: Path) -> str:
    """Return the absolute path of a link itself, without following it."""
    return str(Path(os.path.realpath(link.parent)) / link.name)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _list_path(env: Mapping[str, str]) -> Path:
    return config_home(env) / "trusted.json"


def _load(env: Mapping[str, str]) -> _TrustList:
    path = _list_path(env)
    found = read_bytes(path, _MAX_LIST_BYTES)
    if found is None:
        return _TrustList()
    refuse_if_world_writable(path)
    try:
        return _TrustList.model_validate_json(decode_text(found[0], path))
    except ValidationError:
        raise ConfigError(
            f"{path} is not a list of trusted folders.", "Delete it and trust your folders again."
        ) from None


def _write(path: Path, trusted: _TrustList) -> None:
    """Replace the list atomically; only its owner can read it."""
    text = json.dumps(trusted.model_dump(), indent=1, sort_keys=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(path, f"{text}\n".encode())
    except FileProblem as problem:
        raise ConfigError(str(problem), "Check the permissions of the folder.") from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.", "Check the permissions of the folder."
        ) from None
