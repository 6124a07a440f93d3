"""The tool `write_file`: creates a file, or replaces its whole content."""

import os
from dataclasses import replace

from pydantic import Field

from ...ports import ToolTraits
from ...workspace.paths import (
    FileProblem,
    format_count,
    format_path,
    format_path_from,
    format_size,
    locate,
)
from ...workspace.text import FileText, TextForm, format_diff, load_text
from ..schema import PlainText, ToolArguments
from .disk import DISK
from .file_system import FileSystem, FileView, PlannedWrite
from .file_tool import WritingFileTool

_DESCRIPTION = (
    "Create a file, or replace the whole content of one, as one atomic step; missing folders are made."
    " A replaced file keeps its mode, encoding and line ends. To change a part of a file use edit_file."
)


class WriteFileArguments(ToolArguments):
    path: PlainText = Field(description="The file; relative paths start at the working folder.")
    content: str = Field(description="The complete new content.")


class WriteFile(WritingFileTool[WriteFileArguments]):
    traits = ToolTraits(
        word="write",
        subject="path",
        writes_files=True,
        content="content",
        references=("content",),
        also_called=("write",),
    )

    def __init__(self, files: FileSystem = DISK) -> None:
        super().__init__("write_file", _DESCRIPTION, WriteFileArguments, files)

    def plan(self, arguments: WriteFileArguments, view: FileView) -> PlannedWrite:
        if arguments.path.endswith("/"):
            raise FileProblem(f"{format_path(arguments.path)} names a folder; add the name of the file.")
        content = arguments.content
        target = locate(view.path, view.context.reach, "written", is_new=True)
        old = load_text(target) if target.exists() else None
        form, notes = _choose_form(content, old)
        text = content.replace("\n", "\r\n") if _needs_crlf(content, form) else content
        stored = form.encode(text)
        name = format_path_from(view.path, view.context.cwd)

        def report(status: os.stat_result | None) -> str:
            lines = content.count("\n") + (not content.endswith("\n") and content != "")
            verb = "Created" if old is None else "Overwrote"
            message = f"{verb} {name}: {format_count(lines, 'line')}, {format_size(len(stored))}."
            return "\n".join([message, *notes, *link_note(status), *_format_difference(old, content, name)])

        return PlannedWrite(target, name, old, stored, report, is_complete=True)


def _choose_form(content: str, old: FileText | None) -> tuple[TextForm, list[str]]:
    """Choose how to store the content: in the form of the old file, if this form can represent the
    content.
    """
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
    """Return a note if other hard links of a replaced file still have the old content, else nothing."""
    if old is None or old.st_nlink < 2:
        return []
    return [f"The file had {old.st_nlink} names (hard links); the others keep the old content."]


def _format_difference(old: FileText | None, content: str, name: str) -> list[str]:
    if old is None or old.text is None:
        return []

    before, after = old.text.replace("\r\n", "\n"), content.replace("\r\n", "\n")
    return [format_diff(before, after, name)] if before != after else ["The content is the same as before."]
