"""What the tracking UI costs: opening a long run in a browser, its server's memory, the runs that it watches.

Usage: python tests/bench/tracking_ui.py [ROUNDS]
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from figures import tell

sys.path.insert(0, str(Path(__file__).parent.parent))

import httpx2
from support.models.scripted import Recorder, ScriptedModel, open_session
from support.screens.browser import opened_browser
from support.screens.tracked import Served, served

from sandbur.actions.ports import ToolOutcome
from sandbur.actions.ports.events import ToolFinished
from sandbur.state.store.store import Store

TURNS = 800
WATCHED_TURNS = 1200
_ROW = """
const cells = [...document.querySelectorAll("tbody tr > td:first-child")];
return cells.some(cell => cell.innerText.trim() === arguments[0]);
"""
POLL_S = 0.5
"""As often as the UI asks while it is live."""


class Answer(Recorder):
    async def run(self, arguments: str, context: Any) -> ToolOutcome:
        return ToolOutcome("ok", "r" * 2000)


async def turns(store: Store, session_id: str, count: int) -> list[float]:
    """Run a session of `count` tool turns; return how long each took, in seconds."""
    calls = [[("act", {"text": f"call {number}"})] for number in range(count)]
    model = ScriptedModel(*calls, "done", context_window=10**9)
    session = await open_session(store, model, Answer(), session_id=session_id)
    times, began = list[float](), time.perf_counter()
    async for event in session.send("go"):
        if isinstance(event, ToolFinished):
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
    store.forget(session_id)
    return times


def opening(server: Served, project: str) -> None:
    """Print how long a browser takes to show the run page of the long session, and of one of two steps."""
    with opened_browser() as browser:
        browser.open(server.url)
        browser.until_shown("App Runs")
        seconds = {}
        for name, last in (("short", 1), ("long", 2 * TURNS + 1), ("long", 2 * TURNS + 1)):
            browser.open("about:blank")
            began = time.perf_counter()
            browser.open(f"{server.url}project/{project}/go/{name}")
            browser.until(partial(browser.run, _ROW, str(last)))
            seconds[name] = time.perf_counter() - began
            load = os.getloadavg()[0] / (os.cpu_count() or 1)
            print(f"run page of {last + 1} steps: {seconds[name]:.2f} s, load {load:.1f} a core")
        tell("the run page of a long run, shown in a browser", seconds["long"], 2, " s")
        print(f"long against short: ratio {seconds['long'] / seconds['short']:.1f}")
    page = httpx2.get(f"{server.url}api/v0/{project}/long/go/apps")
    print(f"{TURNS} turns, run page: {len(page.content):,} bytes, {len(page.json()['steps'])} steps")
    for child in page.json()["children"]:
        httpx2.get(f"{server.url}api/v0/{project}/{child['child']['app_id']}/go/apps").raise_for_status()
    tell("server of the pages, every page of the run read", server.peak_mb(), 300, " MB")


def watch(address: str) -> None:
    """Ask for a run page as the UI does while it is live, until somebody ends this process."""
    headers: dict[str, str] = {}
    with httpx2.Client() as client:
        while True:
            answer = client.get(address, headers=headers)
            headers = {"If-None-Match": answer.headers.get("etag", "")}
            print(answer.status_code, flush=True)
            time.sleep(POLL_S)


@contextmanager
def watched(server: Served, project: str, session_id: str) -> Iterator[None]:
    """Let another process look at a session."""
    address = f"{server.url}api/v0/{project}/{session_id}/go/apps"
    command = [sys.executable, __file__, "watch", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has been started up
        yield
        process.terminate()
        said = process.stdout.read()
        assert "200" in said, said


def watching(server: Served, store: Store, project: str, rounds: int) -> None:
    """Print what a run's turns take with somebody watching, against the same run unwatched."""
    wall, cpu = list[float](), list[float]()
    for number in range(rounds + 1):
        found = dict[str, tuple[float, float]]()
        # In turns first and second: what else the machine does comes and goes.
        for kind in ("alone", "seen") if number % 2 else ("seen", "alone"):
            with watched(server, project, f"seen-{number}") if kind == "seen" else nullcontext():
                began = time.process_time()
                times = asyncio.run(turns(store, f"{kind}-{number}", WATCHED_TURNS))
                found[kind] = median(times), (time.process_time() - began) / WATCHED_TURNS
        if number:  # the first round warms up
            wall.append(found["seen"][0] / found["alone"][0])
            cpu.append(found["seen"][1] / found["alone"][1])
            print(f"  {found['alone'][0] * 1000:.2f} ms alone, {found['seen'][0] * 1000:.2f} ms watched")
    print(f"CPU of a turn, watched against alone: ratio {median(cpu):.2f}")
    tell("a turn that somebody watches", median(wall), 1.1, against="one alone")


def measure(rounds: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        url = f"sqlite:///{name}/sandbur.db"
        store = Store.open(url)
        asyncio.run(turns(store, "short", 0))
        asyncio.run(turns(store, "long", TURNS))
        with served(url, "--no-token", home=Path(name)) as server:
            project = httpx2.get(f"{server.url}api/v0/projects").json()[0]["id"]
            opening(server, project)
            watching(server, store, project, rounds)
        store.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["watch"]:
        watch(sys.argv[2])
    else:
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
