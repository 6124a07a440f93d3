"""A text of a stranger stays on the line of its entry, in whatever list or log it stands."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
from support.network.sandbur_server import TIMEOUT_S, RunningServer, serve

from sandbur import Agent
from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel

ENDS = ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
"""What some reader takes for the end of a line."""
SEQUENCES = ("\x1b[1E", "\x9b1E", "\x1bE", "\x1bD", "\x84", "\x1b[9;1H", "\x1b]0;t\x07", "\b" * 80, "\x7f")
"""What moves a terminal to another line, and what else has no place there."""
FORGED = "FORGED  200  DELETE all"
HOSTILE = "x" + "".join(f"{one}{FORGED}" for one in (*ENDS, *SEQUENCES))
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def check_lines(text: str) -> None:
    """Fail if a text has a forged line or a control character."""
    assert [line for line in text.splitlines() if line.startswith("FORGED")] == []
    assert _CONTROL.search(text.replace("\t", " ")) is None


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose store has hostile texts wherever a request can bring some."""
    with serve(tmp_path_factory.mktemp("served")) as running:
        short = HOSTILE[:190]
        running.begin("hostile", f"say {HOSTILE}", user=short, app=short, tags=[f"tag={short[:100]}"])
        running.wait_for("hostile", "done")
        assert running.ask("PATCH", "/v1/sessions/hostile", {"title": short}).status == 200
        for end in ENDS:
            # Some of these characters are refused.
            assert running.ask("POST", "/v1/facts", {"text": f"x{end}{FORGED}"}).status in (201, 400)
        made = running.ask("POST", "/v1/tokens", {"name": HOSTILE[:100], "scopes": ["read"]}).json
        for token in (made["token"], "wrong", running.token):
            for end in (*ENDS, *SEQUENCES):
                path = f"/v1/sessions/{quote(f'x{end}{FORGED}', safe='')}"
                running.ask("DELETE", path, token=token)
        yield running


def test_an_audited_path_is_one_entry_on_one_line(served: RunningServer) -> None:
    listed = served.run("list-audit")
    check_lines(listed)
    requests = listed.count("DELETE /v1/sessions/x")
    assert requests == 3 * len((*ENDS, *SEQUENCES))
    for entry in served.ask("GET", "/v1/audit?limit=1000").json["entries"]:
        check_lines(str(list(entry.values()))) or check_lines(entry["request"])


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "list-tokens"),
        ("sessions", "list"),
        ("sessions", "list", "--json"),
        ("sessions", "show", "hostile"),
        ("sessions", "verify"),
        ("stats",),
        ("memory", "list", "--scope", "user"),
        ("memory", "list"),
        ("memory", "search", "FORGED"),
        ("memory", "review"),
        ("_complete", "sandbur", "-r", ""),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_a_list_has_no_line_of_a_stranger(served: RunningServer, words: tuple[str, ...]) -> None:
    ended = run(served.environment, *words)
    check_lines(ended.stdout)
    check_lines(ended.stderr)


AGENT = f"""
from sandbur import Agent
from sandbur.testing import ScriptedModel
from sandbur.state.errors import ModelError

agent = Agent(ScriptedModel(ModelError({HOSTILE!r})), name="default")
"""


async def test_the_log_of_a_worker_has_a_line_for_each_entry(tmp_path: Path) -> None:
    (tmp_path / "hostile.py").write_text(AGENT)
    url = f"sqlite:///{tmp_path}/s.db"
    store = Store.open(url)
    session_id = await create_session(store, "hostile:agent", Agent(ScriptedModel([]), name="hostile:agent"))
    await send_message(store, session_id, "hello")
    store.close()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SANDBUR_HOME": str(tmp_path)}
    ended = run(environment, "worker", "--agent", "hostile:agent", "--store", url, "--once")
    assert "FORGED" in ended.stderr
    check_lines(ended.stderr)


def test_an_entry_of_the_log_for_bugs_begins_with_its_time(tmp_path: Path) -> None:
    program = (
        f"from sandbur.ui.cli.failure_reports import report_bug; report_bug(ValueError({HOSTILE!r}), None)"
    )
    environment = {**os.environ, "SANDBUR_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
    first, *more = (tmp_path / "crash.log").read_text().splitlines()
    assert re.match(r"\d{4}-\d\d-\d\dT", first)
    assert [line for line in more if line and not line.startswith("  ")] == []


def run(environment: Mapping[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sandbur.ui.cli.main", *words]
    return subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
