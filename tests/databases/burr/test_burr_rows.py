"""Rows that are damaged or missing are an error, and rows that were ever written stay readable."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.stores.burr_persisters import OURS, Subject, await_result, run_sql, save, subject, value

from sandbur.state.burr.rows import AppKey
from sandbur.state.errors import StoreError


@pytest.fixture(params=OURS)
async def runs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    with subject(*request.param, tmp_path) as opened:
        yield opened
        await opened.close()


DAMAGES = (
    "UPDATE burr_states SET body = REPLACE(body, '5', '6')",
    "UPDATE burr_states SET body = 'torn'",
    "UPDATE burr_states SET body = ''",
    "UPDATE burr_states SET status = 'failed'",
    "UPDATE burr_states SET snapshot_id = 9",
    "UPDATE burr_states SET snapshot_id = 5",
    "UPDATE burr_states SET previous_id = 9",
    "UPDATE burr_states SET digest = 'x'",
    "UPDATE burr_states SET sequence_id = 50",
    "DELETE FROM burr_states",
)


async def test_a_damaged_row_is_an_error_and_never_an_older_state(runs: Subject) -> None:
    persister, other = await runs.open(), await runs.open()
    for damage in DAMAGES:
        for seq in range(9):
            await save(persister, seq, {"n": seq}, damage)
        run_sql(runs.place, f"{damage} WHERE sequence_id = 5 AND app_hash = ?", AppKey("", damage).app_hash)
        for opened in (persister, other):
            for where in ((damage,), (damage, 8), (None,)):
                with pytest.raises(StoreError, match=r"Step \d+ of application .* is damaged in .*, or rows"):
                    await value(opened, *where)
            assert await value(opened, damage, 4) == {"n": 4}
        await save(other, 51, {"n": 9}, damage)
        assert await value(persister, damage) == {"n": 9}


async def test_a_lost_end_is_an_error(runs: Subject) -> None:
    persister = await runs.open()
    for seq in range(4):
        await save(persister, seq, {"n": seq})
    run_sql(runs.place, "DELETE FROM burr_states WHERE sequence_id = 3")
    for where in (("app",), (None,)):
        with pytest.raises(
            StoreError, match=r"Step 3 of application 'app' is missing in .*\. Fork from an older"
        ):
            await value(persister, *where)
    run_sql(runs.place, "DELETE FROM burr_states WHERE sequence_id = 1")
    with pytest.raises(StoreError, match="Step 1 of application 'app' is missing"):
        await value(persister, "app", 1)
    assert await value(persister, "app", 0) == {"n": 0}
    assert await value(persister, "app", 9) is None


async def test_a_newer_version_is_refused(runs: Subject) -> None:
    await runs.open()
    run_sql(runs.place, "UPDATE meta SET value = '99' WHERE name = 'burr_states'")
    with pytest.raises(StoreError, match="newer Sandbur"):
        await await_result((await runs.open(is_initialized=False)).is_initialized())


APP = "329dd2c4456addd4af60cd835d24066e"
VERSION_1: tuple[tuple[str, tuple[Any, ...]], ...] = (
    (
        "burr_apps",
        ("3c9010f4f1412b85dec784664709afcb", APP, "tenant", "chat", "2026-11-21T13:18:33.101776+00:00", 2),
    ),
    (
        "burr_states",
        (
            *(APP, 0, 0, 0, "say", "completed", "2026-11-21T13:18:33.092222+00:00"),
            '{"__SEQUENCE_ID":0,"chat_history":[{"role":"user","content":"m0"}],"text":"a","flag":false,"gone":1}',
            "ddb763ebe64ea76417790c9124d9aa85",
        ),
    ),
    (
        "burr_states",
        (
            *(APP, 1, 0, 0, "say", "completed", "2026-11-21T13:18:33.099375+00:00"),
            '["{",{"__SEQUENCE_ID":["=",1],"chat_history":["[",0,1,{},[{"role":"user","content":"m1"}],0],'
            '"text":["+","a"],"flag":["=",true]},[],null]',
            "0d8839f0ccf7d17b999fca4bc05d02bd",
        ),
    ),
    (
        "burr_states",
        (
            *(APP, 2, 1, 0, "say", "completed", "2026-11-21T13:18:33.101776+00:00"),
            '["{",{"__SEQUENCE_ID":["=",2],"chat_history":["[",0,2,{},[{"role":"user","content":"m2"}],0],'
            '"text":["+","a"],"flag":["=",false]},["gone"],null]',
            "00a150be203d1b42185d19dc60f91da1",
        ),
    ),
)
"""What version 1 wrote: never to be changed."""


async def test_states_of_version_1_are_read_and_carried_on(runs: Subject) -> None:
    persister = await runs.open()
    for table, row in VERSION_1:
        run_sql(runs.place, f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row)
    history = [{"role": "user", "content": f"m{n}"} for n in range(3)]
    found = await await_result(persister.load("tenant", "chat"))
    newest = {"__SEQUENCE_ID": 2, "chat_history": history, "text": "aaa", "flag": False}
    assert found["state"].get_all() == newest
    assert (found["position"], found["created_at"]) == ("say", "2026-11-21T13:18:33.101776+00:00")
    older = await await_result(persister.load("tenant", "chat", 1))
    first_two = {"__SEQUENCE_ID": 1, "chat_history": history[:2], "text": "aa", "flag": True, "gone": 1}
    assert older["state"].get_all() == first_two
    assert await await_result(persister.list_app_ids("tenant")) == ["chat"]
    state = found["state"].update(__SEQUENCE_ID=3)
    await await_result(persister.save("tenant", "chat", 3, "say", state, "completed"))
    assert (await await_result(persister.load("tenant", "chat")))["state"].get_all() == {
        **newest,
        "__SEQUENCE_ID": 3,
    }
