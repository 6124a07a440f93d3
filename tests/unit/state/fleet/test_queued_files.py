"""A message with files waits like any other one: stored, checked, exported and deleted with its session."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from support.stores.databases import fresh_url
from test_worker import Fleet, make_agent

from sandbur.agent.fleet.messages import send_message
from sandbur.state.conversation.messages import AttachedFile, Document, Image
from sandbur.state.errors import UsageError
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.import_ import check_import, write_import
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel

NOTES = b"the notes of the meeting\n" * 400
FILES = "SELECT digest, chunk FROM blobs WHERE session_id = ?"


def notes() -> Document:
    return Document.from_bytes(NOTES, "notes.txt")


class Reader:
    """An agent that remembers the files of each request, by the text before them."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.files: dict[str, list[bytes | None]] = {}
        self.fleet = Fleet(store, make_agent(folder, self._reply))
        self.is_inside, self.go_on = asyncio.Event(), asyncio.Event()

    async def _reply(self, request: Any) -> str:
        last = list(request.messages)[-1]
        self.files[last.text] = [file.read() for file in last.files]
        if last.text == "wait":
            self.is_inside.set()
            await self.go_on.wait()
        return f"heard {last.text}"


class BlindModel(ScriptedModel):
    """A model of the same name that takes no files."""

    def refusal_of(self, file: AttachedFile) -> str:
        return "This model takes no files."


def read(request: Any) -> str:
    return list(request.messages)[-1].text


async def test_a_message_with_files_that_comes_during_a_run_is_the_next_one(
    store: Store, tmp_path: Path
) -> None:
    reader = Reader(store, tmp_path)
    await reader.fleet.add("s", "wait")
    running = asyncio.ensure_future(reader.fleet.worker().run(once=True))
    await reader.is_inside.wait()
    waiting = await send_message(store, "s", ["read this", notes(), "please"])
    assert waiting.text.splitlines() == ["read this", notes().label, "please"]
    await send_message(store, "s", ["again", notes()])
    reader.go_on.set()
    await running
    assert [*reader.files.values()] == [[], [NOTES], [NOTES]]
    assert reader.fleet.head("s") == ("done", "", "", 0)
    assert not audit(store.database, ["s"]).breaches
    [message] = [one for one in store.show("s").state.chat_history if one.text.startswith("again")]
    assert [file.sha256 for file in message.files] == [notes().sha256]


async def test_files_that_wait_are_checked_and_go_with_their_session(store: Store, tmp_path: Path) -> None:
    reader = Reader(store, tmp_path)
    await reader.fleet.add("s")
    await send_message(store, "s", ["read", notes()])
    assert store.database.query(FILES, ("s",)) != []
    assert not audit(store.database, ["s"]).breaches
    store.database.commit([("UPDATE blobs SET body = ? WHERE chunk >= 0", (b"something else",))])
    (breach,) = audit(store.database, ["s"]).breaches
    assert (breach.table, "is missing, or is not what was written" in breach.problem) == ("inbox", True)
    store.delete("s")
    assert store.database.query(FILES, ("s",)) == []
    assert store.database.query("SELECT n FROM inbox") == []


async def test_files_that_wait_come_along_with_an_export(store: Store, tmp_path: Path) -> None:
    reader = Reader(store, tmp_path)
    await reader.fleet.add("s", "hello")
    await reader.fleet.worker().run(once=True)
    await send_message(store, "s", ["read", notes()])
    lines = [json.dumps(one) for one in export_session(store.database, "s")]
    with fresh_url("sqlite", tmp_path / "other") as url:
        other = Store.open(url)
        content = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
        write_import(other.database, "", check_import(other.database, content))
        inbox = other.inbox("s")
        (waiting,) = inbox.load(inbox.load_taken())
        assert [file.read() for file in waiting.files] == [NOTES]
        assert waiting.content == ("read", notes())
        assert not audit(other.database, ["s"]).breaches
        bad = [line.replace('"kind": "document"', '"kind": "thinking"') for line in lines]
        with pytest.raises(UsageError, match="files that are not valid"):
            check_import(other.database, io.BytesIO("".join(f"{line}\n" for line in bad).encode()))
        other.close()


async def test_a_file_that_another_model_cannot_take_is_named_in_its_place(
    store: Store, tmp_path: Path
) -> None:
    reader = Reader(store, tmp_path)
    await reader.fleet.add("s")
    await send_message(store, "s", [notes(), "what is it?"])
    inbox = store.inbox("s")
    (waiting,) = inbox.load(inbox.load_taken())
    assert waiting.content == (notes(), "what is it?")
    async with reader.fleet.agent.clone(store=store.url).session("s") as session:
        assert await session.next_queued() == (notes(), "what is it?")
    asked: list[str] = []
    blind = reader.fleet.agent.clone(model=BlindModel(lambda request: asked.append(read(request)) or "no"))
    await Fleet(store, blind).worker().run(once=True)
    assert asked == [f"{notes().label} was left out: This model takes no files.what is it?"]


async def test_the_same_file_in_many_messages_at_once_is_stored_once(store: Store, tmp_path: Path) -> None:
    reader = Reader(store, tmp_path)
    await reader.fleet.add("s")
    running = asyncio.ensure_future((worker := reader.fleet.worker()).run())
    await asyncio.gather(*(send_message(store, "s", [f"m{n}", notes()]) for n in range(6)))
    worker.hint()
    async with asyncio.timeout(120):
        while len(reader.files) < 6 or reader.fleet.head("s")[1]:  # noqa: ASYNC110 -- the store tells nobody
            await asyncio.sleep(0.01)
    await worker.drain()
    await running
    assert [*reader.files.values()] == [[NOTES]] * 6
    assert [chunk for _, chunk in store.database.query(FILES, ("s",)) if chunk == -1] == [-1]
    assert not audit(store.database, ["s"]).breaches


async def test_only_queued_messages_have_files_and_empty_ones_are_refused(
    store: Store, tmp_path: Path
) -> None:
    reader = Reader(store, tmp_path)
    await reader.fleet.add("s")
    with pytest.raises(UsageError, match="is empty"):
        await send_message(store, "s", ["", " "])
    await send_message(store, "s", ["/mode yolo", Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))])
    await reader.fleet.worker().run(once=True)
    assert list(reader.files) == ["/mode yolo"], "a message with files is never a command"
