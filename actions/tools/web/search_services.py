"""The search services of `web_search`, each with its own format."""

import html
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import urlencode

from ....state.lazy_dataclass import dataclass
from .exchange import WebAnswer, WebProblem, WebRequest
from .web_url import WebUrl, web_url

_MAX_EXCERPT_CHARS = 600
_TAG = re.compile(r"</?(?:strong|b|em|mark)>")


class Hit(NamedTuple):
    title: str
    url: str
    excerpt: str

    def describe(self) -> str:
        """Return the title, the address and the excerpt as lines of plain text."""
        title, excerpt = (html.unescape(_TAG.sub("", text)) for text in (self.title, self.excerpt))
        return f"{title or self.url}\n   {self.url}\n   {excerpt[:_MAX_EXCERPT_CHARS]}".rstrip()


class SearchService(Protocol):
    """A search service."""

    @property
    def place(self) -> WebUrl:
        """Return the address of the service. A person chose it, so it may be in a private network."""
        ...

    def request(self, query: str, count: int) -> WebRequest:
        """Return the request for a search. Raises `WebProblem` if a key is missing."""
        ...

    def hits(self, answer: WebAnswer) -> list[Hit]:
        """Return the results in an answer. Raises `WebProblem` if the answer is not valid."""
        ...


@dataclass(frozen=True, slots=True)
class _Service:
    """The connection data of a service. `key` is read at each use."""

    place: WebUrl
    key_env: str
    env: Mapping[str, str]

    def key(self) -> str:
        if not self.key_env:
            raise WebProblem(
                f"No key is sent to {self.place.origin}: the setting search_key_env must name its variable."
            )
        if not (key := self.env.get(self.key_env, "").strip()):
            raise WebProblem(f"The search service needs a key: set {self.key_env}.")
        return key


class SearxngSearch(_Service):
    """A self-hosted server that queries several search engines."""

    def request(self, query: str, count: int) -> WebRequest:
        return WebRequest(_with_query(self.place, q=query, format="json"))

    def hits(self, answer: WebAnswer) -> list[Hit]:
        if answer.status == 403:
            raise WebProblem(
                f"{self.place.origin} does not return JSON: add `json` to search.formats in its settings.yml."
            )
        return _hits(answer, lambda found: found.get("results"), "content")


class BraveSearch(_Service):
    def request(self, query: str, count: int) -> WebRequest:
        headers = {"Accept": "application/json", "X-Subscription-Token": self.key()}
        return WebRequest(_with_query(self.place, q=query, count=str(count)), headers=headers)

    def hits(self, answer: WebAnswer) -> list[Hit]:
        def results(found: dict[str, Any]) -> Any:
            web: Any = found.get("web") or {"results": []}  # the answer has no `web` if no page is found
            return cast(dict[str, Any], web).get("results") if isinstance(web, dict) else None

        return _hits(answer, results, "description")


class TavilySearch(_Service):
    def request(self, query: str, count: int) -> WebRequest:
        headers = {"Authorization": f"Bearer {self.key()}", "Content-Type": "application/json"}
        body = json.dumps({"query": query, "max_results": count}).encode()
        return WebRequest(self.place, "POST", headers, body)

    def hits(self, answer: WebAnswer) -> list[Hit]:
        return _hits(answer, lambda found: found.get("results"), "content")


class _Kind(NamedTuple):
    made: Callable[[WebUrl, str, Mapping[str, str]], SearchService]
    url: str
    path: str
    """The path on a self-hosted server."""
    key_env: str


_KINDS = {
    "searxng": _Kind(SearxngSearch, "http://127.0.0.1:8080", "/search", ""),
    "brave": _Kind(BraveSearch, "https://api.search.brave.com", "/res/v1/web/search", "BRAVE_API_KEY"),
    "tavily": _Kind(TavilySearch, "https://api.tavily.com", "/search", "TAVILY_API_KEY"),
}


SEARCH_PROVIDERS = tuple(_KINDS)


def search_service(
    provider: str, url: str | None, key_env: str | None, env: Mapping[str, str]
) -> SearchService:
    """Return the service, at its standard address if `url` is None. Raises `UnfitUrl` for an invalid address.

    The standard key is sent only to the standard address. Another address gets a key only if `key_env` names
    its variable.
    """
    kind = _KINDS[provider]
    origin = web_url(url or kind.url)
    base = origin.target.partition("?")[0].rstrip("/")
    place = web_url(origin.origin + (base if base.endswith(kind.path) else base + kind.path))
    return kind.made(place, key_env or ("" if url else kind.key_env), env)


def _with_query(place: WebUrl, **parameters: str) -> WebUrl:
    return web_url(f"{place}?{urlencode(parameters)}")


def _hits(answer: WebAnswer, results: Callable[[dict[str, Any]], Any], excerpt: str) -> list[Hit]:
    origin = answer.url.origin
    if answer.status != 200:
        detail = answer.body[:300].decode(errors="replace").strip()
        raise WebProblem(
            f"{origin} answered the search with HTTP {answer.status}: {detail or 'nothing more'}"
        )
    try:
        found: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise WebProblem(f"{origin} answered the search, but not with JSON.") from None
    listed: Any = results(cast(dict[str, Any], found)) if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise WebProblem(f"{origin} answered the search in an unknown format.")
    entries = [cast(dict[str, Any], one) for one in cast(list[Any], listed) if isinstance(one, dict)]
    return [
        Hit(*(" ".join(str(one.get(key) or "").split()) for key in ("title", "url", excerpt)))
        for one in entries
        if one.get("url")
    ]
