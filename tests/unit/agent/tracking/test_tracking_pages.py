"""What the tracking backend keeps, hides, cuts and survives, on every kind of database."""

import json
from pathlib import Path

import pytest
from burr.tracking.server import schema
from fastapi import HTTPException
from support.models.answering import GOOD, reporting
from support.models.scripted import collect
from support.samples.secret import draw_random
from support.screens.tracked import chat, every_kind, run_plan
from support.screens.tracking_reader import HERE, answer, asking, attributes, logs, read_end_log
from support.stores.old_stores import open_store

from sandbur.agent.history.tracking.burr_backend import StoreBackend
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store


async def test_a_long_session_is_cut_into_pages_that_show_every_step_once(
    store: Store, backend: StoreBackend
) -> None:
    turns = [[("act", {"text": f"call {number}"})] for number in range(130)]
    await chat(store, "long", *turns, "done")
    main = await logs(backend, "long")
    pages = [await logs(backend, child.child.app_id) for child in main.children]
    shown = [step.step_start_log.sequence_id for page in (*pages, main) for step in page.steps]
    assert shown == list(range(262))
    assert len(main.steps) < 100
    first = main.steps[0].step_start_log.sequence_id
    assert {child.sequence_id for child in main.children} == {first}
    assert all(
        page.spawning_parent_pointer and page.spawning_parent_pointer.app_id == "long" for page in pages
    )
    # A tool call's arguments are on the page before.
    assert attributes(pages[1].steps[0], 0)


async def test_a_late_step_is_as_small_as_an_early_one(store: Store, backend: StoreBackend) -> None:
    turns = [[("act", {"text": f"call {number}"})] for number in range(100)]
    await chat(store, "long", *turns, "done")
    early, late = [
        len((await answer(backend, app)).body) for app in ("long~steps-0-49", "long~steps-100-149")
    ]
    assert late < early * 1.2


async def test_what_is_known_of_a_session_grows_with_it(store: Store, backend: StoreBackend) -> None:
    await chat(store, "s", "one")
    for number in range(3):
        assert len((await logs(backend, "s")).steps) == 2 + number * 2
        await chat(store, "s", f"answer {number}", text=f"question {number}")
    grown = await answer(backend, "s")
    afresh = StoreBackend(store.url)
    assert json.loads(grown.body) == json.loads((await answer(afresh, "s")).body)
    afresh.close()


async def test_long_texts_are_cut_and_say_how_much_is_missing(store: Store, backend: StoreBackend) -> None:
    await chat(store, "s", "x" * 5000)
    text = read_end_log((await logs(backend, "s")).steps[-1]).state["chat_history"]["added"][0]["model"]
    assert text == "x" * 2000 + "\n... (3,000 more characters)"


async def test_control_characters_and_reordering_marks_do_not_get_through(
    store: Store, backend: StoreBackend
) -> None:
    await chat(store, "s", "a\x1b[31mb\x07\u202ec\u200bd")
    text = read_end_log((await logs(backend, "s")).steps[-1]).state["chat_history"]["added"][0]["model"]
    assert text == "ab<U+202E>cd"


async def test_looking_writes_nothing(store: Store, backend: StoreBackend) -> None:
    await every_kind(store)
    tables = ("heads", "sessions", "steps", "traces", "calls")
    before = [store.database.query(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]
    apps, _ = await backend.list_apps(asking(), HERE, None, 9, 0)
    for app in apps:
        for child in (await logs(backend, app.app_id)).children:
            await logs(backend, child.child.app_id)
    assert [store.database.query(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables] == before


async def test_a_note_is_kept_beside_the_session(store: Store, backend: StoreBackend) -> None:
    await run_plan(store)
    observation = schema.AnnotationObservation(
        data_fields={"note": "<b>well</b>"}, thumbs_up_thumbs_down=True, data_pointers=[]
    )
    note = schema.AnnotationCreate(
        span_id=None, step_name="router", tags=["good"], observations=[observation]
    )
    made = await backend.create_annotation(note, HERE, None, "planned~step-1", 4)
    assert (made.app_id, made.step_sequence_id, made.tags) == ("planned~step-1", 4, ["good"])
    changed = schema.AnnotationUpdate(step_name="router", tags=["bad"], observations=[observation])
    assert (await backend.update_annotation(changed, HERE, made.id)).tags == ["bad"]
    for app in ("planned", "planned~step-1", None):
        (found,) = await backend.get_annotations(HERE, None, app, None)
        assert (found.id, found.tags, found.step_sequence_id) == (made.id, ["bad"], 4)
        assert found.observations == [observation]
    assert await backend.get_annotations(HERE, None, "planned", 5) == []
    assert await backend.get_annotations("elsewhere") == []
    assert store.verify("planned") == []
    with pytest.raises(HTTPException, match="404"):
        await backend.update_annotation(changed, HERE, 1)
    with pytest.raises(HTTPException, match="404"):
        await backend.create_annotation(note, HERE, None, "nobody", 0)


async def test_another_tenants_sessions_are_not_there(store: Store, backend: StoreBackend) -> None:
    await chat(store, "mine", "hello")
    theirs = StoreBackend(store.url, "others")
    assert await theirs.list_projects(asking()) == []
    assert (await theirs.list_apps(asking(), HERE, None, 9, 0))[1] == 0
    with pytest.raises(HTTPException, match="404"):
        await answer(theirs, "mine")
    note = schema.AnnotationCreate(span_id=None, step_name="router", tags=[], observations=[])
    with pytest.raises(HTTPException, match="404"):
        await theirs.create_annotation(note, HERE, None, "mine", 0)
    made = await backend.create_annotation(note, HERE, None, "mine", 0)
    assert await theirs.get_annotations(HERE, None, "mine", None) == []
    with pytest.raises(HTTPException, match="404"):
        await theirs.update_annotation(
            schema.AnnotationUpdate(step_name="", tags=[], observations=[]), HERE, made.id
        )
    theirs.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE steps SET fields = 'no json' WHERE seq = 3",
        "UPDATE steps SET fields = '[]' WHERE seq = 3",
        "UPDATE messages SET body = '{\"blocks\":7}' WHERE idx = 1",
        "UPDATE messages SET body = '' WHERE idx = 0",
        "UPDATE calls SET body = 'x'",
        "UPDATE traces SET body = '{}'",
        "DELETE FROM messages",
        "DELETE FROM traces",
        "DELETE FROM calls",
        "DELETE FROM steps WHERE seq = 2",
    ],
)
async def test_damaged_records_do_not_hide_the_others(
    store: Store, backend: StoreBackend, damage: str
) -> None:
    await run_plan(store)
    store.database.commit([(damage, ())])
    page = await logs(backend, "planned")
    assert len(page.steps) >= 11
    for child in page.children:
        await logs(backend, child.child.app_id)


async def test_what_was_set_aside_is_not_shown(store: Store, backend: StoreBackend) -> None:
    await chat(store, "s", "what was said", text="a question")
    forged = "UPDATE messages SET body = REPLACE(body, 'what was said', 'what was forged') WHERE idx = 1"
    store.database.commit([(forged, ()), ("UPDATE calls SET body = '{}'", ())])
    assert store.quarantine_damage("s")
    text = (await answer(backend, "s")).body.decode()
    assert "a question" in text
    assert "forged" not in text


async def test_a_session_that_is_not_there_is_not_found(backend: StoreBackend) -> None:
    for name in ("nobody", "nobody~step-1", "nobody~steps-0-9", "~", "~step-"):
        with pytest.raises(HTTPException, match="404"):
            await answer(backend, name)


async def test_a_session_without_steps_has_an_empty_page(store: Store, backend: StoreBackend) -> None:
    await chat(store, "parent", "one")
    store.fork("parent", "new")
    page = await logs(backend, "new")
    assert page.steps == []
    assert page.parent_pointer is not None


async def test_every_page_of_an_old_store_opens(old: Path) -> None:
    open_store(old).close()  # migrates it
    backend = StoreBackend(f"sqlite:///{old}")
    seen = 0
    for project in await backend.list_projects(asking()):
        apps, _ = await backend.list_apps(asking(), project.id, None, 99, 0)
        for app in apps:
            page = await logs(backend, app.app_id)
            seen += len(page.steps)
            for child in page.children:
                await logs(backend, child.child.app_id)
    assert seen > 10
    backend.close()


async def test_settings_show_no_secret(store: Store, backend: StoreBackend) -> None:
    secret = f"ghp_{draw_random(36)}"
    settings = SessionSettings(model="m", cwd=str(Path.cwd()), allow=(f"run_shell_command(echo {secret})",))
    await chat(store, "s", "hello")
    store.database.commit([("UPDATE sessions SET settings = ?", (settings.model_dump_json(),))])
    page = (await answer(backend, "s")).body.decode()
    assert "run_shell_command(echo" in page
    assert secret not in page


async def test_a_session_that_was_deleted_and_came_back_is_read_afresh(
    store: Store, backend: StoreBackend
) -> None:
    await chat(store, "s", "one", text="before")
    await logs(backend, "s")
    store.delete("s")
    with pytest.raises(HTTPException, match="404"):
        await answer(backend, "s")
    await chat(store, "s", "two", text="after")
    text = (await answer(backend, "s")).body.decode()
    assert "after" in text
    assert "before" not in text.partition('"steps"')[2]


async def test_an_answer_in_a_form_is_data(store: Store, backend: StoreBackend, tmp_path: Path) -> None:
    session, _ = await reporting(store, tmp_path, GOOD)
    await collect(session.send("go"))
    store.forget("s1")
    page = await logs(backend, "s1")
    results = [step.step_end_log.result for step in page.steps]
    assert [result.get("output") for result in results] == [None, json.loads(GOOD)]
