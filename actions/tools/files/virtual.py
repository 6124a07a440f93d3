"""The file tools over back ends: the same names, arguments and results, whether or not a path is on the
disk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ....state.calls import VIRTUAL, Effect, FileChange
from ...ports import (
    Masker,
    Prepared,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolSpec,
    ToolTraits,
    Verified,
)
from ...workspace.backends.backend import MAX_FILE_BYTES, MAX_FILES, FileBackend, KeptFiles, WorkspaceFolder
from ...workspace.backends.composite import Composite, FilePlace
from ...workspace.content_cache import digest_of
from ...workspace.paths import FileProblem, format_path, format_size
from ...workspace.patterns import split_fixed
from ...workspace.safe_open import PathScope
from .disk import PlannedWrite, prepare_in_thread
from .edit_file import EditFile
from .glob import Glob
from .grep import Grep
from .layout import Contents, Layout, lay_out
from .list_directory import ListDirectory
from .read_file import ReadFile
from .write_file import WriteFile

_MODE = 0o644
"""The recorded mode of a file without permissions."""


class FileTool:
    """A built-in file tool that also reads other back ends."""

    def __init__(self, tool: Tool, files: Composite, contents: Contents) -> None:
        self._tool = tool
        self._files = files
        self._contents: Contents = contents
        self.spec: ToolSpec = replace(
            tool.spec, description=f"{tool.spec.description} {_describe_places(files)}"
        )
        self.traits: ToolTraits = tool.traits
        self.effect: Effect = tool.effect

    def of_session(self, kept: KeptFiles) -> Tool:
        """Return the tool with what back ends keep for a session."""
        return type(self)(self._tool, self._files.of_session(kept), self._contents)

    def parse(self, arguments: str) -> Any:
        return self._tool.parse(arguments)

    def effect_of(self, arguments: Any) -> Effect:
        return self.effect

    def subject(self, arguments: Any) -> str:
        aimed = self._normalize_path(arguments)
        if not self._files.has(aimed.path):
            return self._tool.subject(arguments)
        try:
            return self._files.place(aimed.path).path
        except FileProblem:
            return aimed.path

    def paths(self, arguments: Any) -> Sequence[str]:
        return () if self.is_virtual(arguments) else self._tool.paths(arguments)

    def is_virtual(self, arguments: Any) -> bool:
        return self._files.has(self._normalize_path(arguments).path)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        if not self.is_virtual(arguments):
            return await self._tool.run(arguments, context)
        aimed = self._normalize_path(arguments)
        try:
            place = self._files.place(aimed.path)
            self._check(aimed)
            async with lay_out(place, self._contents, context.scratch) as layout:
                inner = aimed.model_copy(update={"path": layout.path})
                return layout.translate_outcome(await self._tool.run(inner, layout.within(context)))
        except FileProblem as error:
            return ToolOutcome("error", str(error))

    def _normalize_path(self, arguments: Any) -> Any:
        """Return the arguments with everything about the place in `path`."""
        return arguments

    def _check(self, arguments: Any) -> None:
        """Refuse, by `FileProblem`, what would lead out of the place."""


class SearchingFileTool(FileTool):
    """`grep`, which goes through folders by itself."""

    def reaches_hidden(self, arguments: Any) -> bool:
        return self._tool.reaches_hidden(arguments)  # type: ignore[attr-defined]


class GlobFileTool(SearchingFileTool):
    """`glob`, whose pattern may include the path."""

    def _normalize_path(self, arguments: Any) -> Any:
        fixed, rest = split_fixed(arguments.pattern)
        if not arguments.pattern.startswith("/") or not self._files.has(fixed):
            return arguments
        return arguments.model_copy(update={"path": fixed, "pattern": f"./{rest or '**'}"})

    def _check(self, arguments: Any) -> None:
        pattern = arguments.pattern
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise FileProblem(
                f"The pattern {format_path(pattern)} leads out of {format_path(arguments.path)}."
                " Change one of them."
            )


class _Plans(Protocol):
    """A tool that ships and writes."""

    plan: Callable[[Any, Path, PathScope], Prepared]

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared | ToolOutcome: ...
    async def verify(self, changes: Sequence[FileChange]) -> Verified: ...


@dataclass(frozen=True, slots=True)
class VirtualWrite:
    """A planned write to a back end."""

    place: FilePlace
    content: bytes
    expected: str | None
    """SHA-256 of the replaced content; None: a new file."""
    report: str


class WritingFileTool(FileTool):
    """`write_file` and `edit_file`: their effect can be verified afterwards on every back end."""

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared | ToolOutcome:
        if not self.is_virtual(arguments):
            return await self._disk_tool.prepare(arguments, context)
        try:
            place = self._files.place(arguments.path)
            async with lay_out(place, "one", context.scratch) as layout:
                return await self._plan(
                    layout, _mask_arguments(arguments, self.traits, context.masker), context
                )
        except FileProblem as error:
            return ToolOutcome("error", str(error))

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        prepared = context.prepared or await self.prepare(arguments, context)
        if isinstance(prepared, ToolOutcome):
            return prepared
        work = prepared.work
        if not isinstance(work, VirtualWrite):
            return await self._tool.run(arguments, replace(context, prepared=prepared))
        place, [change] = work.place, prepared.changes
        if not await place.backend.write(place.inner, work.content, work.expected):
            return ToolOutcome("error", _explain_change(place))
        return ToolOutcome("ok", work.report, seen={change.path: change.after or ""})

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Determine from the back end whether a write happened."""
        if not all(change.is_virtual for change in changes):
            return await self._disk_tool.verify(changes)
        found: set[Verified] = {await self._verify_change(change) for change in changes}
        return found.pop() if len(found) == 1 else "unknown"

    async def _verify_change(self, change: FileChange) -> Verified:
        path = change.path.removeprefix(VIRTUAL)
        if not self._files.has(path):
            return "unknown"
        place = self._files.place(path)
        now = _digest(await place.backend.read(place.inner))
        if now == change.after:
            return "done"
        return "not_done" if now == change.before else "unknown"

    async def _plan(self, layout: Layout, arguments: Any, context: ToolContext) -> Prepared | ToolOutcome:
        # A slash at the end denotes a folder, which is never written.
        end = "/" if arguments.path.endswith("/") else ""
        inner = arguments.model_copy(update={"path": layout.path + end})
        _require_room(layout)
        cwd, place = layout.beside, layout.place
        found = await prepare_in_thread(lambda: self._disk_tool.plan(inner, cwd, layout.reach))
        if isinstance(found, ToolOutcome):
            return replace(found, content=layout.translate_paths(found.content))
        work, [change] = found.work, found.changes
        assert isinstance(work, PlannedWrite)
        if len(work.content) > MAX_FILE_BYTES:
            raise FileProblem(
                f"{format_path(place.path)} would take {format_size(len(work.content))};"
                f" a file there has at most {format_size(MAX_FILE_BYTES)}. Split it."
            )
        path = f"{VIRTUAL}{place.path}"
        if self.traits.content and _is_outdated(path, change, context):
            raise FileProblem(_explain_change(place))
        virtual = FileChange(
            path=path,
            before=change.before,
            before_mode=None if change.before is None else _MODE,
            after=change.after,
            after_mode=_MODE,
        )
        return Prepared(
            (virtual,),
            {},
            VirtualWrite(place, work.content, change.before, layout.translate_paths(work.report(None))),
        )

    @property
    def _disk_tool(self) -> _Plans:
        return self._tool  # type: ignore[return-value]


def file_tools_of(files: Composite) -> tuple[Tool, ...]:
    """Return the six file tools over back ends; over nothing but the folder, those that ship."""
    if not files.prefixes:
        return (ReadFile(), WriteFile(), EditFile(), ListDirectory(), Glob(), Grep())
    return (
        FileTool(ReadFile(), files, "one"),
        WritingFileTool(WriteFile(), files, "one"),
        WritingFileTool(EditFile(), files, "one"),
        FileTool(ListDirectory(), files, "none"),
        GlobFileTool(Glob(), files, "none"),
        SearchingFileTool(Grep(), files, "all"),
    )


def file_tools(backend: FileBackend | WorkspaceFolder | Composite | None = None) -> tuple[Tool, ...]:
    """Return the file tools (read, write, edit, list, glob, grep) over a `FileBackend` or a `Composite`.

    They have the names and the arguments of the built-in ones. None: the agent's folder.
    """
    return file_tools_of(Composite.of(WorkspaceFolder() if backend is None else backend))


def _describe_places(files: Composite) -> str:
    if "/" in files.prefixes:
        return "Files are not those of the machine, but kept apart, below `/`."
    return f"Paths that begin with {', '.join(files.prefixes)} are not of the machine: they are kept apart."


def _require_room(layout: Layout) -> None:
    """Refuse a new file if its parent folder does not exist."""
    path = layout.place.inner
    if path in layout.files:
        return
    if len(layout.files) >= MAX_FILES:
        raise FileProblem(
            f"There are {MAX_FILES:,} files already, which is the most. Write into one of them."
        )
    for above in Path(path).parents:
        if str(above) in layout.files:
            raise FileProblem(
                f"{format_path(layout.place.prefix + str(above))} is a file, so that nothing can be below it."
            )


def _mask_arguments(arguments: Any, traits: ToolTraits, masker: Masker | None) -> Any:
    """Return the arguments with secrets masked, because the store must not contain any."""
    if masker is None:
        return arguments
    texts = {name: masker.text(getattr(arguments, name)) for name in traits.references}
    return arguments.model_copy(update=texts)


def _is_outdated(path: str, change: FileChange, context: ToolContext) -> bool:
    """Return whether a file that is replaced completely has changed since it was read."""
    version = (context.known or {}).get(path)
    return change.before not in (None, change.after) and version not in (None, change.before)


def _explain_change(place: FilePlace) -> str:
    return f"{format_path(place.path)} has changed since you read it: nothing was written. Read it again."


def _digest(content: bytes | None) -> str | None:
    return None if content is None else digest_of(content)
