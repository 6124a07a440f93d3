"""Uses ripgrep, if it is installed, to list and search files faster."""

import asyncio
import os
import re
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from .....state.process.cancellation import run_to_end
from ....workspace.paths import FileProblem, open_regular
from ....workspace.safe_open import name_open_folder, open_folder
from ....workspace.tree import FileFilter, FileListing
from .matches import FileMatches, MatchedLine, line_text

_CHUNK_BYTES = 1 << 16
_MOST_ERROR_BYTES = 10_000


_NEEDED = (
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ",
    "XDG_CONFIG_HOME",
)  # fmt: skip
"""The environment of the program: no keys and no options of the user."""


@dataclass(frozen=True, slots=True)
class Ran:
    status: int | None
    """None if it was stopped because of a timeout or too much output."""
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
    """Return the output of a program; it has ended when this returns or raises `OSError`.

    It runs in the folder with the real path `cwd`, and inherits the open `files`.
    """
    with open_folder(cwd) as folder:
        process = await asyncio.create_subprocess_exec(
            *command,
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
    """Read to the end; output beyond the limit is dropped, and ends `process` if it is given."""
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
    """Kill what still runs and read its pipes empty, so that nothing of it stays open."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    if process.stdin is not None:
        process.stdin.close()
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(_CHUNK_BYTES):
            pass
    await process.wait()


_LISTING = ("--no-config", "--files", "--null", "--no-messages", "--color=never")
_LIKE_WALK = ("--no-ignore-global", "--no-ignore-dot", "--no-require-git", "--glob=!.git")
_SEARCH = ("--no-config", "--text", "--null", "--no-messages", "--color=never", "--crlf", "--no-mmap")
_MOST_LISTED_BYTES = 64_000_000
_MOST_COUNT_BYTES = 32_000_000
_MOST_MATCH_BYTES = 32_000_000
_ARGUMENT_BYTES = 500_000
MOST_OPEN = 100
"""Number of files of one search: the number of open files of a process is limited."""

_COUNT = re.compile(rb"([^\0]+)\0(\d+)\r?\n")
_MATCH = re.compile(rb"([^\0]+)\0(\d+):([^\n]*)\n")


async def list_files(program: str, root: Path, wanted: FileFilter, timeout_s: float) -> FileListing | None:
    """Return the files below a folder; None if this version of ripgrep cannot do it."""
    flags = [*_LISTING, *_LIKE_WALK]
    if wanted.hidden:
        flags.append("--hidden")
    if wanted.max_file_bytes is not None:
        flags.append(f"--max-filesize={wanted.max_file_bytes}")
    ran = await _ran([program, *flags], root, timeout_s, _MOST_LISTED_BYTES)
    if ran is None or (ran.status not in (0, 1, None) and not ran.output and ran.errors):
        return None
    *names, rest = ran.output.split(b"\0")
    del rest
    return FileListing([_name(name) for name in names], ran.status is not None)


async def can_search(program: str, pattern: str) -> bool:
    """Return whether ripgrep supports the pattern: it has no look-around and no references."""
    ran = await _ran([program, *_SEARCH, f"--regexp={pattern}", "--", "/dev/null"], Path("/"), 5, 10_000)
    return ran is not None and ran.status in (0, 1)


async def count_matches(
    program: str, root: Path, pattern: str, paths: Sequence[str], timeout_s: float
) -> tuple[dict[str, int], bool]:
    """Return how many lines match in each file that has any, and whether all files were looked at."""
    ran = await _ran(
        [program, *_SEARCH, "--count", "--with-filename", f"--regexp={pattern}", "--", *paths],
        root, timeout_s, _MOST_COUNT_BYTES,
    )  # fmt: skip
    if ran is None:
        return {}, False
    counts = {_name(found[1]): int(found[2]) for found in _COUNT.finditer(ran.output)}
    return counts, ran.status is not None


async def matching_lines(
    program: str, root: Path, pattern: str, paths: Sequence[str], limit: int, timeout_s: float
) -> tuple[list[FileMatches], bool]:
    """Return the first matching lines of each of a few files, in the order of `paths`.

    The files are opened here, so that no link leads the search elsewhere.
    """
    with ExitStack() as stack:
        opened: dict[str, str] = {}
        for path in paths:
            with suppress(FileProblem, OSError):
                opened[f"/dev/fd/{stack.enter_context(open_regular(root / path)).fileno()}"] = path
        if not opened:
            return [], True
        ran = await _ran(
            [program, *_SEARCH, "--line-number", "--with-filename", "--no-heading", f"--max-count={limit}",
             f"--regexp={pattern}", "--", *opened],
            root, timeout_s, _MOST_MATCH_BYTES, [int(name.rpartition("/")[2]) for name in opened],
        )  # fmt: skip
    lines: dict[str, list[MatchedLine]] = {path: [] for path in opened.values()}
    for found in _MATCH.finditer(ran.output if ran else b""):
        lines[opened[_name(found[1])]].append(MatchedLine(int(found[2]), line_text(found[3])))
    results = [FileMatches(path, len(found), found) for path, found in lines.items()]
    return results, ran is not None and ran.status is not None


def batches(paths: Iterable[str]) -> Iterator[list[str]]:
    """Cut a list of files into pieces that fit on a command line."""
    batch: list[str] = []
    size = 0
    for path in paths:
        length = len(path.encode(errors="surrogateescape")) + 9
        if batch and size + length > _ARGUMENT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += length
    if batch:
        yield batch


async def _ran(
    command: Sequence[str], root: Path, timeout_s: float, max_bytes: int, files: Sequence[int] = ()
) -> Ran | None:
    try:
        return await run_piped(command, root, timeout_s, max_bytes, files=files)
    except OSError:
        return None


def _name(path: bytes) -> str:
    return path.decode(errors="surrogateescape")
