"""Fixtures of the tests of the tracking backend."""

from collections.abc import Iterator

import pytest

from sandbur.agent.history.tracking.burr_backend import StoreBackend
from sandbur.state.store.store import Store


@pytest.fixture
def backend(store: Store) -> Iterator[StoreBackend]:
    """Lend a backend that reads the test's store."""
    reading = StoreBackend(store.url)
    yield reading
    reading.close()
