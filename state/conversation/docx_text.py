"""Reads a Word document (DOCX) as Markdown: headings, paragraphs, lists and tables, in their order."""

import io
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ..errors import UsageError
from ..process.installation import make_install_command

_MAIN_PART = b"word/document.xml"
_MAX_UNPACKED_BYTES = 200_000_000
"""The most bytes of all unpacked parts. A small archive can contain a very large text."""
_DAMAGES = (LookupError, ValueError, TypeError, AttributeError, OSError, SyntaxError)
"""The exceptions of the library for documents that are not valid archives or have no valid XML."""
_HEADING = re.compile(r"heading ([1-9])|(title)", re.IGNORECASE)
_LIST = re.compile(r"list (bullet|number)(?: (\d))?", re.IGNORECASE)


def is_docx(content: bytes) -> bool:
    """Return whether these bytes are a Word document: an archive that contains the name of its main part."""
    return content.startswith(b"PK\x03\x04") and _MAIN_PART in content


def read_docx(content: bytes, name: str) -> str:
    """Return the text of a Word document as Markdown.

    Raises `UsageError` if the library is not installed, or if the document is damaged or too large when
    unpacked.
    """
    try:
        # Both modules are loaded here, because they take longer to load than a start may take.
        zipfile: Any = import_module("zipfile")
        docx: Any = import_module("docx")
        import_module("docx.opc.exceptions")
    except ImportError:
        raise UsageError(
            f"{name} is a Word document, but the library for them is not installed.",
            f"Run: {make_install_command('docx')}",
        ) from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
        if unpacked > _MAX_UNPACKED_BYTES:
            raise UsageError(f"{name} is too large to be read: it unpacks to {unpacked:,} bytes.")
        document = docx.Document(io.BytesIO(content))
        return "\n\n".join(filter(None, _join_lists(document.iter_inner_content()))).strip()
    except (
        *_DAMAGES,
        zipfile.BadZipFile,
        docx.exceptions.PythonDocxError,
        docx.opc.exceptions.OpcError,
    ) as error:
        raise UsageError(f"{name} is a damaged Word document: {type(error).__name__}.") from None


def _join_lists(blocks: Any) -> Iterator[str]:
    """Yield the blocks as Markdown. The items of one list become lines of one block."""
    items: list[str] = []
    for block in blocks:
        text, is_item = _format_table(block) if hasattr(block, "rows") else _format_paragraph(block)
        if is_item:
            items.append(text)
            continue
        yield "\n".join(items)
        items = []
        yield text
    yield "\n".join(items)


def _format_paragraph(paragraph: Any) -> tuple[str, bool]:
    """Return a paragraph as Markdown, and whether it is an item of a list."""
    text = str(paragraph.text).strip()
    style = str(getattr(paragraph.style, "name", "") or "")
    if not text:
        return "", False
    if heading := _HEADING.fullmatch(style):
        return f"{'#' * int(heading[1] or 1)} {text}", False
    if item := _LIST.fullmatch(style):
        mark = "-" if item[1].lower() == "bullet" else "1."
        return f"{'  ' * (int(item[2] or 1) - 1)}{mark} {text}", True
    return text, False


def _format_table(table: Any) -> tuple[str, bool]:
    """Return a table as rows of Markdown. Its first row is the head."""
    rows = [[_format_cell(cell) for cell in row.cells] for row in table.rows]
    if not rows:
        return "", False
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]]), False


def _format_cell(cell: Any) -> str:
    return " ".join(str(cell.text).split()).replace("|", "\\|")
