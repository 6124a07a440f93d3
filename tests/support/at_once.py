"""Runs the cases of a test module at once: starting processes is most of what they do."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

Case = Callable[[Path], None]
"""Gets a folder of its own that is not there yet; an assertion that fails is the test's."""
Started = dict[str, "Future[None]"]


@contextmanager
def at_once(
    cases: Mapping[str, Case], request: pytest.FixtureRequest, factory: pytest.TempPathFactory
) -> Iterator[Started]:
    """Start every case that a test of this module was chosen for; the test's parameter is its `name`."""
    chosen = {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
        if "name" in item.callspec.params
    }
    folder = factory.mktemp("at-once")
    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        yield {
            name: pool.submit(case, folder / str(number))
            for number, (name, case) in enumerate(cases.items())
            if name in chosen
        }
        pool.shutdown(wait=True, cancel_futures=True)
