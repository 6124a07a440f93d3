"""The output of a command is recorded from a file: as it was recorded from memory, and with little of it."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.samples.secret import draw_random
from support.stores.databases import DATABASES, fresh_url

from sandbur.actions.ports import ToolOutcome
from sandbur.actions.ports.events import ToolFinished
from sandbur.agent.extensions.middleware.middleware import Middleware, NextToolCall, ToolCallRequest
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.journal import load_output
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

MARK = "-----"
KEY = "\n".join(
    (f"{MARK}BEGIN PRIVATE KEY{MARK}", *(draw_random(64) for _ in range(8)), f"{MARK}END PRIVATE KEY{MARK}")
)
LOG = b"".join(b"%d: a line of a log\n" % number for number in range(120_000))
TOKEN = draw_random(30)


class Passes(Middleware):
    """Goes around each call, so that the output comes in memory."""

    def __init__(self) -> None:
        self.is_whole: list[bool] = []

    async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
        outcome = await next(call)
        self.is_whole.append(outcome.full_output is not None and outcome.output_file is None)
        return outcome


def with_secrets(seed: int) -> bytes:
    dice, lines = random.Random(seed), LOG.split(b"\n")
    for text in (
        KEY,
        f"password: {draw_random(20)}",
        f"seen {TOKEN} there",
        "token=" + draw_random(5000),
    ) * 12:
        lines.insert(dice.randrange(len(lines)), text.encode())
    return b"\n".join(lines)


def across_windows() -> bytes:
    """Return secrets at each end of a window of 1 MiB, whatever a window has to leave behind."""
    parts: list[bytes] = []
    for megabyte in range(1, 4):
        parts.append(LOG[: megabyte * 1_048_576 - sum(map(len, parts)) - 140_000])
        parts.append((f"{'words ' * 60}\n{KEY}\nA_TOKEN={TOKEN}\n" * 280).encode())
    return b"".join(parts)


OUTPUTS = {
    "a log": LOG,
    "secrets": with_secrets(1),
    "secrets across windows": across_windows(),
    "no UTF-8": LOG + bytes(range(256)) * 8000,
    "control characters": (b"\x1b[31mred\x1b[0m\x08\x07 words\x00\n") * 60_000,
    "overwritten": b"".join(b"%d%%\r" % number for number in range(300_000)) + b"\ndone\n",
    "one line": b"x" * 2_500_000,
    "one line with secrets": f'{{"k": "{TOKEN}", "n": 12345}},'.encode() * 60_000,
    "two bytes a character": (LOG.decode() + f"my {TOKEN}\n").encode("utf-16"),
    "no more than a side": b"y" * 1_024_000,
    "short": b"short\n",
    "empty": b"",
}


async def recorded(store: Store, folder: Path, session: str, *layers: Middleware) -> tuple[Any, bytes | None]:
    """Return what the model was shown of a command that prints a file, and what is kept of its output."""
    model = ScriptedModel([("run_shell_command", {"command": "cat output.bin"})], "end")
    opened = await open_real(store, model, folder, session, env={"A_TOKEN": TOKEN}, middleware=layers)
    events, _ = await collect(opened.send("go"))
    (finished,) = (event for event in events if isinstance(event, ToolFinished))
    call_id = finished.call_id
    return finished.content.replace(call_id, "ID"), load_output(store.database, session, call_id)


@pytest.mark.parametrize("kind", OUTPUTS)
async def test_an_output_is_recorded_from_its_file_as_from_memory(kind: str, tmp_path: Path) -> None:
    (tmp_path / "output.bin").write_bytes(OUTPUTS[kind])
    store, passes = Store.open(f"sqlite:///{tmp_path}/store.db"), Passes()
    by_file = await recorded(store, tmp_path, "by-file")
    by_memory = await recorded(store, tmp_path, "by-memory", passes)
    store.close()
    assert by_file == by_memory
    assert passes.is_whole == [by_memory[1] is not None]
    assert TOKEN.encode() not in (by_file[1] or b"")


@pytest.mark.parametrize("kind", DATABASES)
async def test_every_database_stores_an_output_from_its_file(kind: str, tmp_path: Path) -> None:
    (tmp_path / "output.bin").write_bytes(LOG)
    with fresh_url(kind, tmp_path) as url:
        store = Store.open(url)
        _, kept = await recorded(store, tmp_path, "s1")
        assert kept == LOG
        assert not audit(store.database, ["s1"]).breaches
        store.close()


PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_mb(folder: Path, size: int) -> float:
    """Return the most memory of a `sandbur` that runs a command with so many bytes of output."""
    folder.mkdir()
    command = Command(folder)
    shell = f"run yes some words of a line that is like any other | head -c {size}"
    line = command.line("-p", shell, "-m", "demo", "--allow", "run_shell_command(*)")
    # A process counts what its parent took, so that the parent is a small one.
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *line], cwd=folder, env=command.env, capture_output=True, check=True
    )
    code, peak_kb = done.stdout.split()
    assert code == b"0", done.stderr
    assert (folder / "data" / "sandbur.db").stat().st_size > size
    return int(peak_kb) / 1024


def test_an_output_of_40_mb_takes_no_more_memory_than_one_of_1_mb(tmp_path: Path) -> None:
    small, large = peak_mb(tmp_path / "small", 1_100_000), peak_mb(tmp_path / "large", 40_000_000)
    assert large - small < 16
