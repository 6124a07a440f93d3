"""Measures the CPU time and the bytes to display an answer.

An answer streams into a terminal of its own, 500 pieces a second of a clock that is counted and not waited
for, once with a run around it: calls, a plan, a status line. It prints the CPU seconds, of which a run
without a screen has none, and the bytes that arrive for each byte of the text. An echo is one key of a
person who types while the answer comes.
"""

import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from statistics import median, quantiles

from bench.figures import tell
from rich.console import Console

from sandbur.actions.ports.events import (
    Event,
    MessageAdded,
    PlanChanged,
    StepChanged,
    TextDelta,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    UsageChanged,
)
from sandbur.state.application import Usage, VibeStep
from sandbur.ui.terminal.render import Renderer
from sandbur.ui.terminal.status import StatusFacts

PIECE = 6
TICK_S = 0.1
CHARACTERS_A_SECOND = 3000
CPU_LIMIT_S, BYTES_LIMIT, ECHO_LIMIT_MS = 0.3, 3.0, 16
SENTENCE = "The session keeps **every step** of the agent on disk, so that a `crash` loses nothing. "
BLOCKS = (
    SENTENCE * 3 + "\n\n",
    "## What follows\n\n",
    "".join(f"- *item {n}*: {SENTENCE}\n" for n in range(4)) + "\n",
    "```python\n" + "def total(values):\n    return sum(value * 2 for value in values)\n" * 4 + "```\n\n",
    "| name | count |\n|---|---:|\n" + "".join(f"| row {n} | {n} |\n" for n in range(6)) + "\n",
)


def answer(characters: int) -> str:
    whole = "".join(BLOCKS)
    return (whole * (characters // len(whole) + 1))[:characters]


def deltas(text: str) -> Iterator[Event]:
    for start in range(0, len(text), PIECE):
        yield TextDelta(text[start : start + PIECE])
    yield MessageAdded("assistant", text)


def run_around(text: str) -> Iterator[Event]:
    """Yield the events of a run of two steps, a call in each, whose last answer is the text."""
    used = Usage(llm_calls=1, input_tokens=900, output_tokens=90, cost_usd=0.001)
    yield PlanChanged(tuple(VibeStep(step_id=str(n), description=f"do {n}") for n in (1, 2)))
    for number in ("1", "2"):
        yield StepChanged(number, "in_progress")
        yield ToolRequested(number, "read_file", '{"path": "a.py"}')
        yield ToolStarted(number, "read_file")
        yield ToolFinished(number, "read_file", "ok", "line\n" * 400, 5)
        yield UsageChanged(used, used)
        yield StepChanged(number, "completed", "well")
    yield from deltas(text)


class Played:
    """One run on a terminal of its own."""

    def __init__(self, events: list[Event], columns: int = 80, rows: int = 24) -> None:
        self.out = StringIO()
        console = Console(
            file=self.out, width=columns, height=rows, force_terminal=True, color_system="standard",
            markup=False, highlight=False, emoji=False, _environ={"TERM": "xterm"},
        )  # fmt: skip
        self.view = Renderer(console, answers=True)
        self.view.status = StatusFacts("interactive", "a/model", "0123456789", context_window=200_000)
        self.typed = ""
        self.view.footer.set_section("input", lambda _: [f"> {self.typed}"] if self.typed else [])
        self.echoes: list[float] = []
        self._events = events

    def play(self, types: bool = False) -> float:
        """Show everything; return the CPU seconds."""
        drawn_s, real = 0.0, time.process_time
        began = time.process_time()
        for event in self._events:
            self.view.show(event)
            drawn_s += PIECE / CHARACTERS_A_SECOND
            if drawn_s >= TICK_S:
                drawn_s -= TICK_S
                self.view.tick()
            if types:
                self._type(real)
        return time.process_time() - began

    def _type(self, clock: Callable[[], float]) -> None:
        began = clock()
        self.typed = (self.typed + "x")[-40:]
        self.view.footer.refresh()
        self.echoes.append(clock() - began)

    @property
    def bytes(self) -> int:
        data = self.out.getvalue()
        return len(data.encode()) + data.count("\n")


def measure(folder: Path, characters: int) -> None:
    text = answer(characters)
    Played(list(deltas(text[:2000]))).play()  # imports, caches
    for name, events in (("answer", list(deltas(text))), ("run", list(run_around(text)))):
        runs = [Played(events) for _ in range(5)]
        cpu_s = median(run.play() for run in runs)
        ratio = runs[0].bytes / len(text.encode())
        tell(f"{name}: CPU to show {characters:,} characters", cpu_s, CPU_LIMIT_S, " s")
        tell(f"{name}: bytes to the terminal", ratio, BYTES_LIMIT, against="the text's")
    typing = Played(list(deltas(text)))
    typing.play(types=True)
    spread = quantiles(typing.echoes, n=100)
    for share in (50, 95):
        tell(f"CPU of an echo, {share} of 100", 1000 * spread[share - 1], ECHO_LIMIT_MS, " ms")
