"""The files of the web chat: public, complete, and without inline scripts or other hosts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.network.sandbur_server import RunningServer, serve

from sandbur.ui.server.pages.static_files import ENTITIES, PAGE_POLICY, PATHS, load_static_file

FOLDER = Path(__file__).parents[3] / "ui" / "server" / "pages" / "static"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_file_of_the_page_needs_no_token_and_has_a_strict_policy(server: RunningServer, path: str) -> None:
    answer = server.ask("GET", path, token="")
    assert (answer.status, answer.body) == (200, load_static_file(PATHS[path]).content)
    assert answer.headers["content-security-policy"] == PAGE_POLICY
    assert "unsafe" not in PAGE_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_browser_that_has_a_file_gets_no_second_copy(server: RunningServer) -> None:
    tag = server.ask("GET", "/", token="").headers["etag"]
    again = server.ask("GET", "/", token="", headers={"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["/?token=wrong", "/static/", "/static/../answers.py", "/static/none.js"])
def test_nothing_else_comes_without_a_token(server: RunningServer, path: str) -> None:
    assert server.ask("GET", path, token="").status == 401


def test_the_printed_address_keeps_its_token_in_a_cookie_that_scripts_cannot_read(
    server: RunningServer,
) -> None:
    answer = server.ask("GET", f"/?token={server.token}", token="")
    assert {"HttpOnly", "SameSite=Strict"} <= set(answer.headers["set-cookie"].split("; "))


def test_every_file_of_the_folder_is_served_and_every_import_leads_to_one() -> None:
    names = {path.name for path in FOLDER.iterdir()} | {ENTITIES}
    assert names == set(PATHS.values())
    for path in FOLDER.glob("*.js"):
        imported = re.findall(r'from "\./([\w.]+)"', path.read_text())
        assert set(imported) <= names


def test_no_file_makes_markup_of_text_or_names_another_host() -> None:
    texts = {path.name: path.read_text() for path in FOLDER.iterdir()}
    sinks = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc")
    assert not [name for name, text in texts.items() if sinks.search(text)]
    page = texts["index.html"]
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", page)
    addresses = {name: re.findall(r"""["'(](?:https?:)?//[\w.]""", text) for name, text in texts.items()}
    assert {name for name, found in addresses.items() if found} <= {"icon.svg"}
