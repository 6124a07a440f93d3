"""`sandbur ui` as a process: what it answers, whom, and how it ends."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from support.commands.command import ROOT, Command
from support.screens.tracked import HOSTILE, Served, chat, serve_ui

from sandbur.state.process.installation import make_install_command
from sandbur.state.store.store import Store

TOKEN = "a-token_that-nobody-guesses"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/sandbur.db"
    store = Store.open(url)
    asyncio.run(chat(store, "hostile", HOSTILE, text=HOSTILE))
    store.close()
    return url


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(filled: str, home: Path) -> Iterator[Served]:
    with serve_ui(filled, home=home) as running:
        yield running


@pytest.fixture
def client(server: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, headers=server.bearer, trust_env=False) as made:
        yield made


@pytest.fixture(scope="module")
def stranger(filled: str, home: Path) -> Iterator[httpx2.Client]:
    """Who has no token, at a server that asks for none."""
    with (
        serve_ui(filled, "--no-token", home=home) as running,
        httpx2.Client(base_url=running.url, trust_env=False) as made,
    ):
        assert not running.token
        yield made


def project(client: httpx2.Client) -> str:
    return client.get("/api/v0/projects").json()[0]["id"]


def note(client: httpx2.Client, **headers: str) -> httpx2.Response:
    body = {"span_id": None, "step_name": "router", "tags": ["x"], "observations": []}
    path = f"/api/v0/{project(client)}/hostile/__none__/1/annotations"
    return client.post(path, json=body, headers=headers)


def test_it_serves_the_page_and_what_the_page_asks_for(client: httpx2.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for path in re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.text):
        assert client.get(path).status_code == 200
    spec = client.get("/api/v0/metadata/app_spec").json()
    assert spec == {
        "indexing": False,
        "snapshotting": False,
        "supports_demos": False,
        "supports_annotations": True,
    }
    logs = client.get(f"/api/v0/{project(client)}/hostile/__none__/apps")
    assert len(logs.json()["steps"]) == 2


@pytest.mark.parametrize(
    "path",
    [
        "/api/v0/chatbot/response/p/a",
        "/api/v0/email_assistant/state/p/a",
        "/api/v0/streaming_chatbot/history/p/a",
        "/api/v0/deep_researcher/validate",
        "/api/v0/counter/state/p/a",
        "/api/v0/nothing",
        "/openapi.json/../api/nothing",
    ],
)
def test_what_burr_adds_as_examples_is_not_there(client: httpx2.Client, path: str) -> None:
    assert client.get(path).status_code == 404
    assert client.post(path, json={}).status_code in (404, 405)


def test_no_page_loads_anything_from_elsewhere(client: httpx2.Client) -> None:
    for path in ("/docs", "/redoc", "/openapi.json", "/projects"):
        assert "://" not in re.sub(r"<!--.*?-->", "", client.get(path).text, flags=re.DOTALL)


def test_every_answer_says_what_a_browser_may_do(client: httpx2.Client) -> None:
    for path in ("/", "/projects", "/api/v0/projects", "/api/v0/nothing", "/assets/none"):
        headers = client.get(path).headers
        is_ours = path == "/"
        assert f"default-src '{'none' if is_ours else 'self'}'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        # Only so a browser says which site a form of ours was sent from.
        assert headers["referrer-policy"] == ("same-origin" if is_ours else "no-referrer")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7241", "127.0.0.1.evil.example", "10.0.0.1"])
def test_a_name_that_is_not_this_machines_gets_nothing(stranger: httpx2.Client, host: str) -> None:
    assert stranger.get("/api/v0/projects", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:7241", "LOCALHOST:80"])
def test_the_names_of_this_machine_are_welcome(stranger: httpx2.Client, host: str) -> None:
    assert stranger.get("/api/v0/projects", headers={"Host": host}).status_code == 200


def test_another_sites_page_cannot_write(client: httpx2.Client, server: Served) -> None:
    own = server.url.rstrip("/")
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"):
        assert note(client, Origin=origin).status_code == 403
    assert note(client, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.get(f"/api/v0/{project(client)}/annotations").json() == []
    assert note(client, Origin=own).status_code == 200
    assert note(client).status_code == 200
    assert len(client.get(f"/api/v0/{project(client)}/annotations?app_id=hostile").json()) == 2


def test_a_page_that_did_not_change_is_not_sent_again(client: httpx2.Client) -> None:
    path = f"/api/v0/{project(client)}/hostile/__none__/apps"
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for nonsense in ("x", '"', '"a.b"', 'W/"zz.zz"', '"."', "\xff"):
        assert client.get(path, headers=[(b"If-None-Match", nonsense.encode("latin-1"))]).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/v0/x/~/__none__/apps",
        "/api/v0/x/nobody/__none__/apps",
        "/api/v0/x/hostile~step-1/__none__/apps",
        "/api/v0/x/hostile~steps-9-2/__none__/apps",
        "/api/v0/x/%00/__none__/apps",
        "/api/v0/x/hostile~ZZ/__none__/apps",
        "/api/v0/%2e%2e/__none__/apps",
        "/api/v0/x/__none__/apps?limit=-1&offset=-5",
        "/api/v0/x/annotations?app_id=~&step_sequence_id=-1",
    ],
)
def test_rubbish_is_answered_without_a_failure(client: httpx2.Client, path: str) -> None:
    assert client.get(path).status_code in (200, 404)


def test_a_note_that_is_too_long_is_refused(client: httpx2.Client) -> None:
    body = {"span_id": None, "step_name": "x" * 300_000, "tags": [], "observations": []}
    path = f"/api/v0/{project(client)}/hostile/__none__/1/annotations"
    answer = client.post(path, json=body)
    assert answer.status_code == 503
    assert "262,144 characters" in answer.text


def test_nothing_is_left_in_the_home_folder(server: Served, client: httpx2.Client, home: Path) -> None:
    client.get("/")
    assert [path.name for path in home.iterdir()] in ([], ["sandbur"])
    assert not list(home.rglob(".burr*"))


def test_other_users_of_the_machine_do_not_come_in(server: Served) -> None:
    assert re.fullmatch(r"[\w-]{43}", server.token)
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        for path in ("/", "/api/v0/projects", "/assets/x", "/?token=wrong"):
            assert client.get(path).status_code == 401
        assert client.get("/api/v0/projects", headers=server.bearer).status_code == 200
        assert client.get(f"/?token={server.token}").status_code == 200
        assert client.get("/api/v0/projects").status_code == 200


def test_the_browser_is_sent_to_the_address_with_the_token(filled: str, tmp_path: Path) -> None:
    opener = tmp_path / "opener"
    opener.write_text('#!/bin/sh\necho "$1" > "$0.txt"\n')
    opener.chmod(0o755)
    command = Command(tmp_path)
    command.env |= {"BROWSER": str(opener), "DISPLAY": ":none"}
    with command.start("ui", "--port", "0", "--store", filled) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        while not (tmp_path / "opener.txt").is_file() or not (tmp_path / "opener.txt").read_text():
            time.sleep(0.05)
        process.terminate()
    assert (tmp_path / "opener.txt").read_text().strip() == line.removeprefix("Tracking UI: ").strip()
    assert "?token=" in line


def test_with_a_token_nobody_comes_in_without_it(filled: str, tmp_path: Path) -> None:
    env = {"SANDBUR_UI_TOKEN": TOKEN}
    with (
        serve_ui(filled, "--host", "0.0.0.0", home=tmp_path, env=env) as server,
        httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client,
    ):
        assert not server.token
        for path in ("/", "/api/v0/projects", "/assets/x", "/?token=wrong", f"/?token={TOKEN}x"):
            assert client.get(path).status_code == 401
        assert client.get("/", headers={"Authorization": "Bearer nothing"}).status_code == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/api/v0/projects", headers=bearer).status_code == 200
        assert client.get("/api/v0/projects", headers={**bearer, "Host": "by.name"}).status_code == 200
        welcome = client.get(f"/%2Fevil.example/%22?a=%22%3E&token={TOKEN}")
        assert welcome.status_code == 200
        assert 'url=/evil.example/%22?a=%22%3E"' in welcome.text
        assert TOKEN not in welcome.text
        cookie = welcome.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert client.get("/api/v0/projects").status_code == 200
        assert note(client, Origin="https://evil.example").status_code == 403


def test_a_token_is_made_where_others_can_reach_it(filled: str, tmp_path: Path) -> None:
    with serve_ui(filled, "--host", "0.0.0.0", home=tmp_path) as server:
        assert re.fullmatch(r"[\w-]{43}", server.token)
        at = f"http://127.0.0.1:{server.port}/api/v0/projects"
        assert httpx2.get(at, trust_env=False).status_code == 401
        assert httpx2.get(at, headers=server.bearer, trust_env=False).status_code == 200


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_its_code(filled: str, tmp_path: Path, number: int, code: int) -> None:
    with serve_ui(filled, home=tmp_path) as server, httpx2.Client(base_url=server.url) as client:
        client.get("/api/v0/projects")
        server.process.send_signal(number)
        assert server.process.wait(20) == code
        assert server.process.stderr is not None
        assert server.process.stderr.read() == "Ctrl-C ends the server.\n"


def test_a_port_that_is_taken_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = Command(tmp_path).run("ui", "--port", str(port), "--no-open")
    assert ended.code == 2
    assert f"Port {port} of 127.0.0.1 is taken by another program." in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "env", "code", "said"),
    [
        (["--host", "no.such.host.invalid"], {}, 2, "is not a known host name"),
        (["--host", "0.0.0.0", "--no-token"], {}, 2, "--no-token would let the whole network in"),
        (["--host", "203.0.113.7"], {}, 2, "is not an address of this machine"),
        ([], {"SANDBUR_UI_TOKEN": "short"}, 52, "SANDBUR_UI_TOKEN has to be 16 or more"),
        ([], {"SANDBUR_UI_TOKEN": 'x"; Path=/evil-quote'}, 52, "SANDBUR_UI_TOKEN has to be"),
        (["--store", "sqlite:///"], {}, 2, "the store needs a file"),
        (["--port", "99999"], {}, 2, "--port"),
    ],
)
def test_bad_input_is_said_in_one_sentence(
    tmp_path: Path, words: list[str], env: dict[str, str], code: int, said: str
) -> None:
    ended = Command(tmp_path).run("ui", "--port", "0", "--no-open", *words, **env)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert "short" not in ended.err.replace("shorter", "")
    assert len(ended.err.splitlines()) == 1


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None; "
        "from sandbur.ui.cli.main import main; sys.exit(main(['ui']))"
    )
    environment = Command(tmp_path).env
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert ended.returncode == 52
    assert ended.stderr.endswith(f"Install them: {make_install_command('ui')}\n")
    assert len(ended.stderr.splitlines()) == 1
