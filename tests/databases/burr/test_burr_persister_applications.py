"""Real Burr applications save and resume, with Burr's own persisters and with ours alike."""

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.stores import burr_applications as apps
from support.stores.burr_applications import step
from support.stores.burr_persisters import EVERY_KIND, Subject, await_result, subject


@pytest.fixture(params=EVERY_KIND)
async def runs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    with subject(*request.param, tmp_path) as opened:
        yield opened
        await opened.close()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("burr").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("burr").setLevel(logging.NOTSET)


async def loaded(persister: Any, app_id: str = "app", seq: int | None = None) -> Any:
    return await await_result(persister.load("p", app_id, seq))


async def test_a_counter_resumes_at_the_next_action(runs: Subject) -> None:
    app = await apps.counter(runs, await runs.open())
    assert [await step(app, runs) for _ in range(5)] == ["count", "report", "count", "report", "count"]
    for total in (6, 8, 10):
        app = await apps.counter(runs, await runs.open())
        assert app.sequence_id == total - 2
        names = [await step(app, runs) for _ in range(2)]
        assert names == ["report", "count"]
        assert app.state["n"] == total // 2 + 1
        assert app.state["reports"] == [f"n is {n}" for n in range(1, total // 2 + 1)]


async def test_a_chat_keeps_every_message_and_every_older_state(runs: Subject) -> None:
    persister = await runs.open()
    app = await apps.chat(runs, persister)
    for n in range(40):
        await step(app, runs, text=f"hello {n} " * 20)
        await step(app, runs)
    again = await apps.chat(runs, await runs.open())
    assert again.state["chat_history"] == app.state["chat_history"]
    assert len(again.state["chat_history"]) == 80
    for seq in (0, 1, 17, 40, 79):
        older = (await loaded(persister, seq=seq))["state"]
        assert older["chat_history"] == app.state["chat_history"][: seq + 1]
        assert older["__SEQUENCE_ID"] == seq


async def test_a_fork_goes_its_own_way(runs: Subject) -> None:
    persister = await runs.open()
    app = await apps.counter(runs, persister)
    for _ in range(6):
        await step(app, runs)
    fork = await apps.counter(
        runs,
        persister,
        app_id="fork",
        fork_from_app_id="app",
        fork_from_partition_key="p",
        fork_from_sequence_id=2,
    )
    assert (fork.state["n"], fork.sequence_id) == (2, 2)
    assert [await step(fork, runs) for _ in range(3)] == ["report", "count", "report"]
    assert fork.state["reports"] == ["n is 1", "n is 2", "n is 3"]
    assert (await loaded(persister))["state"]["n"] == 3
    assert sorted(await await_result(persister.list_app_ids("p"))) == ["app", "fork"]
    assert (await apps.counter(runs, persister, app_id="fork")).state["n"] == 3
    edited = await apps.counter(
        runs, persister, app_id="edit", fork_from_app_id="app", fork_from_partition_key="p",
        override_state_values={"n": 70},
    )  # fmt: skip
    assert await step(edited, runs) == "count"
    assert edited.state["n"] == 71


async def test_a_fork_of_what_is_not_there_starts_anew(runs: Subject) -> None:
    fork = await apps.counter(runs, await runs.open(), app_id="fork", fork_from_app_id="nobody")
    assert fork.state["n"] == 0
    assert await step(fork, runs) == "count"


async def test_a_failed_action_runs_again_after_resume(runs: Subject) -> None:
    app = await apps.picnic(runs, await runs.open())
    await step(app, runs)
    with pytest.raises(RuntimeError, match="no picnic"):
        await step(app, runs, weather="bad")
    persister = await runs.open()
    failed = await loaded(persister)
    assert (failed["status"], failed["position"], failed["sequence_id"]) == ("failed", "risky", 1)
    assert failed["state"]["n"] == 1
    app = await apps.picnic(runs, persister)
    assert await step(app, runs, weather="good") == "risky"
    assert await step(app, runs) == "count"
    assert (app.state["picnic"], app.state["n"], app.sequence_id) == ("good", 2, 3)


async def test_without_resume_at_next_action_the_entrypoint_of_a_new_run_is_used(runs: Subject) -> None:
    persister = await runs.open()
    app = await apps.counter(runs, persister)
    await step(app, runs)
    again = await apps.counter(runs, persister, resume_at_next_action=False)
    assert again.state["n"] == 1
    assert await step(again, runs) in ("count", "report")  # which of them, Burr decides


async def test_an_application_may_start_from_an_older_state_of_its_own(runs: Subject) -> None:
    persister = await runs.open()
    app = await apps.counter(runs, persister)
    for _ in range(4):
        await step(app, runs)
    again = await apps.counter(runs, persister, sequence_id=1)
    assert (again.state["n"], again.sequence_id) == (1, 1)
    again.update_state(again.state.update(n=50))
    with pytest.raises(Exception, match="has another step 2 already" if runs.is_ours else "UNIQUE"):
        await step(again, runs)


async def test_typed_state_comes_back_typed(runs: Subject) -> None:
    persister = await runs.open()
    persister.set_serde_kwargs({"allowlist": ["support.stores.burr_applications"]})
    app = await apps.typed_chat(runs, persister)
    for _ in range(4):
        await step(app, runs)
    persister = await runs.open()
    persister.set_serde_kwargs({"allowlist": ["support.stores.burr_applications"]})
    again = await apps.typed_chat(runs, persister)
    assert again.state.data == app.state.data
    assert isinstance(again.state.data.chat_history[3], apps.Message)
    await step(again, runs)
    assert [message.content for message in again.state.data.chat_history] == [
        f"message {n}" for n in range(5)
    ]


async def test_parallel_children_are_saved_each_as_an_application(runs: Subject) -> None:
    persister = await runs.open()
    app = await apps.squares(runs, persister)
    assert await step(app, runs) == "squares"
    assert app.state["squares"] == [0, 1, 4, 9, 16, 25]
    ids = await await_result(persister.list_app_ids("p"))
    assert len(ids) == 7
    children = [await loaded(persister, app_id) for app_id in ids if app_id != "app"]
    assert sorted(child["state"]["square"] for child in children) == [0, 1, 4, 9, 16, 25]
    again = await apps.squares(runs, await runs.open())
    assert await step(again, runs) == "count"


async def test_a_streamed_action_is_saved_when_its_stream_ends(runs: Subject) -> None:
    persister = await runs.open()
    streamed = {"stream": apps.astream if runs.is_async else apps.stream}
    app = await apps.build(runs, persister, streamed, [("stream", "stream")], {})
    if runs.is_async:
        _, container = await app.astream_result(halt_after=["stream"])
        words = [item["text"] async for item in container]
        await container.get()
    else:
        _, container = app.stream_result(halt_after=["stream"])
        words = [item["text"] for item in container]
        container.get()
    assert words == ["one ", "two ", "three"]
    assert (await loaded(persister))["state"]["text"] == "one two three"


async def test_an_uninitialized_persister_is_refused_by_the_builder(runs: Subject) -> None:
    persister = await runs.open(is_initialized=False)
    with pytest.raises(RuntimeError, match="Uninitialized persister"):
        await apps.counter(runs, persister)
