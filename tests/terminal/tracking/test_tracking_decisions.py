"""The page of what waits: shown whole, decided by a person at a phone, by nobody else's page."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.commands.command import Command
from support.commands.killed import effects, kill_in_command
from support.screens.browser import NEEDS_BROWSER, open_browser
from support.screens.tracked import HOSTILE, Served, serve_ui

SHOTS = os.environ.get("SANDBUR_SHOTS")
WRITE = "run echo x >> effects"


def begun(command: Command, prompt: str) -> str:
    """Leave a run that waits for an approval; return its session."""
    ended = command.run("-p", prompt, "-m", "demo", "--output-format", "json")
    assert ended.result["status"] == "needs_approval", ended.err
    return ended.result["session_id"]


@contextmanager
def page_of(command: Command, *flags: str) -> Iterator[Served]:
    url = f"sqlite:///{command.folder}/data/sandbur.db"
    env = {"SANDBUR_HOME": str(command.folder / "data")}
    with serve_ui(url, *flags, home=command.folder, env=env) as running:
        yield running


@contextmanager
def client_of(server: Served) -> Iterator[httpx2.Client]:
    headers = server.bearer if server.token else {}
    with httpx2.Client(base_url=server.url, headers=headers, trust_env=False) as made:
        yield made


def forms(text: str) -> list[dict[str, str]]:
    """Return the hidden fields of each form."""
    found = re.findall(r"<form.*?</form>", text, re.S)
    hidden = (re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form) for form in found)
    return [{name: unescape(value) for name, value in fields} for fields in hidden]


def status(command: Command, session_id: str) -> str:
    listed = command.run("sessions", "list", "--json").lines
    return next(one["status"] for one in listed if one["id"] == session_id)


@NEEDS_BROWSER
def test_a_person_at_a_phone_approves_denies_and_settles(command: Command) -> None:
    first = begun(command, WRITE)
    second = begun(command, "run echo y >> never")
    third = kill_in_command(command)
    command.run("resume", "--due", SANDBUR_MODEL="demo")
    assert status(command, third) == "needs_decision"
    ran = effects(command)
    with page_of(command) as server, open_browser() as browser:
        browser.resize(400)
        browser.open(f"{server.url}?token={server.token}")
        text = browser.until_shown("3 waiting for your decision")
        assert "$ echo x >> effects" in text
        assert "writes files: effects" in text
        assert "its outcome is unknown" in text
        assert browser.overflow == 0
        if SHOTS:
            browser.screenshot(Path(SHOTS) / "decisions-400.png")
        browser.click(f"//form[input[@value='{first}']]//button[.='Approve']")
        browser.until_shown("Approved.")
        browser.type(f"//form[input[@value='{second}']]/input[@name='words']", "not on my disk")
        browser.click(f"//form[input[@value='{second}']]//button[.='Deny']")
        browser.until_shown("Denied.")
        browser.click(f"//form[input[@value='{third}']]//button[.='It took effect']")
        text = browser.until_shown("Settled.")
        assert "Nothing waits" in text
        assert "3 sessions are decided and go on with sandbur resume --due" in text
        assert effects(command) == ran
        browser.click("//a[.='All runs']")
        browser.until_shown("App Runs")
        browser.resize(1280)
        assert browser.overflow == 0
    done = command.run("resume", "--due", SANDBUR_MODEL="demo")
    assert (effects(command), (command.folder / "never").exists()) == (ran + 1, False), done.err
    assert "not on my disk" in command.run("sessions", "export", second).out
    assert "(in a browser)" in command.run("sessions", "export", first).out
    assert {status(command, one) for one in (first, third)} == {"done"}


def test_a_session_that_died_inside_a_command_is_told_before_anybody_goes_on(command: Command) -> None:
    dead = kill_in_command(command, f"echo '{HOSTILE}'; echo x >> effects; sleep 600")
    with page_of(command) as server, client_of(server) as client:
        text = client.get("/").text
        assert "1 waiting for your decision" in text
        assert "The process of the session died while this ran" in text
        assert f"<code>sandbur -r {dead}</code>" in text
        assert "shell echo" in text
        assert "<script>" not in text
        assert "Stopped before the end" not in text
    assert (status(command, dead), effects(command)) == ("interrupted", 1)


def test_what_is_decided_is_what_was_shown(command: Command) -> None:
    session_id = begun(command, WRITE)
    with page_of(command) as server, client_of(server) as client:
        approve, deny = forms(client.get("/").text)
        assert approve == deny
        assert approve["session"] == session_id
        other = client.post("/decide", data={**approve, "digest": "0" * 64, "decision": "approve"})
        assert (other.status_code, "has changed since the page displayed it" in other.text) == (409, True)
        strange = client.post("/decide", data={**approve, "decision": "everything"})
        assert strange.status_code == 409
        wrong = client.post("/decide", data={**approve, "decision": "done"})
        assert "has to be" in wrong.text
        big = client.post("/decide", data={**deny, "decision": "deny", "words": "x" * 100_000})
        assert (big.status_code, "larger than 64 KB" in big.text) == (409, True)
        unknown = client.post("/decide", data={**approve, "session": "nobody", "decision": "approve"})
        assert unknown.status_code == 409
        assert status(command, session_id) == "needs_approval"
        command.run("deny", session_id, "--all", "--record-only")
        late = client.post("/decide", data={**approve, "decision": "approve"})
        assert (late.status_code, "no longer waits" in late.text) == (409, True)
    assert effects(command) == 0


def test_no_other_page_and_nobody_without_the_token_decides(command: Command) -> None:
    begun(command, WRITE)
    with page_of(command) as server, client_of(server) as client:
        form = {**forms(client.get("/").text)[0], "decision": "approve"}
        elsewhere: list[dict[str, str]] = [
            {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
        ]  # fmt: skip
        for headers in elsewhere:
            assert client.post("/decide", data=form, headers=headers).status_code == 403
        assert client.post("/decide", data={**form, "form_token": "guessed"}).status_code == 403
        assert client.post("/decide", data={**form, "form_token": ""}).status_code == 403
        assert client.get("/decide", params=form).status_code != 303
        with httpx2.Client(base_url=server.url, trust_env=False) as stranger:
            assert stranger.get("/").status_code == 401
            assert stranger.post("/decide", data=form).status_code == 401
        assert "1 waiting" in client.get("/").text
    with page_of(command, "--no-token") as server, client_of(server) as client:
        assert client.post("/decide", data=form).status_code == 403
        assert "1 waiting" in client.get("/").text


@pytest.mark.parametrize("notice", [HOSTILE, '"><h1>owned</h1>', "approved"])
def test_nothing_that_comes_from_outside_is_markup(command: Command, notice: str) -> None:
    begun(command, f"run echo '{notice}' >> effects")
    with page_of(command) as server, client_of(server) as client:
        answer = client.get("/", params={"notice": notice})
    text = answer.text
    assert "<img src=x" not in text
    assert "<h1>owned" not in text
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!/)', text)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert ("Approved." in text) == (notice == "approved")


def test_a_call_that_changes_a_file_shows_the_difference_as_the_terminal_does(command: Command) -> None:
    (command.folder / "a.txt").write_text("old\n")
    script: list[Any] = [{"call": "write_file", "arguments": {"path": "a.txt", "content": "new\n"}}]
    from support.models.server import ModelServer
    from support.models.turns import from_json

    with ModelServer([turn for item in script for turn in from_json(item)]) as model:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.base_url, "SANDBUR_MODEL": "openai/gpt-test"}
        ended = command.run("-p", "write", **env)
    old, new = (next(line[4:] for line in ended.err.splitlines() if end in line) for end in ("-old", "+new"))
    with page_of(command) as server, client_of(server) as client:
        text = client.get("/").text
        assert f'<span class="removed">{old}</span>' in text
        assert f'<span class="added">{new}</span>' in text
