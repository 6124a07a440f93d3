"""`sandbur sessions export` and `import`: a session as one file, out of a store and into one."""

import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from ....state.errors import OutputLost, UsageError
from ...json_output import encoded
from ...open_session import opened
from ...terminal.sanitize import one_line
from ...terminal.terminal import put, say

if TYPE_CHECKING:
    from ....state.maintenance.import_ import Imported
    from ....state.store.store import Store
    from .command import SessionsCommand


async def export_session(command: "SessionsCommand") -> int:
    async with opened(command) as runtime:
        session_id = runtime.store.find(command.session)
        pieces = _pieces(runtime.store, session_id, command.export_format)
        if command.file in ("", "-"):
            for piece in pieces:
                put(piece, end="")
            return 0
        lines = _write(Path(command.file), pieces)
    say(f"Exported session {session_id}: {lines} lines in {one_line(command.file)}.")
    return 0


def _pieces(store: "Store", session_id: str, form: str) -> Iterable[str]:
    """Return what the file holds: every record as a line of JSON, or the report."""
    if form != "jsonl":
        from ...report.html import report

        return report(store, session_id, form)
    from ....state.maintenance.export import export_session

    return (encoded(record) + "\n" for record in export_session(store.database, session_id))


async def import_session(command: "SessionsCommand") -> int:
    from ....state.maintenance.import_ import import_session

    with _source(command.session) as file:
        async with opened(command) as runtime:
            imported = import_session(runtime.store.database, runtime.store.tenant, file)
    put(imported.session_id)
    for line in _said(imported):
        say(line)
    return 0


def _said(imported: "Imported") -> Iterable[str]:
    settings = imported.settings
    ancestors = len(imported.brought) - 1
    more = f" and what it was forked from ({ancestors})" if ancestors > 0 else ""
    yield f"Imported {one_line(imported.title) or 'a session'}: {imported.records} records{more}."
    if not Path(settings.cwd).is_dir():
        yield f"Its folder {one_line(settings.cwd)} is not here; name another one with -C DIR."
    if settings.allow:
        yield f"It lets these calls pass unasked: {', '.join(map(one_line, settings.allow))}."
    yield f"Go on with it: sandbur -r {imported.session_id}"


def _write(path: Path, pieces: Iterable[str]) -> int:
    """Write a new file that only its owner can read; a half-written one goes. Return the lines."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"The file {path} exists already.", "Name another one.") from None
    except OSError as error:
        raise UsageError(f"The file {path} cannot be written: {error.strerror}.") from None
    lines = 0
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            for piece in pieces:
                file.write(piece)
                lines += piece.count("\n")
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OutputLost(f"The file {path} cannot be written: {error.strerror}.") from None
        raise
    return lines


@contextmanager
def _source(name: str) -> Generator[BinaryIO]:
    """Open the file to import; stdin is copied to one first, for it is read more than once."""
    if name == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            yield cast(BinaryIO, copy)
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"The file {name} cannot be read: {error.strerror}.") from None
    with file:
        if not file.seekable():
            raise UsageError(f"{name} is no regular file.", f"Pipe it in: sandbur sessions import - < {name}")
        yield file
