"""Replays a session or a recording file, and reports the first difference to the current program."""

import asyncio
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ....state.maintenance.import_ import import_recording
from ....state.process.temporaries import make_prefix
from ....state.store.store import Store
from .recorded_ports import Divergence
from .replay_steps import Recording, read_recording
from .walk import Live, Today, Walk


@dataclass(frozen=True, slots=True)
class Replayed:
    session_id: str
    steps: int
    """The number of steps that were run and compared, including the one that differs."""
    first_seq: int
    last_seq: int
    """The last of the steps to replay; `first_seq` is the first one."""
    recorded_only: tuple[int, ...]
    """The number of steps that no run made, or whose run recorded too little. They are taken as recorded."""
    divergence: Divergence | None
    not_run: tuple[str, ...] = ()
    """The tools that real tools leave out: absent ones and those that start sub-agents."""

    @property
    def is_same(self) -> bool:
        return self.divergence is None


async def replay(
    store: Store,
    session_id: str,
    from_seq: int | None = None,
    today: Today | None = None,
    live: Live | None = None,
    ignores_tools: bool = False,
    watch: Callable[[int, int], object] = lambda number, total: None,
) -> Replayed:
    """Replay a session with the current program, starting after step `from_seq`. Nothing is written.

    If `ignores_tools` is true, changed, new and removed tools alone are not a difference. `watch` is called
    before each step with its number and the total. Raises `UsageError` if nothing can be replayed, and
    `StoreError` if the records are damaged.
    """
    recording = await store.database.offload(lambda: read_recording(store, session_id))
    first = _first(recording, from_seq)
    walk = Walk(recording, today or Today(), live or Live(), ignores_tools)
    steps, skipped = 0, list[int]()
    seq, divergence = first, None
    for moment in recording.moments():
        if moment.seq < first:
            continue
        seq = moment.seq
        watch(seq - first + 1, recording.last_seq - first + 1)
        if moment.began is None or moment.began.conditions is None:
            skipped.append(seq)
            continue
        steps += 1
        # The ports of a replay wait for nothing, so that others in this process would never run.
        await asyncio.sleep(0)
        divergence = await walk.step(moment)
        if divergence is not None:
            break
    if not steps:
        raise UsageError(
            f"No step of session {session_id} can be replayed: the steps were made by hand,"
            " or an older version of Sandbur recorded too little for a replay.",
            "The next steps of the session can be replayed.",
        )
    not_run = tuple(sorted(walk.not_run))
    return Replayed(session_id, steps, first, seq, tuple(skipped), divergence, not_run)


@contextmanager
def recording_store(path: Path) -> Generator[tuple[Store, str]]:
    """Open a temporary store with the session of a recording file; yield it and the id. Raises
    `UsageError`."""
    with tempfile.TemporaryDirectory(prefix=make_prefix("replay")) as folder:
        store = Store.open(f"sqlite:///{folder}/sandbur.db")
        try:
            yield store, _import_export(store, path)
        finally:
            store.close()


def _import_export(store: Store, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return import_recording(store.database, store.tenant, file)
    except OSError as error:
        raise UsageError(f"The recording {path} cannot be read: {error.strerror}.") from None


def _first(recording: Recording, from_seq: int | None) -> int:
    last = recording.last_seq
    if last < 0:
        raise UsageError(f"Session {recording.session_id} has no step yet, so there is nothing to replay.")
    if from_seq is not None and from_seq >= last:
        raise UsageError(
            f"Session {recording.session_id} has no step after step {from_seq}.",
            f"The last step is {last}: name an earlier one with --from.",
        )
    return 0 if from_seq is None else from_seq + 1
