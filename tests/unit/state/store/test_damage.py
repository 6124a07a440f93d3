"""Damaged records, pages and logs: the session still opens, and the person is told what is lost."""

import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from support.crash.past import Past
from support.crash.place import Ended, Place
from support.crash.scenarios import SCENARIOS, effect
from support.models.server import Answer, ModelServer, Request, calls, say

pytestmark = pytest.mark.slow

EFFECTS = SCENARIOS["effects"]
TOLD = ("set aside", "missing", "lost")
FULL = bool(os.environ.get("SANDBUR_FULL"))
PAGE = 4096


class Crashed:
    """A run that died between its effects: its newest commits are only in the write-ahead log."""

    def __init__(self, folder: Path) -> None:
        with ModelServer(EFFECTS.responder()) as server:
            place = Place(folder, server)
            assert place.begin(crash="store_after_commit:6").code == -signal.SIGKILL
        self.place = place
        self.log = place.home / "sandbur.db-wal"
        assert self.log.stat().st_size > 4 * PAGE

    def copied(self, folder: Path, server: ModelServer) -> Place:
        """Return a place with the same store and the same effects."""
        place = Place(folder, server)
        place.session_id = self.place.session_id
        for name in ("home", "workspace"):
            shutil.copytree(self.place.folder / name, folder / name, dirs_exist_ok=True)
        return place


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    return Crashed(tmp_path_factory.mktemp("crashed") / "run")


@pytest.fixture
def place(crashed: Crashed, tmp_path: Path) -> Iterator[Place]:
    with ModelServer(EFFECTS.responder()) as server:
        yield crashed.copied(tmp_path / "copy", server)


def heed(request: Request) -> Answer:
    """Ask for each effect of which the conversation does not speak, as a careful model does."""
    said = "".join(one.text for one in Past(request).said)
    missing = [word for word in EFFECTS.effects if f"echo {word} " not in said]
    return calls(effect(missing[0])) if missing else say("both are written")


def is_told(ended: Ended) -> bool:
    return any(word in ended.err for word in TOLD)


def assert_calm(ended: Ended) -> None:
    assert "Traceback" not in ended.err
    assert "internal error" not in ended.err


def rows_of(path: Path, session_id: str) -> list[tuple[str, int, str]]:
    """Return (table, place in the chain, text) of every record of the session that holds JSON."""
    texts = {"steps": "fields", "messages": "body", "calls": "body"}
    with closing(sqlite3.connect(path)) as database:
        return [
            (table, row, text)
            for table, column in texts.items()
            for row, text in database.execute(
                f"SELECT record, {column} FROM {table} WHERE session_id = ? ORDER BY record", (session_id,)
            )
        ]


def spoil_row(path: Path, table: str, row: int, text: str) -> None:
    column = "fields" if table == "steps" else "body"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE {table} SET {column} = ? WHERE record = ?", (text, row))
        database.commit()


def spoilt(text: str, how: str) -> str:
    middle = len(text) // 2
    letter = "x" if text[middle] != "x" else "y"
    return text[:middle] + (letter + text[middle + 1 :] if how == "one letter" else "")


def problem_of(crashed: Crashed, folder: Path, record: tuple[str, int, str], how: str) -> str:
    """Resume with one damaged record; return what is wrong."""
    table, row, text = record
    with ModelServer(heed) as server:
        place = crashed.copied(folder, server)
        spoil_row(place.home / "sandbur.db", table, row, spoilt(text, how))
        before = place.effects
        ended = place.resume()
        assert_calm(ended)
        assert is_told(ended), f"nothing was said: {ended.err}"
        assert place.effects[: len(before)] == before
        # What a call was about stands only in the message that asks for it: a model may ask again.
        most = 2 if table == "messages" else 1
        assert all(place.effects.count(word) <= most for word in EFFECTS.effects), place.effects
        assert server.rejections == []
        assert place.run("sessions", "show", place.session_id, "--json").code == 0
        assert place.run("sessions", "export", place.session_id).code == 0
    return ""


def test_a_damaged_record_is_told_and_the_session_opens(crashed: Crashed, tmp_path: Path) -> None:
    look = crashed.copied(tmp_path / "look", crashed.place.server)
    records = rows_of(look.home / "sandbur.db", crashed.place.session_id)
    assert len(records) > 10
    every = [(record, how) for record in records for how in ("one letter", "half")]
    chosen = every if FULL else [pair for number, pair in enumerate(every) if number % 4 in (0, 3)]
    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        running = {
            f"{record[:2]} {how}": pool.submit(problem_of, crashed, tmp_path / str(number), record, how)
            for number, (record, how) in enumerate(chosen)
        }
    problems = {name: str(future.exception()) for name, future in running.items() if future.exception()}
    assert problems == {}


def test_a_damaged_record_stays_where_it_is_and_is_noted(place: Place) -> None:
    path = place.home / "sandbur.db"
    table, row, text = next(one for one in rows_of(path, place.session_id) if one[0] == "messages")
    spoil_row(path, table, row, "spoilt " + text)
    assert is_told(place.resume())
    with closing(sqlite3.connect(path)) as database:
        kept = database.execute("SELECT body FROM messages WHERE record = ?", (row,)).fetchone()[0]
        noted = database.execute("SELECT COUNT(*) FROM quarantine").fetchone()[0]
    assert kept == "spoilt " + text
    assert noted == 1


@pytest.mark.parametrize("share", [0.55, 0.7, 0.85, 0.97])
def test_a_flipped_bit_in_the_write_ahead_log_is_told(place: Place, share: float) -> None:
    log = place.home / "sandbur.db-wal"
    before = place.effects
    content = bytearray(log.read_bytes())
    content[int(len(content) * share)] ^= 1
    log.write_bytes(content)
    ended = place.resume()
    assert_calm(ended)
    assert is_told(ended), ended.err
    assert any(letter.isdigit() for letter in ended.err), "how many records are missing is not said"
    assert place.effects[: len(before)] == before


@pytest.mark.parametrize("what", ["-wal", "-shm", "both"])
def test_a_missing_log_is_told(place: Place, what: str) -> None:
    for suffix in ("-wal", "-shm") if what == "both" else (what,):
        (place.home / f"sandbur.db{suffix}").unlink()
    ended = place.resume()
    assert_calm(ended)
    if what == "-shm":  # an index that SQLite makes again
        assert (ended.code, ended.result["result"]) == (0, "both are written")
        return
    assert is_told(ended) or ended.code == 1, ended.err


def test_a_torn_page_never_passes_for_the_truth(crashed: Crashed, tmp_path: Path) -> None:
    """Half of a page is zeroed, page by page: the run goes on as before, or the person is told."""
    whole = crashed.copied(tmp_path / "whole", crashed.place.server)
    path = whole.home / "sandbur.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = path.stat().st_size // PAGE
    for page in random.Random(3).sample(range(pages), pages if FULL else 6):
        with ModelServer(EFFECTS.responder()) as server:
            place = crashed.copied(tmp_path / str(page), server)
            for suffix in ("-wal", "-shm"):
                (place.home / f"sandbur.db{suffix}").unlink()
            content = bytearray(path.read_bytes())
            content[page * PAGE + PAGE // 2 : (page + 1) * PAGE] = bytes(PAGE // 2)
            (place.home / "sandbur.db").write_bytes(content)
            ended = place.resume()
            assert_calm(ended)
            assert place.effects[:2] == ["one", "one-end"]
            assert place.effects.count("one") == 1
            went_well = ended.code == 0 and ended.result["result"] == "both are written"
            assert went_well or ended.code == 1 or is_told(ended), f"page {page}: {ended.out}"
