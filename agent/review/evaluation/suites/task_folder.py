"""Reads a task from a folder in the format of harbor: `task.toml`, `instruction.md`, `tests/test.sh`."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from .....actions.workspace.paths import format_path, name_special_kind
from .....state.errors import UsageError
from ....config.paths import is_folder
from .task import CHECK_S, RUN_S, Task

RECORD = "task.toml"
_INSTRUCTION = "instruction.md"
_TURNS = "turns"
_TEST = Path("tests", "test.sh")
_IMAGE = ("Dockerfile", "docker-compose.yaml", "docker-compose.yml")
ENVIRONMENT = "environment"
SCRIPT = Path("solution", "script.json")
_MOST_BYTES = 10_000_000
_PARTS = f"A task is a folder with {RECORD}, {_INSTRUCTION} and {_TEST}."


def find_task_folders(root: Path) -> list[Path]:
    """Return the folders with a `task.toml` in and below a folder, without those inside of another task.

    Raises `UsageError` without one.
    """
    if not is_folder(root):
        raise UsageError(f"There is no folder {root}.", "Name a folder of tasks, or a suite such as `smoke`.")
    found: list[Path] = []
    for folder, below, files in os.walk(root):
        if RECORD in files:
            found.append(Path(folder))
            below.clear()
    if not found:
        raise UsageError(f"{root} has no task: no folder below it has a {RECORD}.", _PARTS)
    return sorted(found)


def read_task_folder(folder: Path, name: str, root: Path) -> Task:
    """Return the task in a folder of the suite `root`; raises `UsageError` with the path and the field of
    what is wrong.
    """
    _require_own_files(folder, root)
    record = _read_record(folder / RECORD)
    instruction = _read_text(folder / _INSTRUCTION)
    if not instruction.strip():
        raise UsageError(f"{folder / _INSTRUCTION} is empty.", "Write what the agent has to do.")
    if not (folder / _TEST).is_file():
        raise UsageError(f"{folder} has no {_TEST}.", "It checks the work: exit code 0 is a success.")
    if not (folder / _TEST).read_bytes().strip():
        raise UsageError(f"{folder / _TEST} is empty, so that every work would pass.", "Write a check.")
    toml = folder / RECORD
    return Task(
        instruction.strip(),
        name=name,
        folder=folder,
        turns=_read_turns(folder),
        timeout_s=_read_seconds(toml, record, "agent", "timeout_sec") or RUN_S,
        check_timeout_s=_read_seconds(toml, record, "verifier", "timeout_sec") or CHECK_S,
        interrupt_at_call=_read_call(toml, record),
        notices=tuple(_list_notices(folder)),
    )


def _require_own_files(folder: Path, root: Path) -> None:
    """Raise `UsageError` for a link that leads out of the suite, and for what is no file.

    The agent reads copies of these files without a question, so a foreign suite must not add others to them.
    """
    inside = os.path.join(os.path.realpath(root), "")  # noqa: PTH118 -- keeps the slash
    for above, folders, files in os.walk(folder):
        for path in (Path(above, name) for name in (*folders, *files)):
            if path.is_symlink() and not (path.is_file() and os.path.realpath(path).startswith(inside)):
                raise UsageError(
                    f"{format_path(path)} is a link, but not to a file of the suite.",
                    "Put the file or folder there instead.",
                )
            if path.exists() and (kind := name_special_kind(path.stat().st_mode)):
                raise UsageError(f"{format_path(path)} is {kind}.", "A task has files and folders only.")


def _read_turns(folder: Path) -> tuple[str, ...]:
    """Return the messages before the instruction: the files in `turns/`, by name."""
    files = sorted((folder / _TURNS).glob("*.md"))
    turns = tuple(_read_text(path).strip() for path in files)
    for path, turn in zip(files, turns, strict=True):
        if not turn:
            raise UsageError(f"{path} is empty.", "Write what the person says before the instruction.")
    return turns


def _read_record(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise UsageError(f"{path} is not TOML: {reason}.", 'The shortest one is: version = "1.0"') from None


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path} is larger than {_MOST_BYTES // 1_000_000} MB.")
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{path.parent} has no {path.name}.", _PARTS) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8.", "Save it as UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


def _read_seconds(path: Path, record: Mapping[str, Any], table: str, key: str) -> float | None:
    values = record.get(table, {})
    if not isinstance(values, dict):
        raise UsageError(f"{path}: `{table}` is {values!r}.", f"It is a table: [{table}].")
    value = cast("dict[str, Any]", values).get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(f"{path}: [{table}] {key} is {value!r}.", "It is a number of seconds above 0.")
    return float(value)


def _read_call(path: Path, record: Mapping[str, Any]) -> int:
    """Return `interrupt_at_call` of the metadata, where harbor allows any key; 0 without one."""
    metadata = record.get("metadata", {})
    value: Any = (
        cast("dict[str, Any]", metadata).get("interrupt_at_call", 0) if isinstance(metadata, dict) else 0
    )
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(
            f"{path}: [metadata] interrupt_at_call is {value!r}.", "It is the number of a tool call, from 1."
        )
    return value


def _list_notices(folder: Path) -> Iterator[str]:
    """Yield a sentence for each part of the folder that is not used."""
    for name in _IMAGE:
        if (folder / ENVIRONMENT / name).is_file():
            yield f"{folder.name}: environment/{name} is not used; runs work in a copy of environment/."


def list_workspace_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each file of `environment/` with its path in the workspace. Descriptions of images stay out."""
    root = folder / ENVIRONMENT
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        inside = path.relative_to(root)
        if path.is_file() and inside.as_posix() not in _IMAGE:
            yield path, inside
