"""The record of an apply in the folder of its trial: which call makes it, and how far it came."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError

from .....actions.workspace.atomic_write import write_durably
from .....actions.workspace.content_cache import digest_of
from .....state.conversation.messages import Record
from .....state.process.crashpoints import reach
from .....state.store.journal import RESTORE
from .....state.store.store import Store
from ..trial import Trial, TrialPlace
from .plan import ApplyPlan, MergedFile

FILE = "apply.json"
_WRITTEN = "written-"
"""The start of the name of a file with the paths that a call wrote or removed, each as a line of JSON."""
_MERGED = "merged"
"""The folder of the merged contents, each in a file that has its SHA-256 as the name."""

ApplyState = Literal["planned", "writing", "applied", "undone"]


class RecordedMerge(Record):
    """A merge of one file."""

    before: str
    """The SHA-256 of the content that the merge replaces."""
    after: str
    """The SHA-256 of the merged content."""


class ApplyRecord(Record):
    """The newest apply of a trial."""

    state: ApplyState
    """`planned`: nothing is written. `writing`: a part may be written. `applied`: the call has ended.
    `undone`: the files were restored.
    """
    session_id: str
    """The session that makes the apply."""
    call_id: str
    merged: dict[str, RecordedMerge] = Field(default_factory=dict[str, RecordedMerge])
    """The merges by absolute path."""
    earlier: tuple[tuple[str, str], ...] = ()
    """The sessions and calls of earlier applies that were begun, the oldest first."""
    taken_back: tuple[tuple[str, str], ...] = ()
    """The sessions and calls of the applies that an undo took back, maybe in part. None runs again."""

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Return the record in the folder of a trial, or None if there is none that can be read."""
        try:
            return cls.model_validate_json((folder / FILE).read_bytes())
        except (OSError, ValidationError):
            return None

    def save(self, folder: Path) -> None:
        """Write the record so that it survives a power loss."""
        write_durably(folder / FILE, self.model_dump_json().encode())

    def is_of(self, session_id: str, call_id: str) -> bool:
        return (self.session_id, self.call_id) == (session_id, call_id)

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        """Return the sessions and calls of all applies that were begun, the newest first."""
        own = () if self.state == "planned" else ((self.session_id, self.call_id),)
        return (*own, *reversed(self.earlier))

    def load_merges(self, folder: Path) -> dict[str, MergedFile]:
        """Return the merges whose contents are complete, by absolute path."""
        found: dict[str, MergedFile] = {}
        for path, merge in self.merged.items():
            try:
                content = (folder / _MERGED / merge.after).read_bytes()
            except OSError:
                continue
            if digest_of(content) == merge.after:
                found[path] = MergedFile(merge.before, content)
        return found


def begin_record(folder: Path, session_id: str, call_id: str, plan: ApplyPlan) -> ApplyRecord:
    """Store the merged contents of a plan, and return the record of the apply, which is stored, too.

    A later start of the same call then writes the same merged contents.
    """
    before = ApplyRecord.load(folder)
    is_again = before is not None and before.is_of(session_id, call_id)
    merged = dict(before.merged) if before is not None and is_again else {}
    for step in plan.steps:
        if step.merged is not None and step.after is not None and step.now.digest is not None:
            place = Path(os.path.realpath(folder)) / _MERGED
            place.mkdir(mode=0o700, exist_ok=True)
            write_durably(place / step.after, step.merged)
            merged.setdefault(str(step.path), RecordedMerge(before=step.now.digest, after=step.after))
    earlier: tuple[tuple[str, str], ...] = ()
    if before is not None:
        earlier = before.earlier if is_again else tuple(reversed(before.calls))
        earlier = () if before.state == "undone" else earlier
    state: ApplyState = "writing" if before is not None and is_again else "planned"
    taken_back = () if before is None else before.taken_back
    record = ApplyRecord(
        state=state, session_id=session_id, call_id=call_id, merged=merged, earlier=earlier,
        taken_back=taken_back,
    )  # fmt: skip
    record.save(folder)
    reach("apply_planned")
    return record


def forbid_calls(folder: Path, record: ApplyRecord) -> ApplyRecord:
    """Return the record in which no call that was begun runs again; it is stored."""
    known = dict.fromkeys((*record.taken_back, *record.calls))
    changed = record.model_copy(update={"taken_back": tuple(known)})
    changed.save(folder)
    return changed


def change_state(folder: Path, record: ApplyRecord, state: ApplyState) -> ApplyRecord:
    """Return the record with another state, which is stored."""
    changed = record.model_copy(update={"state": state})
    changed.save(folder)
    return changed


def find_undone(store: Store, home: Path, trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials. Those whose applied changes a session took back, as by `/undo`, are marked as ended.

    `home` is the data folder.
    """
    return [_mark_undone(store, TrialPlace(home, trial.id), trial) for trial in trials]


def _mark_undone(store: Store, place: TrialPlace, trial: Trial) -> Trial:
    record = ApplyRecord.load(place.folder) if trial.state == "applied" else None
    if record is None or not all(_is_restored(store, *call) for call in record.calls):
        return trial
    change_state(place.folder, record, "undone")
    ended = trial.model_copy(update={"state": "ended"})
    place.save(ended)
    return ended


def _is_restored(store: Store, session_id: str, call_id: str) -> bool:
    """Return whether the session restored each file of a call after it."""
    if not store.index.exists(session_id):
        return False
    left: set[str] = set()
    is_known = False
    for recorded in store.open_file_changes(session_id).list_changes():
        if recorded.call_id == call_id:
            is_known = True
            # A planned file that was not written is recorded last, as unchanged.
            change = recorded.change
            is_written = (change.before, change.before_mode) != (change.after, change.after_mode)
            (left.add if is_written else left.discard)(change.path)
        elif recorded.call_id.startswith(RESTORE):
            left.discard(recorded.change.path)
    return is_known and not left


class WrittenFiles:
    """The paths that one call wrote or removed. They survive a kill, and maybe no power loss."""

    def __init__(self, folder: Path, session_id: str, call_id: str) -> None:
        """`folder` is that of the trial."""
        self._file = folder / f"{_WRITTEN}{digest_of(f'{session_id} {call_id}'.encode())[:16]}"

    def begin(self) -> None:
        """Make the record, if there is none."""
        os.close(self._open())

    def add(self, path: Path) -> None:
        descriptor = self._open()
        try:
            os.write(descriptor, f"{json.dumps(str(path))}\n".encode())
        finally:
            os.close(descriptor)

    def load(self) -> frozenset[str] | None:
        """Return the paths; None if the call has no record."""
        try:
            return frozenset(_parse_paths(self._file.read_bytes().splitlines()))
        except OSError:
            return None

    def _open(self) -> int:
        return os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _parse_paths(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        # A kill in the middle of a write leaves a part of a line.
        with suppress(ValueError):
            yield str(json.loads(line))
