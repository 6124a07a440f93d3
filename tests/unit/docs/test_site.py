"""The documentation is a site that builds without a warning, in which every link leads somewhere."""

import json
import re
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import build_site
import pytest
from support.places import ROOT
from support.required import lacks, require_module
from support.screens.browser import NEEDS_BROWSER, open_browser

import sandbur

LISTED = re.findall(r"^ +- [^:]+: (\S+\.md)$", build_site.CONFIG.read_text("utf-8"), re.M)


def test_every_page_is_in_the_navigation_exactly_once() -> None:
    written = {*build_site.PAGES, *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))}
    assert sorted(LISTED) == sorted(written | {"docs/api.md", "examples/index.md"})


def test_the_reference_has_every_exported_name_once() -> None:
    named = re.findall(r"^::: sandbur\.(\w+)$", build_site.write_reference(), re.M)
    assert sorted(named) == sorted(name for name in sandbur.__all__ if name not in ("__version__", "events"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    require_module("zensical")
    require_module("mkdocstrings_handlers")
    place = tmp_path_factory.mktemp("site") / ".site"
    build_site.stage(place)
    return place / "html", build_site.build(place)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(built: tuple[Path, str]) -> None:
    lines = [line for line in built[1].splitlines() if not line.startswith("Build ")]
    assert lines == ["No issues found"]


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere_and_nothing_comes_from_another_host(
    built: tuple[Path, str],
) -> None:
    site, _ = built
    assert {"index.html", "docs/index.html", "docs/api/index.html"} <= {
        path.relative_to(site).as_posix() for path in site.rglob("*.html")
    }
    assert build_site.check(site) == []


@pytest.mark.slow
def test_the_reference_describes_what_is_exported(built: tuple[Path, str]) -> None:
    page = build_site.Page((built[0] / "docs/api/index.html").read_text("utf-8"))
    named = re.findall(r"^::: (sandbur\.\w+)$", build_site.write_reference(), re.M)
    assert set(named) <= page.anchors
    assert "sandbur.Agent.run" in page.anchors


def test_a_wrong_link_and_a_request_to_another_host_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "index.html").write_text('<h1 id="top"></h1><a href="a/#part">a</a><a href="a/#none">b</a>')
    (tmp_path / "a/index.html").write_text(
        '<h1 id="part"></h1><a href="../#top">up</a><a href="../gone/">gone</a><a href="https://else.example">x</a>'
        '<script src="https://else.example/x.js"></script><link rel="stylesheet" href="//else.example/x.css">'
    )
    (tmp_path / "style.css").write_text("@font-face { src: url(https://else.example/font.woff) }")
    assert build_site.check(tmp_path) == [
        "a/index.html links to ../gone/: there is no such file",
        "a/index.html loads https://else.example/x.js",
        "a/index.html loads //else.example/x.css",
        "index.html links to a/#none: there is no such anchor",
        "style.css loads https://else.example/font.woff",
    ]


@pytest.fixture
def own(built: tuple[Path, str]) -> Iterator[str]:
    """The address of the site."""
    handler = partial(QuietHandler, directory=str(built[0]))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.slow
@NEEDS_BROWSER
def test_a_browser_that_shows_the_site_asks_no_other_host(own: str) -> None:
    with open_browser() as browser:
        browser.open(own)
        browser.until_shown("The terminal agent you can kill at any moment.")
        browser.open(f"{own}docs/architecture/")
        browser.until(lambda: "__md_scope" in browser.run("return Object.keys(window)"))
        browser.until(lambda: not browser.run("return document.querySelector('pre.mermaid')"))
        messages = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    asked = [
        one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if url.startswith(own)]
    assert [url for url in asked if not url.startswith((own, "data:", "chrome:"))] == []


@pytest.mark.slow
@NEEDS_BROWSER
def test_every_diagram_is_drawn_by_the_copy_of_mermaid_that_the_site_has(own: str) -> None:
    if not build_site.MERMAID_FILE.exists():
        lacks("`python tests/build_site.py --diagrams` fetches Mermaid.")
    diagrams = (ROOT / "docs/architecture.md").read_text("utf-8").count("```mermaid")
    with open_browser() as browser:
        browser.open(f"{own}docs/architecture/")
        count = "return document.querySelectorAll('div.mermaid').length"
        browser.until(lambda: browser.run(count) == diagrams)
        assert [entry["message"] for entry in browser.log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.slow
@NEEDS_BROWSER
def test_the_search_finds_a_page_by_a_word_of_it(own: str) -> None:
    with open_browser() as browser:
        browser.open(own)
        browser.until(lambda: "__md_scope" in browser.run("return Object.keys(window)"))
        browser.click("//button[contains(@class, 'md-search__button')]")
        browser.until(lambda: browser.run("return !!document.activeElement.shadowRoot?.activeElement"))
        browser.press(*"zygote")
        shown = "return document.activeElement.shadowRoot.textContent"
        browser.until(lambda: "Glossary" in browser.run(shown))


@pytest.mark.slow
@NEEDS_BROWSER
def test_no_page_is_wider_than_a_phone(own: str) -> None:
    with open_browser() as browser:
        browser.resize(390)
        for page in ("", "docs/first-hour/", "docs/commands/", "docs/api/", "README.zh-CN/"):
            browser.open(own + page)
            assert browser.overflow == 0, page


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
