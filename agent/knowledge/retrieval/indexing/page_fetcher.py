"""Fetches the pages of knowledge bases. The web tools' rules about addresses apply."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from .....actions.ports import Verdict
from .....actions.tools.web.exchange import Judgements, WebAnswer, WebProblem, WebRequest
from .....actions.tools.web.web_fetch import read_text
from .....actions.tools.web.web_tool import connect_web
from .....actions.tools.web.web_url import UnfitUrl, WebUrl, web_url
from .....state.errors import UsageError
from .source_reader import ReadSource

JudgeAddress = Callable[[str], Verdict]
"""Returns what the rules of the person decide about an address."""


def refuse_private(url: str) -> Verdict:
    """Judge addresses without rules: no private address is reached."""
    return Verdict("ask", "there are no rules")


def allow_private(url: str) -> Verdict:
    """Judge addresses without rules: private addresses are reached, too."""
    return Verdict("allow", "there are no rules")


def is_address(location: str) -> bool:
    return location.startswith(("https://", "http://"))


class PageFetcher:
    """Fetches pages that a person named.

    Addresses of private networks and of this machine are reached only if a rule allows them, and redirects
    are followed within the site.
    """

    def __init__(self, judge: JudgeAddress = refuse_private) -> None:
        self._judge = judge

    async def fetch(self, url: str) -> tuple[str, bytes, ReadSource]:
        """Return a file name that tells the kind of a page, its text or its PDF as bytes, and its version.

        Raises `UsageError` if the page cannot be had.
        """
        try:
            first = web_url(url)
        except (UnfitUrl, ValueError) as error:
            raise UsageError(f"{url} is not an address: it {error}.") from None
        _require_no_denial(first, self._judge(str(first)))
        judgements = Judgements(
            may_dial=lambda private: self._judge(str(private)).decision == "allow",
            may_follow=lambda target: self._may_follow(first, target),
        )
        try:
            answer = await connect_web().send(WebRequest(first), judgements)
            _require_page(url, answer)
            if answer.body.startswith(b"%PDF-"):
                return "page.pdf", answer.body, _describe(answer.body)
            text, _ = await read_text(answer)
        except WebProblem as problem:
            raise UsageError(str(problem)) from None
        content = text.encode("utf-8", "replace")
        return "page.md", content, _describe(content)

    def _may_follow(self, first: WebUrl, target: WebUrl) -> bool:
        judged = self._judge(str(target)).decision
        is_same_site = first.host == target.host and (
            target.origin == first.origin or (first.port, target.port) == (80, 443)
        )
        return judged == "allow" or (judged == "ask" and is_same_site)


def _require_no_denial(url: WebUrl, verdict: Verdict) -> None:
    """Raise `UsageError` if a rule denies an address, or if it is private and no rule allows it."""
    if verdict.decision != "deny":
        return
    if verdict.rule:
        raise UsageError(
            f"The rule {verdict.rule} denies {url}.",
            "Change the rule in config.toml, or name another address.",
        )
    raise UsageError(f"{url} is not fetched: {verdict.reason}.", "Rules are in `allow` of config.toml.")


def _require_page(url: str, answer: WebAnswer) -> None:
    """Raise `UsageError` for an answer that is not the page."""
    if answer.leads_to:
        raise UsageError(f"{url} redirects to another site: {answer.leads_to}", "Add that address.")
    if answer.status >= 400:
        raise UsageError(f"{url} answers with the status {answer.status}.", "Check the address.")


def _describe(content: bytes) -> ReadSource:
    return ReadSource(len(content), 0, hashlib.sha256(content).hexdigest())
