"""The public keys of an OpenID Connect issuer: read over HTTP, kept, and read again when one is unknown."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import jwt

from ....actions.tools.web.client import WebClient, WebLimits
from ....actions.tools.web.exchange import Judgements, WebProblem, WebRequest
from ....actions.tools.web.web_url import UnfitUrl, WebUrl, web_url
from ....state.errors import ConfigError
from ...cli.listener import is_local_host

_DISCOVERY = "/.well-known/openid-configuration"
_LIMITS = WebLimits(total_s=10.0, connect_s=5.0, most_bytes=1_000_000, most_redirects=0)
_REFRESH_S = 60.0
"""Keys are read at most this often: a token with an invented key must not cost a request each time."""
_RETRY_S = 5.0
"""The same while no key was read."""
_STALE_S = 3600.0
"""After this time keys are read again, so that a key which the issuer took back ends."""
_MOST_KEYS = 100
_ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""Type of a key -> what it may sign with. Keys that the issuer shares with its clients are not in it."""


class KeysUnread(Exception):
    """The keys of the issuer could not be read. The message is a sentence."""


class IssuerKey:
    """A public key, and the algorithms that a token may name with it."""

    def __init__(self, key: Any, algorithms: tuple[str, ...]) -> None:
        self.key = key
        self.algorithms = algorithms


class IssuerKeys:
    """The keys of one issuer by their ids."""

    def __init__(self, issuer: str, on_notice: Callable[[str], None]) -> None:
        """Raises `ConfigError` if the issuer is no address with encryption."""
        self._issuer = issuer
        self._url = _parse(issuer.rstrip("/") + _DISCOVERY, "--oidc")
        self._on_notice = on_notice
        self._client = WebClient(limits=_LIMITS)
        self._keys: dict[str, IssuerKey] = {}
        self._lock = asyncio.Lock()
        self._read_at = self._tried_at = float("-inf")

    async def find(self, key_id: str) -> IssuerKey | None:
        """Return a key; an empty id names the only one. Raises `KeysUnread` if no key was ever read."""
        found = self._pick(key_id)
        if found is not None and (not self._is_stale or self._lock.locked()):
            # While one request reads the keys again, the others go on with the old ones.
            return found
        async with self._lock:
            await self._refresh(key_id)
        return self._pick(key_id)

    @property
    def _is_stale(self) -> bool:
        return time.monotonic() - self._read_at > _STALE_S

    def _pick(self, key_id: str) -> IssuerKey | None:
        if not key_id and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    async def _refresh(self, key_id: str) -> None:
        """Read the keys, unless another request did so just now."""
        now = time.monotonic()
        pause_s = _REFRESH_S if self._keys else _RETRY_S
        if (self._pick(key_id) is None or self._is_stale) and now - self._tried_at >= pause_s:
            self._tried_at = now
            try:
                self._keys = await self._read()
                self._read_at = time.monotonic()
            except KeysUnread as error:
                self._on_notice(str(error))
        if not self._keys:
            raise KeysUnread("The keys of the issuer cannot be read now.")

    async def _read(self) -> dict[str, IssuerKey]:
        document = await self._get(self._url)
        if document.get("issuer") != self._issuer:
            raise KeysUnread(f"The document of {self._issuer} is of another issuer.")
        try:
            place = _parse(str(document.get("jwks_uri")), "`jwks_uri`")
        except ConfigError as error:
            raise KeysUnread(error.message) from None
        listed: Any = (await self._get(place)).get("keys")
        if not isinstance(listed, list):
            raise KeysUnread(f"{place} has no list of keys.")
        keys: dict[str, IssuerKey] = {}
        for one in cast(list[Any], listed)[:_MOST_KEYS]:
            described = cast(dict[str, Any], one) if isinstance(one, dict) else {}
            if (key := _make_key(described)) is not None:
                keys[str(described.get("kid") or "")] = key
        return keys

    async def _get(self, url: WebUrl) -> dict[str, Any]:
        """Return a JSON object; raises `KeysUnread`. The issuer may be in the network of the server."""
        judgements = Judgements(may_dial=lambda _: True, may_follow=lambda _: False)
        try:
            answer = await self._client.send(
                WebRequest(url, headers={"Accept": "application/json"}), judgements
            )
            found = json.loads(answer.body) if answer.status == 200 else None
        except WebProblem as problem:
            raise KeysUnread(str(problem)) from None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise KeysUnread(f"{url} has no JSON object.")
        return cast(dict[str, Any], found)


def _parse(text: str, name: str) -> WebUrl:
    """Return an address that is encrypted or on this machine; raises `ConfigError`."""
    try:
        url = web_url(text)
    except UnfitUrl as error:
        raise ConfigError(
            f"{name} {error}: {text[:200]}", "Name it as the issuer does: https://..."
        ) from None
    if url.scheme != "https" and not is_local_host(url.netloc):
        raise ConfigError(f"{name} has to begin with https://: {text[:200]}", "Keys need encryption.")
    return url


def _make_key(described: dict[str, Any]) -> IssuerKey | None:
    """Return a key for signatures; None for another one, or one that this program does not know."""
    known = _ALGORITHMS.get(str(described.get("kty")), ())
    named = described.get("alg")
    algorithms = known if named is None else tuple(one for one in known if one == named)
    if not algorithms or described.get("use", "sig") != "sig":
        return None
    try:
        return IssuerKey(jwt.PyJWK.from_dict(described, algorithm=algorithms[0]).key, algorithms)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
