"""A process that replaces a folder and a file of a workspace by links to the outside, again and again."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbur.actions.ports import ToolContext
from sandbur.actions.workspace.safe_open import PathScope

INSIDE, SECRET = "stays-inside", "only-outside"
_EXCHANGE = """
import ctypes, sys, time
rename = ctypes.CDLL(None).renameat2
pairs = [(left.encode(), left.encode() + b'.other') for left in sys.argv[1:]]
while True:
    for left, right in pairs * 100:
        rename(-100, left, -100, right, 2)
    time.sleep(0.003)  # long enough for a call that has to find nothing changed
"""


@dataclass(frozen=True, slots=True)
class Race:
    """A workspace whose `folder` and `file` alternate between real ones and links to the outside."""

    root: Path
    outside: Path

    def context(self, *judged: str) -> ToolContext:
        reach = PathScope.of([self.root], judged or None)
        return ToolContext("c1", self.root, lambda text: None, reach=reach)

    async def repeat(self, tool: Any, times: int, **arguments: str) -> "Outcome":
        """Run a call `times` times; count the calls that read or changed a file outside."""
        parsed = tool.parse(json.dumps(arguments))
        before = self._outside()
        ended: Counter[str] = Counter()
        for _ in range(times):
            outcome = await tool.run(parsed, self.context())
            escaped = SECRET in outcome.content or self._outside() != before
            ended["escaped" if escaped else outcome.outcome] += 1
        return Outcome(ended["escaped"], ended["ok"], ended["error"])

    def _outside(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.outside.iterdir()}


@dataclass(frozen=True, slots=True)
class Outcome:
    escaped: int
    done: int
    refused: int


@contextmanager
def race(folder: Path) -> Generator[Race]:
    """Yield a workspace while the process replaces its folder and file."""
    root, outside = folder / "workspace", folder / "outside"
    inner = root / "folder"
    for place, text in ((inner, INSIDE), (outside, SECRET)):
        place.mkdir(parents=True)
        place.joinpath("file").write_text(f"{text}\n")
        place.joinpath(f"{text}.txt").write_text(f"{text}\n")
    (root / "file").write_text(f"{INSIDE}\n")
    (root / "folder.other").symlink_to(outside)
    (root / "file.other").symlink_to(outside / "file")
    command = [sys.executable, "-c", _EXCHANGE, str(inner), str(root / "file")]
    with subprocess.Popen(command) as swapping:
        try:
            yield Race(root.resolve(), outside)
        finally:
            swapping.kill()
