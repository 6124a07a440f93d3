"""A text file as it is before a change."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from actions.tools.atomic import Version
from actions.tools.files import FileProblem, open_regular, translated
from actions.tools.places import shown, size_text
from actions.tools.text_form import TextForm, text_form

MAX_BYTES = 64_000_000
"""Larger files are not changed as a whole."""


@dataclass(frozen=True, slots=True)
class FileText:
    version: Version
    mode: int
    """Permission bits."""
    content: bytes
    form: TextForm | None
    """None if the file is no text."""
    text: str | None


def load(path: Path) -> FileText:
    """Read a whole file, with what is needed to notice that it was changed since."""
    with open_regular(path) as file, translated(path, "read"):
        status = os.fstat(file.fileno())
        version = Version.of(status)
        if version.size > MAX_BYTES:
            raise FileProblem(
                f"{shown(path)} is too large to be changed as a whole ({size_text(version.size)};"
                f" the limit is {size_text(MAX_BYTES)}). Use a shell command."
            )
        content = file.read(MAX_BYTES + 1)
    form = text_form(content)
    text = form.decode(content) if form else None
    return FileText(version, stat.S_IMODE(status.st_mode), content, form, text)
