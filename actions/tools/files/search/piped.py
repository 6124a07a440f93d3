"""Runs a program with pipes until its end, with a limit for its time and its output."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from .....state.lazy_dataclass import dataclass
from .....state.process.cancellation import run_to_end
from ....workspace.paths import make_argument
from ....workspace.safe_open import name_open_folder, open_folder

_CHUNK_BYTES = 1 << 16
_MOST_ERROR_BYTES = 10_000


_NEEDED = (
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ",
    "XDG_CONFIG_HOME",
)  # fmt: skip
"""The environment variables that the program gets: no keys, and no options of the user."""


@dataclass(frozen=True, slots=True)
class Ran:
    status: int | None
    """The exit status; None if the program was stopped because of a timeout or too much output."""
    output: bytes
    errors: bytes


async def run_piped(
    command: Sequence[str],
    cwd: Path,
    timeout_s: float,
    max_bytes: int,
    stdin: bytes | None = None,
    files: Sequence[int] = (),
) -> Ran:
    """Return the output of a program. The program has ended when this function returns or raises `OSError`.

    The program runs in the folder with the real path `cwd`, and inherits the open `files`.
    """
    with open_folder(cwd) as folder:
        process = await asyncio.create_subprocess_exec(
            *map(make_argument, command),
            cwd=name_open_folder(folder, cwd),
            stdin=DEVNULL if stdin is None else PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={name: os.environ[name] for name in _NEEDED if name in os.environ},
            start_new_session=True,
            pass_fds=files,
        )
    output, errors = bytearray(), bytearray()
    status: int | None = None
    try:
        async with asyncio.timeout(max(timeout_s, 0.01)), asyncio.TaskGroup() as group:
            group.create_task(_collect(process.stdout, output, max_bytes, process))
            group.create_task(_collect(process.stderr, errors, _MOST_ERROR_BYTES, None))
            group.create_task(_feed(process.stdin, stdin))
        status = await asyncio.wait_for(process.wait(), 5)
    except TimeoutError:
        pass
    finally:
        await run_to_end(_end(process))
    return Ran(None if len(output) > max_bytes else status, bytes(output), bytes(errors))


async def _collect(
    stream: asyncio.StreamReader | None, into: bytearray, most: int, process: Process | None
) -> None:
    """Read the stream to its end. Output beyond the limit is dropped, and `process` is killed unless it is
    None.
    """
    while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
        if len(into) <= most:
            into += chunk
        elif process is not None and process.returncode is None:
            process.kill()
            process = None


async def _feed(stream: asyncio.StreamWriter | None, data: bytes | None) -> None:
    if stream is None or data is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data)
        await stream.drain()
        stream.close()
        await stream.wait_closed()


async def _end(process: Process) -> None:
    """Kill the program if it still runs, and read its pipes until they are empty, so that no descriptor stays
    open.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    if process.stdin is not None:
        process.stdin.close()
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(_CHUNK_BYTES):
            pass
    await process.wait()
