"""Computes the fingerprint of what an approval covers. It is taken with the question and compared at the
start.
"""

import os
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ....state.calls import ApprovalFingerprint, FileChange, FingerprintedFile, PendingCall, digest_arguments
from ....state.conversation.approved_plan import OUTSIDE_PLAN
from ....state.conversation.messages import encodable
from ...ports import FilesRun, Fingerprinted, RunsFiles, Tool, implements
from ...workspace.content_cache import format_large_version, read_file_state
from ...workspace.paths import format_path, format_path_from, make_absolute
from ..bugs_logged import BugsLogged

_BEYOND = "more files than an approval can cover"
_UNSEEN = "files that could not be examined"
"""Entries in place of the files that a fingerprint leaves out."""
_MAX_DIGESTED_BYTES = 8_000_000
_MAX_DIGESTED_IN_ALL = 64_000_000
"""The most bytes that are digested of the files a command names. Further files are identified by size and
times.
"""


def take_fingerprint(call: PendingCall, tool: Tool, arguments: Any, cwd: Path) -> ApprovalFingerprint:
    """Return the fingerprint of a call and of the files that it names, as they are on disk now."""
    files: list[FingerprintedFile] = []
    with BugsLogged(f"the files that a call of {call.tool} names") as looking:
        if implements(tool, Fingerprinted):
            files += tool.take_fingerprints(arguments)
        else:
            is_bytewise = tool.traits.writes_files
            files += (_fingerprint_file(path, cwd, is_bytewise) for path in tool.paths(arguments))
        if implements(tool, RunsFiles):
            files += _files_run(tool.files_run(arguments, cwd), {file.path for file in files}, cwd)
    if looking.bug:
        files.append(FingerprintedFile(path=_UNSEEN, real=""))
    return ApprovalFingerprint(
        call=digest_arguments(
            "\n".join((call.tool, call.arguments, *filter(None, (call.version, call.preset))))
        ),
        cwd=_resolve(cwd),
        concern=call.reason.removeprefix(f"{OUTSIDE_PLAN}: "),
        files=tuple(files),
    )


def why_incomplete(binding: ApprovalFingerprint | None) -> str:
    """Return which files an approval would not cover, or an empty text if it covers all."""
    files = () if binding is None else binding.files
    left_out = [file.path for file in files if file.path in (_BEYOND, _UNSEEN)]
    if not left_out:
        return ""
    seen = len(files) - len(left_out)
    others = f"files other than these {seen}" if seen else "they"
    return f"it names {' and '.join(left_out)}: {others} may change before it starts"


def _files_run(named: FilesRun, known: Container[str], cwd: Path) -> Iterator[FingerprintedFile]:
    left = _MAX_DIGESTED_IN_ALL
    for path in named.paths:
        if path in known:
            continue
        size = _size_of(path)
        is_digested = size <= min(left, _MAX_DIGESTED_BYTES)
        left -= size if is_digested else 0
        yield _fingerprint_file(path, cwd, is_digested, is_versioned=True)
    if not named.is_complete:
        yield FingerprintedFile(path=_BEYOND, real="")


def _size_of(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_size  # noqa: PTH116 -- as `_fingerprint_file` does
    return 0


def _fingerprint_file(
    path: str, cwd: Path, is_bytewise: bool, is_versioned: bool = False
) -> FingerprintedFile:
    """Return the real path, the identity and the content digest of a file.

    `is_bytewise`: digest the whole content. `is_versioned`: use size, change time and modification time
    instead of a digest.
    """
    place = make_absolute(path, cwd)
    real, file, content = os.fspath(place), "", ""
    with suppress(OSError):
        real = os.path.realpath(place)
        status = os.stat(real)  # noqa: PTH116 -- as realpath names it
        file = f"{status.st_dev}:{status.st_ino}"
        if is_bytewise and not stat.S_ISDIR(status.st_mode):
            # A file that is too large for a digest is identified by its size and time.
            content = read_file_state(Path(real)).digest or format_large_version(
                status.st_size, status.st_mtime_ns
            )
        elif is_versioned and not stat.S_ISDIR(status.st_mode):
            content = f"{format_large_version(status.st_size, status.st_mtime_ns)}:{status.st_ctime_ns}"
    return FingerprintedFile(path=encodable(path), real=encodable(real), file=file, content=content)


def _resolve(path: Path) -> str:
    return encodable(os.path.realpath(path))


class Discrepancy(NamedTuple):
    """One difference between the approved call and the call now."""

    text: str
    """The difference as a clause for people."""
    before: FingerprintedFile | None = None
    after: FingerprintedFile | None = None


def discrepancies(bound: ApprovalFingerprint, now: ApprovalFingerprint) -> Iterator[Discrepancy]:
    """Yield the differences between the approved call and the call now. With any of them, the approval is
    void.
    """
    if bound.call != now.call:
        yield Discrepancy("it is not the call that was approved")
    if bound.cwd != now.cwd:
        yield Discrepancy(
            f"the working folder is now {format_path(now.cwd)}, it was {format_path(bound.cwd)}"
        )
    known = {file.path: file for file in bound.files}
    for file in now.files:
        name, before = format_path_from(file.path, Path(now.cwd)), known.get(file.path)
        if before is None:
            yield Discrepancy(f"it would also use {name}")
        elif text := _change(name, before, file):
            yield Discrepancy(text, before, file)
    if bound.concern != now.concern:
        yield Discrepancy(now.concern)


def _change(name: str, before: FingerprintedFile, after: FingerprintedFile) -> str:
    if before.real != after.real:
        return f"{name} now leads to {format_path(after.real)}; it led to {format_path(before.real)}"
    if before.file and not after.file:
        return f"{name} is gone"
    if after.file and not before.file:
        return f"{name} exists now, it did not"
    if before.content != after.content:
        return f"{name} has changed"
    return f"{name} was replaced by another file" if before.file != after.file else ""


def is_made_by(discrepancy: Discrepancy, changes: Sequence[FileChange]) -> bool:
    """Return whether the discrepancy comes from exactly these changes, which calls made that were approved
    together.
    """
    before, after = discrepancy.before, discrepancy.after
    if before is None or after is None or before.real != after.real:
        return False
    made = [change for change in changes if change.path == after.real]
    if not made or not after.content:
        return bool(made and after.file)
    links = [before.content or None, *(change.after for change in made)]
    is_unbroken = all(change.before == link for change, link in zip(made, links, strict=False))
    return is_unbroken and links[-1] == after.content


def pre_images_fit(changes: Iterable[FileChange], now: ApprovalFingerprint) -> bool:
    """Return whether a write replaces exactly the contents in the fingerprint.

    The fingerprint does not contain virtual files, because their back end compares the content when it
    writes.
    """
    contents = {file.real: file.content or None for file in now.files}
    return all(
        change.is_virtual or (change.path in contents and contents[change.path] == change.before)
        for change in changes
    )
