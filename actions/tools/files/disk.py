"""The files on the disk. A write is recorded before it happens, and can be verified after a crash."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ....state.calls import FileChange
from ....state.conversation.messages import encodable
from ....state.lazy_dataclass import dataclass
from ....state.process.cancellation import wait_until_done
from ...masking.masker import TextMasker
from ...masking.references import fill_placeholders, find_placeholder
from ...ports import Prepared, ToolContext, ToolOutcome, Verified
from ...workspace.atomic_write import find_missing_folders, remove_leftovers, replace_content
from ...workspace.backends.backend import KeptFiles
from ...workspace.content_cache import digest_of, format_large_version, read_file_state
from ...workspace.paths import FileProblem, FileStat, format_path, locate, make_absolute
from ...workspace.text import load_text
from .file_system import Access, FileSystem, PlannedWrite, require_read_version


class DiskFiles:
    """The files of the machine, within the scope of each call."""

    description = ""
    is_kept_by_session = False

    def of_session(self, kept: KeptFiles) -> FileSystem:
        return self

    def is_virtual(self, path: str) -> bool:
        return False

    def find_disk_path(self, path: str) -> str:
        return path

    def name_subject(self, path: str) -> str:
        return path

    @asynccontextmanager
    async def open(self, path: str, access: Access, context: ToolContext) -> AsyncGenerator["DiskView"]:
        yield DiskView(make_absolute(path, context.cwd), context)

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Determine whether a write happened. Remove the temporary file of a write that did not happen."""
        return await asyncio.to_thread(_verify, changes)


DISK = DiskFiles()


@dataclass(frozen=True, slots=True)
class DiskView:
    """A path on the disk and the context of the call."""

    path: Path
    context: ToolContext

    def translate(self, outcome: ToolOutcome) -> ToolOutcome:
        return outcome

    def resolve_secrets(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return the texts with secrets in place of their placeholders."""
        if not any(find_placeholder(text) for text in texts.values()):
            return texts
        target = locate(self.path, self.context.reach, "read", is_new=True)
        old = load_text(target) if target.is_file() else None
        there = "" if old is None else old.text if old.text is not None else old.content.decode("latin-1")
        masker = self.context.masker or TextMasker()
        return {name: fill_placeholders(name, text, there, masker) for name, text in texts.items()}

    def record(self, planned: PlannedWrite) -> Prepared:
        target, old = planned.target, planned.old
        mode = None if old is None else old.mode
        change = FileChange(
            path=_recordable(target),
            before=None if old is None else digest_of(old.content),
            before_mode=mode,
            after=digest_of(planned.content),
            after_mode=mode,
            new_folders=len(find_missing_folders(target)),
        )
        work = DiskWrite(target, planned.content, None if old is None else old.version, planned.report)
        if old is None or change.before is None:
            return Prepared((change,), {}, work)
        large = format_large_version(old.version.size, old.version.modified_ns)
        require_read_version(planned, change, self.context.known, large)
        return Prepared((change,), {change.before: old.content}, work)


@dataclass(frozen=True, slots=True)
class DiskWrite:
    """The bytes to write, and the version of the file that they are based on."""

    target: Path
    content: bytes
    expected: FileStat | None
    report: Callable[[os.stat_result | None], str]

    async def write(self) -> ToolOutcome:
        return await run_in_thread(
            lambda: self.report(replace_content(self.target, self.content, self.expected))
        )


async def run_in_thread(work: Callable[[], str]) -> ToolOutcome:
    """Return the result of `work`, or its error. A cancellation waits until the work has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(_make_outcome, work))
    if await wait_until_done(running):
        # A thread cannot be stopped, so the cancellation carries the result of the work.
        raise asyncio.CancelledError(running.result().content)
    return running.result()


def _make_outcome(work: Callable[[], str]) -> ToolOutcome:
    try:
        return ToolOutcome("ok", work())
    except FileProblem as error:
        return ToolOutcome("error", str(error))


def _verify(changes: Sequence[FileChange]) -> Verified:
    found: set[Verified] = {_verify_change(change) for change in changes}
    for folder in {Path(change.path).parent for change in changes}:
        remove_leftovers(folder)
    return found.pop() if len(found) == 1 else "unknown"


def _verify_change(change: FileChange) -> Verified:
    now = read_file_state(Path(change.path))
    if now.digest is not None and now.digest == change.after:
        return "done"
    is_as_before = now.version is None if change.before_mode is None else now.digest == change.before
    return "not_done" if is_as_before and change.is_restorable else "unknown"


def _recordable(path: Path) -> str:
    text = str(path)
    if encodable(text) != text:
        raise FileProblem(
            f"{format_path(path)} cannot be written: its name is not valid UTF-8, so the change cannot"
            " be recorded. Use a shell command."
        )
    return text
