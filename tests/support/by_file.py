"""A pytest plugin that collects each file of tests when it is run: `--by-file`, for runs with pytest-xdist.

Without it every process of pytest-xdist imports all files before it runs a part of them. With it the
processes share a list of files, and the one that takes a file imports it. Paths of tests (`FILE::NAME`) need
a run without it.
"""

from collections.abc import Generator, Iterator

import pytest
from _pytest.runner import runtestprotocol


class TestFile(pytest.Item):
    """A file whose tests are not collected yet."""

    __test__ = False
    module: pytest.Module | None = None

    def runtest(self) -> None:
        """Nothing: the tests of the file run in its place."""


class UncollectedFile(pytest.File):
    """Stands for a module of tests until it is run."""

    module: pytest.Module

    def collect(self) -> Iterator[TestFile]:
        item = TestFile.from_parent(self, name=self.path.name, nodeid=self.nodeid)
        item.module = self.module
        item.add_marker(pytest.mark.timeout(0))  # each test has its own
        yield item


class ByFile:
    """Collects the tests of a file, and runs them, when it is the turn of the file."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, parent: pytest.Collector
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        return [_postpone(one, parent) if isinstance(one, pytest.Module) else one for one in found]

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not isinstance(item, TestFile):
            return None
        tests = _collect(item)
        if not tests:  # tears down what the next file does not need, too
            runtestprotocol(item, log=False, nextitem=nextitem)
            return True
        items = item.session.items
        place, number = items.index(item), len(items)
        items += tests
        for test, following in zip(tests, [*tests[1:], nextitem], strict=True):
            items[place] = test  # pytest-xdist takes reports of the item at this place alone
            item.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if item.session.shouldfail or item.session.shouldstop:
                break
        items[place] = item
        del items[number:]
        return True


def _postpone(module: pytest.Module, parent: pytest.Collector) -> UncollectedFile:
    postponed = UncollectedFile.from_parent(parent, path=module.path)
    postponed.module = module
    return postponed


def _collect(item: TestFile) -> list[pytest.Item]:
    assert item.module is not None
    tests = list(item.session.genitems(item.module))
    item.module = None
    item.config.hook.pytest_collection_modifyitems(session=item.session, config=item.config, items=tests)
    return tests
