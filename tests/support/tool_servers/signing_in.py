"""A tool server that needs a sign-in with OAuth. Usage: signing_in.py PORT

The server signs in everyone who opens its page.
"""

import secrets
import sys
import time

from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

PORT = int(sys.argv[1])
LIFETIME_S = 3600


class Accounts(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.renewals: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24), scopes=[], expires_at=time.time() + 60,
            client_id=client.client_id or "", code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )  # fmt: skip
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.renewals.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return self._issue(client, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _issue(self, client: OAuthClientInformationFull, resource: str | None) -> OAuthToken:
        access, renewal = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        common = {"client_id": client.client_id or "", "scopes": [], "resource": resource}
        self.tokens[access] = AccessToken(token=access, expires_at=int(time.time()) + LIFETIME_S, **common)
        self.renewals[renewal] = RefreshToken(token=renewal, **common)
        return OAuthToken(access_token=access, refresh_token=renewal, expires_in=LIFETIME_S)


ADDRESS = f"http://127.0.0.1:{PORT}"
SERVER = MCPServer(
    "signing_in",
    log_level="CRITICAL",
    auth_server_provider=Accounts(),
    auth=AuthSettings(
        issuer_url=AnyHttpUrl(ADDRESS),
        resource_server_url=AnyHttpUrl(f"{ADDRESS}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    ),
)


@SERVER.tool()
def look() -> str:
    """Look."""
    return "seen"


if __name__ == "__main__":
    SERVER.run("streamable-http", port=PORT)
