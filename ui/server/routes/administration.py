"""Answers about the server itself: health, metrics, agents, tokens, the audit trail."""

import asyncio
from datetime import UTC
from typing import Any

from starlette.responses import PlainTextResponse, Response

from ....state.errors import UsageError
from ....state.process.clock import format_time
from ....state.store.access_tokens import AccessToken, TokenTable
from ..answers import JsonAnswer, RequestRefused
from . import forms
from .route import ApiRequest

_READY_S = 2.0


async def check_health(request: ApiRequest) -> forms.HealthAnswer:
    """Answer that the process works."""
    return forms.HealthAnswer(status="ok")


async def check_readiness(request: ApiRequest) -> forms.HealthAnswer:
    """Answer that the store can be read and written, that a worker runs and that the server is not ending."""
    if request.service.feeds.is_draining:
        raise RequestRefused(503, "draining", "The server ends.")
    await request.service.runner.require_worker()
    try:
        async with asyncio.timeout(_READY_S):
            await request.store.database.offload(lambda: request.store.database.query("SELECT 1"))
    except TimeoutError:
        raise RequestRefused(503, "store", f"The store did not answer within {_READY_S:g} s.") from None
    await request.service.require_writable()
    return forms.HealthAnswer(status="ok")


async def show_metrics(request: ApiRequest) -> Response:
    """Answer with numbers for Prometheus, which are about all tenants."""
    service = request.service
    if request.who.tenant != service.store.tenant:
        raise RequestRefused(403, "forbidden", "The numbers are for the tenant that runs the server.")
    return PlainTextResponse(service.metrics.render(await service.read_gauges()), media_type=METRICS_TYPE)


METRICS_TYPE = "text/plain; version=0.0.4"


async def show_document(request: ApiRequest) -> Response:
    """Answer with the OpenAPI document."""
    return JsonAnswer(request.service.document)


async def list_agents(request: ApiRequest) -> forms.AgentListAnswer:
    """Answer with the agents of the server; new sessions get the first one unless they name another."""
    return forms.AgentListAnswer(
        agents=[
            forms.AgentEntryAnswer(name=name, title=agent.name or name, description=agent.description)
            for name, agent in request.service.agents.items()
        ]
    )


async def list_tokens(request: ApiRequest) -> forms.TokenListAnswer:
    """Answer with the tokens of the caller's tenant, without their texts."""
    database, tenant = request.store.database, request.who.tenant
    found = await database.offload(lambda: TokenTable(database).list_all(tenant))
    return forms.TokenListAnswer(tokens=[forms.TokenEntryAnswer(**_describe(token)) for token in found])


async def add_token(request: ApiRequest) -> forms.NewTokenAnswer:
    """Make a token for the caller's tenant."""
    wanted, database = request.read_body(forms.NewTokenForm), request.store.database
    if not set(wanted.scopes) <= set(request.who.token.scopes):
        raise RequestRefused(403, "forbidden", "A token may not allow more than the one that makes it.")
    expires_at = "" if wanted.expires_at is None else format_time(wanted.expires_at.astimezone(UTC))
    token, text = await database.offload(
        lambda: TokenTable(database).add(wanted.name, request.who.tenant, wanted.scopes, expires_at)
    )
    return forms.NewTokenAnswer(**_describe(token), token=text)


async def revoke_token(request: ApiRequest) -> forms.DeletedAnswer:
    """Revoke a token of the caller's tenant."""
    database = request.store.database
    table, token_id, tenant = TokenTable(database), request.path["token_id"], request.who.tenant
    try:
        revoked = await database.offload(lambda: table.revoke(token_id, tenant))
    except UsageError as error:
        raise RequestRefused(404, "not_found", error.message, error.hint) from None
    request.service.tokens.forget()
    return forms.DeletedAnswer(deleted=[revoked.id])


async def list_audit(request: ApiRequest) -> forms.AuditPartAnswer:
    """Answer with the newest entries of the tenant's audit trail."""
    query = request.read_query(forms.AuditQueryForm)
    database, audit = request.store.database, request.service.audit
    tenant, limit = request.who.tenant, query.limit
    # The plus of a time zone means a blank in a query that the client did not encode.
    before = query.before.replace(" ", "+")
    found = await database.offload(lambda: audit.list_newest(tenant, limit + 1, before))
    names, page = forms.AuditLineAnswer.model_fields, found[:limit]
    return forms.AuditPartAnswer(
        entries=[forms.AuditLineAnswer(**{name: getattr(entry, name) for name in names}) for entry in page],
        next=page[-1].place if len(found) > len(page) else None,
    )


def _describe(token: AccessToken) -> dict[str, Any]:
    return {**token._asdict(), "scopes": [*token.scopes]}
