"""The store that the tests of agents in programs share."""

from collections.abc import Iterator

import pytest

from sandbur.testing import TemporaryStore, temporary_store


@pytest.fixture
def store() -> Iterator[TemporaryStore]:
    with temporary_store() as lent:
        yield lent
