"""What rules mean for calls over the network: an address is compared part by part."""

from typing import Any

import pytest
from support.network.web_site import gate

from sandbur.actions.ports import Verdict
from sandbur.actions.tools.web.http_request import HttpRequest, HttpRequestArguments
from sandbur.actions.tools.web.web_fetch import WebFetch, WebFetchArguments
from sandbur.actions.tools.web.web_search import WebSearch, WebSearchArguments
from sandbur.agent.policy.rules.rules import exact_rule

PAGE = "https://docs.python.org/3/library/"


def fetch(url: str, *allow: str, mode: Any = "interactive", deny: tuple[str, ...] = ()) -> Verdict:
    return gate(*allow, deny=deny).judge(WebFetch(), WebFetchArguments(url=url), mode)


def send(
    method: str, url: str, *allow: str, mode: Any = "interactive", deny: tuple[str, ...] = ()
) -> Verdict:
    arguments = HttpRequestArguments(url=url, method=method)
    return gate(*allow, deny=deny).judge(HttpRequest(), arguments, mode)


@pytest.mark.parametrize("mode", ["interactive", "auto-edit"])
def test_a_page_is_asked_for_with_its_host_named(mode: str) -> None:
    said = fetch(PAGE, mode=mode)
    assert said.decision == "ask"
    assert "over the network to docs.python.org" in said.reason


@pytest.mark.parametrize("rule", [
    "web_fetch(https://docs.python.org/*)", "web_fetch(https://docs.python.org/3/*)", "web_fetch(https://*.python.org/*)",
    "web_fetch(https://docs.python.org:443/*)", "web_fetch(https://DOCS.python.org/*)",
    "web_fetch(https://*)", "web_fetch",
    "web_fetch(*)", "web_fetch(*://docs.python.org/*)", "web_fetch(https://docs.python.org/3/library/)",
    "web_*(*)",
    "web_fetch(GET https://docs.python.org/*)",
])  # fmt: skip
def test_an_allow_rule_lets_a_page_pass(rule: str) -> None:
    said = fetch(PAGE, rule)
    assert (said.decision, said.rule) == ("allow", rule)


@pytest.mark.parametrize("rule", [
    "web_fetch(http://docs.python.org/*)", "web_fetch(https://docs.python.org)", "web_fetch(https://docs.python.org/)",
    "web_fetch(https://docs.python.org/2/*)", "web_fetch(https://docs.python.org:8443/*)", "web_fetch(https://python.org/*)",
    "web_fetch(https://docs.python.or*)", "web_fetch(https://docs.*/*)", "web_fetch(https://d*/*)",
    "web_fetch(docs.python.org*)",
    "web_fetch(POST https://docs.python.org/*)", "http_request(https://docs.python.org/*)", "web_fetch(https://*.org*)",
])  # fmt: skip
def test_an_allow_rule_covers_no_other_page(rule: str) -> None:
    assert fetch(PAGE, rule).decision == "ask"


@pytest.mark.parametrize("url", [
    "https://docs.python.org.evil.example/", "https://evil.example/https://docs.python.org/3/", "https://evildocs.python.org/",
    "https://evil.example/?https://docs.python.org/", "http://docs.python.org/3/", "https://docs.python.org:444/3/",
    "https://evil.example#https://docs.python.org/", "https://docs.python.org.:444/",
])  # fmt: skip
def test_a_rule_for_a_site_does_not_cover_one_that_looks_like_it(url: str) -> None:
    assert (
        fetch(url, "web_fetch(https://docs.python.org/*)", "web_fetch(https://*.docs.python.org/*)").decision
        == "ask"
    )


def test_a_rule_for_the_names_below_one_does_not_cover_its_namesake() -> None:
    rule = "web_fetch(https://*.python.org/*)"
    assert fetch("https://a.b.python.org/", rule).decision == "allow"
    assert fetch("https://evilpython.org/", rule).decision == "ask"
    assert fetch("https://python.org/", rule).decision == "ask"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_what_may_change_something_passes_by_its_very_words_alone(method: str) -> None:
    url = "https://api.example/v1/items"
    for rule in (
        "http_request",
        "http_request(*)",
        f"http_request({method} https://api.example/*)",
        f"http_request({url})",
    ):
        assert send(method, url, rule).decision == "ask", rule
    assert send(method, url, f"http_request({method} {url})").decision == "allow"
    assert send("GET", url, f"http_request({method} {url})").decision == "ask"


def test_the_rule_that_always_adds_covers_this_request_and_no_other() -> None:
    for method, url in (("GET", "http://93.184.216.34/a?b=[1]*"), ("POST", "https://[2606:4700::1]/x?y")):
        arguments = HttpRequestArguments(url=url, method=method)
        rule = exact_rule("http_request", HttpRequest().subject(arguments))
        assert send(method, arguments.url, rule).decision == "allow", rule
        assert send(method, arguments.url + "z", rule).decision == "ask", rule


def test_plan_mode_reads_what_a_rule_names_and_sends_nothing() -> None:
    rule = "http_request(https://api.example/*)"
    assert send("GET", "https://api.example/x", rule, mode="plan").decision == "allow"
    assert send("GET", "https://api.example/x", mode="plan").decision == "deny"
    exact = "http_request(POST https://api.example/x)"
    assert send("POST", "https://api.example/x", exact, mode="plan").decision == "deny"


def test_yolo_passes_every_public_address() -> None:
    assert send("POST", "https://api.example/x", mode="yolo").decision == "allow"
    assert fetch(PAGE, mode="yolo").decision == "allow"


@pytest.mark.parametrize("mode", ["interactive", "auto-edit", "plan", "yolo"])
@pytest.mark.parametrize("url", [
    "http://127.0.0.1:8000/x", "http://localhost/", "http://169.254.169.254/latest/", "http://[::1]/", "http://10.1.2.3/",
    "http://2130706433/", "http://[::ffff:a00:1]/",
])  # fmt: skip
def test_a_private_address_is_denied_in_every_mode_with_the_rule_that_would_do(url: str, mode: str) -> None:
    said = fetch(url, "web_fetch", "web_fetch(*)", "web_fetch(http://*:*/*)", mode=mode)
    assert said.decision == "deny"
    rule = said.reason.rpartition("such as ")[2]
    assert fetch(url, rule, mode=mode).decision == "allow"


def test_a_private_address_is_named_with_its_port() -> None:
    rule = "web_fetch(http://127.0.0.1:8000/*)"
    assert fetch("http://127.0.0.1:8000/a/b?c", rule).decision == "allow"
    assert fetch("http://127.0.0.1:8001/", rule, mode="yolo").decision == "deny"
    assert fetch("https://127.0.0.1:8000/", rule, mode="yolo").decision == "deny"
    assert fetch("http://127.0.0.1:8001/", "web_fetch(http://127.0.0.1:*/*)").decision == "allow"
    assert (
        fetch("http://127.0.0.2:8000/", "web_fetch(http://127.0.0.*:8000/*)", mode="yolo").decision == "deny"
    )


def test_sending_to_a_private_address_that_a_rule_names_is_asked_for() -> None:
    rule = "http_request(http://127.0.0.1:8000/*)"
    assert send("POST", "http://127.0.0.1:8000/x", rule).decision == "ask"
    assert send("POST", "http://127.0.0.1:8000/x", rule, mode="yolo").decision == "allow"


@pytest.mark.parametrize("rule", [
    "web_fetch(https://evil.example/*)", "web_fetch(https://evil.example)", "web_fetch(evil.example)",
    "web_fetch(*.example/*)",
    "web_fetch(*evil*)", "web_fetch(https://EVIL.example/*)", "web_fetch(https://evil.example:443/*)",
    "web_*",
    "web_fetch(https://evil.example./*)", "web_fetch(*/secret/*)", "web_fetch(*://*/secret*)", "*(https://evil.example/*)",
])  # fmt: skip
@pytest.mark.parametrize("mode", ["interactive", "yolo"])
def test_a_deny_rule_hits_a_page_in_each_of_its_spellings(rule: str, mode: str) -> None:
    for url in (
        "https://evil.example/secret/x",
        "https://EVIL.example.:443/%73ecret/x?y",
        "https://evil.example/%2573ecret/x",
    ):
        said = fetch(url, "web_fetch", mode=mode, deny=(rule,))
        assert (said.decision, said.rule) == ("deny", rule)


def test_a_deny_rule_for_a_method_leaves_the_others() -> None:
    deny = ("http_request(DELETE *)",)
    assert send("DELETE", "https://api.example/x", mode="yolo", deny=deny).decision == "deny"
    assert send("GET", "https://api.example/x", mode="yolo", deny=deny).decision == "allow"


def test_a_deny_rule_for_a_site_leaves_others() -> None:
    assert (
        fetch("https://notevil.example/", mode="yolo", deny=("web_fetch(https://evil.example/*)",)).decision
        == "allow"
    )


def test_a_deny_rule_finds_an_ipv6_address_and_a_name_of_other_letters() -> None:
    deny = ("web_fetch(https://[2606:4700::1]/*)", "web_fetch(https://bücher.example/*)")
    assert fetch("https://[2606:4700:0::1]/x", mode="yolo", deny=deny).decision == "deny"
    assert fetch("https://bücher.example/x", mode="yolo", deny=deny).decision == "deny"


def test_a_search_asks_and_passes_by_rule() -> None:
    def search(*allow: str, mode: Any = "interactive") -> Verdict:
        return gate(*allow).judge(WebSearch(), WebSearchArguments(query="http://127.0.0.1/ python"), mode)

    assert search().decision == "ask"
    assert "over the network" in search().reason
    assert search("web_search").decision == search("web_search(*python*)").decision == "allow"
    assert search("web_search(*ruby*)").decision == "ask"
    assert search(mode="plan").decision == "deny"
    assert search("web_search", mode="plan").decision == search(mode="yolo").decision == "allow"
