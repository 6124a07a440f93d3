"""Fixtures that many tests share."""

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

# Before anything reads it: a takeover is watched for a second or two, not for ten.
os.environ.setdefault("SANDBUR_LEASE_S", "4")

import pytest
from support.by_file import ByFile, TestFile
from support.commands.command import Command
from support.screens.tmux_window import Terminal, open_terminal
from support.stores.databases import DATABASES, EVERY_STORE, UrlOf, fresh_url, make_memory_url
from support.stores.old_stores import STORES, UNTRACED, write_old_store
from support.stores.reopening import close_all

from sandbur.state.databases.schema import SESSION_TABLES
from sandbur.state.store.store import Store

pytest_plugins = ["support.flaky", "support.sampling", "support.skips", "support.untimed"]

ON_EVERY_DATABASE = (
    "test_session",
    "test_triage",
    "test_lease",
    "test_health",
    "test_forks",
    "test_tracking_backend",
    "test_tracking_pages",
    "test_audit",
    "test_audit_forgeries",
    "test_seals",
    "test_stats",
    "test_report",
    "test_report_safety",
    "test_traces",
    "test_files_of_messages",
    "test_listing",
    "test_family",
    "test_message_search",
    "test_session_search",
    "test_claims",
    "test_conversation_ends",
    "test_deaths",
    "test_workload",
    "test_worker",
    "test_stop_requests",
    "test_queued_files",
    "test_changed_settings",
)
"""The tests of these modules hold for every kind of store; those of the others use SQLite."""
IN_MEMORY = (
    "test_session",
    "test_forks",
    "test_listing",
    "test_family",
    "test_session_search",
    "test_traces",
)
"""Those of them that also use the store in memory: they start no other process."""
TESTS = Path(__file__).parent
UNIT = TESTS / "unit"
LONG = ("crash", "terminal", "databases")
"""These begin first, then what is marked as slow: at the end no processor waits for one that began late."""
STARTING = {"command", "terminal", "wheel", "installed", "old", "untraced"}
"""Fixtures of tests that start processes or open stores of every version."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="unit tests that start no command and need no server"
    )
    parser.addoption("--by-file", action="store_true", help="collect each file of tests when it is run")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--by-file"):
        if config.getoption("keyword"):
            raise pytest.UsageError("--by-file knows no names of tests, so it takes no -k.")
        config.pluginmanager.register(ByFile(), "by file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        quick = [item for item in items if is_quick(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(quick)])
        items[:] = quick
    slow = {item.path for item in items if is_slow(item)}
    items.sort(key=lambda item: (item.path.relative_to(TESTS).parts[0] not in LONG, item.path not in slow))


def pytest_collection_finish() -> None:
    """Look no more for garbage among thousands of tests: each full collection took half a second of them."""
    gc.collect()
    gc.freeze()


def is_slow(item: pytest.Item) -> bool:
    """Return True for a test that is marked as slow, and for a file that is not collected yet and has one."""
    if isinstance(item, TestFile):
        return "pytest.mark.slow" in item.path.read_text("utf-8")
    return item.get_closest_marker("slow") is not None


def is_quick(item: pytest.Item) -> bool:
    if isinstance(item, TestFile):
        return UNIT in item.path.parents
    fixtures = set(getattr(item, "fixturenames", ()))
    kind = getattr(item, "callspec", None) and item.callspec.params.get("store", "sqlite")
    return (
        UNIT in item.path.parents
        and not is_slow(item)
        and not fixtures & STARTING
        and kind in (None, "sqlite")
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        name = metafunc.module.__name__
        several = EVERY_STORE if name in IN_MEMORY else DATABASES
        kinds = several if name in ON_EVERY_DATABASE else ("sqlite",)
        metafunc.parametrize("store", kinds, indirect=True)


@pytest.fixture(scope="session")
def url_of() -> Iterator[UrlOf]:
    """Lend a store's URL: a new file for each test, on a server one database for all of them."""
    with ExitStack() as stack:
        servers: dict[str, str] = {}

        def url(kind: str, folder: Path) -> str:
            if kind == "sqlite":
                return f"sqlite:///{folder}/data/sandbur.db"
            if kind == "memory":
                return make_memory_url()
            if kind not in servers:
                servers[kind] = stack.enter_context(fresh_url(kind, folder))
            return servers[kind]

        yield url


@pytest.fixture
def store(request: pytest.FixtureRequest, url_of: UrlOf, tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(url_of(request.param, tmp_path))
    if request.param not in ("sqlite", "memory"):
        tables = (*SESSION_TABLES, "sessions", "blobs", "workers", "budgets", "quotas")
        opened.database.commit([(f"DELETE FROM {table}", ()) for table in tables])
    yield opened
    close_all()
    opened.close()


@pytest.fixture(params=STORES, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the file of a store that an older version wrote; one for each version."""
    return write_old_store(request.param, tmp_path)


@pytest.fixture(params=UNTRACED, ids=lambda path: path.stem)
def untraced(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the file of a store that an older version wrote; one for each version."""
    return write_old_store(request.param, tmp_path)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, to be run in the test's folder."""
    return Command(tmp_path)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Lend a terminal in the test's folder, which ends with the test."""
    with open_terminal(tmp_path) as window:
        yield window
