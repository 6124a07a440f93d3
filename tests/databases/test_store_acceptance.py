"""Our stores pass the tests that the store of somebody else has to pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stores.databases import EVERY_STORE, fresh_url

from sandbur.testing import StoreAcceptance


class TestOurStores(StoreAcceptance):
    @pytest.fixture(autouse=True, params=EVERY_STORE)
    def url(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
        with fresh_url(request.param, tmp_path) as url:
            self._url = url
            yield

    def make_url(self, folder: Path) -> str:
        return self._url
