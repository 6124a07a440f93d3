"""Carries out the steps of a plan, file by file. Each file has its old or its new content at every moment."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from .....actions.workspace.atomic_write import (
    find_missing_folders,
    make_folder,
    remove_file,
    remove_leftovers,
    replace_content,
    replace_link,
    sync_folder,
)
from .....actions.workspace.content_cache import digest_of
from .....actions.workspace.paths import FileProblem, FileStat, translate_errors
from .....actions.workspace.safe_open import open_folder, read_link, read_status
from .....state.lazy_dataclass import dataclass
from .....state.process.crashpoints import reach
from .plan import ApplyStep, Conflict, digest_file, read_chunks


@dataclass(slots=True)
class Applied:
    """What was done of a plan."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    failed: list[Conflict] = field(default_factory=list[Conflict])
    """The files that changed after the plan was made, or that could not be written."""
    is_stopped: bool = False
    """Whether `is_cancelled` ended the work before its end."""


def apply_steps(
    steps: Sequence[ApplyStep],
    is_cancelled: Callable[[], bool] = lambda: False,
    on_written: Callable[[Path], None] = lambda path: None,
) -> Applied:
    """Write and remove files as the steps say. Each changed folder is synced once, at the end.

    `on_written` is called with the path of each file that was written or removed.

    A file that is not the version of its step any more is left as it is. A cancellation takes effect between
    two files.
    """
    done = Applied()
    folders: dict[Path, None] = {}
    for folder in {step.path.parent for step in steps}:
        if folder.is_dir():
            # Temporary files of a writer that was killed.
            remove_leftovers(folder)
    try:
        for step in steps:
            if is_cancelled():
                done.is_stopped = True
                return done
            reach("apply_before_file")
            try:
                with translate_errors(step.path, "written" if step.after else "removed"):
                    folders |= dict.fromkeys(_apply(step))
            except FileProblem as problem:
                done.failed.append(Conflict(step.path, str(problem).rstrip(".")))
            else:
                on_written(step.path)
                _count(step, done)
        # Only now: a folder that gets another file keeps its mode and its owner.
        removed = ((step.path, step.root) for step in steps if step.after is None)
        folders |= dict.fromkeys(remove_emptied_folders(removed))
    finally:
        for folder in folders:
            sync_folder(folder)
    return done


def _apply(step: ApplyStep) -> list[Path]:
    """Carry out one step; return the folders whose entries changed."""
    if os.path.realpath(step.path.parent) != str(step.path.parent):
        raise FileProblem("a folder above it is a link now")
    expected = _find_expected(step)
    if step.after is None or step.mode is None:
        remove_file(step.path, expected)
        return [step.path.parent]
    if step.path.is_dir() and not step.path.is_symlink():
        # The removals before this step took its last file.
        _remove_empty_tree(step.path)
    made = find_missing_folders(step.path)
    try:
        _make_folders(made, step.source)
        _write(step, step.mode, expected)
    except (OSError, FileProblem):
        _remove_folders(made)
        raise
    return [step.path.parent, *(folder.parent for folder in made)]


def _write(step: ApplyStep, mode: int, expected: FileStat | None) -> None:
    if stat.S_ISLNK(mode):
        assert step.source is not None, "a merged link"
        target = read_link(step.source)
        _require_same(digest_of(os.fsencode(target)), step)
        replace_link(step.path, target, expected, syncs_folders=False)
    else:
        content = _read_content(step)
        replace_content(step.path, content, expected, mode, syncs_folders=False)


def _find_expected(step: ApplyStep) -> FileStat | None:
    """Return the version that the file of a step must have.

    A write or removal of another hard link of the file changes its status, but not its content.
    """
    planned = step.now.status
    try:
        now = FileStat.of(read_status(step.path))
    except OSError:
        return planned
    if planned is None or now == planned or not stat.S_ISREG(now.mode):
        return planned
    is_same = now._replace(changed_ns=planned.changed_ns) == planned
    return now if is_same and digest_file(step.path) == step.now.digest else planned


def _make_folders(folders: Sequence[Path], source: Path | None) -> None:
    """Make folders, given the innermost first, with the modes that they have in the copy."""
    for at, folder in reversed(list(enumerate(folders))):
        make_folder(folder, 0o755 if source is None else source.parents[at].stat().st_mode)


def _remove_folders(folders: Sequence[Path]) -> None:
    """Remove folders, given the innermost first, as far as they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _remove_empty_tree(folder: Path) -> None:
    """Remove a folder that has no files, with the folders in it."""
    for place, _, _ in os.walk(folder, topdown=False):
        Path(place).rmdir()


def _read_content(step: ApplyStep) -> Iterator[bytes]:
    """Yield the new content of a file. Raises `FileProblem` at its end if it is not what was planned."""
    if step.source is None:
        yield step.merged or b""
        return
    digest = hashlib.sha256()
    for chunk in read_chunks(step.source):
        digest.update(chunk)
        yield chunk
    _require_same(digest.hexdigest(), step)


def _require_same(digest: str, step: ApplyStep) -> None:
    if digest != step.after:
        raise FileProblem("the trial changed it meanwhile; look at the difference again")


def remove_emptied_folders(removed: Iterable[tuple[Path, Path]]) -> Iterator[Path]:
    """Remove the folders above removed files that are empty now, and yield the folders in which they were.

    `removed`: each file with the folder of its difference, which stays.
    """
    for path, root in removed:
        with suppress(OSError, FileProblem):
            for folder in path.parents:
                if folder == root:
                    break
                with open_folder(folder.parent) as above:
                    os.rmdir(folder.name, dir_fd=above)
                yield folder.parent


def _count(step: ApplyStep, done: Applied) -> None:
    if step.after is None:
        done.removed += 1
    elif step.now.status is None:
        done.added += 1
    else:
        done.changed += 1
