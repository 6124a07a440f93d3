"""A person clicks through the tracking UI, in a real browser."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.screens.browser import NEEDS_BROWSER, Browser, open_browser
from support.screens.tracked import Served, chat, every_kind, serve_ui

from sandbur.agent.history.tracking.entries import project_id
from sandbur.state.store.store import Store

pytestmark = NEEDS_BROWSER

PROJECT = project_id(str(Path.cwd()))
SHOTS = os.environ.get("SANDBUR_SHOTS")
"""Where screenshots go, if somebody wants to look at them."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/sandbur.db"


@pytest.fixture(scope="module")
def server(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = Store.open(url)
    asyncio.run(every_kind(store))
    turns: list[Any] = [[("act", {"text": f"call {number}"})] for number in range(80)]
    asyncio.run(chat(store, "long", *turns, "done", text="a long one"))
    store.close()
    with serve_ui(url, home=tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(server: Served) -> Iterator[Browser]:
    with open_browser() as opened:
        # The address that was printed: from then on a cookie knows the token.
        opened.open(f"{server.url}?token={server.token}")
        yield opened


def show(browser: Browser, server: Served, session: str, wait_for: str = "router") -> None:
    browser.open(f"{server.url}project/{PROJECT}/null/{session}")
    browser.until_shown(wait_for)


def keep(browser: Browser, name: str) -> None:
    if SHOTS:
        browser.screenshot(Path(SHOTS) / f"{name}.png")


def expand(browser: Browser) -> None:
    """Show the spans of every step."""
    browser.click("//thead//th[contains(.,'Action')]//*[name()='svg'][1]")


def row(action: str) -> str:
    return f"//tbody/tr[td[contains(.,'{action}')]]"


def test_from_the_folders_to_a_session_to_a_step(browser: Browser, server: Served) -> None:
    browser.open(server.url)
    browser.until_shown("Nothing waits")
    browser.click("//a[.='All runs']")
    browser.until_shown(str(Path.cwd()))
    keep(browser, "projects")
    browser.click(f"//tbody/tr[contains(.,'{Path.cwd()}')]/td")
    text = browser.until_shown("measure-and-write")
    assert "planned" in text
    keep(browser, "sessions")
    browser.click("//tr[contains(.,'something-risky')]/td[last()]")
    browser.until_shown("human_confirm")
    browser.click(row("human_confirm"))
    text = browser.until_shown("ada@workshop")
    assert "approved" in text
    keep(browser, "step")


def test_the_list_says_status_model_and_cost_and_its_links_lead_on(browser: Browser, server: Served) -> None:
    key = "something-risky · done · one · $0.0000"
    browser.open(f"{server.url}project/{PROJECT}")
    text = browser.until_shown(key)
    assert "fail-please · error · one · $0.0000" in text
    browser.click(f"//a[text()='{key}']")
    text = browser.until(lambda: shown if "measure" not in (shown := browser.text()) else "")
    assert key in text
    keep(browser, "sessions-of-a-title")
    browser.click("//tr[contains(.,'approved')]/td[last()]")
    browser.until_shown("human_confirm")
    assert browser.url.endswith("/approved")
    browser.open(browser.url)
    browser.until_shown("human_confirm")
    browser.open(f"{server.url}project/{PROJECT}/something-risky")
    browser.until_shown(key)
    browser.open(f"{server.url}project/{PROJECT}/something-risky · running · one · $9.0000")
    browser.until_shown(key)


def test_the_insights_count_tokens_and_model_calls(browser: Browser, server: Served) -> None:
    show(browser, server, "approved")
    browser.click("(//*[text()='Insights'])[last()]")
    text = browser.until_shown("Total LLM Calls 2")
    assert "Total Completion Tokens 10" in text
    assert int(text.partition("Total Prompt Tokens ")[2].split()[0]) > 10
    browser.click("//tr[contains(.,'Total Completion Tokens')]/td[1]")
    browser.until_shown("chat scripted/one")
    keep(browser, "insights")


def test_a_step_opens_to_its_calls_and_what_is_said_about_them(browser: Browser, server: Served) -> None:
    show(browser, server, "approved")
    expand(browser)
    browser.until_shown("act risky")
    browser.until_shown("chat scripted/one")
    browser.click("(//tr[contains(.,'act risky')]//*[name()='svg'])[last()]")
    text = browser.until_shown("decided_by")
    assert "outcome" in text
    keep(browser, "spans")


def test_a_failure_is_red_and_says_why(browser: Browser, server: Served) -> None:
    show(browser, server, "failed")
    browser.until_shown("failure")
    browser.click(row("router"))
    browser.until_shown("model: The provider said 500.")
    keep(browser, "failure")


def test_from_a_session_to_the_work_on_a_step_and_back(browser: Browser, server: Served) -> None:
    show(browser, server, "planned")
    browser.click("//tbody/tr[td[1][normalize-space()='7']]/td[4]//*[name()='svg']")
    browser.click("//span[text()='planned~step-2']")
    browser.until_shown("planned @ 7")
    assert browser.url.endswith("planned~step-2")
    browser.click(row("execute_tools"))
    browser.until_shown("did write")
    keep(browser, "plan-step")
    browser.click("//table//a[contains(.,'planned')]")
    browser.until_shown("vibe_planner")
    assert browser.url.endswith("/planned")


def test_from_a_session_to_its_fork_and_back(browser: Browser, server: Served) -> None:
    show(browser, server, "planned")
    browser.click("//tbody/tr[td[1][normalize-space()='3']]/td[4]//*[name()='svg']")
    browser.until_shown("forked")
    keep(browser, "links")
    browser.click("//span[text()='forked']")
    browser.until_shown("planned @ 3")
    keep(browser, "fork")
    browser.click("//table//a[contains(.,'planned')]")
    browser.until_shown("vibe_planner")


def test_older_steps_of_a_long_session_are_one_click_away(browser: Browser, server: Served) -> None:
    show(browser, server, "long")
    browser.click("//tbody/tr[td[1][normalize-space()='100']]/td[4]//*[name()='svg']")
    keep(browser, "long")
    browser.click("//span[text()='long~steps-0-99']")
    browser.until_shown("long @ 100")
    browser.click("//tbody/tr[td[1][normalize-space()='0']]")
    browser.until_shown("a long one")


def test_a_note_on_a_step_is_kept(browser: Browser, server: Served) -> None:
    show(browser, server, "approved")
    browser.click(f"{row('execute_tools')}/td[last()]//*[name()='svg']")
    browser.type("//textarea", "this went <b>well</b>")
    browser.click("//button[text()='Create']")
    browser.until_shown("this went <b>well</b>")
    keep(browser, "note")
    show(browser, server, "approved")
    browser.click("(//*[text()='Annotations'])[last()]")
    browser.until_shown("this went <b>well</b>")
    browser.open(f"{server.url}annotations/{PROJECT}")
    browser.until_shown("this went <b>well</b>")
    keep(browser, "notes")


def test_a_running_session_moves_while_it_is_looked_at(browser: Browser, server: Served, url: str) -> None:
    async def live() -> None:
        working, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> str:
            working.set()
            await go_on.wait()
            return "here at last"

        store = Store.open(url)
        session = await open_session(store, ScriptedModel(slowly), Recorder(), session_id="live")
        run = asyncio.ensure_future(collect(session.send("take your time")))
        await working.wait()
        await asyncio.to_thread(show, browser, server, "live", "running")
        keep(browser, "running")
        await asyncio.to_thread(browser.click, "//*[text()='Live']/..//*[name()='svg']")
        go_on.set()
        await run
        await asyncio.to_thread(browser.until_shown, "here at last")
        store.close()

    asyncio.run(live())
    keep(browser, "live")


def test_what_a_model_says_is_text_and_nothing_else(browser: Browser, server: Served) -> None:
    show(browser, server, "hostile")
    browser.click(row("router"))
    browser.until_shown("<img src=x")
    expand(browser)
    keep(browser, "hostile")
    assert browser.run("return document.title") == "Burr"
    assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0


def test_the_browser_asks_nobody_else_and_finds_nothing_wrong(browser: Browser, server: Served) -> None:
    browser.open(server.url)
    browser.until_shown("Nothing waits")
    browser.click("//a[.='All runs']")
    browser.until_shown("App Runs")
    show(browser, server, "planned")
    events = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert not [
        address for address in asked if not address.startswith((server.url, "data:", "about:", "chrome:"))
    ]
    complaints = [entry["message"] for entry in browser.log("browser") if entry["level"] == "SEVERE"]
    assert not [text for text in complaints if "favicon" not in text]
