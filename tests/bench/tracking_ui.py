"""What the tracking UI costs: opening a long run, its server's memory, the runs that it watches."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median

import httpx2
from bench.figures import Rounds, tell
from bench.sessions import Run, open_scripted, time_turns
from support.places import PYTHONPATH
from support.screens.browser import open_browser
from support.screens.tracked import Served, serve_ui

from sandbur.state.store.store import Store

TURNS = 800
WATCHED_TURNS = 1200
_ROW = """
const cells = [...document.querySelectorAll("tbody tr > td:first-child")];
return cells.some(cell => cell.innerText.trim() === arguments[0]);
"""
POLL_S = 0.5
"""As often as the UI asks while it is live."""


async def turns(store: Store, session_id: str, count: int) -> Run:
    """Run a session of `count` tool turns."""
    run = await time_turns(await open_scripted(store, count, session_id=session_id))
    store.forget(session_id)
    return run


def opening(server: Served, project: str) -> None:
    """Print how long a browser takes to show the run page of the long session, and of one of two steps."""
    with open_browser() as browser:
        # Its scripts are loaded before anything is measured.
        browser.open(f"{server.url}project/{project}")
        browser.until_shown("Last Run")
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
    command = [sys.executable, "-m", "bench.tracking_ui", address]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has been started up
        yield
        process.terminate()
        answers = process.stdout.read()
        assert "200" in answers, answers


def watching(server: Served, store: Store, project: str, number: int) -> None:
    """Print what a run's turns take with somebody watching, against the same run unwatched."""
    rounds = Rounds(("alone", "seen"), number)
    for count, kind in enumerate(rounds):
        name = f"{kind}-{count}"
        with watched(server, project, name) if kind == "seen" else nullcontext():
            run = asyncio.run(turns(store, name, WATCHED_TURNS))
        rounds.note(median(run.seconds) * 1000, run.whole_cpu_s)
    alone, seen = (rounds.median(kind) for kind in ("alone", "seen"))
    print(f"  {alone:.2f} ms alone, {seen:.2f} ms watched")
    print(f"CPU of a turn, watched against alone: ratio {rounds.ratio('seen', 'alone', 1):.2f}")
    tell("a turn that somebody watches", rounds.ratio("seen", "alone"), 1.1, against="one alone")


def measure(folder: Path, number: int) -> None:
    url = f"sqlite:///{folder}/sandbur.db"
    store = Store.open(url)
    asyncio.run(turns(store, "short", 0))
    asyncio.run(turns(store, "long", TURNS))
    with serve_ui(url, "--no-token", home=folder) as server:
        project = httpx2.get(f"{server.url}api/v0/projects").json()[0]["id"]
        opening(server, project)
        watching(server, store, project, number)
    store.close()


if __name__ == "__main__":
    watch(sys.argv[1])
