"""Tools of tables: where values go, what they can never become, and what comes back."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.network.web_site import Seen, WebSite, page, redirect, silence
from support.samples.texts import any_text

from sandbur import http_tools
from sandbur.actions.ports import BadArguments, ToolContext, ToolOutcome
from sandbur.actions.tools.http.table_parser import endpoint_of
from sandbur.actions.tools.http.tables import HttpToolTable
from sandbur.actions.tools.http.tool import HttpTool
from sandbur.actions.tools.web.client import WebClient
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rules import parse_rules
from sandbur.state.errors import ConfigError

SECRET = "kX9v/Q2m+L8pR4tZ7w"


def tool(client: WebClient | None = None, env: Mapping[str, str] | None = None, **table: Any) -> HttpTool:
    whole = HttpToolTable.model_validate({"description": "A tool.", **table})
    return HttpTool(endpoint_of("it", whole, "tools.toml"), env or {}, client)


async def run(
    one: HttpTool, deny: Sequence[str] = (), variables: Mapping[str, str] | None = None, **arguments: Any
) -> ToolOutcome:
    policy = Policy((), parse_rules(deny), Path("/"))
    context = ToolContext(
        "call", Path("/"), lambda text: None, session_id="S1", idempotency_key="S1:call",
        variables=variables or {}, judge=lambda other: policy.judge(one, other, "interactive"),
    )  # fmt: skip
    return await one.run(one.parse(json.dumps(arguments)), context)


def refusal(one: HttpTool, arguments: Mapping[str, Any]) -> str:
    """Return why a call is not taken; empty if it is."""
    try:
        one.parse(json.dumps(arguments))
    except BadArguments as error:
        return str(error)
    return ""


async def mirror(seen: Seen, writer: asyncio.StreamWriter) -> None:
    told = {"target": seen.target, "headers": seen.headers, "body": seen.body.decode()}
    writer.write(page(json.dumps(told), "application/json"))


async def hang_up(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def test_every_part_of_a_request_takes_values() -> None:
    async with WebSite({"/items/a%20b": mirror}) as site:
        one = tool(
            method="PUT",
            url=site.url + "/items/{id}?page={page}&all=yes%20all",
            parameters={
                "id": {},
                "page": {"type": "integer", "default": 1},
                "tags": {"type": "array", "items": {"type": "string"}, "required": False},
                "note": {"required": False},
                "price": {"type": "number"},
            },
            headers={"X-Note": "{note}", "X-Session": "s {context.session_id}"},
            query={"tag": "{tags}", "limit": 5},
            body={"price": "{price}", "text": "it is {id}", "note": "{note}", "customer": "{var.customer}"},
        )
        ended = await run(one, id="a b", price=1.5, tags=["x", "y"], variables={"customer": "c7"})
    assert ended.outcome == "ok"
    (seen,) = site.seen
    assert (seen.method, seen.target) == ("PUT", "/items/a%20b?page=1&all=yes%20all&tag=x&tag=y&limit=5")
    assert json.loads(seen.body) == {"price": 1.5, "text": "it is a b", "customer": "c7"}
    assert seen.headers["x-session"] == "s S1"
    assert seen.headers["idempotency-key"] == "S1:call"
    assert seen.headers["content-type"] == "application/json"
    assert "x-note" not in seen.headers


async def test_a_form_is_sent_as_one() -> None:
    async with WebSite({"/": mirror}) as site:
        one = tool(method="POST", url=site.url, form={"a": "{a}", "b": ["1", "2"]}, parameters={"a": {}})
        await run(one, a="x&b=3")
    assert parse_qsl(site.seen[0].body.decode()) == [("a", "x&b=3"), ("b", "1"), ("b", "2")]
    assert site.seen[0].headers["content-type"] == "application/x-www-form-urlencoded"


HARD = st.one_of(
    any_text(min_size=1, max_size=40),
    st.sampled_from(
        ["../admin", "..", "%2e%2e", "a/../../b", "x?y=1", "#frag", "@evil.example", "//evil.example/",
         "{env.TOKEN}", "${TOKEN}", "{other}", "\r\nHost: evil", '"}, "admin": true, {"', "a&b=c", "[::1]",
         ":80"]
    ),
)  # fmt: skip
EVERYWHERE = tool(
    env={"TOKEN": SECRET},
    method="POST",
    url="https://api.example/v1/{one}/end?q={two}",
    parameters={"one": {}, "two": {}, "three": {}},
    query={"more": "{three}"},
    body={"kept": 1, "one": "{one}", "mixed": "<{two}|{three}>"},
)


@settings(deadline=None)
@given(one=HARD, two=HARD, three=HARD)
@example(one="..", two="", three="")
@example(one="%2e%2e%2f", two="%00", three="\x00")
def test_a_value_is_never_more_than_a_value(one: str, two: str, three: str) -> None:
    values = {"one": one, "two": two, "three": three}
    if said := refusal(EVERYWHERE, values):
        assert "would go to an address that" in said or "surrogate" in said or "empty" in said
        return
    endpoint = EVERYWHERE.endpoint
    sent = endpoint.request(lambda reference: values[reference.name])
    assert (sent.url.scheme, sent.url.host, sent.url.port) == ("https", "api.example", 443)
    path, _, query = sent.url.target.partition("?")
    assert [unquote(part) for part in path.split("/")] == ["", "v1", one, "end"]
    assert parse_qsl(query, keep_blank_values=True) == [("q", two), ("more", three)]
    assert json.loads(sent.body) == {"kept": 1, "one": one, "mixed": f"<{two}|{three}>"}
    assert set(sent.headers or {}) == {"Accept", "Content-Type"}


@settings(deadline=None)
@given(any_text(max_size=30))
@example("a\r\nX-Evil: 1")
@example("a\nb")
@example("é")
def test_a_header_is_one_line_of_ascii_or_the_call_is_refused(value: str) -> None:
    one = tool(url="https://api.example/", headers={"X-Value": "v={value}"}, parameters={"value": {}})
    if said := refusal(one, {"value": value}):
        assert "cannot send the header X-Value" in said
        assert not (value.isascii() and value.isprintable())
    else:
        assert value.isascii()
        assert value.replace("\t", "").isprintable()


@pytest.mark.parametrize("value", ["..", ".", "a/../b", "%2e%2e", "%252e%252e/x", "", "..;x"])
def test_a_path_value_leads_nowhere_else(value: str) -> None:
    one = tool(url="https://api.example/items/{id}", parameters={"id": {}})
    with pytest.raises(BadArguments, match=r"^it "):
        one.parse(json.dumps({"id": value}))


async def test_a_secret_is_sent_and_shown_nowhere() -> None:
    async with WebSite({"/x": mirror}) as site:
        one = tool(
            env={"API_KEY": SECRET},
            url=site.url + "/x?key=${API_KEY}&q={q}",
            parameters={"q": {}},
            headers={"Authorization": "Bearer {env.API_KEY}"},
        )
        call = one.parse('{"q": "1"}')
        assert one.subject(call) == f"{site.url}/x?key=$API_KEY&q=1"
        ended = await run(one, q="1")
    assert site.seen[0].headers["authorization"] == f"Bearer {SECRET}"
    assert parse_qsl(site.seen[0].target.partition("?")[2])[0] == ("key", SECRET)
    assert "Bearer $API_KEY" in ended.content
    assert SECRET not in ended.content
    assert "kX9v%2FQ2m" not in ended.content
    assert SECRET not in one.traits.description


@pytest.mark.parametrize(
    "answer", [redirect(f"http://[{SECRET}"), redirect(f"http://other.example/?k={SECRET}")]
)
async def test_no_error_repeats_a_secret(answer: bytes) -> None:
    async with WebSite({"/": answer}) as site:
        one = tool(env={"API_KEY": SECRET}, url=site.url, headers={"X-Key": "${API_KEY}"})
        ended = await run(one)
    assert ended.outcome == "error"
    assert SECRET not in ended.content


async def test_what_is_not_set_is_named_and_nothing_is_sent() -> None:
    async with WebSite() as site:
        one = tool(url=site.url + "/{var.customer}", headers={"X-Key": "${API_KEY}"})
        first = await run(one)
        second = await run(one, variables={"customer": "7"})
    assert first.content.startswith("Nothing was sent: it needs the variable")
    assert "needs the variable API_KEY of the environment, which is not set" in second.content
    assert site.connections == 0


async def test_a_redirect_stays_on_the_site_and_keeps_to_the_rules() -> None:
    async with WebSite({"/there": page("found")}) as other, WebSite() as site:
        site.pages = {
            "/a": redirect("/b"), "/b": page("here"), "/c": redirect(f"{other.url}/there"),
            "/d": redirect("/denied"), "/denied": page("never"),
        }  # fmt: skip
        one = tool(url=site.url + "/{x}", parameters={"x": {}}, headers={"X-Key": "1"})
        assert (await run(one, x="a")).content == "HTTP 200\nhere"
        assert site.seen[-1].headers["x-key"] == "1"
        away = await run(one, x="c")
        denied = await run(one, deny=(f"it({site.url}/denied)",), x="d")
    assert (away.outcome, other.connections) == ("error", 0)
    assert f"redirects to {other.url}/there, which was not followed" in away.content
    assert "which was not followed" in denied.content
    assert [seen.target for seen in site.seen] == ["/a", "/b", "/c", "/d"]


async def test_a_private_address_is_reached_where_the_table_names_it_or_says_so() -> None:
    async def inside(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with WebSite({"/": page("inside")}) as site:
        url = f"http://service.example:{site.port}/"
        refused = await run(tool(WebClient(inside), url=url))
        assert site.connections == 0
        allowed = await run(tool(WebClient(inside), url=url, private=True))
        by_name = await run(tool(url=f"http://localhost:{site.port}/"))
    assert refused.outcome == "error"
    assert refused.content.startswith(
        "Nothing was sent: service.example leads to 127.0.0.1, which is an address"
    )
    assert "`private = true`" in refused.content
    assert (allowed.content, by_name.content) == ("HTTP 200\ninside", "HTTP 200\ninside")


@pytest.mark.parametrize(("method", "effect", "outcome"), [
    ("GET", None, "error"), ("PUT", None, "error"), ("POST", None, "unknown"), ("POST", "read", "error"),
    ("DELETE", "effect", "unknown"),
])  # fmt: skip
async def test_an_answer_that_never_comes_says_what_is_known(
    method: str, effect: str | None, outcome: str
) -> None:
    async with WebSite({"/": hang_up}) as site:
        ended = await run(tool(method=method, url=site.url, effect=effect))
    assert ended.outcome == outcome
    assert ("may or may not have taken effect" in ended.content) == (outcome == "unknown")


async def test_what_was_not_sent_is_no_riddle() -> None:
    async with WebSite() as site:
        gone = site.url
    ended = await run(tool(method="POST", url=gone))
    assert ended.outcome == "error"
    assert ended.content.startswith("Nothing was sent: ")


async def test_a_call_ends_after_its_time() -> None:
    async with WebSite({"/": silence}) as site:
        ended = await run(tool(method="POST", url=site.url, timeout=0.2))
    assert (ended.outcome, ended.content.endswith("It may have taken effect.")) == ("timeout", True)


async def test_a_status_is_an_outcome_and_what_is_not_text_is_named() -> None:
    pages: dict[str, Any] = {
        "/gone": page('{"error": "no"}', "application/json", "404 Not Found"),
        "/none": page("", status="204 No Content"),
        "/image": page(b"\x89PNG\r\n\x1a\n" + bytes(100), "image/png"),
    }
    async with WebSite(pages) as site:
        one = tool(url=site.url + "/{x}", parameters={"x": {}})
        said = [await run(one, x=x) for x in ("gone", "none", "image")]
    assert [(each.outcome, each.content) for each in said] == [
        ("error", 'HTTP 404\n{"error": "no"}'),
        ("ok", "HTTP 204\n(no content)"),
        ("ok", "HTTP 200\n[the answer is not text: image/png, 108 bytes]"),
    ]


async def test_headers_that_say_how_to_go_on_are_told() -> None:
    pages: dict[str, Any] = {
        "/made": page("", status="201 Created", Location="/items/7", X_Other="1"),
        "/busy": page("later", status="429 Too Many Requests", Retry_After="30"),
        "/done": redirect("/items/7", "303 See Other"),
        "/moved": redirect("/elsewhere", "307 Temporary Redirect"),
        "/head": page("hello", X_Other="1"),
    }
    async with WebSite(pages) as site:
        one = tool(method="POST", url=site.url + "/{x}", parameters={"x": {}})
        made, busy, done, moved = [await run(one, x=x) for x in ("made", "busy", "done", "moved")]
        head = await run(tool(method="HEAD", url=site.url + "/head"))
    assert made.content == "HTTP 201\nlocation: /items/7\n(no content)"
    assert (busy.outcome, busy.content) == ("error", "HTTP 429\nretry-after: 30\nlater")
    assert (done.outcome, moved.outcome) == ("ok", "error")
    assert done.content == f"HTTP 303\n[it redirects to {site.url}/items/7, which was not followed]"
    assert "x-other: 1" in head.content


def test_what_running_a_call_twice_means_is_said_by_its_method_or_its_table() -> None:
    def effect(**table: Any) -> str:
        return tool(url="https://api.example/", **table).effect

    methods = ("GET", "HEAD", "PUT", "DELETE", "POST", "PATCH")
    assert [effect(method=method) for method in methods] == [
        "read", "read", "idempotent", "idempotent", "effect", "effect",
    ]  # fmt: skip
    assert effect(method="POST", effect="read") == "read"


def test_the_gate_asks_by_effect_and_rules_see_the_address() -> None:
    reading = tool(url="https://api.example/items/{id}", parameters={"id": {}})
    sending = tool(method="POST", url="https://api.example/items/{id}", parameters={"id": {}})
    careful = tool(url="https://api.example/items/{id}", parameters={"id": {}}, ask="always")

    def said(one: HttpTool, *allow: str, deny: Sequence[str] = (), mode: Any = "interactive") -> str:
        policy = Policy(parse_rules(allow), parse_rules(deny), Path("/"))
        return policy.judge(one, one.parse('{"id": "a b"}'), mode).decision

    assert (said(reading), said(reading, mode="plan"), said(careful)) == ("allow", "allow", "ask")
    assert (said(sending), said(sending, mode="plan"), said(sending, mode="yolo")) == ("ask", "deny", "allow")
    assert said(sending, "it") == said(sending, "it(POST https://api.example/items/*)") == "allow"
    assert said(sending, "it(POST https://api.example/other/*)") == "ask"
    for pattern in ("it", "it(https://api.example/items/a%20b)", "it(api.example)", "it(*://*/items/a b)"):
        assert said(reading, deny=(pattern,), mode="yolo") == "deny", pattern


BAD: list[tuple[dict[str, Any], str]] = [
    ({"url": "https://{host}.example/"}, "has a placeholder in the host of its `url`"),
    ({"url": "https://api.example:{port}/"}, "has a placeholder in the host of its `url`"),
    ({"url": "${BASE}/items"}, "has a `url` that must start with http:// or https://"),
    ({"url": "{base}"}, "has a `url` that must start with http:// or https://"),
    ({"url": "ftp://api.example/"}, "has a `url` that must start with http:// or https://"),
    ({"url": "https://user:word@api.example/"}, "has a `url` that must not contain a user name or password"),
    ({"url": "https://api.example/../x"}, "has a `url` that must not contain `.` or `..`"),
    ({"url": "https://api.example/#x"}, "has a # in its `url`"),
    (
        {"url": "https://api.example/{ id }"},
        "has a `url` whose path contains characters to be percent-encoded",
    ),
    ({"url": "https://api.example/{id}"}, "has a placeholder {id} and no parameter `id`"),
    ({"url": "https://api.example/{context.user}"}, "has a placeholder {context.user}, which has no meaning"),
    ({"url": "https://api.example/?{x}=1"}, "has a placeholder in the name of a query field"),
    ({"parameters": {"idle": {}}}, "has a parameter `idle` that is not used"),
    (
        {"url": "https://api.example/{id}", "parameters": {"id": {"required": False}}},
        "has a parameter `id` in its path or in the middle of a text",
    ),
    ({"parameters": {"id": "text"}}, "has a parameter `id` that is not a table"),
    (
        {"parameters": {"type": "object", "properties": {"id": {}}}},
        "has a parameter `id` that is not used",
    ),
    ({"body": {"a": 1}}, "has a body, which a GET request cannot have"),
    ({"method": "POST", "body": 1, "form": {}}, "has a `body` and a `form`"),
    ({"headers": {"Host": "evil.example"}}, "has a header `Host` that cannot be sent"),
    ({"headers": {"Bad Name": "x"}}, "has a header `Bad Name` that cannot be sent"),
    ({"headers": {"X-A": "1", "x-a": "2"}}, "has the header x-a twice"),
]


@pytest.mark.parametrize(("table", "clause"), BAD, ids=[clause for _, clause in BAD])
def test_what_does_not_fit_is_one_sentence_that_names_the_tool(table: dict[str, Any], clause: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tool(**{"url": "https://api.example/", **table})
    assert caught.value.message.startswith(f"tools.toml: the tool it {clause}")
    assert "\n" not in str(caught.value)


FILES = [
    (
        "tools.toml",
        "[http_tools.a]\nurl = 'https://x.example/'\n",
        "`http_tools.a` does not fit: `description` is missing",
    ),
    (
        "tools.toml",
        "[http_tools.a]\nurll = 1\n",
        "`http_tools.a`: there is no key `urll`. Did you mean `url`?",
    ),
    ("tools.toml", "[http_tool.a]\n", "there is no key `http_tool`."),
    ("tools.toml", "[http_tools.a\n", "is not valid TOML"),
    ("tools.json", '{"http_tools": [1]}', "`http_tools` is not a table"),
    ("tools.json", '{"http_tools": {"a": 1}}', "`http_tools.a` is not a table"),
    ("tools.json", "[1]", "does not contain an object"),
    ("tools.json", "{", "is not valid JSON"),
    ("tools.yaml", "a: 1", "is YAML, which is not supported here. Convert it to JSON."),
    ("missing.toml", None, "cannot be read: No such file or directory"),
    (
        "tools.toml",
        "[http_tools.a]\ndescription='x'\nurl='https://x.example/'\ntimeout=0\n",
        "`http_tools.a` does not fit: `timeout`",
    ),
    (
        "tools.toml",
        "[http_tools.'a b']\ndescription='x'\nurl='https://x.example/'\n",
        "the tool a b has a name that is not valid for a tool",
    ),
    (
        "tools.toml",
        "[http_tools.mcp__a__b]\ndescription='x'\nurl='https://x.example/'\n",
        "the tool mcp__a__b has a name that is not valid for a tool",
    ),
]


@pytest.mark.parametrize(("name", "text", "sentence"), FILES, ids=[sentence for *_, sentence in FILES])
def test_a_file_that_does_not_fit_is_named(
    name: str, text: str | None, sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        http_tools(file)
    assert str(file) in str(caught.value)
    assert sentence in str(caught.value)


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "tools.toml").write_text(
        "[http_tools.find]\ndescription='Find.'\nurl='https://x.example/{id}'\nmethod='get'\n"
        "parameters = { id = { type = 'integer', minimum = 1, description = 'Which.' } }\n"
    )
    schema = {"id": {"type": "integer", "minimum": 1, "description": "Which."}}
    long = {"type": "object", "properties": schema, "required": ["id"], "additionalProperties": False}
    table = {"description": "Find.", "url": "https://x.example/{id}", "parameters": long}
    (tmp_path / "tools.json").write_text(json.dumps({"http_tools": {"find": table}}))
    (one,), (other,) = http_tools(tmp_path / "tools.toml"), http_tools(tmp_path / "tools.json")
    assert one.spec == other.spec
    with pytest.raises(BadArguments, match="id"):
        one.parse('{"id": 0}')


def test_words_in_braces_that_are_doubled_are_words() -> None:
    query = "query {{viewer}} { login name(first: {n}) }"
    one = tool(
        method="POST", url="https://x.example/", body={"query": query}, parameters={"n": {"type": "integer"}}
    )
    sent = one.endpoint.request(lambda reference: 3)
    assert json.loads(sent.body) == {"query": "query {viewer} { login name(first: 3) }"}
