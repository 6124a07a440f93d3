"""Signs in at servers with OAuth: a page in the browser leads to tokens, which are kept in a private file."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, cast
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from .....actions.workspace.atomic_write import replace_content
from ..configuration.servers import token_path
from ..text import one_line

ShowAddress = Callable[[str], Awaitable[None]]
"""Shows the person the address of the sign-in page."""
_PATH = "/callback"
_MOST_REQUEST_BYTES = 16_384
_REQUEST_S = 10.0
_MOST_BYTES = 1_000_000
_CAME_BACK = "Back at Sandbur: its command says whether the sign-in worked. You can close this page."
"""The browser is back before the server has given tokens for the code, or has refused it."""
_FAILED = "You are not signed in. You can close this page."


class NeedsSignIn(Exception):
    """The server requires a sign-in, but nobody is there to sign in."""


class TokenFile:
    """The tokens for one server at one address. It implements the library's `TokenStorage`."""

    def __init__(self, folder: Path, server: str, url: str) -> None:
        self._path = token_path(folder, server, url)
        self.context: OAuthContext | None = None
        """The library's data about the sign-in. The stored data alone does not let a later process renew
        tokens."""

    @property
    def has_tokens(self) -> bool:
        return "tokens" in self._read()

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    async def get_tokens(self) -> OAuthToken | None:
        stored = self._read()
        if self.context is not None and "metadata" in stored:
            self.context.oauth_metadata = OAuthMetadata.model_validate(stored["metadata"])
        if self.context is not None and "expires_at" in stored:
            self.context.token_expiry_time = float(stored["expires_at"])
        return OAuthToken.model_validate(stored["tokens"]) if "tokens" in stored else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        known: dict[str, Any] = {"tokens": tokens.model_dump(mode="json", exclude_none=True)}
        if tokens.expires_in is not None:
            known["expires_at"] = time.time() + tokens.expires_in
        if self.context is not None and self.context.oauth_metadata is not None:
            known["metadata"] = self.context.oauth_metadata.model_dump(mode="json", exclude_none=True)
        self._write(**known)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = self._read().get("client")
        return None if found is None else OAuthClientInformationFull.model_validate(found)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write(client=client_info.model_dump(mode="json", exclude_none=True))

    def _read(self) -> dict[str, Any]:
        try:
            with self._path.open("rb") as file:
                found = json.loads(file.read(_MOST_BYTES))
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    def _write(self, **changed: Any) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = {**self._read(), **changed}
        # Another process may have replaced the file meanwhile; the newest tokens count.
        self._path.unlink(missing_ok=True)
        replace_content(self._path, json.dumps(whole).encode(), None, 0o600)


def sign_in(server: str, url: str, folder: Path, show: ShowAddress | None) -> OAuthClientProvider:
    """Return the authentication that adds tokens to requests and renews them.

    `show` begins a new sign-in. Raises `NeedsSignIn` if there are neither tokens nor `show`.
    """
    tokens = TokenFile(folder, server, url)
    sentence = f"it asks for a sign-in: run `sandbur mcp login {server}`"
    if show is None:
        if not tokens.has_tokens:
            raise NeedsSignIn(sentence)

        async def refuse(address: str = "") -> NoReturn:
            raise OAuthFlowError(sentence)

        return _provider(url, tokens, refuse, f"http://127.0.0.1{_PATH}", refuse)
    tokens.forget()
    callback = Callback()
    return _provider(url, tokens, show, callback.address, callback.wait)


def _provider(
    url: str,
    tokens: TokenFile,
    show: ShowAddress,
    back: str,
    wait: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    """Return the MCP library's OAuth provider. The sign-in page sends the browser to the address `back`."""
    client = OAuthClientMetadata(client_name="Sandbur", redirect_uris=[AnyUrl(back)])
    provider = OAuthClientProvider(url, client, tokens, show, wait)
    tokens.context = provider.context
    return provider


class Callback:
    """The local address to which the browser returns after the sign-in."""

    def __init__(self) -> None:
        # The port is bound at once, so that no other program can take it meanwhile.
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}{_PATH}"

    async def wait(self) -> AuthorizationCodeResult:
        """Return the data that the sign-in page sends; raises `OAuthFlowError` if the person did not sign
        in."""
        found: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _answer(reader, writer, found)

        server = await asyncio.start_server(answer, sock=self._socket, limit=_MOST_REQUEST_BYTES)
        async with server:
            given = await found
        if "code" not in given:
            why = given.get("error_description") or given.get("error", "")
            raise OAuthFlowError(f"the sign-in was refused: {one_line(why)}")
        return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, found: asyncio.Future[dict[str, str]]
) -> None:
    """Answer one request of a browser. The first request that carries a sign-in's result counts."""
    try:
        async with asyncio.timeout(_REQUEST_S):
            head = await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(head.split(b" ", 2)[1].decode("ascii", "replace"))
            given = {name: values[0] for name, values in parse_qs(target.query).items()}
            is_ours = target.path == _PATH and ("code" in given or "error" in given)
            text = (_CAME_BACK if "code" in given else _FAILED) if is_ours else "Not found."
            status = "200 OK" if is_ours else "404 Not Found"
            header = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
            writer.write(f"{header}Connection: close\r\n\r\n{text}".encode())
            await writer.drain()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
        return
    finally:
        writer.close()
    if is_ours and not found.done():
        found.set_result(given)
