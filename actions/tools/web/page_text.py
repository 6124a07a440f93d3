"""Converts a page to readable text in a separate process, because untrusted pages may be slow or huge to
parse.

Standard input: one line of JSON (`kind`, `url`, `charset`), then the page. Standard output: JSON with `text`
and optionally `missing` (a library) or `problem`. The kind `pages` is a PDF with `pages`, a list, instead of
`text`.
"""

import io
import json
import os
import re
import resource
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from importlib import import_module
from typing import Any

_MOST_MEMORY = 2_000_000_000
_MOST_CPU_S = 25
_MOST_CHARS = 1_000_000
_SHORT_CHARS = 250
"""For shorter pages, the library keeps nothing or everything, without its structure."""
_META = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_UNREAD = frozenset((
    "head", "iframe", "nav", "noscript", "object", "script", "select", "style", "svg", "template",
))  # fmt: skip
_VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr",
))  # fmt: skip
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "br", "dd", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li",
    "main", "ol", "p", "pre", "section", "table", "tr", "ul",
))  # fmt: skip
_ENDS_ITSELF = frozenset(("dd", "dt", "li", "option", "p", "td", "th", "tr"))
"""Elements whose end tag may be missing, because the next element of the same kind ends them."""
_PREFIXES = {f"h{level}": "#" * level + " " for level in range(1, 7)} | {"li": "- "}


_PDF_BUGS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""The exceptions that the library raises for damaged files."""


class _Reader(HTMLParser):
    """Extracts the visible text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._open: list[tuple[str, bool]] = []
        """The open elements. Each has a flag that says whether its text is left out."""
        self._pieces: list[str] = []
        self._is_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_title = tag == "title"
        self._end_unended(tag)
        if tag in _BLOCKS:
            self._pieces.append("\n" + ("" if self._is_hidden() else _PREFIXES.get(tag, "")))
        elif tag in ("td", "th"):
            self._pieces.append(" | ")
        if tag not in _VOID:
            self._open.append((tag, self._is_hidden() or tag in _UNREAD or _hides(dict(attrs))))

    def _end_unended(self, tag: str) -> None:
        innermost = self._open[-1][0] if self._open else ""
        if (tag in _ENDS_ITSELF and innermost == tag) or (tag in _BLOCKS and innermost == "head"):
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        self._is_title = False
        for place in range(len(self._open) - 1, max(-1, len(self._open) - 100), -1):
            if self._open[place][0] == tag:
                del self._open[place:]
                break
        if tag in _BLOCKS:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if self._is_title:
            self.title = self.title or " ".join(data.split())
        elif not self._is_hidden():
            is_code = any(tag == "pre" for tag, _ in self._open[-10:])
            self._pieces.append(data if is_code else self._collapse_blanks(data))

    def _collapse_blanks(self, data: str) -> str:
        text = re.sub(r"\s+", " ", data)
        return text.lstrip() if not self._pieces or self._pieces[-1].endswith("\n") else text

    def _is_hidden(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def text(self) -> str:
        lines = (line.rstrip() for line in "".join(self._pieces).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _hides(attributes: dict[str, str | None]) -> bool:
    style = (attributes.get("style") or "").replace(" ", "").lower()
    is_hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
    return is_hidden or "display:none" in style or "visibility:hidden" in style


def html_text(page: bytes, url: str, charset: str) -> dict[str, Any]:
    """Return the readable text of a page, as Markdown if the library is installed."""
    found = _META.search(page[:4096])
    text = _decode(page, charset or (found[1].decode() if found else ""))
    reader = _Reader()
    reader.feed(text)
    try:
        trafilatura: Any = import_module("trafilatura")
    except ImportError:
        return {"text": _add_title(reader.title, reader.text()), "missing": "trafilatura"}
    best: str | None = trafilatura.extract(
        text, url=url, output_format="markdown", include_links=True, include_tables=True, favor_recall=True
    )
    is_short = best is None or len(best) < _SHORT_CHARS
    return {"text": _add_title(reader.title, reader.text() if is_short else str(best))}


def _add_title(title: str, text: str) -> str:
    return f"# {title}\n\n{text}" if title and title not in text[: 300 + len(title)] else text


def _decode(page: bytes, charset: str) -> str:
    for name in (charset, "utf-8"):
        try:
            return page.decode(name)
        except (LookupError, UnicodeDecodeError, ValueError):
            continue
    return page.decode("latin-1")


def pdf_text(page: bytes) -> dict[str, Any]:
    """Return the text of a PDF, page by page."""
    read = pdf_pages(page)
    pages = read.pop("pages")
    numbered = (f"[page {number} of {read['total']}]\n{text}" for number, text in enumerate(pages, 1))
    return {**read, "text": "\n\n".join(numbered)}


def pdf_pages(page: bytes) -> dict[str, Any]:
    """Return the texts of the first pages of a PDF as `pages`, and the number of all pages as `total`."""
    none: dict[str, Any] = {"pages": [], "total": 0}
    try:
        pypdf: Any = import_module("pypdf")
    except ImportError:
        return {**none, "missing": "pypdf"}
    try:
        document = pypdf.PdfReader(io.BytesIO(page))
        if document.is_encrypted and not document.decrypt(""):
            return {**none, "problem": "it has a password"}
        return {"pages": list(_pdf_pages(document)), "total": len(document.pages)}
    except (*_PDF_BUGS, pypdf.errors.PyPdfError) as error:
        return {**none, "problem": f"it is not a readable PDF ({str(error)[:200]})"}


def _pdf_pages(document: Any) -> Iterator[str]:
    room = _MOST_CHARS
    for page in document.pages:
        text: str = page.extract_text()
        yield text[:room]
        room -= len(text)
        if room < 0:
            return


def main() -> None:
    for limit, most in ((resource.RLIMIT_AS, _MOST_MEMORY), (resource.RLIMIT_CPU, _MOST_CPU_S)):
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):  # some systems do not have this limit
            resource.setrlimit(limit, (most, most))
    warnings.simplefilter("ignore")
    header, _, page = sys.stdin.buffer.read().partition(b"\n")
    asked = json.loads(header)
    read = {"pdf": pdf_text, "pages": pdf_pages}.get(asked["kind"])
    done: dict[str, Any]
    try:
        done = read(page) if read is not None else html_text(page, asked["url"], asked["charset"])
    except (MemoryError, RecursionError):
        done = {"text": "", "pages": [], "problem": "it is too large or too deeply nested"}
    if "text" in done:
        done["text"] = done["text"][:_MOST_CHARS]
    with os.fdopen(1, "wb") as output:
        output.write(json.dumps(done).encode())


if __name__ == "__main__":
    main()
