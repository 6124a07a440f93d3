"""`sandbur index add`, `update` and `remove`: they change knowledge bases."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from .....actions.workspace.paths import format_count
from .....agent.knowledge.retrieval.indexing.indexer import IndexReport, count_by_reason
from .....agent.knowledge.retrieval.passages import name_source
from .....state.errors import SandburError, UsageError
from .....state.search.knowledge_rows import StoredBase
from ....terminal.live import ProgressLine
from ....terminal.standard_output import exit_on_signals
from ....terminal.terminal import say
from ....terminal.text.sanitize import one_line
from .command import IndexCommand
from .opened_library import OpenedLibrary, make_update_command, open_library
from .watching import watch

_MOST_NAMED = 5


async def add(command: IndexCommand) -> int:
    """Add a folder, a file or a page. If it is interrupted, the same command goes on."""
    async with open_library(command) as opened:
        base = await opened.open_base()
        with exit_on_signals(), ProgressLine("Indexing file") as progress:
            report = await opened.library.add(base, command.what, progress.show)
        _print_report(report, base.name, opened)
        is_described = await _describe(opened, base, command.describe)
        await _embed(opened, base)
    return 0 if is_described else 1


async def update(command: IndexCommand) -> int:
    """Update the base that is named, or all bases of this folder."""
    async with open_library(command) as opened:
        if command.base:
            bases = [await opened.find_base()]
        else:
            bases = await opened.library.list_bases(opened.scopes)
        is_described = True
        for base in bases:
            with exit_on_signals(), ProgressLine("Indexing file") as progress:
                report = await opened.library.update(base, progress.show)
            _print_report(report, base.name, opened)
            is_described &= await _describe(opened, base, command.describe)
            await _embed(opened, base, command.reembed)
        if not bases:
            say("There are no knowledge bases here. Make one: sandbur index add DIR")
        if command.watch and bases:
            await watch(opened, bases, command.describe)
    return 0 if is_described else 1


async def _describe(opened: OpenedLibrary, base: StoredBase, model: str) -> bool:
    """Let a model describe the pictures that have no description; return whether that worked for all."""
    if not model:
        return True
    describer = opened.make_describer(model)
    with exit_on_signals(), ProgressLine("Describing picture") as progress:
        report = await opened.library.describe(base, describer, say, progress.show)
    if report.described:
        pictures = "1 picture has" if report.described == 1 else f"{report.described:,} pictures have"
        say(f"{pictures} a description now.")
    for why, count in count_by_reason(report.problems).items():
        paths = [name_source(path, opened.cwd) for path, reason in report.problems if reason == why]
        more = f" and {count - _MOST_NAMED:,} more" if count > _MOST_NAMED else ""
        say(one_line(f"Not described: {', '.join(paths[:_MOST_NAMED])}{more}: {why}"))
    return not report.problems


async def _embed(opened: OpenedLibrary, base: StoredBase, is_new_model: bool = False) -> None:
    """Make the vectors that are missing. If that fails, say what is kept, and raise the failure."""
    try:
        with exit_on_signals(), ProgressLine("Making the vector of passage") as progress:
            await opened.library.embed(base, progress.show, is_new_model=is_new_model)
    except UsageError:  # it says itself what to do
        say("The files are stored and found by words.")
        raise
    except SandburError:
        make = make_update_command(base)
        say(one_line(f"The files are stored and found by words. This makes the vectors: {make}"))
        raise


async def remove(command: IndexCommand) -> int:
    """Remove what was added, or the whole base after a question."""
    async with open_library(command) as opened:
        base = await opened.find_base()
        if not command.what and not command.yes:
            _require_consent(base.name)
        with exit_on_signals():
            count = await opened.library.remove(base, command.what or None)
        files = format_count(count, "file")
        say(one_line(f"Removed {files} from the index of {base.name}. The files themselves are unchanged."))
    return 0


def _require_consent(name: str) -> None:
    """Ask the person at the terminal. Raises `UsageError` without a yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"This removes the knowledge base {name}.", "Confirm it with --yes.")
    say(one_line(f"Remove the knowledge base {name}? The files themselves stay. [y/N] "))
    with exit_on_signals():
        answer = sys.stdin.readline()
    if answer.strip().lower() not in ("y", "yes"):
        raise UsageError("Nothing was removed.")


def _print_report(report: IndexReport, name: str, opened: OpenedLibrary) -> None:
    parts = ((report.added, "added"), (report.changed, "changed"), (report.removed, "removed"),
             (report.unchanged, "unchanged"))  # fmt: skip
    counts = ", ".join(f"{count:,} {word}" for count, word in parts if count) or "no files"
    say(one_line(f"Files of {name}: {counts}."))
    for line in _describe_left_out(report, opened):
        say(one_line(line))


def _describe_left_out(report: IndexReport, opened: OpenedLibrary) -> Iterator[str]:
    """Yield a line for each reason, with the first files that it concerns."""
    for why, count in count_by_reason(report.left_out).items():
        paths = [name_source(path, opened.cwd) for path, reason in report.left_out if reason == why]
        named = ", ".join(paths[:_MOST_NAMED])
        more = f" and {count - _MOST_NAMED:,} more" if count > _MOST_NAMED else ""
        yield f"Left out: {named}{more}: {why}."
