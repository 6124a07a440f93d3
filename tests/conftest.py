"""Fixtures that many tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from state.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "data" / "sandbur.db")
    yield opened
    opened.close()
