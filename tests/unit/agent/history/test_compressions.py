"""Compressions are listed, what each took out is read, and each is undone, with all later ones."""

from collections.abc import Sequence
from pathlib import Path

from support.models.scripted import ScriptedModel
from support.screens.slash_desk import SlashDesk, slash_desk

from sandbur.agent.history.recall import recall
from sandbur.agent.history.time_travel.compressions import Place, compare, list_compressions


def numbered(indexes: Sequence[int], log: int = 0) -> list[Place]:
    return [("s", log, index) for index in indexes]


def test_what_was_replaced_is_found_between_the_messages_that_stay() -> None:
    before = numbered(range(6))
    after = [*numbered([0], 1), *numbered([3]), *numbered([1], 1), *numbered([5])]
    first, second = compare(before, after)
    assert (first.removed, first.added) == (tuple(before[:3]), (("s", 1, 0),))
    assert (second.removed, second.added) == ((before[4],), (("s", 1, 1),))
    assert compare(before, before) == ()


async def say(desk: SlashDesk, *messages: str) -> None:
    for text in messages:
        await desk.send(text)


def texts(desk: SlashDesk) -> list[str]:
    return [one.text for one in desk.session.state.chat_history]


def make_model() -> ScriptedModel:
    long = [f"answer {number} " + "two " * 500 for number in range(6)]
    return ScriptedModel(*long[:3], "FIRST", *long[3:5], "SECOND", "after", "last", "more")


async def compress_twice(desk: SlashDesk) -> list[str]:
    """Return the texts of the whole conversation."""
    await say(desk, "remember swordfish", "second", "third")
    whole = texts(desk)
    await desk.type("/compact")
    await say(desk, "fourth", "fifth")
    whole += texts(desk)[-4:]
    await desk.type("/compact")
    await say(desk, "sixth")
    desk.read_output()
    return [*whole, *texts(desk)[-2:]]


async def test_every_compression_is_listed_shown_and_undone(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, make_model()) as desk:
        whole = await compress_twice(desk)
        await desk.type("/uncompact list")
        lines = desk.read_output().splitlines()
        assert [line.split()[0] for line in lines[:2]] == ["1", "2"]
        assert "left the history" in lines[0]
        assert lines[-1].startswith("/uncompact show N shows")
        await desk.type("/uncompact show 1")
        assert "you: remember swordfish" in desk.read_output()
        await desk.type("/uncompact all")
        assert "messages are back" in desk.read_output()
        assert texts(desk) == whole
        await desk.type("/uncompact list")
        assert desk.read_output().count(", undone") == 2
        session_id = desk.session.id
    async with slash_desk(tmp_path, make_model(), resume=session_id) as desk:
        assert texts(desk) == whole
        assert desk.runtime.store.verify(session_id) == []


async def test_undoing_one_after_the_other_leads_to_the_whole_conversation(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, make_model()) as desk:
        whole = await compress_twice(desk)
        await desk.type("/uncompact")
        assert any("FIRST" in text for text in texts(desk))
        await desk.type("/uncompact 1")
        assert texts(desk) == whole
        desk.read_output()
        await desk.type("/uncompact")
        assert desk.read_output() == "Nothing of this conversation is compressed.\n"


async def test_a_fork_has_the_compressions_before_it(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, make_model()) as desk:
        await compress_twice(desk)
        store, session_id = desk.runtime.store, desk.session.id
        first, second = list_compressions(store, session_id)
        between = await desk.runtime.fork(session_id, second.seq - 1, {})
        assert [one.seq for one in list_compressions(store, between)] == [first.seq]
        desk.enter(await desk.runtime.resume(between))
        await desk.type("/uncompact")
        assert texts(desk)[0] == "remember swordfish"
        assert recall(store, between, "sixth") == []
        assert recall(store, between, "swordfish")[0].where.startswith("before the fork")


async def test_wrong_words_get_a_sentence(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, make_model()) as desk:
        for words in ("sideways", "show", "0", "show x", "list 1"):
            await desk.type(f"/uncompact {words}")
            assert "/uncompact list, /uncompact show N" in " ".join(desk.read_output().split())
        for words in ("7", "show 7"):
            await desk.type(f"/uncompact {words}")
            assert "has no compression 7" in desk.read_output()
        await desk.type("/uncompact list")
        assert desk.read_output() == "Nothing of this conversation is compressed.\n"


async def test_a_person_searches_what_left_the_history(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, make_model()) as desk:
        await compress_twice(desk)
        await desk.type("/recall swordfishes")
        found = desk.read_output()
        assert "remember swordfish" in found
        assert "answered: answer 0" in found
        reference = next(word for word in found.split() if word.startswith("#"))
        await desk.type(f"/recall {reference}")
        assert "remember swordfish" in desk.read_output()
        await desk.type("/recall zzqq")
        assert (
            desk.read_output() == "Nothing in memory or since the session began matches. Try other words.\n"
        )
        await desk.type("/recall")
        assert "The query has no words." in desk.read_output()


async def test_secrets_are_masked_in_what_is_found_and_in_the_index(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home"), "SANDBUR_HOME": str(tmp_path / "data"),
           "XDG_CONFIG_HOME": str(tmp_path / "config"), "PATH": "/usr/bin:/bin",
           "SHOP_API_KEY": "kx81secretvalue9917"}  # fmt: skip
    async with slash_desk(tmp_path, make_model(), env=env) as desk:
        await say(desk, "the walrus has the key kx81secretvalue9917")
        await desk.type("/recall walrus")
        found = desk.read_output()
        assert "walrus" in found
        assert "kx81" not in found
        rows = desk.runtime.store.database.query("SELECT words, terms FROM documents")
        assert "walrus" in str(rows)
        assert "kx81" not in str(rows)
