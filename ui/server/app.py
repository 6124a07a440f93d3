"""The application of the server: checks each request by its row in the table of routes, and answers it."""

import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as Path

from ...state.errors import SandburError
from .access.token_book import Caller
from .answers import JsonAnswer, RequestRefused, answer_error, make_error
from .openapi import make_document
from .pages.static_files import make_static_routes
from .routes.route import ApiRequest, ApiRoute, dump
from .service import Service

_MOST_PROBLEMS = 5
_MOST_VALUES = 1_000_000
"""About the most values of a body. All other requests wait while one is parsed, here up to half a second."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def make_app(service: Service, routes: Sequence[ApiRoute]) -> Starlette:
    """Return the application with these routes. A guard has to stand before it."""
    service.document = make_document(routes)
    # Errors of routing are answered here, too: in the one form of all errors.
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: _answer_http_error,
        Exception: _answer_bug,
    }
    paths = [Path(route.path, _make_endpoint(service, route), methods=[route.method]) for route in routes]
    app = Starlette(routes=[*make_static_routes(), *paths], exception_handlers=handlers)
    # No address is another one with a slash: the document names them all.
    app.router.redirect_slashes = False
    return app


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_list_methods(request))
    kind = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "http")
    message = {404: "There is nothing at this address.", 405: "This address has other methods."}
    return make_error(
        error.status_code,
        kind,
        message.get(error.status_code, "The request failed."),
        "",
        headers,
    )


def _list_methods(request: Request) -> list[str]:
    """Return the methods of all routes with the path of a request."""
    routes = [route for route in request.app.routes if isinstance(route, Path)]
    found = [route.methods or set() for route in routes if route.matches(request.scope)[0] != Match.NONE]
    return sorted(set[str]().union(*found))


async def _answer_bug(request: Request, error: Exception) -> Response:
    """Answer in the form of all errors; the traceback goes to the log."""
    return make_error(500, "bug", "The server failed on this request. Its log says where.")


def _make_endpoint(service: Service, route: ApiRoute) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that answers a route and audits what it changed."""

    async def answer(request: Request) -> Response:
        began = time.perf_counter()
        caller: Caller | None = getattr(request.state, "caller", None)
        try:
            response = await _answer(service, route, request, caller)
        except RequestRefused as refused:
            response = refused.answer
        except SandburError as error:
            response = answer_error(error)
        except ClientDisconnect:
            response = make_error(400, "disconnected", "The client left before the end of its request.")
        service.metrics.count(route.name, response.status_code, time.perf_counter() - began)
        if caller is not None and (route.changes_something or response.status_code == 403):
            line = f"{request.method} {request.url.path}"
            session = request.path_params.get("session_id", "")
            await service.audit.add(caller.tenant, caller.name, line, session, response.status_code)
        return response

    return answer


async def _answer(service: Service, route: ApiRoute, request: Request, caller: Caller | None) -> Response:
    """Check a request and answer it; raises `RequestRefused` and `SandburError`."""
    store = service.store
    if route.scope is not None:
        if caller is None or not caller.may(route.scope):
            raise RequestRefused(403, "forbidden", f"This needs a token with the scope {route.scope!r}.")
        store = service.store_of(caller.tenant)
    query = None if route.query is None else _check(route.query, _read_query(request))
    body = None if route.body is None else _check(route.body, await _read_body(route, request))
    if "{agent}" in route.path:
        service.require_agent(request.path_params["agent"])
    if route.has_session:
        # Whose session it is is asked here, once for all routes.
        session_id = request.path_params["session_id"]
        await store.database.offload(lambda: store.index.summary(session_id))
    asked = ApiRequest(service, caller, store, request.path_params, query, body, request.headers)
    found = await route.handle(asked)
    return JsonAnswer(dump(found), route.status) if isinstance(found, BaseModel) else found


def _read_query(request: Request) -> dict[str, str]:
    pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if len({name for name, _ in pairs}) < len(pairs):
        raise RequestRefused(400, "usage", "A name stands twice in the query.")
    return dict(pairs)


async def _read_body(route: ApiRoute, request: Request) -> Any:
    """Return the JSON value of a body; raises `RequestRefused` if it is too large or not JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(415, "wrong_type", "The body is JSON.", "Send Content-Type: application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > route.most_bytes:
            raise RequestRefused(413, "too_large", f"A body may have {route.most_bytes:,} bytes here.")
    if sum(map(body.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise RequestRefused(413, "too_large", f"A body may have {_MOST_VALUES:,} values.")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestRefused(400, "usage", "The body is not valid JSON.") from None
    if _has_lone_surrogate(value):
        raise RequestRefused(400, "usage", "A text of the body has half of a surrogate pair.", "Remove it.")
    return value


def _has_lone_surrogate(value: Any) -> bool:
    """Return whether a text in a JSON value is no Unicode text, which no database keeps."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if not one.isascii() and _SURROGATE.search(one):
                return True
        elif isinstance(one, dict):
            found = cast("dict[str, Any]", one)
            waiting += [*found.keys(), *found.values()]
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)
    return False


def _check(form: type[BaseModel], value: Any) -> BaseModel:
    """Return a value in its form; raises `RequestRefused` with what is wrong."""
    try:
        return form.model_validate(value)
    except ValidationError as wrong:
        places = [
            f"{'.'.join(map(str, one['loc'])) or 'the body'}: {one['msg']}"
            for one in wrong.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise RequestRefused(
            400, "usage", f"The request is not valid: {'; '.join(places[:_MOST_PROBLEMS])}."
        ) from None
