"""The tool `write_file`: create a file or replace its whole content."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from actions.ports import Prepared, ToolContext, ToolOutcome, Verified
from actions.tools.arguments import Arguments, PlainText, parsed, spec_of
from actions.tools.atomic import real_target
from actions.tools.diffs import unified
from actions.tools.file_text import FileText, load
from actions.tools.files import FileProblem
from actions.tools.masked_text import refuse_placeholders
from actions.tools.places import resolved, shown, shown_from, size_text
from actions.tools.planned_write import planned, prepared_in_thread, verified, write_planned
from actions.tools.text_form import TextForm
from state.calls import Effect
from state.files import FileChange

_DESCRIPTION = (
    "Create a file, or replace the whole content of one, as one atomic step; missing folders are made."
    " A replaced file keeps its mode, encoding and line ends. To change a part of a file use edit_file."
)


class WriteFileArguments(Arguments):
    path: PlainText = Field(description="The file; relative paths start at the working folder.")
    content: str = Field(description="The complete new content.")


class WriteFile:
    effect: Effect = "verifiable"

    def __init__(self) -> None:
        self.spec = spec_of("write_file", _DESCRIPTION, WriteFileArguments)

    def parse(self, arguments: str) -> WriteFileArguments:
        return parsed(self.spec, WriteFileArguments, arguments)

    def effect_of(self, arguments: WriteFileArguments) -> Effect:
        return self.effect

    def subject(self, arguments: WriteFileArguments) -> str:
        return arguments.path

    def paths(self, arguments: WriteFileArguments) -> Sequence[str]:
        return (arguments.path,)

    async def prepare(self, arguments: WriteFileArguments, context: ToolContext) -> Prepared | ToolOutcome:
        return await prepared_in_thread(lambda: _plan(arguments, context.cwd))

    async def run(self, arguments: WriteFileArguments, context: ToolContext) -> ToolOutcome:
        return await write_planned(context.prepared or await self.prepare(arguments, context))

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        return await verified(changes)


def _plan(arguments: WriteFileArguments, cwd: Path) -> Prepared:
    if arguments.path.endswith("/"):
        raise FileProblem(f"{shown(arguments.path)} names a folder; add the name of the file.")
    content, path = arguments.content, resolved(arguments.path, cwd)
    target = real_target(path)
    old = load(target) if target.exists() else None
    refuse_placeholders("content", content, old)
    form, notes = _form_for(content, old)
    text = content.replace("\n", "\r\n") if _needs_crlf(content, form) else content
    stored = form.encode(text)
    name = shown_from(path, cwd)

    def report(status: os.stat_result | None) -> str:
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        verb = "Created" if old is None else "Overwrote"
        said = f"{verb} {name}: {lines:,} {'line' if lines == 1 else 'lines'}, {size_text(len(stored))}."
        return "\n".join([said, *notes, *link_note(status), *_difference(old, content, name)])

    return planned(target, old, stored, report)


def _form_for(content: str, old: FileText | None) -> tuple[TextForm, list[str]]:
    """Choose how to store the content: as the old file was, where that can hold it."""
    if old is None or old.form is None:
        return TextForm(), ["The old content was binary."] if old else []
    try:
        old.form.encode(content)
    except UnicodeEncodeError:
        return replace(TextForm(), newline=old.form.newline), [
            f"The file was {old.form.name}, which cannot hold the new content: it is UTF-8 now."
        ]
    kept = [f"Kept its form: {old.form.name}."] if old.form != TextForm(newline=old.form.newline) else []
    if _needs_crlf(content, old.form):
        kept.append("Kept its CRLF line ends.")
    mark_twice = content.startswith("\ufeff") and old.form.mark
    return (replace(old.form, mark=b"") if mark_twice else old.form), kept


def _needs_crlf(content: str, form: TextForm) -> bool:
    return form.newline == "\r\n" and "\r\n" not in content


def link_note(old: os.stat_result | None) -> list[str]:
    """Say that other names of a replaced file still hold the old content."""
    if old is None or old.st_nlink < 2:
        return []
    return [f"The file had {old.st_nlink} names (hard links); the others keep the old content."]


def _difference(old: FileText | None, content: str, name: str) -> list[str]:
    if old is None or old.text is None:
        return []
    before, after = old.text.replace("\r\n", "\n"), content.replace("\r\n", "\n")
    return [unified(before, after, name)] if before != after else ["The content is the same as before."]
