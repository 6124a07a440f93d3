"""The tool `web_search`: each service is asked and read as it documents it."""

import json
from typing import Any

import pytest
from support.network.web_site import Say, WebSite, page, redirect, run_call

from sandbur.actions.ports import ToolOutcome
from sandbur.actions.tools.web.search_services import search_service
from sandbur.actions.tools.web.web_search import WebSearch

FOUND = [
    {"title": "First <strong>page</strong>", "url": "https://one.example/", "text": "What &amp; why\n it is"},
    {"title": "", "url": "https://two.example/", "text": None},
    {"title": "No address", "url": "", "text": "x"},
]
ANSWERS: dict[str, Any] = {
    "searxng": {"query": "q", "results": [{**one, "content": one["text"]} for one in FOUND]},
    "brave": {"type": "search", "web": {"results": [{**one, "description": one["text"]} for one in FOUND]}},
    "tavily": {"query": "q", "results": [{**one, "content": one["text"], "score": 0.9} for one in FOUND]},
}
PATHS = {"searxng": "/search", "brave": "/res/v1/web/search", "tavily": "/search"}
KEYS = {"searxng": None, "brave": "MY_KEY", "tavily": "MY_KEY"}
providers = pytest.mark.parametrize("provider", PATHS)


async def searched(site: WebSite, provider: str, query: str = "what is it", **arguments: Any) -> ToolOutcome:
    tool = WebSearch(lambda: search_service(provider, site.url, KEYS[provider], {"MY_KEY": "word"}))
    return await run_call(tool, query=query, **arguments)


def serving(provider: str, answer: bytes | Say) -> WebSite:
    return WebSite({PATHS[provider]: answer})


@providers
async def test_titles_addresses_and_excerpts_come_back(provider: str) -> None:
    async with serving(provider, page(json.dumps(ANSWERS[provider]), "application/json")) as site:
        ended = await searched(site, provider)
    assert ended.outcome == "ok"
    assert ended.content == (
        "1. First page\n   https://one.example/\n   What & why it is\n\n"
        "2. https://two.example/\n   https://two.example/"
    )


async def test_searxng_is_asked_for_json() -> None:
    async with serving("searxng", page(json.dumps(ANSWERS["searxng"]))) as site:
        await searched(site, "searxng", "a & b=c")
    assert (site.seen[0].method, site.seen[0].target) == ("GET", "/search?q=a+%26+b%3Dc&format=json")


async def test_brave_gets_its_key_in_a_header() -> None:
    async with serving("brave", page(json.dumps(ANSWERS["brave"]))) as site:
        await searched(site, "brave", count=3)
    assert site.seen[0].target == "/res/v1/web/search?q=what+is+it&count=3"
    assert site.seen[0].headers["x-subscription-token"] == "word"


async def test_tavily_gets_its_key_as_a_bearer_and_the_question_as_json() -> None:
    async with serving("tavily", page(json.dumps(ANSWERS["tavily"]))) as site:
        await searched(site, "tavily", count=3)
    assert site.seen[0].method == "POST"
    assert site.seen[0].headers["authorization"] == "Bearer word"
    assert json.loads(site.seen[0].body) == {"query": "what is it", "max_results": 3}


@providers
async def test_no_more_than_asked_for_is_shown(provider: str) -> None:
    async with serving(provider, page(json.dumps(ANSWERS[provider]))) as site:
        ended = await searched(site, provider, count=1)
    assert "two.example" not in ended.content


@providers
@pytest.mark.parametrize("answer", [
    b"not json", b"[]", b'"text"', b'{"results": 5, "web": 5}', b"[" * 100_000, b"null",
])  # fmt: skip
async def test_an_answer_of_another_form_is_said(provider: str, answer: bytes) -> None:
    async with serving(provider, page(answer)) as site:
        ended = await searched(site, provider)
    assert ended.outcome == "error"
    assert "answered the search" in ended.content


@providers
async def test_a_refusal_is_told_with_its_words(provider: str) -> None:
    async with serving(provider, page("quota is used up", status="429 Too Many Requests")) as site:
        ended = await searched(site, provider)
    assert ended.outcome == "error"
    assert "HTTP 429: quota is used up" in ended.content


async def test_a_searxng_that_gives_no_json_is_told_what_to_set() -> None:
    async with serving("searxng", page("no", status="403 Forbidden")) as site:
        ended = await searched(site, "searxng")
    assert "add `json` to search.formats in its settings.yml" in ended.content


@providers
async def test_a_key_is_not_carried_to_where_a_redirect_leads(provider: str) -> None:
    async with WebSite() as other, serving(provider, redirect(other.url)) as site:
        ended = await searched(site, provider)
        assert ended.outcome == "error"
        assert other.connections == 0


@providers
async def test_nothing_found_is_said(provider: str) -> None:
    empty = {"web": {"results": []}, "results": []}
    async with serving(provider, page(json.dumps(empty))) as site:
        assert (await searched(site, provider)).content == "127.0.0.1 found nothing."


async def test_a_missing_key_is_said_before_anything_is_sent() -> None:
    tool = WebSearch(lambda: search_service("brave", None, None, {}))
    assert (await run_call(tool, query="x")).content == "The search service needs a key: set BRAVE_API_KEY."


async def test_the_usual_key_is_for_the_usual_place_alone() -> None:
    async with WebSite() as site:
        tool = WebSearch(lambda: search_service("tavily", site.url, None, {"TAVILY_API_KEY": "word"}))
        ended = await run_call(tool, query="x")
    assert "search_key_env" in ended.content
    assert site.connections == 0


async def test_a_placeholder_of_a_secret_is_not_sent() -> None:
    async with WebSite() as site:
        ended = await searched(site, "searxng", "who has [masked API_KEY]")
    assert ended.outcome == "error"
    assert site.connections == 0


async def test_without_a_service_the_tool_says_which_setting_names_one() -> None:
    assert "search_provider" in (await run_call(WebSearch(), query="x")).content
