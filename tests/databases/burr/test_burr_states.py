"""What ours promise beyond Burr's own persisters: small, durable, never silently wrong."""

from pathlib import Path
from typing import Any

import pytest
from burr.core import State
from burr.core.persistence import SQLitePersister
from burr.core.serde import KEY, deserializer, serialize
from support.stores.burr_persisters import Subject, await_result, save, select, value

from sandbur.state.burr.persister import SandburPersister
from sandbur.state.errors import StoreError
from sandbur.state.store.store import Store


async def test_the_same_step_may_be_saved_again(runs: Subject) -> None:
    first, second = await runs.open(), await runs.open()
    for seq in range(3):
        await save(first, seq, {"n": seq, "t": (1, {2: 3})})
    for persister in (first, second):
        for seq in (2, 0, 1):
            await save(persister, seq, {"n": seq, "t": (1, {2: 3})})
    await save(second, 3, {"n": 3})
    assert await value(first, "app") == {"n": 3}


async def test_another_step_in_its_place_is_refused_with_a_sentence(runs: Subject) -> None:
    first, second = await runs.open(), await runs.open()
    await save(first, 0, {"n": 0})
    await save(second, 1, {"n": 1})
    for seq, values, status in ((1, {"n": 2}, "completed"), (0, {}, "completed"), (1, {"n": 1}, "failed")):
        with pytest.raises(StoreError, match=r"'app' has another step \d already") as error:
            await save(first, seq, values, status=status)
        assert "nothing was written" in error.value.message
        assert "fork" in error.value.hint
    assert [await value(first, "app", seq) for seq in (0, 1)] == [{"n": 0}, {"n": 1}]


async def test_steps_may_come_in_any_order(runs: Subject) -> None:
    persister = await runs.open()
    for seq in (4, 8, 2, 6, 3, 9, -1):
        await save(persister, seq, {"n": [seq]})
    for seq in (4, 8, 2, 6, 3, 9, -1):
        assert await value(persister, "app", seq) == {"n": [seq]}
    assert await value(persister, "app") == {"n": [9]}


async def test_the_last_written_comes_first(runs: Subject) -> None:
    persister = await runs.open()
    for seq in range(2):
        for app in ("b", "c", "a"):
            await save(persister, seq, {}, app)
    await save(persister, 2, {"n": "b"}, "b")
    assert await await_result(persister.list_app_ids(None)) == ["b", "a", "c"]
    await save(persister, 1, {"n": "a"}, "d")
    assert (await await_result(persister.load(None, None)))["app_id"] == "d"


async def test_similar_and_long_ids_are_apart(runs: Subject) -> None:
    persister = await runs.open()
    ids = ["a", "a ", "A", "á", "a" * 5000, "a" * 5001, "\U0001f600", "a'b", "a/b", "%s", "?"]
    for app in ids:
        await save(persister, 0, {"of": app}, app)
    for app in ids:
        assert await value(persister, app) == {"of": app}
    assert await await_result(persister.list_app_ids()) == ids[::-1]


async def test_use_without_initialize_is_an_error_as_with_burr(runs: Subject) -> None:
    persister = await runs.open(is_initialized=False)
    for use in (persister.list_app_ids, lambda p: persister.load(p, "app"), lambda p: save(persister, 0, {})):
        with pytest.raises(RuntimeError, match="Uninitialized persister") as error:
            await await_result(use(None))
        assert isinstance(error.value, StoreError)


async def test_a_growing_history_costs_its_new_messages(runs: Subject) -> None:
    persister = await runs.open()
    history: list[dict[str, str]] = []
    for seq in range(120):
        history.append({"role": "user", "content": f"{seq:04}" * 250})  # in place: found all the same
        await save(persister, seq, {"chat_history": history, "topic": "t" * 3000})
    assert (await value(persister, "app"))["chat_history"] == history
    (size, longest) = select(runs.place, "SELECT SUM(LENGTH(body)), COUNT(*) FROM burr_states")[0]
    assert int(size) < 3 * 120 * 1000 + 120 * 100
    assert int(longest) == 120
    last = await runs.open()
    await save(
        last, 120, {"chat_history": [*history, {"role": "user", "content": "end"}], "topic": "t" * 3000}
    )
    size = select(runs.place, "SELECT LENGTH(body) FROM burr_states WHERE sequence_id = 120")[0][0]
    assert size < 200


async def test_a_load_reads_no_more_than_twice_the_state(runs: Subject) -> None:
    persister = await runs.open()
    for seq in range(300):
        await save(persister, seq, {"big": "x" * 3000, "n": seq})
    rows = select(runs.place, "SELECT snapshot_id FROM burr_states WHERE sequence_id = 299")
    assert 299 - int(rows[0][0]) < 20


async def test_what_cannot_be_json_is_an_error_and_the_next_step_is_saved(runs: Subject) -> None:
    persister = await runs.open()
    await save(persister, 0, {"n": 0})
    for bad in (Unfit({1, 2}), Unfit([{3: b"x"}])):
        with pytest.raises(
            StoreError, match=r"Step 1 of application 'app' cannot be saved: .* not JSON serial"
        ):
            await save(persister, 1, {"n": 1, "bad": bad})
    await save(persister, 1, {"n": 1, "good": Unfit({"a": (1, 2)})})
    assert (await value(persister, "app"))["n"] == 1


class Unfit:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


@serialize.register(Unfit)
def unfit_out(value: Unfit, **_: Any) -> dict[str, Any]:
    return {KEY: "unfit", "inside": value.inside}


@deserializer.register("unfit")
def unfit_in(value: dict[str, Any], **_: Any) -> Unfit:
    return Unfit(value["inside"])


async def test_what_a_serializer_shares_with_the_state_is_compared_by_value(runs: Subject) -> None:
    persister = await runs.open()
    shared = Unfit({"list": [1]})
    for seq in range(3):
        shared.inside["list"].append(True)
        await save(persister, seq, {"shared": shared, "one": [1, 1.0, True][seq]})
    assert [type((await value(persister, "app", seq))["one"]) for seq in range(3)] == [int, float, bool]
    assert (await value(persister, "app", 1))["shared"].inside == {"list": [1, True, True]}


def test_states_that_are_too_many_to_be_kept_in_mind_still_cost_only_changes(
    persister: SandburPersister, url: str
) -> None:
    for seq in range(2):
        for app in ("one", "two"):
            state = State({"big": app * 6_000_000, "n": seq})
            persister.save(None, app, seq, "act", state, "completed")
    assert select(url, "SELECT MAX(LENGTH(body)) FROM burr_states WHERE sequence_id = 1")[0][0] < 100


def test_the_file_is_private(persister: SandburPersister, tmp_path: Path) -> None:
    persister.save(None, "app", 0, "act", State({"n": 1}), "completed")
    files = list(tmp_path.glob("runs.db*"))
    assert len(files) == 3
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_burr_states_live_beside_sessions_and_beside_burrs_own_table(url: str, tmp_path: Path) -> None:
    with SQLitePersister(str(tmp_path / "runs.db")) as burrs:
        burrs.initialize()
        burrs.save(None, "app", 0, "act", State({"n": "burr"}), "completed")
        with SandburPersister.from_config({"url": url}) as ours:
            ours.initialize()
            ours.save(None, "app", 0, "act", State({"n": "ours"}), "completed")
            assert burrs.load(None, "app")["state"]["n"] == "burr"  # type: ignore[index]
            opened = Store.open(url)
            assert opened.database.find_problems() == []
            opened.close()
            assert ours.load(None, "app")["state"]["n"] == "ours"  # type: ignore[index]
