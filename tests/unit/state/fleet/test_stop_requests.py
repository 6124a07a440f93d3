"""A person stops a run of a worker: from any process, this run alone, and what waits comes next."""

import asyncio
from pathlib import Path
from typing import Any

from support.waiting import until
from test_worker import Fleet, make_agent

from sandbur import tool
from sandbur.agent.fleet.messages import send_message
from sandbur.agent.fleet.worker import Worker
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.sessions.claims import write_quota
from sandbur.state.store.sessions.record_feed import load_newest_run
from sandbur.state.store.store import Store
from sandbur.testing import ToolCall


class Sleeper:
    """An agent whose tool sleeps for the message `sleep`, and what its model was asked."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.asked: list[str] = []
        self.entered = 0

        @tool
        async def sleep() -> str:
            """Sleep for a minute."""
            self.entered += 1
            await asyncio.sleep(60)
            return "awake"

        self.fleet = Fleet(store, make_agent(folder, self._reply, tools=[sleep], mode="yolo"))
        self.store = store

    def _reply(self, request: Any) -> Any:
        last = list(request.messages)[-1]
        self.asked.append("result" if last.tool_results else last.text)
        return ToolCall("sleep") if last.text == "sleep" else f"heard {last.text}"

    def texts(self) -> list[str]:
        """Return what persons asked, as the history has it."""
        history = self.store.show("s").state.chat_history
        return [one.text for one in history if one.origin == "person"]

    async def start(self) -> tuple[Worker, asyncio.Task[None]]:
        worker = self.fleet.worker()
        return worker, asyncio.ensure_future(worker.run())

    async def end(self, worker: Worker, running: asyncio.Task[None]) -> None:
        await worker.drain()
        await running


def at_rest(fleet: Fleet) -> bool:
    return not fleet.head("s")[1] and not fleet.head("s")[2]


async def test_a_stopped_turn_ends_and_the_message_that_waits_comes_next(
    store: Store, tmp_path: Path
) -> None:
    sleeper = Sleeper(store, tmp_path)
    await sleeper.fleet.add("s", "sleep")
    worker, running = await sleeper.start()
    await until(lambda: sleeper.entered == 1)
    await send_message(store, "s", "queued")
    assert await worker.interrupt("s")
    await until(lambda: at_rest(sleeper.fleet) and sleeper.fleet.head("s")[0] == "done")
    await sleeper.end(worker, running)
    assert sleeper.asked == ["sleep", "queued"], "the stopped turn asked the model no further"
    assert sleeper.texts() == ["sleep", "queued"]
    assert sleeper.fleet.results("s") == [None, "heard queued"]


async def test_a_message_that_waited_before_the_turn_began_comes_after_the_stop(
    store: Store, tmp_path: Path
) -> None:
    sleeper = Sleeper(store, tmp_path)
    await sleeper.fleet.add("s", "sleep", "queued")
    worker, running = await sleeper.start()
    await until(lambda: sleeper.entered == 1)
    assert await worker.interrupt("s")
    await until(lambda: at_rest(sleeper.fleet) and sleeper.fleet.head("s")[0] == "done")
    await sleeper.end(worker, running)
    assert sleeper.asked == ["sleep", "queued"]


async def test_another_process_stops_the_run_of_a_worker(store: Store, tmp_path: Path) -> None:
    sleeper = Sleeper(store, tmp_path)
    await sleeper.fleet.add("s", "sleep")
    assert not await store.inbox("s").ask_to_stop(), "nothing runs yet"
    worker, running = await sleeper.start()
    await until(lambda: sleeper.entered == 1)
    assert await store.inbox("s").ask_to_stop()
    await until(lambda: at_rest(sleeper.fleet))
    assert sleeper.fleet.head("s")[0] == "interrupted"
    assert not await store.inbox("s").ask_to_stop(), "the run has ended"
    await sleeper.end(worker, running)
    assert sleeper.asked == ["sleep"]
    assert not audit(store.database, ["s"]).breaches


async def test_a_request_to_stop_never_ends_a_later_run(store: Store, tmp_path: Path) -> None:
    sleeper = Sleeper(store, tmp_path)
    await sleeper.fleet.add("s", "sleep")
    worker, running = await sleeper.start()
    await until(lambda: sleeper.entered == 1)
    # Two clients ask at once, and one request is noticed after the run has ended.
    assert await store.inbox("s").ask_to_stop()
    assert await store.inbox("s").ask_to_stop()
    await until(lambda: at_rest(sleeper.fleet))
    newest = load_newest_run(store.database, "s")
    assert newest is not None
    await store.inbox("s").ask_to_stop()
    await send_message(store, "s", "sleep")
    worker.hint()
    await until(lambda: sleeper.entered == 2)
    for _ in range(3):
        worker.hint()
        await asyncio.sleep(0.1)
    later = load_newest_run(store.database, "s")
    assert later is not None
    assert (later.is_open, later.number > newest.number) == (True, True)
    assert store.database.query("SELECT n FROM inbox WHERE kind = 'stop'") == []
    await sleeper.end(worker, running)


async def test_a_quota_of_zero_is_no_limit_and_once_says_what_a_quota_holds_back(
    store: Store, tmp_path: Path
) -> None:
    sleeper = Sleeper(store, tmp_path)
    await sleeper.fleet.add("s", "sleep")
    await sleeper.fleet.add("t", "hello")
    write_quota(store.database, "", 1)
    worker, running = await sleeper.start()
    await until(lambda: sleeper.entered == 1 or bool(sleeper.fleet.results("t")))
    await until(lambda: sleeper.entered == 1)
    await send_message(store, "t", "again")
    await sleeper.fleet.worker().run(once=True)
    assert sleeper.fleet.notices[-1] == "The quota of tenant default holds 1 session back."
    write_quota(store.database, "", 0)
    assert store.database.query("SELECT tenant FROM quotas") == []
    await sleeper.fleet.worker().run(once=True)
    assert sleeper.fleet.results("t")[-1] == "heard again"
    await sleeper.end(worker, running)
