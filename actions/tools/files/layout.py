"""Copies the files of a back end to a private temporary folder, so that the built-in tools can read them."""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from ....state.calls import VIRTUAL
from ...ports import ToolContext, ToolOutcome
from ...workspace.backends.backend import MAX_FILE_BYTES
from ...workspace.backends.composite import FilePlace, normalize_path
from ...workspace.paths import FileProblem
from ...workspace.safe_open import PathScope

Contents = Literal["none", "one", "all"]
"""Whether a call reads only names, the file that it names, or all files below the path."""


class Layout(NamedTuple):
    """The temporary folder with the files of a back end."""

    root: Path
    place: FilePlace
    files: Mapping[str, int]
    """Path in the back end -> size in bytes."""

    @property
    def path(self) -> str:
        """The path in the folder that the call names."""
        return f"{self.root}{self.place.path}"

    @property
    def beside(self) -> Path:
        """A working folder without any of the files, so that all of them have full names."""
        return self.root.parent / "beside"

    @property
    def reach(self) -> PathScope:
        return PathScope.of((self.root,))

    def within(self, context: ToolContext) -> ToolContext:
        """Return the context of a call that reads this folder and nothing else."""
        return replace(context, cwd=self.beside, reach=self.reach, known=None)

    def translate_outcome(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return an outcome with the file paths that the model knows."""
        seen = {
            f"{VIRTUAL}{path.removeprefix(str(self.root))}": version
            for path, version in (outcome.seen or {}).items()
        }
        return replace(outcome, content=self.translate_paths(outcome.content), seen=seen or None)

    def translate_paths(self, text: str) -> str:
        """Return a text of a tool with the paths of the back end."""
        return text.replace(f"/{self.root}", "").replace(str(self.root), "")


@asynccontextmanager
async def lay_out(place: FilePlace, contents: Contents, scratch: Path | None) -> AsyncGenerator[Layout]:
    """Yield the layout of a path; it is deleted afterwards. Raises `FileProblem` for an invalid path."""
    files = await place.backend.files()
    read = {path: await place.backend.read(path) for path in _select_files(place, contents, files)}
    if scratch is not None:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="files-", dir=scratch) as folder:
        # The random name keeps it apart from all that a file may hold.
        root = Path(os.path.realpath(folder)) / "files"
        await asyncio.to_thread(_write, root, place.prefix, files, read)
        yield Layout(root, place, files)


def _select_files(place: FilePlace, contents: Contents, files: Mapping[str, int]) -> Iterable[str]:
    if contents == "none":
        return ()
    if contents == "one":
        return (place.inner,) if place.inner in files else ()
    below = place.inner.rstrip("/") + "/"
    return tuple(path for path in files if path == place.inner or path.startswith(below))


def _write(root: Path, prefix: str, files: Mapping[str, int], read: Mapping[str, bytes | None]) -> None:
    Path(f"{root}{prefix}").mkdir(parents=True)
    for path, size in files.items():
        if normalize_path(path) != path:
            raise FileProblem(
                f"The back end of {prefix or '/'} names a file in a way that is none: {path!r}."
            )
        target = Path(f"{root}{prefix}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        content = read.get(path)
        target.write_bytes(content or b"")
        if content is None:
            # A sparse file of the right size: nobody reads its content.
            os.truncate(target, min(size, MAX_FILE_BYTES))
