"""Pictures of knowledge bases on every database: found, described once, also by killed processes."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.models.files import png
from support.models.server import ModelServer, say
from support.stores.databases import DATABASES, empty_url
from support.victims.victims import run_victim

from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.session.secrets import masker_for
from sandbur.state.store.sessions.session_rows import list_due_runs
from sandbur.state.store.store import Store


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_url(request.param, tmp_path) as fresh:
        yield fresh


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    folder = (tmp_path / "shots").resolve()
    folder.mkdir()
    for n in range(6):
        (folder / f"animal{n}.png").write_bytes(png(4, 3, seed=n))
    return folder


def make_env(server: ModelServer, folder: Path) -> dict[str, str]:
    home = str(folder / "data")
    return {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url, "SANDBUR_HOME": home}


async def test_pictures_are_found_and_removed_on_every_database(url: str, shots: Path) -> None:
    store = Store.open(url)
    library = Library(store.database, "", masker_for({}, shots))
    base = await library.open_base("project", "")
    await library.add(base, shots)
    (found,) = await library.search("animal2", [base])
    assert (found.unit, found.cite(shots)) == ("picture", "[animal2.png]")
    assert [len(library.rows.list_pictures(base)), len(library.rows.list_described())] == [6, 0]
    (shots / "animal2.png").unlink()
    assert (await library.update(base)).removed == 1
    assert len(library.rows.list_pictures(base)) == 5
    store.close()


@pytest.mark.slow
def test_killed_while_it_describes_the_next_run_asks_for_the_rest(
    url: str, shots: Path, tmp_path: Path
) -> None:
    turns = [say(f"A walrus{n} in the snow.") for n in range(6)]
    with ModelServer(turns) as server:
        env = make_env(server, tmp_path)
        words = ("agents/picture_victim", url, str(shots))
        died = run_victim(*words, point="picture_described", **env)
        assert died.code == -signal.SIGKILL, died.err
        assert len(server.requests) == 4  # so many are described at the same time
        store = Store.open(url)
        assert list_due_runs(store.database, "") == []
        again = run_victim(*words, **env)
        assert (again.code, again.out) == (0, "6\n"), again.err
        assert len(server.requests) == 6
        described = Library(store.database, "", masker_for({}, shots)).rows.list_described()
        assert {one.chunk.text.rpartition("A ")[2] for one in described} == {
            f"walrus{n} in the snow." for n in range(6)
        }
        assert store.database.find_problems() == []
        store.close()


@pytest.mark.slow
def test_a_killed_request_is_sent_again_once_and_no_run_of_a_person_continues_it(
    url: str, shots: Path, tmp_path: Path
) -> None:
    for n in range(1, 6):
        (shots / f"animal{n}.png").unlink()
    with ModelServer([say("A walrus."), say("A walrus.")]) as server:
        env = make_env(server, tmp_path)
        words = ("agents/picture_victim", url, str(shots))
        died = run_victim(*words, point="reply_before_commit", **env)
        assert died.code == -signal.SIGKILL, died.err
        store = Store.open(url)
        assert list_due_runs(store.database, "") == []
        store.close()
        again = run_victim(*words, **env)
        assert (again.code, again.out) == (0, "1\n"), again.err
        assert len(server.requests) == 2
