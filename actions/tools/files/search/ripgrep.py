"""Uses ripgrep, if it is installed, to list and search files faster."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from ....workspace.paths import FileProblem, open_regular
from ....workspace.tree import FileFilter, FileListing
from .matches import FileMatches, MatchedLine, line_text
from .piped import Ran, run_piped

_LISTING = ("--no-config", "--files", "--null", "--no-messages", "--color=never")
_LIKE_WALK = ("--no-ignore-global", "--no-ignore-dot", "--no-require-git", "--glob=!.git")
_SEARCH = ("--no-config", "--text", "--null", "--no-messages", "--color=never", "--crlf", "--no-mmap")
_MOST_LISTED_BYTES = 64_000_000
_MOST_COUNT_BYTES = 32_000_000
_MOST_MATCH_BYTES = 32_000_000
_ARGUMENT_BYTES = 500_000
MOST_OPEN = 100
"""The most files of one search, because the number of open files of a process is limited."""

_COUNT = re.compile(rb"([^\0]+)\0(\d+)\r?\n")
_MATCH = re.compile(rb"([^\0]+)\0(\d+):([^\n]*)\n")


async def list_files(program: str, root: Path, wanted: FileFilter, timeout_s: float) -> FileListing | None:
    """Return the files below a folder, or None if this version of ripgrep cannot list them."""
    flags = [*_LISTING, *_LIKE_WALK]
    if wanted.hidden:
        flags.append("--hidden")
    if wanted.max_file_bytes is not None:
        flags.append(f"--max-filesize={wanted.max_file_bytes}")
    ran = await _run([program, *flags], root, timeout_s, _MOST_LISTED_BYTES)
    if ran is None or (ran.status not in (0, 1, None) and not ran.output and ran.errors):
        return None
    *names, _ = _decode_name(ran.output).split("\0")
    return FileListing(names, ran.status is not None)


async def can_search(program: str, pattern: str) -> bool:
    """Return whether ripgrep supports the pattern. It has no look-around and no back references."""
    ran = await _run([program, *_SEARCH, f"--regexp={pattern}", "--", "/dev/null"], Path("/"), 5, 10_000)
    return ran is not None and ran.status in (0, 1)


async def count_matches(
    program: str, root: Path, pattern: str, paths: Sequence[str], timeout_s: float
) -> tuple[dict[str, int], bool]:
    """Return the number of matching lines by file, and whether all files were searched."""
    ran = await _run(
        [program, *_SEARCH, "--count", "--with-filename", f"--regexp={pattern}", "--", *paths],
        root, timeout_s, _MOST_COUNT_BYTES,
    )  # fmt: skip
    if ran is None:
        return {}, False
    counts = {_decode_name(found[1]): int(found[2]) for found in _COUNT.finditer(ran.output)}
    return counts, ran.status is not None


async def find_matching_lines(
    program: str, root: Path, pattern: str, paths: Sequence[str], limit: int, timeout_s: float
) -> tuple[list[FileMatches], bool]:
    """Return the first matching lines of each of a few files, in the order of `paths`.

    This process opens the files, so that no link can redirect the search.
    """
    with ExitStack() as stack:
        opened: dict[str, str] = {}
        for path in paths:
            with suppress(FileProblem, OSError):
                opened[f"/dev/fd/{stack.enter_context(open_regular(root / path)).fileno()}"] = path
        if not opened:
            return [], True
        ran = await _run(
            [program, *_SEARCH, "--line-number", "--with-filename", "--no-heading", f"--max-count={limit}",
             f"--regexp={pattern}", "--", *opened],
            root, timeout_s, _MOST_MATCH_BYTES, [int(name.rpartition("/")[2]) for name in opened],
        )  # fmt: skip
    lines: dict[str, list[MatchedLine]] = {path: [] for path in opened.values()}
    for found in _MATCH.finditer(ran.output if ran else b""):
        lines[opened[_decode_name(found[1])]].append(MatchedLine(int(found[2]), line_text(found[3])))
    results = [FileMatches(path, len(found), found) for path, found in lines.items()]
    return results, ran is not None and ran.status is not None


def batches(paths: Iterable[str], first: int) -> Iterator[list[str]]:
    """Split a list of files into parts that fit on a command line. The first part has at most `first` files,
    each further one at most four times as many as the one before.
    """
    batch: list[str] = []
    size, most = 0, first
    for path in paths:
        length = len(path.encode(errors="surrogateescape")) + 9
        if batch and (size + length > _ARGUMENT_BYTES or len(batch) == most):
            yield batch
            batch, size, most = [], 0, most * 4
        batch.append(path)
        size += length
    if batch:
        yield batch


async def _run(
    command: Sequence[str], root: Path, timeout_s: float, max_bytes: int, files: Sequence[int] = ()
) -> Ran | None:
    try:
        return await run_piped(command, root, timeout_s, max_bytes, files=files)
    except OSError:
        return None


def _decode_name(path: bytes) -> str:
    return path.decode(errors="surrogateescape")
