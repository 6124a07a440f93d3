"""The files of back ends. They are copied to a private folder for each call, so that the call opens real
files.
"""

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ....state.calls import VIRTUAL, FileChange
from ....state.lazy_dataclass import dataclass
from ...ports import Prepared, Tool, ToolContext, ToolOutcome, Verified
from ...workspace.backends.backend import MAX_FILE_BYTES, MAX_FILES, FileBackend, KeptFiles, WorkspaceFolder
from ...workspace.backends.composite import BackendTable, Composite, FilePlace, normalize_path, open_table
from ...workspace.content_cache import digest_of
from ...workspace.paths import FileProblem, format_path, format_size
from ...workspace.safe_open import PathScope
from .disk import DISK, DiskView
from .file_system import Access, FileSystem, FileView, PlannedWrite, explain_change, require_read_version
from .tool_set import make_file_tools

_MODE = 0o644
"""The recorded mode of a file without permissions."""


class BackendFiles:
    """The files of back ends. Their paths in the working folder are those of the disk."""

    def __init__(self, table: BackendTable) -> None:
        self._table = table

    is_kept_by_session = True

    @property
    def description(self) -> str:
        folders = self._table.folder_prefixes
        off_disk = [one for one in self._table.prefixes if one not in folders]
        texts = [f"Paths that begin with {', '.join(folders)} are in the working folder."] if folders else []
        if "/" in off_disk:
            others = "The other" if folders else "The"
            texts.append(f"{others} files are not on the disk of the machine. All paths are below `/`.")
        elif off_disk:
            texts.append(f"Paths that begin with {', '.join(off_disk)} are not on the disk of the machine.")
        return " ".join(texts)

    def of_session(self, kept: KeptFiles) -> FileSystem:
        return BackendFiles(self._table.of_session(kept))

    def is_virtual(self, path: str) -> bool:
        return self._table.has(path)

    def find_disk_path(self, path: str) -> str:
        found = self._table.find_folder_path(path)
        # With the dot no name is taken for a home folder.
        return path if found is None else f".{found[1].removeprefix(found[0]) or '/'}"

    def name_subject(self, path: str) -> str:
        try:
            return normalize_path(path)
        except FileProblem:
            return path

    def open(self, path: str, access: Access, context: ToolContext) -> AbstractAsyncContextManager[FileView]:
        if self.is_virtual(path):
            return self._lay_out(path, access, context)
        found = self._table.find_folder_path(path)
        return DISK.open(path, access, context) if found is None else _open_folder(*found, context)

    @asynccontextmanager
    async def _lay_out(self, path: str, access: Access, context: ToolContext) -> AsyncGenerator[FileView]:
        """Yield the copied files in a temporary folder, which is deleted afterwards."""
        place = self._table.place(path)
        files = await place.backend.files()
        if access == "write":
            _require_room(place, files)
        read = {path: await place.backend.read(path) for path in _select_files(place, access, files)}
        if context.scratch is not None:
            context.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="files-", dir=context.scratch) as folder:
            # The random name occurs in no file, so that it can be replaced in the results.
            root = Path(os.path.realpath(folder)) / "files"
            await asyncio.to_thread(_write_files, root, place.prefix, files, read)
            view = BackendView(root, place, context)
            try:
                yield view
            except FileProblem as problem:
                raise FileProblem(view.translate_paths(str(problem))) from None

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Determine from the back end whether a write happened."""
        if not all(change.is_virtual for change in changes):
            return await DISK.verify(changes)
        found: set[Verified] = {await self._verify_change(change) for change in changes}
        return found.pop() if len(found) == 1 else "unknown"

    async def _verify_change(self, change: FileChange) -> Verified:
        path = change.path.removeprefix(VIRTUAL)
        if not self.is_virtual(path):
            return "unknown"
        place = self._table.place(path)
        content = await place.backend.read(place.inner)
        now = None if content is None else digest_of(content)
        if now == change.after:
            return "done"
        return "not_done" if now == change.before else "unknown"


@asynccontextmanager
async def _open_folder(prefix: str, path: str, context: ToolContext) -> AsyncGenerator[FileView]:
    """Yield a path of the working folder under the name that a prefix gives it."""
    folder = os.path.realpath(context.cwd)
    reach = replace(context.reach, mount=(prefix, folder))
    try:
        # No file is in this folder, so that all results have whole names.
        yield DiskView(Path(path), replace(context, cwd=Path(os.devnull), reach=reach))
    except FileProblem as problem:
        # Only the first line names paths; the others may quote the file.
        first, newline, rest = str(problem).partition("\n")
        named = re.sub(rf"{re.escape(folder)}(?![\w.-]*[\w-])", lambda _: prefix, first)
        raise FileProblem(f"{named if folder != '/' else first}{newline}{rest}") from None


class BackendView:
    """The copied files of a back end. A call can open these files and no others."""

    def __init__(self, root: Path, place: FilePlace, context: ToolContext) -> None:
        self._root = root
        self._place = place
        self.path = Path(f"{root}{place.path}")
        # The working folder contains none of the files, so all of them have absolute names.
        self.context = replace(context, cwd=root.parent / "beside", reach=PathScope.of((root,)))

    def translate(self, outcome: ToolOutcome) -> ToolOutcome:
        seen = {
            f"{VIRTUAL}{path.removeprefix(str(self._root))}": version
            for path, version in (outcome.seen or {}).items()
        }
        return replace(outcome, content=self.translate_paths(outcome.content), seen=seen or None)

    def translate_paths(self, text: str) -> str:
        """Return a text of a tool with the paths of the back end."""
        root = str(self._root)
        return text.replace(f"/{root}", "").replace(f"{root}/", "/").replace(root, "/")

    def resolve_secrets(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return the texts with secrets masked, because a back end must not contain secrets."""
        masker = self.context.masker
        return texts if masker is None else {name: masker.text(text) for name, text in texts.items()}

    def record(self, planned: PlannedWrite) -> Prepared:
        path, content = self._place.path, planned.content
        if len(content) > MAX_FILE_BYTES:
            raise FileProblem(
                f"{format_path(path)} would take {format_size(len(content))};"
                f" a file in this back end has at most {format_size(MAX_FILE_BYTES)}. Split it."
            )
        before = None if planned.old is None else digest_of(planned.old.content)
        change = FileChange(
            path=f"{VIRTUAL}{path}",
            before=before,
            before_mode=None if before is None else _MODE,
            after=digest_of(content),
            after_mode=_MODE,
        )
        require_read_version(planned, change, self.context.known)
        report = self.translate_paths(planned.report(None))
        return Prepared((change,), {}, BackendWrite(self._place, content, before, report))


@dataclass(frozen=True, slots=True)
class BackendWrite:
    """The bytes to write to a back end."""

    place: FilePlace
    content: bytes
    expected: str | None
    """The SHA-256 of the replaced content; None for a new file."""
    report: str

    async def write(self) -> ToolOutcome:
        if await self.place.backend.write(self.place.inner, self.content, self.expected):
            return ToolOutcome("ok", self.report)
        return ToolOutcome("error", explain_change(format_path(self.place.path)))


def file_tools(backend: FileBackend | WorkspaceFolder | Composite | None = None) -> tuple[Tool, ...]:
    """Return the file tools (read, write, edit, list, glob, grep) for a `FileBackend` or a `Composite`.

    They have the names and the arguments of the built-in tools. If `backend` is None, they work in the
    agent's folder.
    """
    table = open_table(WorkspaceFolder() if backend is None else backend)
    return make_file_tools(BackendFiles(table) if table.prefixes else DISK)


def _require_room(place: FilePlace, files: Mapping[str, int]) -> None:
    """Refuse a new file if there are too many files, or if a path above it is a file."""
    if place.inner in files:
        return
    if len(files) >= MAX_FILES:
        raise FileProblem(
            f"There are {MAX_FILES:,} files already, which is the most. Write into one of them."
        )
    for above in Path(place.inner).parents:
        if str(above) in files:
            raise FileProblem(
                f"{format_path(place.prefix + str(above))} is a file, so that nothing can be below it."
            )


def _select_files(place: FilePlace, access: Access, files: Mapping[str, int]) -> Iterable[str]:
    """Return the files whose content a call reads."""
    if access == "names":
        return ()
    if access != "tree":
        return (place.inner,) if place.inner in files else ()
    below = place.inner.rstrip("/") + "/"
    return tuple(path for path in files if path == place.inner or path.startswith(below))


def _write_files(root: Path, prefix: str, files: Mapping[str, int], read: Mapping[str, bytes | None]) -> None:
    Path(f"{root}{prefix}").mkdir(parents=True)
    for path, size in files.items():
        if normalize_path(path) != path:
            raise FileProblem(f"The back end of {prefix or '/'} returned a path that is not valid: {path!r}.")
        target = Path(f"{root}{prefix}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        content = read.get(path)
        target.write_bytes(content or b"")
        if content is None:
            # The file is sparse and has the right size. No call reads its content.
            os.truncate(target, min(size, MAX_FILE_BYTES))
