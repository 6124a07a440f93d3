"""`sandbur serve add-token`, `list-tokens`, `revoke-token` and `list-audit`."""

from ....state.process.clock import format_time
from ....state.store.access_tokens import NO_TENANT, AuditTrail, TokenTable
from ...cli.open_session import open_runtime
from ...terminal.terminal import put, say
from ...terminal.text.sanitize import one_line
from ..command import ServeCommand

_AUDITED = 200
"""How many entries are listed."""


async def add_token(command: ServeCommand) -> int:
    """Store a new token and print its text on stdout, where it is seen only this once."""
    async with open_runtime(command) as runtime:
        expires_at = "" if command.expires_at is None else format_time(command.expires_at)
        tenant = command.tenant or runtime.settings.tenant
        token, text = TokenTable(runtime.store.database).add(
            command.what, tenant, command.chosen_scopes, expires_at
        )
    put(text)
    whose = f" of the tenant {one_line(tenant)}" if tenant else ""
    say(f"Token {token.id}{whose}, for {', '.join(token.scopes)}. It is not shown again.")
    return 0


async def list_tokens(command: ServeCommand) -> int:
    """Print a line for each token."""
    async with open_runtime(command) as runtime:
        found = TokenTable(runtime.store.database).list_all(command.tenant or None)
    for token in found:
        until = f", until {token.expires_at[:10]}" if token.expires_at else ""
        tenant = f"  tenant {token.tenant}" if token.tenant else ""
        what = f"{token.id}  {token.name}  {','.join(token.scopes)}{tenant}"
        put(one_line(f"{what}  since {token.created_at[:10]}{until}"))
    if not found:
        say("There are no tokens. Make one: sandbur serve add-token NAME --scopes read,run")
    return 0


async def revoke_token(command: ServeCommand) -> int:
    """Revoke a token. A server that runs refuses it after a few seconds."""
    async with open_runtime(command) as runtime:
        token = TokenTable(runtime.store.database).revoke(command.what.strip())
    say(f"Token {token.id} ({one_line(token.name)}) is revoked.")
    return 0


async def list_audit(command: ServeCommand) -> int:
    """Print a line for each of the newest requests in the audit trail, also without a valid token."""
    async with open_runtime(command) as runtime:
        trail = AuditTrail(runtime.store.database)
        found = trail.list_newest(command.tenant or None, _AUDITED)
    for entry in reversed(found):
        tenant = f"  tenant {entry.tenant}" if entry.tenant not in ("", NO_TENANT) else ""
        token = entry.token or "no valid token"
        put(one_line(f"{entry.at}  {entry.status}  {entry.request}  {token}{tenant}"))
    if not found:
        say("The audit trail is empty.")
    return 0
