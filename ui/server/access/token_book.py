"""Checks the tokens of requests, with a short memory, and says what each caller may do."""

import hashlib
import hmac
import time
from collections import OrderedDict
from typing import NamedTuple, Protocol

from ....state.databases.database import Database
from ....state.lazy_dataclass import dataclass
from ....state.store.access_tokens import PREFIX, SCOPES, AccessToken, Scope, TokenTable

_REMEMBERED_S = 5.0
"""How long a checked token is not looked up again, and so how late a revoked token is refused."""
_MOST_REMEMBERED = 2000
WRONG_TOKEN = "This token is not valid."


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    token: AccessToken
    text: str
    """The text of the token."""

    @property
    def tenant(self) -> str:
        return self.token.tenant

    @property
    def name(self) -> str:
        """The token in the audit trail and in decisions."""
        return f"{self.token.name} ({self.token.id})" if self.token.id else self.token.name

    def may(self, scope: Scope) -> bool:
        return scope in self.token.scopes


class ForeignTokens(Protocol):
    """Checks tokens that are in no store, such as those of an OpenID Connect issuer."""

    async def check(self, text: str) -> AccessToken | str:
        """Return what a token allows, or a sentence that says why it is refused."""
        ...


class _Remembered(NamedTuple):
    token: AccessToken | None
    until: float
    reason: str
    """Why the token is refused."""


class TokenBook:
    """The tokens of a store, and perhaps one token that only this process knows."""

    def __init__(
        self, database: Database, own_token: str | None, tenant: str, foreign: ForeignTokens | None = None
    ) -> None:
        """`own_token` is valid until the process ends, for `tenant` and with every scope. `foreign` checks
        every text that does not begin like a token of a store.
        """
        self._foreign = foreign
        self._database = database
        self._table = TokenTable(database)
        self._own = own_token
        self._own_caller = AccessToken("", "the address that was printed", tenant, SCOPES, "")
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()
        """Digest of a text -> the token. Texts of strangers may be long."""

    async def find(self, text: str) -> Caller | None:
        """Return the caller with a token, or None if the token is not valid."""
        if self._own is not None and hmac.compare_digest(text.encode("utf-8", "replace"), self._own.encode()):
            return Caller(self._own_caller, text)
        key = _digest(text)
        known = self._remembered.get(key)
        if known is None or known.until < time.monotonic():
            known = await self._look_up(text)
            self._remembered[key] = known
            self._remembered.move_to_end(key)
            if len(self._remembered) > _MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return None if known.token is None or known.token.is_expired else Caller(known.token, text)

    async def _look_up(self, text: str) -> _Remembered:
        reason = WRONG_TOKEN
        if self._foreign is None or text.startswith(PREFIX):
            token = await self._database.offload(lambda: self._table.find(text))
        else:
            checked = await self._foreign.check(text)
            token, reason = (None, checked) if isinstance(checked, str) else (checked, reason)
        return _Remembered(token, time.monotonic() + _REMEMBERED_S, reason)

    def explain(self, text: str) -> str:
        """Return the sentence about a token that was refused just now."""
        known = self._remembered.get(_digest(text))
        return WRONG_TOKEN if known is None else known.reason

    def forget(self) -> None:
        """Look every token up again, because one was revoked here."""
        self._remembered.clear()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
