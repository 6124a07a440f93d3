"""Audio, video and addresses in a session: bytes stored once, addresses as they are, all shown as lines."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from support.commands.recorded import everything
from support.models.files import MP4, WAV
from support.models.real_ports import open_real
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.stores.reopening import reopen

from sandbur import Audio, Document, Image, Video
from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.reports.read_report import read_account
from sandbur.agent.history.timeline import list_timeline
from sandbur.agent.history.tracking.texts import Texts, message_view
from sandbur.state.errors import UsageError
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.import_ import check_import, write_import
from sandbur.state.store.store import Store

SOUND, FILM = Audio.from_bytes(WAV), Video.from_bytes(MP4)
PLAN = Image.from_url("https://example.org/plan.png?size=9", detail="high")
PAPER = Document.from_url("https://example.org/a.pdf")
ALL = [SOUND, FILM, PLAN, PAPER]


async def send(store: Store, *messages: Any) -> ScriptedModel:
    model = ScriptedModel(*("heard" for _ in messages))
    session = await open_session(store, model)
    for message in messages:
        await collect(session.send(message))
    return model


def count_contents(store: Store) -> int:
    return len(store.database.query("SELECT DISTINCT digest FROM blobs WHERE chunk >= 0"))


def count_uses(store: Store) -> int:
    return len(store.database.query("SELECT digest FROM blobs WHERE chunk = -1"))


async def test_bytes_are_stored_once_and_addresses_store_nothing(store: Store) -> None:
    await send(store, [*ALL, "one"], [*ALL, "two"])
    assert (count_contents(store), count_uses(store)) == (2, 2)
    assert store.verify("s1") == []
    model = await send(reopen(store), "go on")
    files = [file for message in model.requests[-1].messages for file in message.files]
    assert files == ALL * 2
    assert [file.read() for file in files[:4]] == [WAV, MP4, None, None]


async def test_an_export_takes_the_bytes_and_the_addresses_along(store: Store, tmp_path: Path) -> None:
    await send(store, [*ALL, "one"])
    lines = "".join(json.dumps(record) + "\n" for record in export_session(store.database, "s1"))
    there = Store.open(f"sqlite:///{tmp_path}/there.db")
    write_import(there.database, "", check_import(there.database, io.BytesIO(lines.encode())))
    model = await send(there, "and now?")
    files = [file for message in model.requests[-1].messages for file in message.files]
    assert [(file, file.read()) for file in files] == list(zip(ALL, [WAV, MP4, None, None], strict=True))
    there.close()


async def test_every_page_shows_them_as_lines(store: Store) -> None:
    model = ScriptedModel("heard")
    session = await open_session(store, model)
    await collect(session.send([*ALL, "Compare."]))
    message = next(iter(store.show("s1").state.chat_history))
    pages = (
        list_timeline(store.database, "s1")[0].text,
        str([happened.what for happened in read_account(store, "s1").happened]),
        str(message_view(message, Texts(session.ports.masker))),
    )
    for page in pages:
        for file in ALL:
            assert file.label in page
        assert "size=9" not in page


async def test_a_session_with_media_replays_without_a_difference(store: Store, tmp_path: Path) -> None:
    session = await open_real(store, ScriptedModel("heard"), tmp_path)
    await collect(session.send([*ALL, "one"]))
    assert (await replay(store, "s1")).divergence is None


async def test_an_address_that_holds_a_secret_is_refused_and_not_stored(store: Store, tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    session = await open_real(store, ScriptedModel(), tmp_path)
    with pytest.raises(UsageError, match="holds a secret"):
        await collect(session.send([Image.from_url(f"https://example.org/a.png?token={token}"), "?"]))
    assert token not in str(everything(store))


class Finder(Recorder):
    """Gives the address of a picture back, with a secret in it."""

    async def run(self, arguments: str, context: ToolContext) -> ToolOutcome:
        secret = Image.from_url(f"https://example.org/a.png?token=ghp_{'a1B2' * 9}")
        return ToolOutcome("ok", "found", blocks=(secret, PLAN))


async def test_an_address_with_a_secret_in_a_result_becomes_a_line(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(act("x"), "ok")
    session = await open_real(store, model, tmp_path, toolbox={"act": Finder()})
    await collect(session.send("find it"))
    (result,) = [one for message in model.requests[-1].messages for one in message.tool_results]
    assert result.blocks[1] == PLAN
    assert "Its address contains a secret" in result.display_text
    assert "ghp_" not in str(everything(store))
