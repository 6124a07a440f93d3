"""`sandbur sessions export` and `import`: write a session to a file, and read it into a store."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ....actions.workspace.paths import format_count
from ....agent.session.decisions import whoami
from ....agent.session.secrets import SecretMasker, masker_for
from ....state.errors import OutputLost, UsageError
from ....state.maintenance.export import export_session as export_records
from ....state.maintenance.export import list_texts
from ....state.maintenance.import_ import ImportResult, check_import, write_import
from ....state.store.sessions.family import count_descendants
from ....state.store.store import Store
from ...chat.decisions.questions import OneKey
from ...cli.open_session import open_runtime
from ...report.html import report
from ...terminal.live import ProgressLine
from ...terminal.standard_output import exit_on_signals
from ...terminal.terminal import encode, is_interactive, put, say
from ...terminal.text.sanitize import one_line
from .command import SessionsCommand
from .show import describe_sub_agents

_SEARCHED_AT_ONCE = 50_000
"""The characters of records that are searched for secrets together."""


async def export_session(command: SessionsCommand) -> int:
    to_stdout = command.file in ("", "-")
    # On a terminal the exported lines already show that the command works.
    is_wanted = not (to_stdout and sys.stdout.isatty())
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session)
        with exit_on_signals():
            with ProgressLine("Looking for secrets in record", is_wanted=is_wanted) as looking:
                form, as_recorded = command.export_format, command.as_recorded
                pieces = _pieces(runtime.store, session_id, form, as_recorded, looking.show)
            with ProgressLine("Exporting line", is_wanted=is_wanted) as progress:
                if to_stdout:
                    for piece in _count_lines(pieces, progress.show):
                        put(piece, end="")
                    return 0
                lines = write_new_file(Path(command.file), pieces, progress.show)
        is_whole = command.export_format == "jsonl"
        count = count_descendants(runtime.store.database, [session_id]).get(session_id, 0) if is_whole else 0
    with_more = describe_sub_agents(count)
    size = format_count(lines, "line")
    say(f"Exported session {session_id}{with_more}: {size} in {one_line(command.file)}.")
    return 0


def write_export(store: Store, session_id: str, form: str, file: Path) -> int:
    """Write a session to a file as `jsonl`, `html` or `md`; return the number of lines."""
    return write_new_file(file, _pieces(store, session_id, form))


def _ignore(number: int) -> None:
    """Ignore the progress."""


def _count_lines(pieces: Iterable[str], watch: Callable[[int], object]) -> Iterable[str]:
    """Yield the pieces; after each piece call `watch` with the number of lines so far."""
    lines = 0
    for piece in pieces:
        yield piece
        lines += piece.count("\n")
        watch(lines)


def _pieces(
    store: Store,
    session_id: str,
    form: str,
    as_recorded: bool = False,
    watch: Callable[[int], object] = _ignore,
) -> Iterable[str]:
    """Yield the content of the file: each record as a line of JSON, or the report as HTML or Markdown.

    `watch` is called with the number of each record that is searched for secrets. Raises `UsageError` if a
    record has an unmasked secret and `as_recorded` is false.
    """
    if form != "jsonl":
        return report(store, session_id, form)
    if not as_recorded:
        _refuse_secrets(store, session_id, watch)
    return (encode(record) + "\n" for record in export_records(store.database, session_id))


def _refuse_secrets(store: Store, session_id: str, watch: Callable[[int], object]) -> None:
    """Raise `UsageError` if records contain unmasked secrets; masking them now would break the hash chain."""
    masker = masker_for(os.environ, Path(store.index.settings(session_id).cwd))
    number, size, batch = 0, 0, list[str]()
    for place, record in enumerate(export_records(store.database, session_id), 1):
        watch(place)
        texts = list(list_texts(record))
        batch += texts
        size += sum(map(len, texts))
        if size > _SEARCHED_AT_ONCE:
            number += _count_with_secrets(masker, batch)
            size, batch = 0, list[str]()
    number += _count_with_secrets(masker, batch)
    if number:
        what = "1 record contains" if number == 1 else f"{number} records contain"
        raise UsageError(
            f"{what} text that looks like a secret and is not masked.",
            "For a masked report: --format md or html. To export the records as they are: --as-recorded",
        )


def _count_with_secrets(masker: SecretMasker, texts: Sequence[str]) -> int:
    """Return how many of the texts contain secrets. They are searched one by one only if one of them does."""
    joined = "\n".join(texts)
    return sum(masker.text(text) != text for text in texts) if masker.text(joined) != joined else 0


async def import_session(command: SessionsCommand) -> int:
    """Print the content of an export, ask the person, and import it."""
    with _source(command.session) as file:
        async with open_runtime(command) as runtime:
            with exit_on_signals(), ProgressLine("Checking record") as progress:
                checked = check_import(runtime.store.database, file, progress.show)
            for line in _describe_file(checked.result):
                say(line)
            if not command.yes:
                await _confirm(command.session)
            write_import(runtime.store.database, runtime.store.tenant, checked, whoami())
            is_volatile = runtime.store.database.is_volatile
    put(checked.export.session_id)
    goes_on = f"Continue it with: sandbur -r {checked.export.session_id}"
    say(f"Imported. {'It ends with this process.' if is_volatile else goes_on}")
    return 0


def _describe_file(imported: ImportResult) -> Iterable[str]:
    """Yield lines about the file; rules are not cut, because the person must see them in full."""
    settings = imported.settings
    ancestors = len(imported.imported_ids) - 1 - imported.sub_agents
    more = f", with the sessions it was forked from ({ancestors})" if ancestors > 0 else ""
    more += f", with its sub-agents ({imported.sub_agents})" if imported.sub_agents else ""
    records = format_count(imported.records, "record")
    yield f"{one_line(imported.title) or 'A session'}: {records}{more}. Its settings:"
    missing = "" if Path(settings.cwd).is_dir() else " (does not exist here: choose another with -C DIR)"
    yield f"  folder         {one_line(settings.cwd)}{missing}"
    yield f"  model          {', '.join(map(one_line, (settings.model, *settings.fallback_models)))}"
    yield from (f"  never asks     {one_line(rule)}" for rule in settings.allow)
    yield from (f"  never runs     {one_line(rule)}" for rule in settings.deny)
    yield f"  system prompt  {len(settings.system_prompt):,} characters: `sandbur sessions export` shows them"
    yield from (f"  to be sent     {one_line(one.text)}" for one in imported.waiting)
    yield from (f"  left out       the command {one_line(one.text)}" for one in imported.commands)
    yield "  mode           always interactive after an import; approvals are not valid here"
    yield from (f"  left out       the added folder {one_line(folder)}" for folder in settings.add_dirs)


async def _confirm(name: str) -> None:
    """Ask the person at the terminal. Raises `UsageError` if the answer is not yes."""
    if name == "-" or not is_interactive():
        raise UsageError(
            "Nothing was imported: the settings above have to be confirmed.",
            "Add --yes if you trust the author of the file.",
        )

    if (await OneKey("Import it with these settings? [y/n] ", "yn", safe="n").ask_alone()).key != "y":
        raise UsageError("Nothing was imported.")


def write_new_file(path: Path, pieces: Iterable[str], watch: Callable[[int], object] = _ignore) -> int:
    """Write a new file with mode 0600, and return the number of lines; a partly written file is removed.

    `watch` is called with the number of lines after each piece.
    """
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"The file {path} exists already.", "Name another one.") from None
    except OSError as error:
        raise UsageError(f"The file {path} cannot be written: {error.strerror}.") from None
    lines = 0
    with ExitStack() as undo:
        undo.callback(path.unlink, missing_ok=True)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                for piece in pieces:
                    file.write(piece)
                    lines += piece.count("\n")
                    watch(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputLost(f"The file {path} cannot be written: {error.strerror}.") from None
        undo.pop_all()
    return lines


@contextmanager
def _source(name: str) -> Generator[BinaryIO]:
    """Open the file to import; stdin is first copied to a file, because it is read more than once."""
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
            raise UsageError(f"{name} is not a regular file.", f"Use: sandbur sessions import - < {name}")
        yield file
