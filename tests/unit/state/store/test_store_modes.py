"""The rights of a store's file: others lose theirs, and its owner gets none that it did not have."""

from pathlib import Path

import pytest
from support.commands.command import Command

pytestmark = pytest.mark.slow


def test_a_store_that_may_not_be_written_keeps_its_mode(tmp_path: Path) -> None:
    command = Command(tmp_path)
    command.run("-p", "hello", "-m", "demo")
    path = tmp_path / "data/sandbur.db"
    path.chmod(0o444)
    command.run("-p", "more", "-m", "demo")
    assert path.stat().st_mode & 0o777 == 0o444
    path.chmod(0o644)
    command.run("sessions", "list")
    assert path.stat().st_mode & 0o777 == 0o600
