"""Sessions that workloads share: scripted ones, and ones that a model server in another process answers."""

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from support.models.scripted import Recorder, ScriptedModel, open_session

from sandbur.actions.ports import Model, ModelEvent, ModelRequest, Reply, ToolOutcome
from sandbur.actions.ports.events import ToolFinished
from sandbur.agent.models.connect import connect
from sandbur.agent.models.providers import ProviderOverride, TransportName
from sandbur.agent.session.session import Session
from sandbur.state.store.store import Store

RESULT = "r" * 200
LATE_RESULT = "r" * 2000


class Answer(Recorder):
    """A trivial tool."""

    def __init__(self, result: str = RESULT, **options: Any) -> None:
        super().__init__(**options)
        self._result = result

    async def run(self, arguments: str, context: Any) -> ToolOutcome:
        return ToolOutcome("ok", self._result)


class TimedModel:
    """Passes a model on and notes how long each call took, from the request to the reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.context_window = model.name, 10**9
        self.seconds: list[float] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        began = time.perf_counter()
        async for event in self._model.stream(request):
            if isinstance(event, Reply):
                self.seconds.append(time.perf_counter() - began)
            yield event

    async def aclose(self) -> None:
        await self._model.aclose()


@dataclass
class Run:
    """The times of the tool turns of one run."""

    seconds: list[float] = field(default_factory=list[float])
    """The time of each turn, in seconds."""
    cpu: list[float] = field(default_factory=list[float])
    """The CPU time of each turn in all threads, in seconds."""
    model: list[float] = field(default_factory=list[float])
    """The time of each model call, in seconds."""
    whole_cpu_s: float = 0.0
    """The CPU time of the whole run, in seconds."""
    on_disk: int = 0
    content: int = 0
    """Bytes of the last request."""

    @property
    def rest(self) -> list[float]:
        """Return the seconds of each turn but its model call."""
        return [turn - call for turn, call in zip(self.seconds, self.model, strict=False)]

    def medians_ms(self) -> tuple[float, float, float]:
        """Return the milliseconds of a whole turn, of it without the model call, and of the processor."""
        cpu_ms = self.whole_cpu_s * 1000 / len(self.seconds)
        return median(self.seconds[1:]) * 1000, median(self.rest[1:] or [0.0]) * 1000, cpu_ms


@contextmanager
def tool_server() -> Iterator[str]:
    """Start the model server of `tool_server.py`; yield its address."""
    command = [sys.executable, str(Path(__file__).parent / "tool_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def time_turns(session: Session) -> Run:
    """Send one message and time each tool turn that follows."""
    run, whole = Run(), time.process_time()
    began, cpu = time.perf_counter(), whole
    async for event in session.send("go"):
        if isinstance(event, ToolFinished):
            run.seconds.append(time.perf_counter() - began)
            run.cpu.append(time.process_time() - cpu)
            began, cpu = time.perf_counter(), time.process_time()
    run.whole_cpu_s = time.process_time() - whole
    return run


async def run_served(
    url: str, folder: Path, *tools: Recorder, transport: TransportName = "http", **options: Any
) -> Run:
    """Run a session of a new store on the model server at `url`; `options` are those of `open_session`."""
    store = Store.open(f"sqlite:///{folder}/{time.monotonic_ns()}/sandbur.db")
    lab = ProviderOverride(url, None, "chat", transport=transport)
    model = TimedModel(connect("lab/m", env={}, providers={"lab": lab}))
    session = await open_session(store, model, *tools, **options)
    run = await time_turns(session)
    run.model, run.content = model.seconds, session.state.chat_history.size_bytes
    await model.aclose()
    store.close()
    run.on_disk = sum(path.stat().st_size for path in Path(store.name).parent.iterdir())
    return run


async def open_scripted(
    store: Store, turns: int, tool: Recorder | None = None, session_id: str = "s1", text: str = "call"
) -> Session:
    """Open a session whose model makes `turns` calls of `tool`, with `text` and its number, then ends."""
    calls = [[("act", {"text": f"{text} {number}"})] for number in range(turns)]
    model = ScriptedModel(*calls, "done", context_window=10**9, cost_usd=0.01)
    return await open_session(store, model, tool or Answer(LATE_RESULT), session_id=session_id)
