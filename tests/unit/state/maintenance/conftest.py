"""Fixtures of the tests of sessions that go from one store to another."""

from pathlib import Path

import pytest
from support.commands.command import Command


@pytest.fixture
def here(tmp_path: Path) -> Command:
    (tmp_path / "here").mkdir()
    return Command(tmp_path / "here")


@pytest.fixture
def there(here: Command, tmp_path: Path) -> Command:
    """The same folder with a store of its own."""
    command = Command(here.folder)
    command.env["SANDBUR_HOME"] = str(tmp_path / "there")
    return command
