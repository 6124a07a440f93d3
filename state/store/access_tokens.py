"""The access tokens of servers, which are stored as hashes, and the audit trail of their requests."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from ..databases.database import Database, find_listener, insert
from ..errors import StoreError, UsageError
from ..process.clock import now
from ..process.visible_text import one_line

Scope = Literal["read", "run", "approve", "admin"]
"""What a token allows. `read`: look at sessions. `run`: send messages. `approve`: decide about calls.
`admin`: delete sessions, manage tokens, read the audit trail. No scope includes another one.
"""
SCOPES: tuple[Scope, ...] = get_args(Scope)
PREFIX = "sandbur_"
"""The start of every token, by which people and scanners of leaked secrets recognize one."""
_MOST_NAME_CHARS = 120
_TENANT = re.compile(r"[A-Za-z0-9_.@-]{0,64}")
NO_TENANT = "(no tenant)"
"""The tenant of audited requests without a valid token. No token can have it."""
_MOST_TOKEN_CHARS, _MOST_REQUEST_CHARS, _MOST_SESSION_CHARS = 200, 200, 64
_MOST_LISTED = 1001
"""The most rows of a list: a page, and one more that says whether a page follows."""
MOST_AUDITED = 100_000
"""The most entries of the audit trail of one tenant; older ones are removed."""
_REMOVED_AT_ONCE = 1000
_UTC = "+00:00"
"""The end of every stored time."""


class AccessToken(NamedTuple):
    """A token without its text."""

    id: str
    name: str
    tenant: str
    scopes: tuple[Scope, ...]
    created_at: str
    expires_at: str = ""
    """UTC, ISO 8601; empty: it does not expire."""

    @property
    def is_expired(self) -> bool:
        return bool(self.expires_at) and self.expires_at <= now()


class AuditEntry(NamedTuple):
    """A request that changed something, or that was refused."""

    id: str
    tenant: str
    at: str
    token: str
    """The name of the token and its id; empty if there was no valid one."""
    request: str
    """The method and the path."""
    session: str
    status: int
    """The status of the answer."""

    @property
    def place(self) -> str:
        """The place in the trail, after which its next page begins; a URL can contain it as it is."""
        return f"{self.at.replace(_UTC, 'Z')}_{self.id}"


class TokenTable:
    """The tokens of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, name: str, tenant: str, scopes: Sequence[Scope], expires_at: str = ""
    ) -> tuple[AccessToken, str]:
        """Store a new token, and return it with its text, which cannot be read again.

        Raises `UsageError` for an empty name, no scope, or a tenant that is too long.
        """
        name = " ".join(name.split())
        if not name or len(name) > _MOST_NAME_CHARS:
            raise UsageError(f"A token needs a name of up to {_MOST_NAME_CHARS} characters.")
        if not scopes:
            raise UsageError("A token needs at least one scope.", f"Choose from {', '.join(SCOPES)}.")
        if not _TENANT.fullmatch(tenant):
            raise UsageError("The name of a tenant has up to 64 letters, digits and any of _ . @ -")
        text = PREFIX + secrets.token_urlsafe(32)
        kept: tuple[Scope, ...] = tuple(scope for scope in SCOPES if scope in scopes)
        token = AccessToken(secrets.token_hex(4), name, tenant, kept, now(), expires_at)
        row = {**token._asdict(), "digest": _digest(text), "scopes": ",".join(kept)}
        self._database.commit([insert("tokens", row)])
        return token, text

    def find(self, text: str) -> AccessToken | None:
        """Return the valid token with this text, or None."""
        found = self._select("WHERE digest = ?", (_digest(text),))
        return found[0] if found and not found[0].is_expired else None

    def list_all(self, tenant: str | None = None) -> list[AccessToken]:
        """Return the tokens of a tenant, or of all tenants, oldest first."""
        where, values = ("", ()) if tenant is None else ("WHERE tenant = ?", (tenant,))
        return self._select(f"{where} ORDER BY created_at, id LIMIT {_MOST_LISTED}", values)

    def revoke(self, token_id: str, tenant: str | None = None) -> AccessToken:
        """Delete a token by its id; raises `UsageError` if the tenant, if one is given, has no such token."""
        found = self._select("WHERE id = ?", (token_id,))
        if not found or tenant not in (None, found[0].tenant):
            raise UsageError(f"There is no token {token_id[:40]!r}.", "List the tokens to see their ids.")
        self._database.commit([("DELETE FROM tokens WHERE id = ?", (token_id,))])
        return found[0]

    def _select(self, condition: str, values: Sequence[str]) -> list[AccessToken]:
        columns = ", ".join(AccessToken._fields)
        rows = self._database.query(f"SELECT {columns} FROM tokens {condition}", values)
        return [AccessToken(row[0], row[1], row[2], _parse_scopes(row[3]), row[4], row[5]) for row in rows]


class AuditTrail:
    """The entries about requests, of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._added = 0

    async def add(self, tenant: str, token: str, request: str, session: str, status: int) -> None:
        """Store an entry durably, its texts on one line. Now and then the tenant's oldest ones are removed.

        If the store cannot be written, a notice says so: the answer of the request must not be lost.
        """
        entry = AuditEntry(
            secrets.token_hex(16),
            tenant,
            now(),
            one_line(token)[:_MOST_TOKEN_CHARS],
            one_line(request)[:_MOST_REQUEST_CHARS],
            one_line(session)[:_MOST_SESSION_CHARS],
            status,
        )
        try:
            await self._database.acommit([insert("audit", entry._asdict())])
        except StoreError as error:
            notice = f"The request {entry.request} is not in the audit trail: {error.message}"
            find_listener(self._database.on_notice)(notice)
            return
        self._added += 1
        if self._added % _REMOVED_AT_ONCE == 0:
            await self._database.offload(lambda: self._remove_old(tenant))

    def list_newest(self, tenant: str | None, limit: int, before: str = "") -> list[AuditEntry]:
        """Return the newest entries of a tenant, or of all, newest first.

        `before` is the `place` of an entry, or a time: only older entries.
        """
        conditions, values = ([], []) if tenant is None else (["tenant = ?"], [tenant])
        if before:
            at, _, entry_id = before.partition("_")
            # A `+` in a URL means a space.
            at = at.replace("Z", _UTC).replace(" 00:00", _UTC)
            conditions.append("(at < ? OR at = ? AND id < ?)")
            values += [at, at, entry_id]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = self._database.query(
            f"SELECT {', '.join(AuditEntry._fields)} FROM audit {where}"
            f" ORDER BY at DESC, id DESC LIMIT {min(max(limit, 1), _MOST_LISTED)}",
            values,
        )
        return [AuditEntry(row[0], row[1], row[2], row[3], row[4], row[5], int(row[6])) for row in rows]

    def _remove_old(self, tenant: str) -> None:
        newest = f"SELECT at FROM audit WHERE tenant = ? ORDER BY at DESC LIMIT 1 OFFSET {MOST_AUDITED}"
        if rows := self._database.query(newest, (tenant,)):
            self._database.commit([("DELETE FROM audit WHERE tenant = ? AND at <= ?", (tenant, rows[0][0]))])


def _parse_scopes(text: str) -> tuple[Scope, ...]:
    given = text.split(",")
    return tuple(scope for scope in SCOPES if scope in given)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
