"""Pictures in knowledge bases: found by name and description, shown to models that see, and cited."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.files import png
from support.models.scripted import ScriptedModel
from support.models.server import ModelServer, call, fail, say

from sandbur import KnowledgeBase
from sandbur.agent.extensions.extension import CitedFile
from sandbur.agent.knowledge.retrieval.cited_files import CitedFiles, find_citations
from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.session.secrets import masker_for
from sandbur.state.search.knowledge_rows import SourceChange
from sandbur.state.store.store import Store

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
GIF = b"GIF89a\x02\x00\x03\x00\x00\x00\x00;"
WEBP = b"RIFF\x12\x00\x00\x00WEBPVP8L\x05\x00\x00\x00\x2f\x01\x80\x00\x00\x00"
JPEG = b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x03\x00\x02\x01\x01\x11\x00\xff\xda\x00\x02\x00\xff\xd9"


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    folder = (tmp_path / "shots").resolve()
    (folder / "billing").mkdir(parents=True)
    (folder / "billing/invoice-dialog.png").write_bytes(png(4, 3))
    return folder


async def add(store: Store, folder: Path) -> tuple[Library, dict[str, str]]:
    """Return the bases, and name -> reason of the files that were left out."""
    library = Library(store.database, "", masker_for({}, folder))
    report = await library.add(await library.open_base("project", ""), folder)
    return library, {Path(path).name: why for path, why in report.left_out}


async def test_a_picture_is_found_by_the_words_of_its_path(store: Store, shots: Path) -> None:
    library, left_out = await add(store, shots)
    bases = await library.list_bases()
    assert left_out == {}
    for query in ("invoice dialog", "billing", "a picture of the invoice"):
        (found,) = await library.search(query, bases)
        assert found.cite(shots.parent) == "[shots/billing/invoice-dialog.png]"
        assert (found.unit, found.first, found.text) == (
            "picture",
            0,
            "Picture shots/billing/invoice-dialog.png (PNG, 4 x 3)",
        )
    assert await library.search("pytest", bases) == []


async def test_all_four_kinds_are_stored_and_others_get_a_sentence(store: Store, shots: Path) -> None:
    whole = png(4, 3, seed=1)
    files = {
        "a.gif": GIF, "b.webp": WEBP, "c.JPG": JPEG, "cut.png": whole[:-6], "logo": whole,
        "cut.gif": GIF[:-1], "cut.webp": WEBP[:-1], "cut.jpg": JPEG[:-2], "sound.webp": b"RIFF\0\0\0\0WAVE\0",
        "large.png": whole + bytes(5_000_000), "flipped.png": whole[:40] + b"x" + whole[41:],
    }  # fmt: skip
    for name, content in files.items():
        (shots / name).write_bytes(content)
    library, left_out = await add(store, shots)
    assert left_out == {
        "cut.png": "it is a broken picture: its PNG data is not whole",
        "flipped.png": "it is a broken picture: its PNG data is not whole",
        "cut.gif": "it is a broken picture: its GIF data is not whole",
        "cut.webp": "it is a broken picture: its WebP data is not whole",
        "cut.jpg": "it is a broken picture: its JPEG data is not whole",
        "logo": "it is a PNG picture, but its name does not end so (.png, .jpg, .jpeg, .gif, .webp)",
        "sound.webp": "it is not a picture that models see (RIFF media)",
        "large.png": "it has 5.0 MB, and the limit is 5.0 MB",
    }
    texts = [one.text for one in await library.search("picture", await library.list_bases())]
    assert {text.rpartition("(")[2] for text in texts} == {
        "PNG, 4 x 3)", "GIF, 2 x 3)", "WebP, 2 x 3)", "JPEG, 2 x 3)"
    }  # fmt: skip


async def test_a_picture_that_an_older_version_left_out_is_read_by_an_update(
    store: Store, shots: Path
) -> None:
    library, _ = await add(store, shots)
    (base,) = await library.list_bases()
    (source,) = library.rows.list_sources(base)
    old = source._replace(chunks=0, problem="it is not text (PNG image)")
    library.rows.write(base, [SourceChange(old, [], 1)])
    assert await library.search("invoice", [base]) == []
    assert (await library.update(base)).changed == 1
    assert len(await library.search("invoice", [base])) == 1
    assert (await library.update(base)).unchanged == 1


def find_pictures(body: dict[str, Any]) -> list[str]:
    """Return the kinds of the pictures in a request over Chat Completions."""
    parts: list[dict[str, Any]] = []
    for message in body["messages"]:
        parts += message["content"] if isinstance(message["content"], list) else []
    return [part["image_url"]["url"].partition(";")[0] for part in parts if part["type"] == "image_url"]


def ask(command: Command, model: str, text: str = "Done.", *flags: str) -> tuple[str, list[Any]]:
    """Return the id of a session that searched for the invoice, and the bodies of its requests."""

    async def run() -> tuple[str, list[Any]]:
        async with ModelServer([call("retrieve", query="invoice"), say(text)]) as server:
            env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url}
            ended = command.run("-p", "?", "-m", model, *flags, "--output-format", "json", **env)
            return str(ended.result["session_id"]), [request.body for request in server.requests]

    return asyncio.run(run())


@pytest.fixture
def indexed(command: Command) -> Path:
    """Return the picture of a project with a base."""
    folder = command.folder / "shots"
    folder.mkdir()
    picture = folder / "invoice.png"
    picture.write_bytes(png(4, 3))
    assert command.run("index", "add", "shots").code == 0
    return picture


def test_a_model_that_sees_gets_the_picture_and_another_one_its_words(
    command: Command, indexed: Path
) -> None:
    _, bodies = ask(command, "openai-chat/gpt-5")
    assert find_pictures(bodies[1]) == ["data:image/png"]
    assert "It is picture 1 of those below." in json.dumps(bodies[1])
    _, bodies = ask(command, "openai-chat/gpt-3.5-turbo")
    assert find_pictures(bodies[1]) == []
    assert "[shots/invoice.png] (sha256 " in json.dumps(bodies[1])
    assert "those below" not in json.dumps(bodies[1])


def test_rules_that_deny_reading_a_picture_hide_it(command: Command, indexed: Path) -> None:
    _, bodies = ask(command, "openai-chat/gpt-5", "Done.", "--deny", "read_file(shots/*)")
    assert find_pictures(bodies[1]) == []
    assert "Nothing matches" in json.dumps(bodies[1])


def test_a_result_shows_a_few_pictures_and_names_the_others(command: Command, indexed: Path) -> None:
    for n in range(1, 6):
        (indexed.parent / f"invoice-{n}.png").write_bytes(png(4, 3, seed=n))
    command.run("index", "update")
    _, bodies = ask(command, "openai-chat/gpt-5")
    assert len(find_pictures(bodies[1])) == 4
    assert json.dumps(bodies[1]).count("of those below") == 4
    assert json.dumps(bodies[1]).count("Picture shots/invoice") == 6


def test_two_files_with_the_same_picture_show_it_once(command: Command, indexed: Path) -> None:
    (indexed.parent / "invoice-copy.png").write_bytes(indexed.read_bytes())
    command.run("index", "update")
    _, bodies = ask(command, "openai-chat/gpt-5")
    assert len(find_pictures(bodies[1])) == 1
    assert json.dumps(bodies[1]).count("It is picture 1 of those below") == 2


def test_a_cited_picture_is_verified(command: Command, indexed: Path) -> None:
    answer = "See [shots/invoice.png], not [shots/other.png] and no link [a.png](https://x.org/a.png)."
    session, _ = ask(command, "openai-chat/gpt-5", answer)
    verified = command.run("sessions", "verify", session)
    assert verified.out == "[shots/other.png] was not found by a search: its source was not.\n"
    assert "Citations: 2 checked" in verified.err
    indexed.write_bytes(png(4, 3, seed=9))
    assert "[shots/invoice.png]: the file has changed since" in command.run("sessions", "verify", session).out


def test_a_citation_of_a_picture_is_a_link_and_needs_no_line(shots: Path) -> None:
    text = "It is [billing/invoice-dialog.png], [none.png], [x.md] or ![alt](billing/invoice-dialog.png)."
    found = [(one.name, one.unit, one.first, one.last) for one in find_citations(text)]
    assert found == [("billing/invoice-dialog.png", "picture", 0, 0), ("none.png", "picture", 0, 0)]
    path = f"{shots}/billing/invoice-dialog.png"
    assert CitedFiles(shots, []).find(text) == {"[billing/invoice-dialog.png]": CitedFile(path, 0)}


class Describer(ScriptedModel):
    """A model that describes every picture as a walrus, and keeps its requests."""

    def __init__(self, text: str = f"A walrus with {SECRET}.") -> None:
        super().__init__(*[text] * 20)


def make_base(name: str, folder: Path, model: Any) -> KnowledgeBase:
    env = {"HOME": str(folder.parent), "SANDBUR_HOME": str(folder.parent / "data")}
    return KnowledgeBase(name, describe=model, env=env)


async def test_each_content_is_described_once_in_all_files_and_bases(shots: Path) -> None:
    (shots / "copy.png").write_bytes(png(4, 3))
    model = Describer()
    async with make_base("first", shots, model) as first, make_base("second", shots, model) as second:
        assert (await first.add(shots)).described == 2
        await second.add(shots)
        (shots / "copy.png").rename(shots / "moved.png")
        await first.update()
        assert len(model.requests) == 1
        found = await first.search("walrus")
        assert {Path(one.path).name for one in found} == {"moved.png", "invoice-dialog.png"}
        assert {one.title for one in found} == {f"described by {model.name}"}
        assert SECRET not in found[0].text
        assert len(await second.search("walrus")) == 2
        (shots / "moved.png").write_bytes(png(4, 3, seed=5))
        assert (await first.update()).described == 1
        assert len(model.requests) == 2


def index(command: Command, turns: list[Any], *words: str) -> tuple[int, str, int]:
    """Run `sandbur index` beside a model; return the exit code, stderr and the number of requests."""

    async def run() -> tuple[int, str, int]:
        async with ModelServer(turns) as server:
            env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url}
            ended = command.run("index", *words, "--describe", "openai-chat/gpt-5", **env)
            return ended.code, ended.err, len(server.requests)

    return asyncio.run(run())


def test_the_command_says_how_many_requests_it_sends_and_sends_none_twice(
    command: Command, indexed: Path
) -> None:
    (indexed.parent / "same.png").write_bytes(indexed.read_bytes())
    code, err, count = index(command, [say(f"A walrus, {SECRET}.")], "add", "shots")
    assert (code, count) == (0, 1)
    told = [
        "2 pictures have no description: openai-chat/gpt-5 gets 1 request, about 2,000 tokens.",
        "2 pictures have a description now.",
    ]
    assert err.splitlines()[-2:] == told
    assert index(command, [], "update") == (0, "Files of project: 2 unchanged.\n", 0)
    (found, _) = command.run("index", "search", "walrus", "--json").lines
    assert (found["title"], found["unit"]) == ("described by openai-chat/gpt-5", "picture")
    assert SECRET not in found["text"]
    command.run("index", "remove", "--yes")
    assert index(command, [], "add", "shots")[0::2] == (0, 0)
    assert len(command.run("index", "search", "walrus", "--json").lines) == 2


def test_a_failure_is_a_sentence_and_the_next_run_goes_on(command: Command, indexed: Path) -> None:
    (indexed.parent / "second.png").write_bytes(png(4, 3, seed=1))
    code, err, _ = index(command, [say("A walrus."), fail(400, "broken content")], "update")
    assert code == 1
    assert "1 picture has a description now." in err
    assert "Not described: shots/" in err
    assert "broken content" in err
    assert index(command, [say("An okapi.")], "update")[0::2] == (0, 1)
    assert command.run("index", "search", "okapi").code == 0


def test_a_model_that_sees_no_pictures_and_one_that_fails_always_are_asked_no_further(
    command: Command, indexed: Path
) -> None:
    for n in range(5):
        (indexed.parent / f"more{n}.png").write_bytes(png(4, 3, seed=n + 1))
    env = {"OPENAI_API_KEY": "key"}
    ended = command.run("index", "update", "--describe", "openai-chat/gpt-3.5-turbo", **env)
    assert ended.code == 1
    assert ended.err.splitlines()[-1].endswith("openai-chat/gpt-3.5-turbo takes no pictures.")
    code, _, count = index(command, [fail(400, "no")] * 9, "update")
    assert (code, count) == (1, 4)


@pytest.mark.parametrize("words", [("list", "--describe", "x/y"), ("search", "q", "--describe", "x/y")])
def test_only_actions_that_index_describe(command: Command, words: tuple[str, ...]) -> None:
    ended = command.run("index", *words)
    assert (ended.code, "--describe belongs to `sandbur index add`." in ended.err) == (2, True)


def test_an_unknown_model_is_a_sentence_and_the_files_are_indexed(command: Command, indexed: Path) -> None:
    ended = command.run("index", "update", "--describe", "nonsense")
    assert ended.code != 0
    assert "Traceback" not in ended.err
    assert "nonsense" in ended.err


def test_the_sessions_that_describe_are_listed_as_one(command: Command, indexed: Path) -> None:
    index(command, [fail(503, "busy", retry_after=600)] * 9, "update")
    (above,) = command.run("sessions", "list", "--json").lines
    assert (above["title"], above["sub_agents"]) == ("Descriptions of pictures", 1)
