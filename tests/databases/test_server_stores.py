"""What a store on a server says, costs and refuses."""

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

import pytest
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.network.proxy import Proxy
from support.stores.databases import ON_MYSQL, ON_POSTGRESQL, SERVERS, Place, fresh_place, run
from support.stores.rows import head, put, step
from support.waiting import until

from sandbur.state.databases.database import open_database
from sandbur.state.databases.schema import INDEXES, SCHEMA_VERSION
from sandbur.state.errors import StoreError
from sandbur.state.process.installation import make_install_command
from sandbur.state.session import SessionSettings
from sandbur.state.store.sessions.listing import LabelFilter
from sandbur.state.store.store import Store


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with fresh_place(request.param) as fresh:
        yield fresh


def said(url: str) -> str:
    with pytest.raises(StoreError) as refused:
        open_database(url)
    assert "plain-words" not in str(refused.value)
    assert refused.value.hint
    return refused.value.message


def test_a_guarded_commit_of_eight_rows_is_one_or_two_round_trips(place: Place) -> None:
    trips = {"postgresql": 1, "mysql": 2}[place.kind]
    with Proxy("127.0.0.1", place.port) as proxy:
        database = open_database(place.through(proxy.port))
        database.commit([head()])
        for number in range(10):
            before = proxy.round_trips
            database.commit([put("x" * 2000, f"{number}.{row}") for row in range(8)], step(number))
            assert proxy.round_trips - before == trips
        before = proxy.round_trips
        assert database.query("SELECT COUNT(*) FROM outputs WHERE chunk >= ?", (0,)) == [(80,)]
        assert proxy.round_trips - before == 1
        database.close()


def test_a_newer_store_is_refused(place: Place) -> None:
    database = open_database(place.url)
    database.commit([("UPDATE meta SET value = ? WHERE name = 'schema'", (str(SCHEMA_VERSION + 1),))])
    database.close()
    assert "was written by a newer Sandbur" in said(place.url)


OF_FLEETS = ("lane", "asked", "attempts")
NEW_COLUMNS = {
    5: {
        "heads": ("tenant", "folder", "app", "app_user", *OF_FLEETS, "committed_at"),
        "sessions": ("parent_session", "parent_sequence", "parent_call"),
    },
    7: {
        "heads": ("app", "app_user", *OF_FLEETS, "committed_at"),
        "sessions": ("parent_session", "parent_sequence", "parent_call"),
    },
    8: {"heads": (*OF_FLEETS, "committed_at")},
    9: {"heads": (*OF_FLEETS, "committed_at")},
    10: {"heads": ("committed_at",)},
}
"""Version -> the columns that it does not have."""


NEW_TABLES = {
    5: ("session_tags", "session_texts"),
    7: ("session_tags", "session_texts"),
    8: ("documents", "vectors", "fact_heads", "facts", "fact_sources", "fact_changes"),
    9: ("workers", "budgets", "quotas"),
    10: (),
}
"""Version -> the tables that it does not have; older versions lack those of later ones, too."""


def make_older(place: Place, version: int, is_begun: bool) -> None:
    """Make the tables those of an older version; `is_begun`: the change of that version was broken off."""
    statements: list[str] = []
    for table, columns in NEW_COLUMNS[version].items():
        indexes = [
            f"DROP INDEX {index.name}"
            for index in INDEXES
            if index.table == table
            and place.kind == "mysql"
            and not {*columns}.isdisjoint(index.columns.split(", "))
        ]
        drops = ", ".join([*indexes, *(f"DROP COLUMN {column}" for column in columns)])
        statements.append(f"ALTER TABLE {place.schema}.{table} {drops}")
    later = (tables for number, tables in NEW_TABLES.items() if number >= max(version, 8))
    missing = dict.fromkeys((*NEW_TABLES[version], *chain.from_iterable(later)))
    statements += (f"DROP TABLE {place.schema}.{table}" for table in missing)
    if is_begun and version < 8:
        texts = [column for column in NEW_COLUMNS[version]["heads"] if column not in OF_FLEETS]
        columns = ", ".join(f"{column} = ''" for column in texts)
        statements = [
            f"UPDATE {place.schema}.heads SET {columns}",
            f"DELETE FROM {place.schema}.session_tags",
        ]
    statements.append(f"UPDATE {place.schema}.meta SET value = '{version}' WHERE name = 'schema'")
    run(place.kind, *statements, "COMMIT", database=place.database)


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("version", NEW_TABLES)
def test_a_store_of_an_older_version_is_brought_up_to_date(
    place: Place, version: int, is_begun: bool
) -> None:
    store = Store.open(place.url, "ada")
    for number in range(3):
        labels = {"app": "shop", "user": f"user {number}", "tags": ("vip", "new")} if number else {}
        store.index.create(f"s{number}", SessionSettings(model="m", cwd=f"/srv/{number % 2}", **labels))
    store.close()
    make_older(place, version, is_begun)
    both = [threading.Thread(target=lambda: Store.open(place.url).close()) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    store = Store.open(place.url, "ada")
    assert {one.id for one in store.sessions(cwd="/srv/0")} == {"s0", "s2"}
    assert store.count_sessions() == 3
    assert {one.id for one in store.newest_sessions(LabelFilter(app="shop", tags=("new",)))} == {"s1", "s2"}
    assert [one.id for one in store.newest_sessions(LabelFilter(user="user 2"))] == ["s2"]
    assert store.database.find_problems() == []
    assert store.database.query("SELECT value FROM meta WHERE name = 'schema'") == [(str(SCHEMA_VERSION),)]
    store.close()


@ON_POSTGRESQL
async def test_the_commits_of_a_turn_add_no_entry_to_an_index_of_the_heads() -> None:
    """Such updates are heap-only: of a run, only the last one changes columns that indexes have."""
    updates = "SELECT n_tup_upd, n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables"
    with fresh_place("postgresql") as place:
        store = Store.open(place.url)
        answers = [*map(act, "abcde"), "done"]
        session = await open_session(store, ScriptedModel(*answers), Recorder(), session_id="s1")
        await collect(session.send("go"))
        store.close()  # a connection that ends counts what it did
        sql = f"{updates} WHERE schemaname = '{place.schema}' AND relname = 'heads'"
        await until(lambda: run(place.kind, sql, database=place.database)[0][0] >= 10)
        assert run(place.kind, sql, database=place.database)[0][1] == 1


def test_tables_of_another_program_are_left_alone(place: Place) -> None:
    name = f"{place.schema}.files"
    run(place.kind, f"CREATE TABLE {name} (path VARCHAR(20))", database=place.database)
    assert "has tables of another program: files" in said(place.url)
    run(place.kind, f"DROP TABLE {name}", database=place.database)
    run(place.kind, f"CREATE TABLE {place.schema}.theirs (path VARCHAR(20))", database=place.database)
    open_database(place.url).close()


def test_a_meta_table_of_another_program_is_left_alone(place: Place) -> None:
    name = f"{place.schema}.meta"
    create = f"CREATE TABLE {name} (id INT, name VARCHAR(20), value VARCHAR(20))"
    run(place.kind, create, database=place.database)
    assert "has tables of another program: meta" in said(place.url)


def test_a_creation_that_was_broken_off_is_finished(place: Place) -> None:
    database = open_database(place.url)
    database.close()
    for table in ("blobs", "quarantine"):
        run(place.kind, f"DROP TABLE {place.schema}.{table}", database=place.database)
    run(place.kind, f"DELETE FROM {place.schema}.meta", "COMMIT", database=place.database)
    database = open_database(place.url)
    assert database.find_problems() == []
    database.close()


def test_a_missing_table_is_a_problem(place: Place) -> None:
    database = open_database(place.url)
    run(place.kind, f"DROP TABLE {place.schema}.blobs", database=place.database)
    assert database.find_problems() == ["The table blobs is missing."]
    with pytest.raises(StoreError, match="has lost a table"):
        database.query("SELECT size FROM blobs")
    database.close()


def test_a_database_that_does_not_exist_is_said(place: Place) -> None:
    url = place.url.partition("?")[0].rpartition("/")[0] + "/sandbur_nowhere"
    assert said(url).endswith(("sandbur_nowhere does not exist.", "does not permit this user to do that."))


def test_a_user_that_does_not_exist_is_said(place: Place) -> None:
    assert "refuses the user name or the password" in said(place.url.replace(place.user, "nobody_here"))


def test_a_host_that_nobody_knows_is_said(place: Place) -> None:
    assert "is on an unknown host" in said(place.url.replace("127.0.0.1", "nowhere.invalid"))


def test_a_server_without_tls_is_said(place: Place) -> None:
    option = "sslmode=verify-full&sslrootcert=/nowhere" if place.kind == "postgresql" else "ssl-mode=REQUIRED"
    assert "could not be reached over TLS" in said(f"{place.url.partition('?')[0]}?{option}")


def test_a_user_without_rights_is_told(place: Place) -> None:
    where = f"SCHEMA {place.schema}" if place.kind == "postgresql" else f"{place.schema}.*"
    if place.kind == "postgresql":
        run(
            place.kind,
            f"ALTER {where} OWNER TO CURRENT_USER",
            f"GRANT USAGE ON {where} TO {place.user}",
            database=place.database,
        )
    else:
        run(
            place.kind,
            f"REVOKE ALL ON {where} FROM {place.user}@'%'",
            f"GRANT SELECT ON {where} TO {place.user}@'%'",
        )
    assert "does not permit this user to do that" in said(place.url)


@ON_POSTGRESQL
def test_a_store_that_may_only_be_read_is_said() -> None:
    with fresh_place("postgresql") as place:
        open_database(place.url).close()
        database = open_database(place.url + "%20-cdefault_transaction_read_only%3Don")
        with pytest.raises(StoreError, match="is read-only"):
            database.commit([head()])
        database.close()


@ON_MYSQL
def test_what_is_larger_than_a_packet_is_refused_before_it_is_sent() -> None:
    with fresh_place("mysql") as place:
        database = open_database(place.url)
        ((limit,),) = database.query("SELECT @@max_allowed_packet")
        sql = "UPDATE heads SET title = ? WHERE session_id = ?"
        with pytest.raises(StoreError, match=r"accepts at most [\d,]+ bytes at once") as refused:
            database.commit([(sql, ("x" * limit, "s"))])
        assert "max_allowed_packet" in refused.value.hint
        database.commit([(sql, ("x" * 5_000_000, "s")), *[(sql, ("y" * 900_000, "s"))] * 4])
        database.close()


@ON_POSTGRESQL
def test_a_nul_in_a_text_is_refused_with_a_sentence() -> None:
    with fresh_place("postgresql") as place:
        database = open_database(place.url)
        with pytest.raises(StoreError, match="a character that it cannot store"):
            database.commit([head(), ("UPDATE heads SET title = ?", ("a\0b",))])
        assert database.query("SELECT * FROM heads") == []
        database.close()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('password authentication failed for user "me"', "refuses the user name or the password"),
        ("sorry, too many clients already", "has too many connections"),
        ("the database system is starting up", "is starting or stopping"),
        ('database "runs" does not exist', "does not exist"),
    ],
)
def test_what_a_server_says_to_a_connection_is_understood(message: str, expected: str) -> None:
    from sandbur.state.databases.servers.postgres import PostgresServer
    from sandbur.state.databases.servers.server_errors import ServerError
    from sandbur.state.databases.url import parse_server_url

    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=_refuse, args=(listener, message))
        answering.start()
        url = parse_server_url(
            f"postgresql://me:plain-words@127.0.0.1:{listener.getsockname()[1]}/runs?sslmode=disable"
        )
        with pytest.raises(ServerError, match=expected) as refused:
            PostgresServer(url).connect()
        answering.join()
    assert "plain-words" not in str(refused.value.error)


def _refuse(listener: socket.socket, message: str) -> None:
    """Answer one connection as a PostgreSQL server that refuses it."""
    client, _ = listener.accept()
    with client, suppress(OSError):
        client.recv(4096)
        fields = b"SFATAL\0VFATAL\0C28P01\0M" + message.encode() + b"\0\0"
        client.sendall(b"E" + struct.pack(">I", len(fields) + 4) + fields)


def test_a_forked_process_leaves_its_parents_connections_alone(place: Place) -> None:
    code = """
import os, sys
from sandbur.state.databases.database import open_database
database = open_database(sys.argv[1])
before = database.query("SELECT COUNT(*) FROM meta")
child = os.fork()
if child == 0:
    for _ in range(3):
        database.query("SELECT 1")
    database.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
database.on_notice = print
for _ in range(3):
    assert database.query("SELECT COUNT(*) FROM meta") == before
database.close()
"""
    command = [sys.executable, "-W", "error", "-c", code, place.url]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_a_missing_driver_is_said_with_the_command_that_installs_it() -> None:
    code = "import sys; sys.modules['psycopg'] = sys.modules['pymysql'] = None\n"
    code += "from sandbur.state.databases.database import open_database\nopen_database(sys.argv[1])"
    for scheme, extra in (("postgres", "postgres"), ("mariadb", "mysql")):
        command = [sys.executable, "-c", code, f"{scheme}://me:plain-words@h/runs"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60).stderr.splitlines()[-1]
        assert told.endswith(f"is missing. Install it: {make_install_command(extra)}")
        assert "plain-words" not in told
