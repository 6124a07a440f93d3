"""The tool `edit_file`: replaces an exact, unique piece of a text file."""

import difflib
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from ...ports import ToolTraits
from ...workspace.paths import FileProblem, format_path, format_path_from, locate
from ...workspace.text import FileText, TextForm, format_diff, load_text
from ..schema import PlainText, ToolArguments
from .disk import DISK
from .file_system import FileSystem, FileView, PlannedWrite
from .file_tool import WritingFileTool
from .write_file import link_note

_DESCRIPTION = (
    "Replace a piece of a text file. `old` must be in the file exactly once, character by character with all"
    " blanks, without the line numbers of read_file; add lines around it until it is unique, or set"
    " replace_all. The file is replaced atomically and keeps mode, encoding and line ends. Returns a diff."
)
_SIMILAR_ENOUGH = 0.6
_MOST_LINES_COMPARED = 5000
_COMPARING_S = 0.5
_MOST_NUMBERS = 10


class EditFileArguments(ToolArguments):
    path: PlainText = Field(description="The file; relative paths start at the working folder.")
    old: str = Field(min_length=1, description="The exact text to replace.")
    new: str = Field(description="The text to put there; empty to delete.")
    replace_all: bool = Field(False, description="Replace every occurrence. Default: false.")


class EditFile(WritingFileTool[EditFileArguments]):
    traits = ToolTraits(
        word="edit",
        subject="path",
        writes_files=True,
        replaces=("old", "new"),
        replaces_everywhere="replace_all",
        references=("old", "new"),
        shows="content",
        also_called=("edit",),
    )

    def __init__(self, files: FileSystem = DISK) -> None:
        super().__init__("edit_file", _DESCRIPTION, EditFileArguments, files)

    def plan(self, arguments: EditFileArguments, view: FileView) -> PlannedWrite:
        if arguments.old == arguments.new:
            raise FileProblem("old and new are the same text: there is nothing to change.")
        target = locate(view.path, view.context.reach, "read")
        file = load_text(target)
        if file.form is None or file.text is None:
            raise FileProblem(f"{format_path(target)} is a binary file; edit_file changes text only.")
        name = format_path_from(view.path, view.context.cwd)
        text, count = _replace(file.text, arguments, name)
        stored = _encode(target, file.form, text)
        return PlannedWrite(
            target,
            name,
            file,
            stored,
            lambda status: _report(file, text, count, name, link_note(status)),
        )


def _replace(text: str, arguments: EditFileArguments, name: str) -> tuple[str, int]:
    """Return the new text and the number of replacements. Only the kind of line ends may differ from
    `old`.
    """
    old, new = arguments.old, arguments.new
    if old not in text and "\r\n" in text:
        old, new = (piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in (old, new))
    elif "\r\n" in old and old not in text:
        old, new = (piece.replace("\r\n", "\n") for piece in (old, new))
    count = text.count(old)
    if count == 0:
        raise FileProblem(f"old was not found in {name}. {_find_similar_lines(text, arguments.old)}")
    if count > 1 and not arguments.replace_all:
        raise FileProblem(
            f"old is in {name} {count} times ({_list_line_numbers(text, old)}). Add lines around it until it"
            " is unique, or set replace_all."
        )
    return text.replace(old, _with_line_ends_of(text, new)), count


def _with_line_ends_of(text: str, new: str) -> str:
    """Return `new` with CRLF if the file uses CRLF, for an `old` that has only one line."""
    is_crlf = text.count("\r\n") * 2 > text.count("\n")
    return new.replace("\r\n", "\n").replace("\n", "\r\n") if is_crlf else new


def _list_line_numbers(text: str, old: str) -> str:
    numbers: list[str] = []
    at = text.find(old)
    while at >= 0 and len(numbers) < _MOST_NUMBERS:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(numbers)}{', ...' if at >= 0 else ''}"


def _find_similar_lines(text: str, old: str) -> str:
    """Return a text with the lines that are most similar to `old`, which was not found."""
    lines = text.replace("\r\n", "\n").split("\n")
    wanted = max(old.strip().splitlines() or [old], key=len).strip()[:500]
    best, best_ratio = -1, _SIMILAR_ENOUGH
    matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
    latest = time.monotonic() + _COMPARING_S
    for number, line in enumerate(lines[:_MOST_LINES_COMPARED]):
        if time.monotonic() > latest:
            break
        matcher.set_seq1(line.strip()[:500])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            best, best_ratio = (number, ratio) if ratio > best_ratio else (best, best_ratio)
    if best < 0:
        return "Nothing in the file looks like it; read the file again."
    first = max(best - 2, 0)
    near = (f"{first + i + 1:6d}\t{line[:300]}" for i, line in enumerate(lines[first : best + 3]))
    return f"The nearest lines are (blanks count):\n{chr(10).join(near)}"


def _encode(target: Path, form: TextForm, text: str) -> bytes:
    try:
        return form.encode(text)
    except UnicodeEncodeError as error:
        raise FileProblem(
            f"{format_path(target)} is {form.name}, which cannot hold {text[error.start]!r};"
            " nothing was changed. Rewrite it as UTF-8 with write_file, or use other characters."
        ) from None


def _report(file: FileText, text: str, count: int, name: str, notes: Sequence[str]) -> str:
    before, after = (file.text or "").replace("\r\n", "\n"), text.replace("\r\n", "\n")
    message = f"Edited {name}: {count} {'place' if count == 1 else 'places'}."
    return "\n".join([message, *notes, format_diff(before, after, name)])
