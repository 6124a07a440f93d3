"""The base of the six file tools, which work on any file system."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from ....state.calls import Effect, FileChange
from ...ports import Prepared, ToolContext, ToolOutcome, Verified
from ...workspace.backends.backend import KeptFiles
from ...workspace.paths import FileProblem
from ..builtin import ArgumentsT, BuiltinTool
from .file_system import Access, FileSystem, FileView, FileWrite, PlannedWrite

if TYPE_CHECKING:
    from .search.searches import Searches


class FileTool(BuiltinTool[ArgumentsT], ABC):
    """A tool that works on a file system."""

    access: Access

    def __init__(self, name: str, description: str, arguments: type[ArgumentsT], files: FileSystem) -> None:
        super().__init__(name, f"{description} {files.description}".rstrip(), arguments)
        self._files = files

    def aim(self, arguments: Any) -> Any:
        """Return the arguments with the complete place of the files in `path`."""
        return arguments

    def has_session_files(self) -> bool:
        return self._files.is_kept_by_session

    def of_session(self, kept: KeptFiles) -> Self:
        """Return the tool with the files that back ends keep for a session."""
        bound = copy(self)
        bound._files = self._files.of_session(kept)
        return bound

    def subject(self, arguments: ArgumentsT) -> str:
        path = self.aim(arguments).path
        is_usual = not self._files.is_virtual(path) and self._files.find_disk_path(path) == path
        return super().subject(arguments) if is_usual else self._files.name_subject(path)

    def paths(self, arguments: Any) -> Sequence[str]:
        aimed = self.aim(arguments)
        if self._files.is_virtual(aimed.path):
            return ()
        return self.list_disk_paths(aimed.model_copy(update={"path": self._files.find_disk_path(aimed.path)}))

    def list_disk_paths(self, arguments: Any) -> Sequence[str]:
        return (arguments.path,)

    def is_virtual(self, arguments: Any) -> bool:
        return self._files.is_virtual(self.aim(arguments).path)


class ReadingFileTool(FileTool[ArgumentsT]):
    """A tool that only reads."""

    access: Access = "content"

    def __init__(self, name: str, description: str, arguments: type[ArgumentsT], files: FileSystem) -> None:
        if not self.traits.shows:
            # Rules that deny reading a file only apply to tools that declare what they return of files.
            raise TypeError(f"{type(self).__name__} reads files: set `shows` in its traits.")
        super().__init__(name, description, arguments, files)

    @abstractmethod
    async def look(self, arguments: ArgumentsT, view: FileView) -> ToolOutcome:
        """Return the outcome of a call. `arguments` are the result of `aim`. Raises `FileProblem`."""

    async def run(self, arguments: ArgumentsT, context: ToolContext) -> ToolOutcome:
        aimed = self.aim(arguments)
        try:
            async with self._files.open(aimed.path, self.access, context) as view:
                return view.translate(await self.look(aimed, view))
        except FileProblem as error:
            return ToolOutcome("error", str(error))


class SearchingFileTool(ReadingFileTool[ArgumentsT]):
    """A tool that searches a folder. The code of the search is loaded at the first call."""

    most: int
    """The largest number of files or lines in a result."""

    def __init__(
        self,
        name: str,
        description: str,
        arguments: type[ArgumentsT],
        files: FileSystem,
        use_ripgrep: bool,
        limit_s: float,
    ) -> None:
        super().__init__(name, description, arguments, files)
        self._use_ripgrep = use_ripgrep
        self._limit_s = limit_s

    @abstractmethod
    async def search(self, arguments: ArgumentsT, view: FileView, searches: Searches) -> str:
        """Return the result as a text. Raises `FileProblem`."""

    async def look(self, arguments: ArgumentsT, view: FileView) -> ToolOutcome:
        from .search.searches import Searches

        searches = Searches(self._use_ripgrep, self._limit_s, self.most)
        return ToolOutcome("ok", await self.search(arguments, view, searches))


class WritingFileTool(FileTool[ArgumentsT]):
    """A tool whose complete effect is planned before it happens, and can be verified after a crash."""

    effect: Effect = "verifiable"
    access: Access = "write"

    @abstractmethod
    def plan(self, arguments: ArgumentsT, view: FileView) -> PlannedWrite:
        """Return the write that the arguments request. Raises `FileProblem`. It runs in a thread."""

    async def prepare(self, arguments: ArgumentsT, context: ToolContext) -> Prepared | ToolOutcome:
        try:
            async with self._files.open(self.aim(arguments).path, self.access, context) as view:
                return await asyncio.to_thread(self._record, arguments, view)
        except FileProblem as error:
            return ToolOutcome("error", str(error))

    def _record(self, arguments: ArgumentsT, view: FileView) -> Prepared:
        texts = {name: str(getattr(arguments, name)) for name in self.traits.references}
        resolved = view.resolve_secrets(texts)
        if resolved != texts:
            arguments = arguments.model_copy(update=dict(resolved))
        return view.record(self.plan(arguments, view))

    async def run(self, arguments: ArgumentsT, context: ToolContext) -> ToolOutcome:
        prepared = context.prepared or await self.prepare(arguments, context)
        if isinstance(prepared, ToolOutcome):
            return prepared
        work: FileWrite = prepared.work
        outcome = await work.write()
        if outcome.outcome != "ok":
            return outcome
        return replace(outcome, seen={change.path: change.after or "" for change in prepared.changes})

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        return await self._files.verify(changes)
