"""Ours keep what Burr's own persisters promise: the same tests run over both."""

import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from burr.core import State
from burr.core.serde import KEY, deserializer, serialize
from pydantic import BaseModel
from support.stores.burr_persisters import EVERY_KIND, Subject, await_result, subject

from sandbur.state.errors import StoreError


@pytest.fixture(params=EVERY_KIND)
async def runs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    kind, is_async = request.param
    with subject(kind, is_async, tmp_path) as opened:
        yield opened
        await opened.close()


@pytest.fixture
async def persister(runs: Subject) -> Any:
    return await runs.open()


async def save(persister: Any, app_id: str, seq: int, values: Any, **options: Any) -> None:
    given = {"partition_key": None, "position": "act", "status": "completed", **options}
    await await_result(persister.save(app_id=app_id, sequence_id=seq, state=State(values), **given))


async def load(persister: Any, *where: Any) -> Any:
    return await await_result(persister.load(*where))


async def test_what_was_saved_is_loaded(persister: Any) -> None:
    values = {"n": 1, "text": "é\n\0\U0001f600", "none": None, "nested": {"list": [1, {"a": [True, 1.5]}]}}
    await save(persister, "app", 3, values, partition_key="p", position="think", status="failed")
    found = await load(persister, "p", "app")
    assert found["state"].get_all() == values
    kept = ("partition_key", "app_id", "sequence_id", "position", "status")
    assert [found[name] for name in kept] == ["p", "app", 3, "think", "failed"]
    assert str(found["created_at"]).startswith("20")


async def test_the_newest_state_is_the_one_with_the_highest_sequence_id(persister: Any) -> None:
    for seq in (0, 1, 2, 10):
        await save(persister, "app", seq, {"n": seq})
    await save(persister, "app", 5, {"n": 5})
    assert (await load(persister, None, "app"))["state"]["n"] == 10


async def test_every_state_can_be_loaded_by_its_sequence_id(runs: Subject) -> None:
    persister = await runs.open()
    history: list[str] = []
    for seq in range(30):
        history = [*history, f"message {seq} " * 40]
        await save(persister, "app", seq, {"history": history, "n": seq, f"only_{seq}": seq})
    for opened in (persister, await runs.open()):
        for seq in range(30):
            found = (await load(opened, None, "app", seq))["state"]
            assert found.get_all() == {"history": history[: seq + 1], "n": seq, f"only_{seq}": seq}


async def test_what_is_not_there_is_none(persister: Any) -> None:
    assert await load(persister, None, None) is None
    await save(persister, "app", 0, {"n": 0})
    assert await load(persister, None, "other") is None
    assert await load(persister, None, "app", 1) is None
    assert await load(persister, "p", "app") is None
    assert await load(persister, "p", None) is None
    assert await await_result(persister.list_app_ids("p")) == []


async def test_without_app_id_the_newest_of_the_partition_is_loaded(persister: Any) -> None:
    await save(persister, "app", 0, {"n": 0}, partition_key="p")
    found = await load(persister, "p", None)
    assert (found["app_id"], found["sequence_id"], found["state"]["n"]) == ("app", 0, 0)


async def test_partitions_are_apart_and_none_is_one_of_them(persister: Any) -> None:
    for partition in (None, "p", "q"):
        await save(persister, "app", 0, {"of": partition}, partition_key=partition)
    for partition in (None, "p", "q"):
        assert (await load(persister, partition, "app"))["state"]["of"] == partition
        assert await await_result(persister.list_app_ids(partition)) == ["app"]
    assert (await load(persister, "", "app"))["state"]["of"] is None


async def test_each_application_is_listed_once(persister: Any) -> None:
    for seq in range(3):
        for app in ("one", "two"):
            await save(persister, app, seq, {"n": seq})
    assert sorted(await await_result(persister.list_app_ids(None))) == ["one", "two"]


async def test_a_store_is_initialized_once_for_everybody(runs: Subject) -> None:
    first = await runs.open(is_initialized=False)
    assert not await await_result(first.is_initialized())
    await await_result(first.initialize())
    await await_result(first.initialize())
    assert await await_result(first.is_initialized())
    assert await await_result((await runs.open(is_initialized=False)).is_initialized())


async def test_the_fields_of_burr_itself_are_kept(persister: Any) -> None:
    await save(persister, "app", 4, {"__SEQUENCE_ID": 4, "__PRIOR_STEP": "act", "mine": 1})
    found = (await load(persister, None, "app"))["state"]
    assert found.get_all() == {"__SEQUENCE_ID": 4, "__PRIOR_STEP": "act", "mine": 1}


async def test_a_field_that_went_is_gone(persister: Any) -> None:
    await save(persister, "app", 0, {"a": 1, "b": {"x": 1, "y": 2}})
    await save(persister, "app", 1, {"b": {"y": 2}})
    assert (await load(persister, None, "app"))["state"].get_all() == {"b": {"y": 2}}


class Person(BaseModel):
    name: str
    friends: list["Person"] = []


async def test_models_come_back_as_models(persister: Any) -> None:
    persister.set_serde_kwargs({"allowlist": [__name__]})
    ann = Person(name="Ann", friends=[Person(name="Bob")])
    for seq in range(3):
        await save(persister, "app", seq, {"people": [ann] * (seq + 1), "lead": ann})
    found = (await load(persister, None, "app"))["state"]
    assert found.get_all() == {"people": [ann] * 3, "lead": ann}


class Metres:
    def __init__(self, value: float) -> None:
        self.value = value


@serialize.register(Metres)
def metres_out(value: Metres, unit: float = 1, **_: Any) -> dict[str, Any]:
    return {KEY: "metres", "value": value.value / unit}


@deserializer.register("metres")
def metres_in(value: dict[str, Any], unit: float = 1, **_: Any) -> Metres:
    return Metres(value["value"] * unit)


async def test_burrs_serializers_get_their_options(persister: Any) -> None:
    persister.set_serde_kwargs({"unit": 1000})
    await save(persister, "app", 0, {"way": Metres(5000)})
    assert (await load(persister, None, "app"))["state"]["way"].value == 5000
    persister.set_serde_kwargs({})
    assert (await load(persister, None, "app"))["state"]["way"].value == 5


async def test_a_copy_uses_the_same_store(persister: Any) -> None:
    persister.set_serde_kwargs({"unit": 10})
    await save(persister, "app", 0, {"n": 0})
    twin = persister.copy()
    assert twin.serde_kwargs == {"unit": 10}
    await save(twin, "app", 1, {"n": 1})
    assert (await load(persister, None, "app"))["state"]["n"] == 1


async def test_a_persister_can_be_pickled(runs: Subject) -> None:
    if not runs.is_ours and runs.is_async:
        return  # Burr's own cannot
    persister = await runs.open()
    await save(persister, "app", 0, {"n": 7})
    again = pickle.loads(pickle.dumps(persister))
    runs.opened.append(again)
    assert (await load(again, None, "app"))["state"]["n"] == 7


async def test_a_context_manager_closes_the_store(runs: Subject) -> None:
    persister = await runs.open()
    if runs.is_async:
        async with persister:
            await save(persister, "app", 0, {"n": 0})
    else:
        with persister:
            await save(persister, "app", 0, {"n": 0})
    closed = StoreError if runs.is_ours else Exception
    with pytest.raises(closed):
        await load(persister, None, "app")
    if runs.is_async:
        runs.opened.clear()
