"""Burr state persisters that write only the changes of each step, to SQLite, PostgreSQL or MySQL.

with SandburPersister.from_url("sqlite:///runs.db") as persister:
    persister.initialize()
    builder.initialize_from(persister, ...).with_state_persister(persister)
"""

import asyncio
from collections.abc import Callable, Generator, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from burr.common.types import BaseCopyable
from burr.core import State
from burr.core.persistence import AsyncBaseStatePersister, BaseStatePersister, PersistedStateData

from ..databases.database import ResultT
from .rows import AppKey, LoadedState
from .states import BurrStates, SharedStates, Step

_DEFAULT_PARTITION = ""
_State: Any = State
"""`State` as `Any`, because some types of Burr are unknown."""


class _Persister(BaseCopyable):
    """The common base of both persisters: a store that copies share, and the options of Burr's
    serialization.
    """

    PARTITION_KEY_DEFAULT = _DEFAULT_PARTITION

    def __init__(self, url: str, serde_kwargs: Mapping[str, Any] | None = None) -> None:
        self.url = url
        self.serde_kwargs = dict(serde_kwargs or {})
        self._store = SharedStates(url)

    @classmethod
    def from_url(cls, url: str, serde_kwargs: Mapping[str, Any] | None = None) -> Self:
        """Return a persister for a `sqlite:///PATH`, `postgresql://` or `mysql://` URL. The first use opens
        it.
        """
        return cls(url, serde_kwargs)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Call `from_url` with its arguments in a mapping."""
        return cls.from_url(**config)

    def set_serde_kwargs(self, serde_kwargs: Mapping[str, Any]) -> None:
        """Set the arguments of Burr's serializers and deserializers."""
        self.serde_kwargs = dict(serde_kwargs)

    def copy(self) -> Self:
        """Return a persister for the same store. Closing one of them closes all."""
        twin = type(self)(self.url, self.serde_kwargs)
        twin._store = self._store
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "serde_kwargs": self.serde_kwargs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)

    def _make_step(
        self,
        partition_key: str | None,
        app_id: str,
        sequence_id: int,
        position: str,
        state: State[Any],
        status: str,
    ) -> Step:
        fields = _State.serialize(state, **self.serde_kwargs)
        return Step(_make_key(partition_key, app_id), sequence_id, position, status, fields)

    def _load_state(
        self, states: BurrStates, partition_key: str | None, app_id: str | None, sequence_id: int | None
    ) -> tuple[AppKey, LoadedState] | None:
        if app_id is None:
            return states.load_newest(partition_key or _DEFAULT_PARTITION)
        key = _make_key(partition_key, app_id)
        known = states.load(key, sequence_id)
        return (key, known) if known else None

    def _to_persisted_data(self, found: tuple[AppKey, LoadedState] | None) -> PersistedStateData | None:
        if found is None:
            return None
        key, known = found
        return PersistedStateData(
            partition_key=key.partition,
            app_id=key.app_id,
            sequence_id=known.last.sequence_id,
            position=known.last.position,
            state=_State.deserialize(known.fields, **self.serde_kwargs),
            created_at=known.last.created_at,
            status=known.last.status,
        )


class SandburPersister(_Persister, BaseStatePersister):
    """A persister for `ApplicationBuilder.build()`. Threads may share it, and it works after a fork of the
    process.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()

    def initialize(self) -> None:
        """Create the tables if they are missing."""
        self._store.get().tables.create()

    def is_initialized(self) -> bool:
        return self._store.get().tables.are_there()

    def save(
        self,
        partition_key: str | None,
        app_id: str,
        sequence_id: int,
        position: str,
        state: State[Any],
        status: Literal["completed", "failed"],
        **kwargs: Any,
    ) -> None:
        """Save one step durably. Raises `StoreError` if a different step with this id exists already."""
        self._store.get().save(self._make_step(partition_key, app_id, sequence_id, position, state, status))

    def load(
        self, partition_key: str | None, app_id: str | None, sequence_id: int | None = None, **kwargs: Any
    ) -> PersistedStateData | None:
        """Load the step `sequence_id`, or the newest one if it is None. Without `app_id`, load the newest of
        the partition.
        """
        return self._to_persisted_data(
            self._load_state(self._store.get(), partition_key, app_id, sequence_id)
        )

    def list_app_ids(self, partition_key: str | None = None, **kwargs: Any) -> list[str]:
        """Return the applications of a partition, the most recently saved first."""
        return self._store.get().list_app_ids(partition_key or _DEFAULT_PARTITION)

    def cleanup(self) -> None:
        """Close the store."""
        self._store.close()


class AsyncSandburPersister(_Persister, AsyncBaseStatePersister):
    """A persister for `ApplicationBuilder.abuild()`. `async with`, `await` or the first use opens it."""

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cleanup()

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def initialize(self) -> None:
        """Create the tables if they are missing."""
        await self._offload(lambda states: states.tables.create())

    async def is_initialized(self) -> bool:
        return await self._offload(lambda states: states.tables.are_there())

    async def save(
        self,
        partition_key: str | None,
        app_id: str,
        sequence_id: int,
        position: str,
        state: State[Any],
        status: Literal["completed", "failed"],
        **kwargs: Any,
    ) -> None:
        """Save one step durably. Raises `StoreError` if a different step with this id exists already."""
        step = self._make_step(partition_key, app_id, sequence_id, position, state, status)
        await (await self._states()).asave(step)

    async def load(
        self, partition_key: str | None, app_id: str | None, sequence_id: int | None = None, **kwargs: Any
    ) -> PersistedStateData | None:
        """Load the step `sequence_id`, or the newest one if it is None. Without `app_id`, load the newest of
        the partition.
        """
        found = await self._offload(
            lambda states: self._load_state(states, partition_key, app_id, sequence_id)
        )
        return self._to_persisted_data(found)

    async def list_app_ids(self, partition_key: str | None = None, **kwargs: Any) -> list[str]:
        """Return the applications of a partition, the most recently saved first."""
        return await self._offload(lambda states: states.list_app_ids(partition_key or _DEFAULT_PARTITION))

    async def cleanup(self) -> None:
        """Close the store."""
        await asyncio.to_thread(self._store.close)

    async def _open(self) -> Self:
        await self._states()
        return self

    async def _offload(self, work: Callable[[BurrStates], ResultT]) -> ResultT:
        states = await self._states()
        return await states.database.offload(lambda: work(states))

    async def _states(self) -> BurrStates:
        if self._store.are_open:
            return self._store.get()
        return await asyncio.to_thread(self._store.get)


def _make_key(partition_key: str | None, app_id: str) -> AppKey:
    return AppKey(partition_key or _DEFAULT_PARTITION, app_id)
