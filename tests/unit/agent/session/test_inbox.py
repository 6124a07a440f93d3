"""What a person says while a run goes on: in the history exactly once, before the next call of the model."""

from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import START, ScriptedModel, Turn, collect, finish, plan
from support.stores.reopening import reopen

from sandbur.actions.ports import ModelRequest
from sandbur.actions.ports.events import MessageAdded
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.session.session import Session
from sandbur.state.errors import ModelError, UsageError
from sandbur.state.store.store import Store

READS: Any = [("read_file", {"path": "none"}), ("read_file", {"path": "nothing"})]


class Talk:
    """A session whose model calls are turns; what is said during one is said while it runs."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.model = ScriptedModel()
        self.session: Session

    def hearing(self, turn: Turn, *texts: str) -> Turn:
        """Return a turn while which a person says something."""

        async def asked() -> Any:
            for text in texts:
                await self.session.inbox.steer(text)
            return turn

        return asked

    async def run(self, *turns: Turn) -> list[Any]:
        self.model.turns = list(turns)
        self.session = await open_real(self.store, self.model, self.folder)
        events, _ = await collect(self.session.send("begin"))
        return events


@pytest.fixture
def box(store: Store, tmp_path: Path) -> Talk:
    return Talk(store, tmp_path)


def talk(request: ModelRequest) -> list[str]:
    """Return who said what in a request, results and calls by their kind."""
    return [
        "calls" if one.tool_uses else "result" if one.tool_results else f"{one.origin}: {one.text}"
        for one in request.messages
    ]


async def unchanged(store: Store) -> None:
    replayed = await replay(store, "s1")
    assert replayed.divergence is None, replayed.divergence


async def test_a_steering_message_follows_the_results_in_the_next_request(box: Talk) -> None:
    model = box.model
    events = await box.run(box.hearing(READS, "use tabs", "and no semicolons"), "done")
    assert talk(model.requests[1]) == [
        "person: begin",
        "calls",
        "result",
        "result",
        "person: use tabs",
        "person: and no semicolons",
    ]
    heard = [event for event in events if isinstance(event, MessageAdded) and event.content == "use tabs"]
    assert [(event.role, event.step_id) for event in heard] == [("user", None)]
    assert box.session.inbox.waiting == ()
    model.turns = ["again"]
    await collect(box.session.send("more"))
    assert talk(model.requests[2])[:7] == [*talk(model.requests[1]), "model: done"]
    await unchanged(box.store)


async def test_in_a_plan_it_is_read_in_its_step_and_known_after_it(box: Talk) -> None:

    await box.run(
        box.hearing(START, "to the planner"),
        box.hearing(plan("one", "two"), "to the first step"),
        box.hearing(READS, "to the analyzer"),
        finish("did one"),
        finish("did two"),
        "all done",
    )
    planner, first, analyzer, second, answer = (talk(request) for request in box.model.requests[1:])
    assert planner[-1] == "person: to the planner"
    assert first[-1] == "person: to the first step"
    assert analyzer[-2:] == ["result", "person: to the analyzer"]
    told = ["person: to the first step", "person: to the analyzer", "runtime: Step 1 completed: did one"]
    assert [one for one in second if one in told] == told
    assert [one for one in answer if one in told] == told
    await unchanged(box.store)


async def test_what_nobody_read_before_the_end_becomes_the_next_message_and_the_queue_follows(
    box: Talk,
) -> None:

    async def answer() -> Any:
        await box.session.inbox.queue("third")
        await box.session.inbox.steer("first")
        await box.session.inbox.steer("second")
        return "done"

    model = box.model
    await box.run(answer, "to both", "to the third")
    session = box.session
    assert [(one.number, one.kind, one.text) for one in session.inbox.waiting] == [
        (1, "queue", "third"), (2, "steer", "first"), (3, "steer", "second"),
    ]  # fmt: skip
    for expected in ("first\n\nsecond", "third"):
        assert await session.inbox.next_queued() == expected
        await collect(session.send(expected))
    assert await session.inbox.next_queued() is None
    assert [one for one in talk(model.requests[-1]) if one.startswith("person")] == [
        "person: begin", "person: first\n\nsecond", "person: third",
    ]  # fmt: skip
    await unchanged(box.store)


async def test_a_message_said_to_a_run_that_is_over_comes_before_what_is_said_then(box: Talk) -> None:
    model = box.model
    await box.run("done", "fine")
    await box.session.inbox.steer("earlier")
    await collect(box.session.send("later"))
    assert talk(model.requests[1])[-2:] == ["person: earlier", "person: later"]
    await unchanged(box.store)


async def test_a_failed_call_takes_nothing_and_what_it_read_is_read_once_more(box: Talk) -> None:
    model = box.model
    events = await box.run(box.hearing(READS, "hear me"), ModelError("gone"), "done")
    assert talk(model.requests[1])[-1] == "person: hear me"
    assert [one.text for one in box.session.inbox.waiting] == ["hear me"]
    more, _ = await collect(box.session.carry_on())
    assert talk(model.requests[2]) == talk(model.requests[1])
    told = [one for one in (*events, *more) if isinstance(one, MessageAdded) and one.content == "hear me"]
    assert len(told) == 1
    await unchanged(box.store)


async def test_what_waits_is_there_for_the_process_that_comes_after(box: Talk) -> None:
    await box.run("done")
    await box.session.inbox.steer("steering")
    await box.session.inbox.queue("queued")
    session = await open_real(reopen(box.store), model := ScriptedModel("one", "two"), box.folder)
    await session.inbox.read()
    assert [one.text for one in session.inbox.waiting] == ["steering", "queued"]
    assert await session.inbox.next_queued() == "steering"
    # Only a message that is sent takes it.
    assert await session.inbox.next_queued() == "steering"
    await collect(session.send("steering"))
    assert await session.inbox.next_queued() == "queued"
    assert talk(model.requests[0])[-1] == "person: steering"


async def test_a_message_can_be_taken_back_until_it_is_read(box: Talk) -> None:
    await box.run("done", "fine")
    await box.session.inbox.queue("not this")
    await box.session.inbox.queue("but this")
    assert await box.session.inbox.withdraw(1) == "not this"
    with pytest.raises(UsageError):
        await box.session.inbox.withdraw(1)
    assert await box.session.inbox.next_queued() == "but this"
    await collect(box.session.send("but this"))
    with pytest.raises(UsageError):
        await box.session.inbox.withdraw(2)
    await box.session.inbox.queue("last")
    assert [one.number for one in box.session.inbox.waiting] == [3]


async def test_a_command_cannot_steer_and_a_queued_one_is_taken_at_once(box: Talk) -> None:
    await box.run("done")
    with pytest.raises(UsageError, match="/mode is a command"):
        await box.session.inbox.steer("/mode yolo")
    await box.session.inbox.steer("/etc/hosts is wrong")
    await box.session.inbox.queue("!touch x")
    assert await box.session.inbox.next_queued() == "/etc/hosts is wrong"
    await collect(box.session.send("/mode plan"))
    assert await box.session.inbox.next_queued() == "/etc/hosts is wrong"


async def test_another_process_may_say_something_to_a_run(box: Talk) -> None:

    async def elsewhere() -> Any:
        await reopen(box.store).inbox("s1").add_from_outside("steer", "from elsewhere")
        return READS

    await box.run(elsewhere, "done")
    assert talk(box.model.requests[1])[-1] == "person: from elsewhere"


async def test_a_fork_counts_on_from_its_parent(box: Talk) -> None:
    await box.run(box.hearing(READS, "to the parent"), "done")
    await box.session.inbox.queue("for the parent alone")
    box.store.fork("s1", "s2")
    session = await open_real(box.store, model := ScriptedModel("done"), box.folder, "s2")
    await session.inbox.read()
    assert session.inbox.waiting == ()
    await session.inbox.steer("to the child")
    await collect(session.send("go on"))
    assert [one for one in talk(model.requests[-1]) if "to the" in one] == [
        "person: to the parent", "person: to the child",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["queue", "steer"])
@pytest.mark.parametrize("order", ["!touch made", "/mode yolo"])
async def test_no_command_of_somebody_elsewhere_is_carried_out(box: Talk, kind: Any, order: str) -> None:
    await box.run("hello")
    inbox = box.store.inbox(box.session.id)
    await inbox.add_from_outside(kind, order)
    await inbox.add_from_outside("queue", "go on")
    assert await box.session.inbox.next_queued() == "go on"
    assert not (box.folder / "made").exists()
