"""`sandbur index list` and `search`: they print what knowledge bases contain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .....actions.workspace.paths import format_count
from .....agent.knowledge.retrieval.passages import Passage, name_source
from .....state.process.cancellation import run_in_thread
from .....state.search.knowledge_rows import StoredBase
from ....terminal.terminal import encode, put, say
from ....terminal.text.sanitize import one_line
from ....terminal.text.wrap import put_wrapped
from .command import IndexCommand
from .opened_library import OpenedLibrary, make_update_command, open_library

_MOST_LINES, _MOST_LINE_CHARS = 6, 160
_NOTES = {"changed": "changed since it was indexed", "gone": "gone"}


async def list_bases(command: IndexCommand) -> int:
    """Print each base with what was added to it."""
    async with open_library(command) as opened:
        bases = await opened.library.list_bases(opened.scopes)
        bases = [base for base in bases if command.base in ("", base.name)]
        rows = [await run_in_thread(_describe_base, opened, base) for base in bases]
    for row in rows:
        if command.json:
            put(encode({name: value for name, value in row.items() if name != "update"}))
        else:
            for line in _format_base(row):
                put_wrapped(one_line(line))
    if not rows and not command.json:
        say("There are no knowledge bases here. Make one: sandbur index add DIR")
    return 0


def _describe_base(opened: OpenedLibrary, base: StoredBase) -> dict[str, Any]:
    rows = opened.library.rows
    sources, pictures = rows.list_sources(base), rows.list_pictures(base)
    model = base.model or opened.embeddings
    return {
        "name": base.name,
        "scope": "project" if base.scope else "user",
        "project": base.scope or None,
        "files": sum(not source.problem for source in sources),
        "left_out": sum(bool(source.problem) for source in sources),
        "chunks": sum(source.chunks for source in sources),
        "pictures": len(pictures),
        "described": sum(bool(one.chunk.title) for one in pictures),
        "embeddings": base.model or None,
        "without_vectors": len(rows.list_without_vectors(base)) if model else None,
        "update": make_update_command(base),
        "added": [
            {"location": root.location, "indexed_at": root.looked_at or None}
            for root in rows.list_roots(base)
        ],
    }


def _format_base(row: dict[str, Any]) -> Iterator[str]:
    where = "this project" if row["scope"] == "project" else "all projects"
    vectors = f", embeddings {row['embeddings']}" if row["embeddings"] else ""
    counts = f"{format_count(row['files'], 'file')}, {format_count(row['chunks'], 'passage')}"
    if row["pictures"]:
        counts += f", {format_count(row['pictures'], 'picture')}, {row['described']:,} of them described"
    yield f"{row['name']}  ({where}: {counts}{vectors})"
    if missing := row["without_vectors"]:
        yield f"    {format_count(missing, 'passage')} without a vector, found by words only: {row['update']}"
    for root in row["added"]:
        state = "" if root["indexed_at"] else "  (not finished: run `sandbur index update`)"
        yield f"    {root['location']}{state}"


async def search(command: IndexCommand) -> int:
    """Print the passages that match a query; exit code 1 if there are none."""
    async with open_library(command) as opened:
        bases = await opened.library.list_bases(opened.scopes)
        if command.base:
            bases = [await opened.find_base()]
        notices = await opened.library.refresh(bases)
        notices += _describe_missing_vectors(opened, bases)
        passages = await opened.library.search(command.what, bases, command.limit, notices=notices)
    for notice in notices:
        say(one_line(notice))
    for passage in passages:
        if command.json:
            put(encode(_describe_passage(passage, opened)))
        else:
            for line in _format_passage(passage, opened):
                put_wrapped(line)
    if not passages:
        say("Nothing matches." if bases else "There are no knowledge bases here.")
    return 0 if passages else 1


def _describe_missing_vectors(opened: OpenedLibrary, bases: Sequence[StoredBase]) -> Iterator[str]:
    """Yield a sentence for each base that is searched by words although there is an embedding model."""
    for base in bases if opened.embeddings else ():
        if not base.model:
            make = make_update_command(base)
            yield f"{base.name} has no vectors, so it is searched by words only. Make them: {make}"


def _describe_passage(passage: Passage, opened: OpenedLibrary) -> dict[str, Any]:
    return {
        "base": passage.base,
        "path": name_source(passage.path, opened.cwd),
        "unit": passage.unit,
        "first": passage.first,
        "last": passage.last,
        "title": passage.title,
        "score": round(passage.score, 4),
        "digest": passage.digest,
        "state": passage.state,
        "text": passage.text,
    }


def _format_passage(passage: Passage, opened: OpenedLibrary) -> Iterator[str]:
    note = _NOTES.get(passage.state)
    place = passage.describe_place(opened.cwd)
    yield one_line("  ".join(filter(None, (place, passage.title, note and f"({note})"))))
    lines = [line for line in passage.text.split("\n") if line.strip()]
    for line in lines[:_MOST_LINES]:
        yield f"    {one_line(line)[:_MOST_LINE_CHARS]}"
    yield ""
