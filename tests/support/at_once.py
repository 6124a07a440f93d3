"""Runs the cases of a test module in parallel, because most of their time is the start of processes."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

Case = Callable[[Path], None]
"""A case gets a path for its own folder, which does not exist yet; a failed assertion fails the test."""
Started = dict[str, "Future[None]"]


@contextmanager
def at_once(
    cases: Mapping[str, Case], request: pytest.FixtureRequest, factory: pytest.TempPathFactory
) -> Iterator[Started]:
    """Start the cases of all selected tests of the module; the parameter of such a test is called `name`."""
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
