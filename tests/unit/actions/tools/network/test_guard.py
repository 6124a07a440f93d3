"""What the guard lets out: every address of a host judged, the judged one dialled, every hop judged again."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from support.network.certificates import Authority
from support.network.web_site import WebSite, page, redirect, run_call

from sandbur.actions.tools.web.client import WebClient, WebLimits
from sandbur.actions.tools.web.guard import Resolve
from sandbur.actions.tools.web.http_request import HttpRequest
from sandbur.actions.tools.web.web_fetch import WebFetch

PUBLIC = "203.0.114.1"
"""Nobody's that a test knows; nothing is ever sent to it."""
FORMS = [
    "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "017700000001", "0x7f.1", "127.0.0.1.",
    "0.0.0.0", "0",
    "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]", "①②⑦.0.0.1", "127。0。0。1", "LOCALHOST", "x.localhost",
]  # fmt: skip
"""Ways to write an address of this machine."""


@pytest.fixture
async def site() -> AsyncIterator[WebSite]:
    async with WebSite({"/": page("the inside"), "/x": page("the inside")}) as one:
        yield one


def resolving(*answers: Sequence[str]) -> Resolve:
    """Say one answer after the other, and the last one for ever."""
    left = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


def fetching(*answers: Sequence[str], connect_s: float = 10) -> WebFetch:
    return WebFetch(WebClient(resolving(*answers), limits=WebLimits(connect_s=connect_s)))


@pytest.mark.parametrize("mode", ["interactive", "auto-edit", "yolo"])
@pytest.mark.parametrize("host", FORMS)
async def test_this_machine_is_not_reached_however_its_address_is_written(
    site: WebSite, host: str, mode: str
) -> None:
    url = f"http://{host}:{site.port}/"
    for tool in (WebFetch(), HttpRequest()):
        ended = await run_call(tool, "web_fetch", "http_request", mode=mode, url=url)
        assert ended.outcome == "error"
        assert "reserved for" in ended.content
    assert site.connections == 0


async def test_a_rule_that_names_the_address_lets_it_be_reached(site: WebSite) -> None:
    ended = await run_call(WebFetch(), f"web_fetch({site.url}/*)", url=f"{site.url}/x")
    assert ended.outcome == "ok"
    assert "the inside" in ended.content


@pytest.mark.parametrize(
    "rule", ["web_fetch", "web_fetch(*)", "web_fetch(http://*)", "web_fetch(http://*:*/*)"]
)
async def test_a_rule_that_names_everything_does_not_name_this_machine(site: WebSite, rule: str) -> None:
    ended = await run_call(WebFetch(), rule, url=site.url)
    assert ended.outcome == "error"
    assert site.connections == 0


async def test_nobody_is_asked_where_localhost_is(site: WebSite) -> None:
    url = f"http://localhost:{site.port}/"
    ended = await run_call(fetching(["169.254.169.254"]), f"web_fetch({url}*)", url=url)
    assert "the inside" in ended.content


@pytest.mark.parametrize("addresses", [
    ["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], ["169.254.169.254"], ["::1"],
    ["fe80::1%eth0"],
    ["::ffff:10.0.0.1"], ["fd00:ec2::254"],
])  # fmt: skip
async def test_a_name_with_one_private_address_is_refused_whole(site: WebSite, addresses: list[str]) -> None:
    rule = f"web_fetch(http://inside.example:{site.port}/*)"
    ended = await run_call(fetching(addresses), rule, url=f"http://inside.example:{site.port}/")
    assert ended.outcome == "error"
    assert "allow rule names the address itself" in ended.content
    assert site.connections == 0


async def test_a_name_of_the_inside_needs_a_rule_for_the_name_and_one_for_the_address(site: WebSite) -> None:
    url = f"http://wiki.example:{site.port}/x"
    rules = (f"web_fetch(http://wiki.example:{site.port}/*)", f"web_fetch({site.url}/*)")
    ended = await run_call(fetching(["127.0.0.1"]), *rules, url=url)
    assert ended.outcome == "ok", ended.content
    assert site.seen[0].headers["host"] == f"wiki.example:{site.port}"


async def test_a_name_that_changes_its_mind_is_asked_once_and_never_again(site: WebSite) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return [PUBLIC] if len(asked) == 1 else ["127.0.0.1"]

    tool = WebFetch(WebClient(rebinding, limits=WebLimits(connect_s=0.3)))
    url = f"http://rebinding.example:{site.port}/"
    ended = await run_call(tool, "web_fetch(http://*)", url=url)
    assert ended.outcome == "error"
    assert asked == ["rebinding.example"]
    assert site.connections == 0


async def test_a_name_that_changes_its_mind_between_two_hops_is_judged_again(site: WebSite) -> None:
    site.pages["/"] = redirect(f"http://rebinding.example:{site.port}/x")
    url = f"http://rebinding.example:{site.port}/"
    tool = fetching(["127.0.0.1"], ["10.0.0.1"])
    rules = (f"web_fetch(http://rebinding.example:{site.port}/*)", f"web_fetch({site.url}/*)")
    ended = await run_call(tool, *rules, url=url)
    assert "10.0.0.1" in ended.content
    assert [seen.target for seen in site.seen] == ["/"]


@pytest.mark.parametrize("place", [
    "http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/", "http://[fd00:ec2::254]/",
    "http://127.0.0.1:1/", "http://2852039166/", "//localhost:1/", "file:///etc/passwd", "gopher://127.0.0.1/",
    "http://user@127.0.0.1:1/", "https://elsewhere.example/",
])  # fmt: skip
async def test_a_redirect_does_not_lead_where_no_rule_does(site: WebSite, place: str) -> None:
    site.pages["/"] = redirect(place)
    ended = await run_call(WebFetch(), f"web_fetch({site.url}/*)", url=site.url + "/")
    assert ended.outcome == "error"
    assert "redirects to" in ended.content
    assert site.connections == 1


async def test_in_yolo_a_redirect_to_the_inside_is_not_followed_either(site: WebSite) -> None:
    async with WebSite({"/": page("secret")}) as inner:
        site.pages["/"] = redirect(inner.url)
        ended = await run_call(WebFetch(), f"web_fetch({site.url}/*)", mode="yolo", url=site.url)
        assert "secret" not in ended.content
        assert inner.connections == 0


async def test_a_deny_rule_holds_on_the_way_too(site: WebSite) -> None:
    site.pages["/"] = redirect("/x")
    ended = await run_call(
        WebFetch(), f"web_fetch({site.url}/*)", mode="yolo", deny=(f"web_fetch({site.url}/x*)",), url=site.url
    )
    assert "not followed" in ended.content
    assert [seen.target for seen in site.seen] == ["/"]


async def test_a_redirect_that_a_rule_covers_is_followed_without_the_headers_of_the_first_site(
    site: WebSite,
) -> None:
    async with WebSite({"/end": page("there")}) as other:
        site.pages |= {"/": redirect("/x"), "/x": redirect(other.url + "/end", "307 Temporary Redirect")}
        rules = (f"http_request({site.url}/*)", f"http_request({other.url}/*)")
        ended = await run_call(
            HttpRequest(), *rules, url=site.url, headers="Authorization: Bearer abc\nX-Api-Key: 1"
        )
        assert "there" in ended.content
        assert [seen.headers.get("authorization") for seen in site.seen] == ["Bearer abc"] * 2
        assert not {"authorization", "x-api-key"} & set(other.seen[0].headers)


async def test_what_changes_something_is_never_sent_on(site: WebSite) -> None:
    site.pages["/"] = redirect("/x", "307 Temporary Redirect")
    rule = f"http_request({site.url}/*)"
    ended = await run_call(HttpRequest(), rule, url=site.url, method="POST", body="pay")
    assert "not followed" in ended.content
    assert [seen.target for seen in site.seen] == ["/"]


async def test_a_circle_of_redirects_ends(site: WebSite) -> None:
    site.pages["/"] = redirect("/")
    ended = await run_call(WebFetch(), f"web_fetch({site.url}/*)", url=site.url)
    assert "redirects more than 5 times" in ended.content
    assert len(site.seen) == 6


async def test_the_certificate_of_the_name_counts_whatever_address_is_dialled(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path), Authority(tmp_path, "stranger")
    tls = ours.issue("site.example").server_context()
    async with WebSite({"/": page("kept private")}, tls=tls) as site:
        url = f"https://site.example:{site.port}/"
        rules = (f"web_fetch({url}*)", f"web_fetch(https://127.0.0.1:{site.port}/*)")

        async def fetched(host: str, authority: Authority) -> str:
            client = WebClient(resolving(["127.0.0.1"]), authority.client_context())
            told = (*rules, f"web_fetch(https://{host}:{site.port}/*)")
            return (await run_call(WebFetch(client), *told, url=f"https://{host}:{site.port}/")).content

        assert "kept private" in await fetched("site.example", ours)
        assert "certificate" in await fetched("site.example", theirs)
        assert "mismatch" in await fetched("other.example", ours)


async def test_proxies_of_the_environment_are_not_asked(
    site: WebSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with WebSite() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        rules = (f"web_fetch({site.url}/*)", f"web_fetch({proxy.url}/*)")
        assert "the inside" in (await run_call(WebFetch(), *rules, url=site.url)).content
        assert proxy.connections == 0


def test_the_arguments_of_a_call_are_checked_before_anything_is_judged() -> None:
    from sandbur.actions.ports import BadArguments

    for url in ("http://user:word@example.com/", "http://example.com/%2e%2e/x", "file:///etc/passwd"):
        with pytest.raises(BadArguments, match="url must"):
            WebFetch().parse(json.dumps({"url": url}))
