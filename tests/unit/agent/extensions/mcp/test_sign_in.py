"""Servers that want a sign-in: once in a browser, then by tokens in a private file."""

import asyncio
import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from support.commands.command import Command
from support.models.scripted import ScriptedModel
from support.places import ROOT
from support.waiting import wait_for

from sandbur import Agent
from sandbur.agent.extensions.mcp.transport.oauth import Callback

pytestmark = pytest.mark.slow

DONE = "Back at Sandbur: its command says whether the sign-in worked. You can close this page."
SERVER = ROOT / "tests/support/tool_servers/signing_in.py"


@pytest.fixture
def address() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, str(SERVER), str(port)]) as server:
        wait_for(lambda: _listens(port))
        yield f"http://127.0.0.1:{port}/mcp"
        server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def configure(command: Command, address: str) -> None:
    path = command.folder / ".config/sandbur/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[mcp_servers.it]\nurl = "{address}"\nauth = "oauth"\nstartup_timeout_s = 60\n')


async def begin_login(command: Command, name: str) -> tuple[asyncio.subprocess.Process, str]:
    """Run the command; return it with the address of the page that it shows."""
    login = await asyncio.create_subprocess_exec(
        *command.line("mcp", "login", name), cwd=command.folder, env=command.env, stdout=subprocess.PIPE
    )
    assert login.stdout is not None
    await login.stdout.readline()
    return login, (await login.stdout.readline()).decode().strip()


async def sign_in(command: Command, name: str) -> str:
    """Run the command, open the page that it shows as a person does, and return what else it printed."""
    login, page = await begin_login(command, name)
    assert login.stdout is not None
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        assert (await browser.get(page)).text == DONE
    rest = (await login.stdout.read()).decode()
    assert await login.wait() == 0
    return rest


async def test_a_person_signs_in_once_and_later_sessions_renew_the_tokens(
    command: Command, address: str
) -> None:
    configure(command, address)
    before = await asyncio.to_thread(lambda: command.run("mcp", "test", "it"))
    assert before.code == 1
    assert "it asks for a sign-in: run `sandbur mcp login it`" in before.err
    rest = await sign_in(command, "it")
    assert rest == "it: signed in; its tokens are in the data folder, readable only by you.\n"
    [kept] = (Path(command.env["SANDBUR_HOME"]) / "mcp/tokens").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    stored = json.loads(kept.read_text())
    first = stored["tokens"]["access_token"]
    kept.write_text(json.dumps({**stored, "expires_at": 1.0}))
    after = await asyncio.to_thread(lambda: command.run("mcp", "test", "it"))
    assert (after.code, "mcp__it__look" in after.out) == (0, True), after.err
    assert json.loads(kept.read_text())["tokens"]["access_token"] != first
    assert first not in before.out + before.err + rest + after.out + after.err


async def test_the_steps_of_the_page_lead_to_a_server_that_a_program_uses(
    command: Command, address: str
) -> None:
    page = (ROOT / "docs/mcp.md").read_text("utf-8").partition("## Signing in")[2].partition("\n## ")[0]
    assert (DONE in page, "http://127.0.0.1:PORT/callback" in page) == (True, True)
    page = page.replace("https://issues.example.com/mcp", address)
    [table], [lines], [program] = (
        re.findall(rf"```{kind}\n(.*?)```", page, re.S) for kind in ("toml", "sh", "python")
    )
    path = command.folder / ".config/sandbur/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{table}startup_timeout_s = 60\n")
    login, test = (shlex.split(line) for line in lines.splitlines())
    assert login[:3] == ["sandbur", "mcp", "login"]
    await sign_in(command, login[3])
    tested = await asyncio.to_thread(lambda: command.run(*test[1:]))
    assert (tested.code, "mcp__issues__look" in tested.out) == (0, True), tested.err
    run = [sys.executable, "-c", program]
    done = await asyncio.to_thread(
        lambda: subprocess.run(run, cwd=command.folder, env=command.env, capture_output=True, text=True)
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "look\n", "")


async def test_no_page_says_that_a_person_is_signed_in_before_the_server_has_given_tokens(
    command: Command, address: str
) -> None:
    configure(command, address)
    login, page = await begin_login(command, "it")
    asked = dict(parse_qsl(urlsplit(page).query))
    async with httpx2.AsyncClient() as browser:
        answer = {"code": "made-up", "state": asked["state"]}
        back = await browser.get(asked["redirect_uri"], params=answer)
    assert login.stdout is not None
    following = await login.stdout.readline()
    login.kill()
    await login.wait()
    assert back.text == DONE
    assert b"signed in" not in following


async def test_a_program_without_tokens_is_told_how_to_sign_in(tmp_path: Path, address: str) -> None:
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home")}
    servers = {"it": {"url": address, "auth": "oauth"}}
    async with Agent(ScriptedModel(), env=env, cwd=tmp_path, mcp_servers=servers).session() as session:
        notices = session.notices
    assert notices == ("The tool server it is left out: it asks for a sign-in: run `sandbur mcp login it`.",)


async def test_a_refused_sign_in_and_foreign_requests_end_nothing_else(tmp_path: Path) -> None:
    callback = Callback()
    waiting = asyncio.create_task(callback.wait())
    async with httpx2.AsyncClient() as browser:
        other = await browser.get(callback.address.replace("/callback", "/favicon.ico"))
        assert (other.status_code, waiting.done()) == (404, False)
        page = await browser.get(callback.address, params={"error": "access_denied"})
    assert page.text == "You are not signed in. You can close this page."
    with pytest.raises(OAuthFlowError, match="the sign-in was refused: access_denied"):
        await waiting
