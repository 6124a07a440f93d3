"""Measures the memory of `sandbur serve`, idle and with 1,000 streams that get each event once."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.network.sandbur_server import RunningServer, serve

STREAMS = 1000
MOST_IDLE_MB, MOST_BUSY_MB = 80, 200


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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder), "--rate-limit", "100000") as running:
        asyncio.run(measure(running))
