"""Checks a page strictly: every error of its HTML is refused."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr"}
KNOWN = {
    "html", "head", "meta", "title", "style", "body", "main", "div", "span", "h1", "h2", "h3", "b", "bdi",
    "ul", "li", "a", "p", "table", "tr", "td", "th", "pre", "code", "details", "summary", "article",
    "section", "time", "br", "meter",
    "h4", "ol", "em", "strong", "s", "blockquote", "hr", "thead", "tbody",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "dir", "title", "open",
    "rel", "start", "value", "max",
}  # fmt: skip


class Page(HTMLParser):
    """A parsed page whose tags are known, are nested correctly, and load nothing."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.files: set[str] = set()
        """The addresses of files that answers cite."""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, self._open

    @property
    def text(self) -> str:
        return "".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in KNOWN, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            if name == "href":
                assert value is not None
                if value.startswith("#"):
                    self.links.add(value[1:])
                    continue
                assert tag == "a"
                if value.startswith("file:///"):
                    self.files.add(value)
                assert re.fullmatch(r"(https?://|mailto:|file:///)[!-~]+", value, re.IGNORECASE), value
                assert ("rel", "noopener") in attrs
            elif name == "id":
                assert value not in self.ids, value
                self.ids.add(str(value))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.words.append(data)
