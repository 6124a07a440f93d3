"""Fixtures of the tests of our persister for Burr applications."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.stores.burr_persisters import OURS, Subject, subject

from sandbur.state.burr.persister import SandburPersister


@pytest.fixture(params=OURS)
async def runs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    with subject(*request.param, tmp_path) as opened:
        yield opened
        await opened.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def persister(url: str) -> Iterator[SandburPersister]:
    with SandburPersister.from_url(url) as opened:
        opened.initialize()
        yield opened
