"""Streams whose connections are cut at random bytes: a browser and curl get each stored event once."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.network.cutting_proxy import CuttingProxy
from support.network.sandbur_server import Event, RunningServer, read_events, serve
from support.required import needs
from support.screens.browser import NEEDS_BROWSER, open_browser

pytestmark = pytest.mark.slow

MESSAGES = 6
FOLLOW = """
window.got = []; window.lost = 0;
const source = new EventSource('/v1/sessions/' + arguments[0] + '/events');
source.onmessage = (event) => {
  const data = JSON.parse(event.data);
  if ('seq' in data) got.push([event.lastEventId, data.seq, data.type]);
};
source.onerror = () => { lost += 1; };
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--mode", "yolo") as running:
        running.begin("s1", "run echo hello")
        for number in range(1, MESSAGES):
            running.ask("POST", "/v1/sessions/s1/messages", {"content": f"run echo {number}"})
        read_results(running, "s1", MESSAGES)
        yield running


def read_results(server: RunningServer, session: str, results: int) -> list[Event]:
    """Return the stored events of a session up to its n-th result, over one connection."""
    found: list[Event] = []
    with server.stream(session) as events:
        for event in events:
            found += [event] if event.id else []
            results -= event.data["type"] == "result"
            if results == 0:
                return found
    raise AssertionError("the stream ended")


@NEEDS_BROWSER
def test_the_event_source_of_a_browser_goes_on_after_each_cut(server: RunningServer) -> None:
    server.begin("live", "hi")
    with CuttingProxy(server.port, 7, cuts=5, least_bytes=500) as proxy, open_browser() as browser:
        browser.open(f"{proxy.url}/?token={server.token}")
        browser.until(lambda: browser.url == f"{proxy.url}/")
        browser.run(FOLLOW, "s1")
        expected = [
            [one.id, one.data["seq"], one.data["type"]] for one in read_results(server, "s1", MESSAGES)
        ]
        browser.until(lambda: len(browser.run("return got")) >= len(expected))
        assert browser.run("return got") == expected
        # What is recorded later comes over the connection that is open, or the next one.
        server.ask("POST", "/v1/sessions/s1/messages", {"content": "run echo later"})
        longer = read_results(server, "s1", MESSAGES + 1)
        browser.until(lambda: len(browser.run("return got")) >= len(longer))
        assert [one[0] for one in browser.run("return got")] == [one.id for one in longer]
        assert browser.run("return lost") >= proxy.cuts - 1 >= 2


@needs("curl")
@pytest.mark.parametrize("seed", range(3))
def test_curl_that_is_started_again_with_the_last_id_gets_each_stored_event_once(
    server: RunningServer, seed: int, tmp_path: Path
) -> None:
    expected = [event.id for event in read_results(server, "s1", MESSAGES)]
    found: list[str] = []
    with CuttingProxy(server.port, seed, cuts=10**6) as proxy:
        while found[-1:] != expected[-1:]:
            for event in _run_curl(proxy.url, server.token, found[-1] if found else "", tmp_path / "out"):
                if event.id and found[-1:] != expected[-1:]:
                    found.append(event.id)
    assert found == expected
    assert proxy.cuts > 3


def _run_curl(url: str, token: str, last_id: str, out: Path) -> list[Event]:
    """Return the whole events that came until the connection was cut."""
    headers = [f"Authorization: Bearer {token}", *([f"Last-Event-ID: {last_id}"] if last_id else [])]
    command = ["curl", "--silent", "--no-buffer", "--max-time", "20", f"{url}/v1/sessions/s1/events"]
    for header in headers:
        command += ["--header", header]
    with out.open("wb") as file:
        subprocess.run(command, stdout=file, check=False)
    *lines, _ = out.read_bytes().split(b"\n")
    try:
        return list(read_events(line + b"\n" for line in lines))
    except json.JSONDecodeError as error:
        raise AssertionError(lines[-3:]) from error
