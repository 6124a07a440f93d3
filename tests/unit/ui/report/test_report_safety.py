"""A report is harmless, whatever was said, and tells what it can of a damaged record."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.required import unless
from support.screens.reports import act, beyond_code, make_report, nasty, page

from sandbur.state.store.store import Store
from sandbur.ui.report.markdown import code, prose
from sandbur.ui.terminal.text.sanitize import fence_text

FORMS = ("html", "md")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
in_a_browser = unless(CHROMIUM is not None, "no chromium is installed")


async def test_nothing_of_what_was_said_runs_or_loads_anything(store: Store) -> None:
    await nasty(store)
    found = page(store)
    assert "<img src=x onerror=alert(1)>" in found.text
    assert not re.search(
        r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2028\ufffe]", make_report(store, "html")
    )
    assert "The plan was revised" in found.text


async def test_markdown_holds_no_html_no_picture_and_no_open_fence(store: Store) -> None:
    await nasty(store)
    text = make_report(store, "md")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    beyond = beyond_code(text)
    assert not re.search(r"(?<!\\)<[a-zA-Z/!]", beyond)
    assert "![" not in beyond


def test_a_fence_outlasts_the_backticks_in_it() -> None:
    assert fence_text("a ```` b").startswith("`````\n")
    assert code("a`b") == "`` a`b ``"
    for text in (
        "- ```\n  <b>\n  ```\n<i>",
        "   ```\n<b>\n   ```\n<i>",
        "~~~ `\n<b>\n~~~\n<i>",
        "\\<i>",
        "`\n`<i>`",
    ):
        assert "<" not in re.sub(r"&lt;|\\\\<", "", beyond_code(prose(text)))
    assert prose("```py\n<b>\n") == "```py\n<b>\n```"


@pytest.mark.slow
@in_a_browser
def test_a_browser_shows_it_offline_with_its_style_and_runs_nothing(store: Store, tmp_path: Path) -> None:
    asyncio.run(nasty(store))
    file = tmp_path / "page.html"
    file.write_text(make_report(store, "html"), "utf-8")
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path}/profile", "--enable-logging=stderr", f"--screenshot={tmp_path}/page.png",
        "--window-size=900,1200", file.as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, timeout=90, check=True)
    complaints = [line for line in shown.stderr.decode().splitlines() if "CONSOLE" in line]
    assert not complaints
    assert (tmp_path / "page.png").stat().st_size > 20_000


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("table", ["steps", "messages", "calls", "traces"])
@pytest.mark.parametrize("rubbish", ["", "{", "null", "[]", '{"a": 1}'])
async def test_damaged_records_are_named_and_the_rest_is_told(
    store: Store, form: str, table: str, rubbish: str
) -> None:
    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder())
    await collect(session.send("go"))
    column = "fields" if table == "steps" else "body"
    store.database.commit(
        [(f"UPDATE {table} SET {column} = ? WHERE session_id = 's1' AND record > 2", (rubbish,))]
    )
    text = make_report(store, form)
    assert "is not what was written" in text
    store.quarantine_damage("s1")
    assert "was set aside" in make_report(store, form)
