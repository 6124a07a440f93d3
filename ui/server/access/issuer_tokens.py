"""Checks the tokens of an OpenID Connect issuer, and says which tenant and scopes their claims name."""

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import jwt

from ....state.lazy_dataclass import dataclass
from ....state.process.clock import format_time
from ....state.store.access_tokens import SCOPES, AccessToken
from ..answers import RequestRefused
from .issuer_keys import IssuerKeys, KeysUnread

_LEEWAY_S = 30
"""How far the clocks of the issuer and of this machine may differ."""
_MOST_CHARS = 16_384
_LAST_SECOND = 253_370_764_800
"""The beginning of the year 9999."""
_REQUIRED = ["exp", "iss", "aud", "sub"]
_SCOPE_PREFIX = "sandbur:"
_TENANT = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_REASONS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "This token has expired."),
    (jwt.ImmatureSignatureError, "This token is not valid yet."),
    (jwt.InvalidAudienceError, "This token is for another audience."),
    (jwt.InvalidIssuerError, "This token is of another issuer."),
    (jwt.MissingRequiredClaimError, "This token lacks one of the claims exp, iss, aud and sub."),
    (jwt.InvalidSignatureError, "The signature of this token is wrong."),
)


class TokenRefused(Exception):
    """A token of the issuer is not valid. The message is a sentence for the client."""


@dataclass(frozen=True, slots=True)
class IssuerRules:
    """Which tokens count, and what their claims mean."""

    issuer: str
    audience: str
    tenant_claim: str
    """The claim with the tenant; empty: every token is of `default_tenant`."""
    scopes_claim: str
    default_tenant: str


class IssuerTokens:
    """The tokens of one issuer."""

    def __init__(self, rules: IssuerRules, on_notice: Callable[[str], None]) -> None:
        self._rules = rules
        self._keys = IssuerKeys(rules.issuer, on_notice)

    async def check(self, text: str) -> AccessToken | str:
        """Return what a token allows, or a sentence that says why it is refused.

        Raises `RequestRefused` if the keys of the issuer cannot be read now.
        """
        try:
            return self._describe(await self._decode(text))
        except TokenRefused as refused:
            return str(refused)
        except KeysUnread as error:
            raise RequestRefused(503, "issuer_unreachable", str(error)) from None

    def _describe(self, claims: Mapping[str, Any]) -> AccessToken:
        subject = str(claims["sub"])
        scopes = _list_scopes(claims, self._rules.scopes_claim)
        end = min(int(claims["exp"]) + _LEEWAY_S, _LAST_SECOND)
        marked = hashlib.sha256(f"{self._rules.issuer}\0{subject}".encode("utf-8", "replace")).hexdigest()
        return AccessToken(
            id=f"oidc-{marked[:12]}",
            name=_make_plain(subject),
            tenant=self._find_tenant(claims),
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            created_at="",
            expires_at=format_time(datetime.fromtimestamp(end, UTC)),
        )

    async def _decode(self, text: str) -> dict[str, Any]:
        """Return the claims of a token whose signature and times are right."""
        if len(text) > _MOST_CHARS:
            raise TokenRefused("This token is too long.")
        try:
            header = jwt.get_unverified_header(text)
            key = await self._keys.find(str(header.get("kid") or ""))
            if key is None:
                raise TokenRefused("This token was signed with a key that its issuer does not have.")
            return jwt.decode(
                text,
                key.key,
                algorithms=key.algorithms,
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=_LEEWAY_S,
                options={"require": _REQUIRED},
            )
        except jwt.PyJWTError as error:
            found = next((reason for kind, reason in _REASONS if isinstance(error, kind)), None)
            raise TokenRefused(found or "This token is not valid.") from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise TokenRefused("This token is not valid.") from None

    def _find_tenant(self, claims: Mapping[str, Any]) -> str:
        if not self._rules.tenant_claim:
            return self._rules.default_tenant
        tenant = _find_claim(claims, self._rules.tenant_claim)
        if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
            raise TokenRefused(f"The claim {self._rules.tenant_claim!r} of this token names no tenant.")
        return tenant


def _list_scopes(claims: Mapping[str, Any], name: str) -> set[str]:
    """Return the scopes in a claim: a list, or a text with blanks; each as `read` or `sandbur:read`."""
    found = _find_claim(claims, name)
    listed = found.split() if isinstance(found, str) else found
    if not isinstance(listed, list):
        return set()
    return {str(one).removeprefix(_SCOPE_PREFIX) for one in cast(list[Any], listed)}


def _find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path with dots into claims that are objects."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = cast(dict[str, Any], found).get(part) if isinstance(found, dict) else None
    return found


def _make_plain(subject: str) -> str:
    return "".join(one for one in subject if one.isprintable())[:80]
