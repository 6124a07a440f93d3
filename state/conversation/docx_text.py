"""Reads a Word document (DOCX) as Markdown: headings, paragraphs, lists and tables, in their order."""

import io
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from ..errors import UsageError
from ..process.installation import make_install_command

_MAIN_PART = b"word/document.xml"
_MAX_UNPACKED_BYTES = 200_000_000
"""The most bytes of all unpacked parts. A small archive can contain a very large text."""
_MAX_XML_BYTES = 30_000_000
"""The same for the parts with text, which are held in memory in many pieces."""
_MAX_COLUMNS = 200
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
"""The namespace before the names of elements and attributes."""
_MARKS = {f"{_W}tab": "\t", f"{_W}ptab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_DAMAGES = (LookupError, ValueError, TypeError, AttributeError, OSError, SyntaxError)
"""The exceptions of the library for documents that are not valid archives or have no valid XML."""
_HEADING = re.compile(r"heading ([1-9])|(title)", re.IGNORECASE)
_LIST = re.compile(r"list (bullet|number)(?: (\d))?", re.IGNORECASE)


class _TooWide(Exception):
    """A table has too many columns."""


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
            _require_small(archive.infolist(), name)
        document = docx.Document(io.BytesIO(content))
        return "\n\n".join(filter(None, _join_lists(_list_blocks(document)))).strip()
    except _TooWide:
        raise UsageError(f"{name} has a table with more than {_MAX_COLUMNS} columns.") from None
    except (
        *_DAMAGES,
        zipfile.BadZipFile,
        docx.exceptions.PythonDocxError,
        docx.opc.exceptions.OpcError,
    ) as error:
        raise UsageError(f"{name} is a damaged Word document: {type(error).__name__}.") from None


def _require_small(parts: Iterable[Any], name: str) -> None:
    """Raise `UsageError` if the unpacked parts are too large; a part cannot be larger than it says."""
    sizes = [(part.file_size, part.filename.endswith((".xml", ".rels"))) for part in parts]
    for unpacked, most in (
        (sum(size for size, _ in sizes), _MAX_UNPACKED_BYTES),
        (sum(size for size, is_xml in sizes if is_xml), _MAX_XML_BYTES),
    ):
        if unpacked > most:
            raise UsageError(f"{name} is too large to be read: it unpacks to {unpacked:,} bytes.")


def _list_blocks(document: Any) -> Iterator[tuple[str, bool]]:
    """Yield each paragraph and table as Markdown, and whether it is an item of a list.

    The library itself takes minutes for many paragraphs, and repeats a cell as often as the document says.
    """
    styles = {style.style_id: str(style.name or "") for style in document.styles}
    for block in document.element.body:
        if block.tag == f"{_W}p":
            yield _format_paragraph(_text_of(block).strip(), styles.get(_value(block, "pPr", "pStyle"), ""))
        elif block.tag == f"{_W}tbl":
            yield _format_table(_read_rows(block)), False


def _value(element: Any, *path: str) -> str:
    """Return the attribute `val` of the element at a path; empty without one."""
    found = element.find("/".join(f"{_W}{name}" for name in path))
    return "" if found is None else str(found.get(f"{_W}val") or "")


def _text_of(paragraph: Any) -> str:
    pieces: list[str] = []
    for child in paragraph:
        for run in child if child.tag == f"{_W}hyperlink" else (child,):
            if run.tag == f"{_W}r":
                pieces += map(_piece_of, run)
    return "".join(pieces)


def _piece_of(element: Any) -> str:
    if element.tag == f"{_W}t":
        return str(element.text or "")
    if element.tag == f"{_W}br" and element.get(f"{_W}type", "textWrapping") != "textWrapping":
        return ""
    return _MARKS.get(element.tag, "")


def _read_rows(table: Any) -> list[list[str]]:
    """Return the texts of the cells by rows; a merged cell has its text in each column and row."""
    rows: list[list[str]] = []
    for row in table.iterchildren(f"{_W}tr"):
        cells: list[str] = []
        for cell in row.iterchildren(f"{_W}tc"):
            text = "\n".join(map(_text_of, cell.iterchildren(f"{_W}p")))
            merge = cell.find(f"{_W}tcPr/{_W}vMerge")
            if rows and merge is not None and merge.get(f"{_W}val", "continue") == "continue":
                text = "".join(rows[-1][len(cells) : len(cells) + 1])
            span = int(_value(cell, "tcPr", "gridSpan") or 1)
            if len(cells) + span > _MAX_COLUMNS:
                raise _TooWide
            cells += [text] * max(span, 1)
        rows.append(cells)
    return rows


def _join_lists(blocks: Iterable[tuple[str, bool]]) -> Iterator[str]:
    """Yield the blocks as Markdown. The items of one list become lines of one block."""
    items: list[str] = []
    for text, is_item in blocks:
        if is_item:
            items.append(text)
            continue
        yield "\n".join(items)
        items = []
        yield text
    yield "\n".join(items)


def _format_paragraph(text: str, style: str) -> tuple[str, bool]:
    """Return a paragraph as Markdown, and whether it is an item of a list."""
    if not text:
        return "", False
    if heading := _HEADING.fullmatch(style):
        return f"{'#' * int(heading[1] or 1)} {text}", False
    if item := _LIST.fullmatch(style):
        mark = "-" if item[1].lower() == "bullet" else "1."
        return f"{'  ' * (int(item[2] or 1) - 1)}{mark} {text}", True
    return text, False


def _format_table(cells: list[list[str]]) -> str:
    """Return a table as rows of Markdown. Its first row is the head."""
    rows = [[" ".join(text.split()).replace("|", "\\|") for text in row] for row in cells]
    if not rows:
        return ""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])
