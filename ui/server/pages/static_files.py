"""Serves the files of the web chat. They contain no data, so they need no token."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html.entities import html5
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NAMES = (
    "index.html", "chat.css", "icon.svg", "main.js", "api.js", "calls.js", "composer.js", "conversation.js",
    "diff.js", "dom.js", "keyboard.js", "live_text.js", "markdown.js", "session_list.js", "side_panel.js",
)  # fmt: skip
ENTITIES = "entities.js"
"""The file with the names of entities, which is made from those of Python."""
PATHS: Mapping[str, str] = {
    "/": "index.html",
    **{f"/{FOLDER}/{name}": name for name in (*_NAMES, ENTITIES) if name != "index.html"},
}
"""Path of a request -> the file that answers it."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types 'none'"
)
"""No inline script or style, no other host, and no text that becomes markup."""


class StaticFile(NamedTuple):
    content: bytes
    headers: dict[str, str]


@cache
def load_static_file(name: str) -> StaticFile:
    """Return a file of the page with its headers. The tag of its content lets browsers keep it."""
    folder = Path(__file__).with_name(FOLDER)
    content = _make_entities() if name == ENTITIES else folder.joinpath(name).read_bytes()
    headers = {
        "content-type": _TYPES[name[name.rindex(".") :]],
        "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        "cache-control": "no-cache",
        "content-security-policy": PAGE_POLICY,
        "cross-origin-opener-policy": "same-origin",
    }
    return StaticFile(content, headers)


def _make_entities() -> bytes:
    # Names without a semicolon are no entities in Markdown.
    named = {name[:-1]: text for name, text in html5.items() if name.endswith(";")}
    return f"export const ENTITIES = new Map(Object.entries({json.dumps(named)}));\n".encode("ascii")


async def _answer(request: Request) -> Response:
    content, headers = load_static_file(PATHS[request.url.path])
    is_kept = request.headers.get("if-none-match") == headers["etag"]
    return Response(b"" if is_kept else content, 304 if is_kept else 200, headers)


def make_static_routes() -> list[Route]:
    """Return the routes of the page and of its files."""
    return [Route(path, _answer) for path in PATHS]
