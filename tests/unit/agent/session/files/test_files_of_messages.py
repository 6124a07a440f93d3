"""Pictures and documents in a session: stored once, read by every process, shown as lines."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.recorded import everything
from support.models.files import PDF, base64_of, png
from support.models.real_ports import open_real
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.stores.audits import audit_session
from support.stores.reopening import reopen

from sandbur.actions.ports import ModelEvent, ModelRequest, Reply, ToolContext, ToolOutcome
from sandbur.actions.ports.events import MessageAdded, ToolFinished
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.reports.read_report import read_account
from sandbur.agent.history.timeline import list_timeline
from sandbur.agent.history.tracking.texts import Texts, message_view
from sandbur.state.application import Usage
from sandbur.state.conversation.messages import Document, Image, Message, Text
from sandbur.state.errors import UsageError
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.import_ import check_import, write_import
from sandbur.state.maintenance.prune import drop_unused_contents
from sandbur.state.store.store import Store

PICTURE = png(40, 40)
LABEL = Image.from_bytes(PICTURE).label


def image() -> Image:
    return Image.from_bytes(PICTURE)


def contents(store: Store) -> int:
    """Count the contents that are stored."""
    return len(store.database.query("SELECT DISTINCT digest, session_id FROM blobs WHERE chunk >= 0"))


def files_of(model: Any) -> list[bytes | None]:
    """Return the bytes of the files in the last request."""
    return [file.read() for message in model.requests[-1].messages for file in message.files]


def shown(store: Store, session_id: str = "s1") -> list[Message]:
    return list(store.show(session_id).state.chat_history)


class Camera(Recorder):
    """Gives a picture back."""

    async def run(self, arguments: str, context: ToolContext) -> ToolOutcome:
        self.done.append(arguments)
        return ToolOutcome("ok", f"shot {arguments}", blocks=(Text(text="a caption"), image()))


async def said(store: Store, *messages: Any, session_id: str = "s1") -> ScriptedModel:
    model = ScriptedModel(*("seen" for _ in messages))
    session = await open_session(store, model, session_id=session_id)
    for message in messages:
        await collect(session.send(message))
    return model


async def test_a_message_with_a_picture_is_stored_by_digest_and_shown_as_a_line(store: Store) -> None:
    model = ScriptedModel("a square")
    session = await open_session(store, model)
    events, end = await collect(session.send([image(), "What is this?"]))
    words = f"What is this?\n{LABEL}"
    assert MessageAdded("user", words) in events
    assert (end.result, session.state.user_input) == ("a square", words)
    assert files_of(model) == [PICTURE]
    [(body, *_)] = store.database.query("SELECT body FROM messages ORDER BY log, idx")[:1]
    assert json.loads(body)["blocks"][0]["sha256"] == image().sha256
    assert base64_of(PICTURE).decode() not in str(everything(store))
    assert store.index.summary("s1").title == "What is this?"
    assert list_timeline(store.database, "s1")[0].text == f"What is this? {LABEL}"
    assert LABEL in str([happened.what for happened in read_account(store, "s1").happened])
    assert LABEL in str(message_view(shown(store)[0], Texts(session.ports.masker)))


async def test_the_same_picture_costs_its_bytes_once_however_often_it_is_sent(store: Store) -> None:
    await said(store, [image(), "one"], [image(), image(), "two"])
    await said(store, [image()], session_id="s2")
    assert contents(store) == 1
    again = await said(reopen(store), [image(), "three"])
    assert files_of(again) == [PICTURE] * 4
    assert contents(store) == 1
    assert store.verify("s1") == []


async def test_another_process_reads_pictures_and_documents_when_they_are_sent(store: Store) -> None:
    paper, notes = Document.from_bytes(PDF, "a.pdf"), Document.from_bytes(b"notes" * 99, "n.txt")
    await said(store, [paper, "between", notes, image()])
    model = await said(reopen(store), "go on")
    assert files_of(model) == [PDF, b"notes" * 99, PICTURE]
    assert shown(store)[0].blocks == (paper, Text(text="between"), notes, image())


async def test_a_picture_counts_as_few_tokens_and_not_as_its_base64(store: Store) -> None:
    large = Image.from_bytes(png() + bytes(3_000_000))
    model = ScriptedModel("seen", context_window=20_000)
    session = await open_session(store, model)
    _, end = await collect(session.send([large, "?"]))
    assert (end.status, end.usage.llm_calls) == ("done", 1)
    assert shown(store)[0].size_bytes == session.state.chat_history.size_bytes - len("seen") < 10_000


async def test_what_a_tool_gives_back_is_in_its_result_and_in_a_replay(store: Store) -> None:
    model, tool = ScriptedModel(act("x"), "nice"), Camera()
    session = await open_session(store, model, tool)
    events, end = await collect(session.send("shoot"))
    assert end.result == "nice"
    assert files_of(model) == [PICTURE]
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert finished.content == f"shot x\na caption\n{LABEL}"
    assert base64_of(PICTURE).decode() not in str(everything(store))
    later = await said(reopen(store), "go on")
    assert files_of(later) == [PICTURE]


async def test_a_call_whose_pictures_differ_does_not_go_round_in_circles(store: Store) -> None:
    class Watching(Recorder):
        async def run(self, arguments: str, context: ToolContext) -> ToolOutcome:
            self.done.append(arguments)
            seen = Image.from_bytes(png(seed=len(self.done)))
            return ToolOutcome("ok", "The screen:", blocks=(seen,))

    tool = Watching()
    session = await open_session(store, ScriptedModel(*[act("x")] * 6, "end"), tool)
    await collect(session.send("watch"))
    assert len(tool.done) == 6


async def test_a_fork_has_the_pictures_of_its_parent(store: Store) -> None:
    await said(store, [image(), "one"], "two")
    store.fork("s1", "f1", 1)
    model = await said(store, "and here?", session_id="f1")
    assert files_of(model) == [PICTURE]
    store.delete("f1")
    assert contents(store) == 1


async def test_a_picture_goes_with_the_last_session_that_refers_to_it(store: Store) -> None:
    await said(store, [image()])
    await said(store, [image()], session_id="s2")
    drop_unused_contents(store.database)
    store.delete("s1")
    assert contents(store) == 1
    assert files_of(await said(reopen(store), "more", session_id="s2")) == [PICTURE]
    store.forget("s2")
    store.delete("s2")
    assert store.database.query("SELECT COUNT(*) FROM blobs")[0][0] == 0


async def test_an_export_takes_pictures_along(store: Store, tmp_path: Path) -> None:
    await said(store, [image(), "one"])
    lines = "".join(json.dumps(record) + "\n" for record in export_session(store.database, "s1"))
    (tmp_path / "there").mkdir()
    there = Store.open(f"sqlite:///{tmp_path}/there/store.db")
    write_import(there.database, "", check_import(there.database, io.BytesIO(lines.encode())))
    model = await said(there, "and now?")
    assert files_of(model) == [PICTURE]
    drop_unused_contents(there.database)
    assert contents(there) == 1
    again = list(export_session(there.database, "s1"))
    assert [one["digest"] for one in again if one["kind"] == "blob"] == [image().sha256]
    there.close()


async def test_a_picture_that_was_changed_on_disk_is_found_and_not_sent(store: Store) -> None:
    await said(store, [image(), "one"])
    assert audit_session(store).breaches == ()
    store.database.commit([("UPDATE blobs SET body = ? WHERE chunk = 0", (b"something else",))])
    [breach] = audit_session(store).breaches
    assert breach.problem == f"refers to {LABEL}, which is missing, or is not what was written"
    assert files_of(await said(reopen(store), "more")) == [None]


async def test_a_session_with_pictures_replays_without_a_difference(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PICTURE)
    model = Seeing(([("read_file", {"path": "a.png"})]), "a square", "two of them")
    session = await open_real(store, model, tmp_path)
    events, _ = await collect(session.send([image(), "Compare it with a.png"]))
    await collect(session.send([image()]))
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert (finished.outcome, finished.content) == ("ok", f"{tmp_path}/a.png is shown below.\n{LABEL}")
    assert files_of(model) == [PICTURE] * 3
    replayed = await replay(store, "s1", None)
    assert replayed.divergence is None, replayed.divergence


class Seeing(ScriptedModel):
    """Says that it takes pictures, and no documents."""

    def refusal_of(self, file: Image | Document) -> str:
        return "" if file.kind == "image" else f"{self.name} takes no documents."


async def test_a_file_that_the_model_does_not_take_is_refused_before_anything_is_stored(
    store: Store,
) -> None:
    session = await open_session(store, Seeing("never"))
    with pytest.raises(UsageError, match=r"scripted/one takes no documents\."):
        session.send([Document.from_bytes(PDF, "a.pdf"), "?"])
    assert store.sessions() == []


async def test_read_file_shows_pictures_to_models_that_say_they_look(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(PDF)
    (tmp_path / "b.png").write_bytes(PICTURE)
    read = [("read_file", {"path": name}) for name in ("a.pdf", "b.png")]
    for number, model in enumerate((ScriptedModel(read, "x"), Seeing(read, "x"))):
        session = await open_real(store, model, tmp_path, session_id=f"s{number}")
        events, _ = await collect(session.send("look"))
        outcomes = {event.call_id: event.outcome for event in events if isinstance(event, ToolFinished)}
        assert [outcomes[name] for name in sorted(outcomes)] == ["error", "ok" if number else "error"]


class Drawing(ScriptedModel):
    """Answers with a picture."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        drawn = Message(role="assistant", origin="model", blocks=(Text(text="Here."), image()))
        yield Reply(drawn, "stop", Usage(llm_calls=1, cost_usd=0.0))


async def test_a_picture_in_a_reply_is_stored_and_shown_as_a_line(store: Store) -> None:
    session = await open_session(store, Drawing())
    events, end = await collect(session.send("draw"))
    assert MessageAdded("assistant", f"Here.\n{LABEL}") in events
    assert end.result == f"Here.\n{LABEL}"
    assert contents(store) == 1
    assert shown(store)[-1].blocks[1] == image()


async def test_secrets_in_the_words_of_a_message_with_files_are_masked(store: Store, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    session = await open_real(store, Seeing("ok"), tmp_path)
    await collect(session.send([image(), f"my key is {secret}"]))
    assert secret not in str(everything(store))
    assert shown(store)[0].blocks[0] == image()
