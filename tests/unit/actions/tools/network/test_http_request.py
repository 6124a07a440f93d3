"""The tool `http_request`: what is sent, what is refused, and what the model reads."""

import json

import pytest
from support.network.web_site import WebSite, page, run_call

from sandbur.actions.ports import BadArguments, ToolOutcome
from sandbur.actions.tools.web.http_request import HttpRequest


async def asked(site: WebSite, path: str = "/", **arguments: str) -> ToolOutcome:
    return await run_call(HttpRequest(), f"http_request({site.url}/*)", url=site.url + path, **arguments)


async def test_status_headers_and_body_come_back() -> None:
    answer = page('{"a": 1}', "application/json", "201 Created", X_Request_Id="r1")
    async with WebSite({"/items": answer}) as site:
        body, headers = '{"name": "é"}', "Authorization: Bearer word\n\nX-Trace: a b"
        ended = await asked(site, "/items", method="post", body=body, headers=headers)
    assert ended.outcome == "ok"
    assert ended.content.startswith(f"HTTP 201 from {site.url}/items\n")
    assert "x-request-id: r1" in ended.content
    assert ended.content.endswith('{"a": 1}')
    (seen,) = site.seen
    assert (seen.method, seen.body.decode()) == ("POST", body)
    assert seen.headers["authorization"] == "Bearer word"
    assert seen.headers["x-trace"] == "a b"
    assert seen.headers["content-type"] == "application/json"


async def test_an_error_status_is_an_answer_too() -> None:
    async with WebSite() as site:
        ended = await asked(site, "/nowhere")
    assert (ended.outcome, "HTTP 404" in ended.content) == ("ok", True)


async def test_of_a_long_body_a_part_is_shown_and_the_whole_is_kept() -> None:
    body = b"0123456789" * 10_000
    async with WebSite({"/": page(body)}) as site:
        ended = await asked(site)
    assert ended.full_output == body
    assert len(ended.content) < 51_000
    assert "[50.0 KB of 100.0 KB shown]" in ended.content


async def test_what_is_not_text_is_named_and_not_shown() -> None:
    async with WebSite({"/": page(b"\x89PNG\r\n\x1a\n" + bytes(100), "image/png")}) as site:
        ended = await asked(site)
    assert ended.content.endswith("[the body is not text: image/png, 108 bytes]")


@pytest.mark.parametrize("headers", [
    "Host: evil.example", "Content-Length: 5", "Transfer-Encoding: chunked", "Connection: upgrade",
    "Proxy-Authorization: x",
    "TE: trailers", "Accept-Encoding: br", "No colon", "Bad Name: x", "X-A: one\rX-B: two", "X-A: \x00",
    "X-A: é", ": x",
    "X-A: 1\nx-a: 2", " X-A : 1",
])  # fmt: skip
def test_a_header_that_is_not_the_models_to_set_is_refused(headers: str) -> None:
    with pytest.raises(BadArguments, match="headers "):
        HttpRequest().parse(json.dumps({"url": "https://example.com/", "headers": headers}))


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET /x HTTP/1.1\r\nX: y", "get it", ""])
def test_a_method_that_is_none_is_refused(method: str) -> None:
    with pytest.raises(BadArguments, match="method must be"):
        HttpRequest().parse(json.dumps({"url": "https://example.com/", "method": method}))


@pytest.mark.parametrize("arguments", [
    {"headers": "Authorization: Bearer [masked API_KEY]"}, {"body": "password=[masked DB_PASSWORD]",
    "method": "POST"},
    {"url": "/?key=%5Bx%5D", "body": "[masked TOKEN]", "method": "PUT"},
])  # fmt: skip
async def test_a_placeholder_of_a_secret_is_not_sent(arguments: dict[str, str]) -> None:
    async with WebSite() as site:
        path = arguments.pop("url", "/")
        ended = await asked(site, path, **arguments)
    assert ended.outcome == "error"
    assert ended.content.startswith("Nothing was sent: [masked ")
    assert site.connections == 0


async def test_a_body_where_none_belongs_is_refused() -> None:
    async with WebSite() as site:
        ended = await asked(site, body="x")
    assert "a GET request has no body" in ended.content
    assert site.connections == 0


def test_what_running_it_twice_means_depends_on_the_method() -> None:
    tool = HttpRequest()
    effects = {
        method: tool.effect_of(tool.parse(json.dumps({"url": "https://example.com/", "method": method})))
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
    }
    assert effects == {
        "GET": "idempotent", "HEAD": "idempotent", "POST": "effect", "PUT": "effect", "DELETE": "effect",
        "OPTIONS": "effect",
    }  # fmt: skip


def test_rules_see_one_spelling_and_the_method_of_what_may_change_something() -> None:
    tool = HttpRequest()

    def subject(**arguments: str) -> str:
        return tool.subject(tool.parse(json.dumps(arguments)))

    assert subject(url="HTTPS://Example.com.:443") == "https://example.com/"
    assert subject(url="https://example.com/x", method="delete") == "DELETE https://example.com/x"
