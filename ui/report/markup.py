"""Builds HTML with types: a plain `str` is text and gets escaped, only `Html` is inserted unchanged."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from types import MappingProxyType
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ...agent.extensions.extension import CitedFile
from ..terminal.text.citation_links import CITATIONS, add_citation_rule
from ..terminal.text.sanitize import one_line, plain

_NONCHARACTERS = re.compile(r"[\ufdd0-\ufdef\ufffe\uffff]")
_EMPTY = {"meta", "br", "hr", "input"}
"""Elements that have no end tag."""


class Html(str):
    """Markup. The result of `+`, `str.join` or an f-string is a plain `str` again and gets escaped."""

    __slots__ = ()


def block(text: str) -> Html:
    """Return a text of several lines, escaped."""
    return Html(escape(_NONCHARACTERS.sub("\ufffd", plain(text))))


def line(text: str) -> Html:
    """Return a text on one line, escaped, with invisible characters written as their codes."""
    return Html(escape(_NONCHARACTERS.sub("\ufffd", one_line(text))))


def join(*content: str) -> Html:
    """Join the parts; a part that is not `Html` becomes an escaped line of text."""
    return Html("".join(part if isinstance(part, Html) else line(part) for part in content))


Attribute = str | float | bool | None
"""None and False omit the attribute, True writes its name alone."""


def tag(name: str, /, *content: str, **attributes: Attribute) -> Html:
    """Return an element. `class_` is written `class`, `http_equiv` is written `http-equiv`."""
    if name in _EMPTY:
        return Html(f"{opening(name, **attributes)[:-1]}/>")
    return Html(f"{opening(name, **attributes)}{join(*content)}</{name}>")


def opening(name: str, /, **attributes: Attribute) -> Html:
    """Return only the start tag of an element."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            key = key.rstrip("_").replace("_", "-")
            parts.append(key if value is True else f'{key}="{line(str(value).strip())}"')
    return Html(f"<{' '.join(parts)}>")


_LINK = re.compile(r"(?:https?://|mailto:)[!-~]+", re.IGNORECASE)


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802
        return _LINK.fullmatch(url) is not None


_PARSER = _Parser("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")
add_citation_rule(_PARSER, "citation")
FilesByCitation = Mapping[str, CitedFile]
"""Citation -> its file."""
_NONE_CITED: FilesByCitation = MappingProxyType({})


def prose(text: str, files: FilesByCitation = _NONE_CITED) -> Html:
    """Return the Markdown of a person or a model: no HTML, no pictures, links to the web and to mail only.

    The citations in `files` are links to the files, and say what is wrong with them.
    """
    html = join(*_render_tokens(_PARSER.parse(plain(text), {CITATIONS: files}), files))
    return tag("div", html, class_="prose", dir="auto") if html else html


def _render_citation(text: str, file: CitedFile) -> Html:
    address = f"file://{quote(os.fsencode(file.path))}" if file.path else None
    cited = tag("a", text, href=address, rel="noopener") if address else block(text)
    return join(cited, " ", tag("span", f"({file.note})", class_="soft")) if file.note else cited


def _render_tokens(tokens: Iterable[Token], files: FilesByCitation) -> Iterator[Html]:
    """Yield the tokens as HTML.

    Texts are sanitized here again, because entities and addresses were decoded by the parser.
    """
    for token in tokens:
        match token.type:
            case "inline":
                yield from _render_tokens(token.children or (), files)
            case "citation":
                yield _render_citation(token.content, files[token.content])
            case "fence" | "code_block":
                yield tag("pre", block(token.content.rstrip()), dir="auto")
            case "code_inline":
                yield tag("code", block(token.content))
            case "softbreak":
                yield Html("\n")
            case "hardbreak" | "hr":
                yield tag(token.tag)
            case _ if token.nesting and not token.hidden:
                yield _edge(token)
            case _:
                yield block(token.content)


def _edge(token: Token) -> Html:
    """Return the start tag or the end tag of an element; a heading becomes `h4`, below those of the page."""
    name = "h4" if token.type.startswith("heading") else token.tag
    if token.nesting < 0:
        return Html(f"</{name}>")
    if name == "a":
        return opening(name, href=token.attrGet("href"), rel="noopener")
    # The parser sets the alignment of a table as a style, which the page's policy refuses.
    is_right = "right" in str(token.attrGet("style"))
    return opening(name, start=token.attrGet("start"), class_="number" if is_right else None)
