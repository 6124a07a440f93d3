"""Measures `sandbur serve`: sessions of one model call, and memory with 1,000 streams of the same events.

A session counts the CPU time of the process that runs it, next to the same session of an `Agent` in a
program. `again` is a chat completion whose first message many sessions had before.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Rounds, tell
from bench.served_turns import process_cpu_s
from bench.sessions import tool_server
from support.network.sandbur_server import RunningServer, serve

from sandbur import Agent

STREAMS = 1000
MOST_IDLE_MB, MOST_BUSY_MB = 80, 200
MOST = 1.5
"""Sessions of one call in a program that one over HTTP may take: 15 ms, where that takes 10."""
KNOWN_OPENINGS = 50
_HANDED_BACK_S = 0.05
AGENT = """
from sandbur import Agent

agent = Agent("openai-chat/m", mode="yolo")
"""


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def follow(server: RunningServer, runs: int) -> list[str]:
    """Return the ids of the events of a stream until so many runs have ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    lines = (
        "GET /v1/sessions/s1/events HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {server.token}",
    )
    writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    ids: list[str] = []
    ended = 0
    while ended < runs:
        line = (await reader.readline()).decode()
        assert line, "the stream ended"
        if line.startswith("id: "):
            ids.append(line[4:].strip())
        ended += '"type": "result"' in line
    writer.close()
    return ids


async def measure(server: RunningServer) -> None:
    idle = memory_mb(server.process.pid)
    server.begin("s1", "hi")
    server.wait_for("s1", "done")
    streams = [asyncio.ensure_future(follow(server, 2)) for _ in range(STREAMS)]
    await asyncio.sleep(10)
    await asyncio.to_thread(server.ask, "POST", "/v1/sessions/s1/messages", {"content": "hi again"})
    found = await asyncio.gather(*streams)
    busy = memory_mb(server.process.pid)
    is_once = all(ids == found[0] and len(set(ids)) == len(ids) for ids in found)
    print(f"idle {idle:.0f} MB (at most {MOST_IDLE_MB})")
    print(f"{STREAMS} streams {busy:.0f} MB (at most {MOST_BUSY_MB})")
    print(f"each of {len(found[0])} events once in every stream: {is_once}")
    assert is_once
    assert idle <= MOST_IDLE_MB
    assert busy <= MOST_BUSY_MB


def begin_natively(server: RunningServer, text: str) -> None:
    """Begin a session, and read its events up to the answer."""
    answer = server.ask("POST", "/v1/sessions", {"message": text})
    assert answer.status == 201, answer.body
    with server.stream(answer.json["session_id"]) as events:
        result = next(event for event in events if event.data.get("type") == "result")
    assert result.data["status"] == "done", result


def complete_chat(server: RunningServer, text: str) -> None:
    body = {"model": "one_call:agent", "messages": [{"role": "user", "content": text}]}
    answer = server.ask("POST", "/v1/chat/completions", body)
    assert answer.status == 200, answer.body


def time_session(server: RunningServer, ask: Callable[[RunningServer, str], None], text: str) -> float:
    """Return the milliseconds of the processor that the server takes for a session."""
    before = process_cpu_s(server.process.pid)
    ask(server, text)
    time.sleep(_HANDED_BACK_S)
    return (process_cpu_s(server.process.pid) - before) * 1000


def compare_sessions(server: RunningServer, env: dict[str, str], folder: Path, number: int) -> None:
    async def run() -> None:
        async with Agent("openai-chat/m", mode="yolo", env=env, cwd=folder) as agent:
            for count, name in enumerate(rounds):
                text = "the same" if name == "again" else f"message {count}"
                if name == "program":
                    began = time.process_time()
                    assert (await agent.run(text)).text == "done"
                    rounds.note((time.process_time() - began) * 1000)
                else:
                    ask = begin_natively if name == "sessions" else complete_chat
                    rounds.note(await asyncio.to_thread(time_session, server, ask, text))

    rounds = Rounds(("program", "sessions", "chat", "again"), number, warm_up=2)
    for _ in range(KNOWN_OPENINGS):
        complete_chat(server, "the same")
    asyncio.run(run())
    print(f"a session of one call in a program: CPU {rounds.median('program'):.1f} ms")
    for name in ("sessions", "chat", "again"):
        what = f"one call served, {name}, CPU ({rounds.median(name):.1f} ms)"
        tell(what, rounds.ratio(name, "program"), MOST, against="one in a program")
    against = "the first time"
    tell("the same first message again, CPU", rounds.ratio("again", "chat"), 1.1, against=against)


def measure_sessions(folder: Path, number: int) -> None:
    (folder / "one_call.py").write_text(AGENT)
    with tool_server() as models:
        env = {"OPENAI_BASE_URL": f"{models}/one/0/20/v1", "OPENAI_API_KEY": "x"}
        own = {**env, "HOME": str(folder), "SANDBUR_HOME": str(folder / "own")}
        path = {"PYTHONPATH": f"{folder}:{Path(__file__).parents[2]}"}
        flags = ("--agent", "one_call:agent", "--rate-limit", "100000")
        with serve(folder / "home", *flags, env={**env, **path}) as server:
            compare_sessions(server, own, folder, number)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder), "--rate-limit", "100000") as running:
        asyncio.run(measure(running))
