"""`sandbur index update --watch` follows the files, and a signal ends it at once."""

import signal
import subprocess
from pathlib import Path

import pytest
from support.commands.command import Command

pytestmark = pytest.mark.slow


def read_line(process: subprocess.Popen[str], wanted: str) -> None:
    """Read stdout up to a line. The time limit of tests ends a wait in vain."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.rstrip("\n") == wanted:
            return
    raise AssertionError(f"{wanted} was not printed")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_each_change_is_a_line_until_a_signal_comes(
    command: Command, number: signal.Signals, code: int
) -> None:
    docs: Path = command.folder / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\nThe zebra.\n")
    assert command.run("index", "add", "docs").code == 0
    line = command.line("index", "update", "--watch")
    with subprocess.Popen(
        line, cwd=command.folder, env=command.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        while "Watching" not in process.stderr.readline():
            pass
        (docs / "b.md").write_text("# B\nThe okapi.\n")
        read_line(process, "added  docs/b.md")
        (docs / "a.md").write_text("# A\nThe walrus.\n")
        read_line(process, "changed  docs/a.md")
        (docs / "b.md").unlink()
        read_line(process, "removed  docs/b.md")
        process.send_signal(number)
        assert process.wait() == code
        assert "Traceback" not in process.stderr.read()
    assert command.run("index", "search", "walrus").out.startswith("docs/a.md:1-2")
    assert command.run("index", "search", "okapi").code == 1


def test_watching_belongs_to_update(command: Command) -> None:
    refused = command.run("index", "list", "--watch")
    assert (refused.code, "--watch belongs to `sandbur index update`." in refused.err) == (2, True)
