"""Which stores can be named, and that no message repeats a password."""

from pathlib import Path

import pytest

from sandbur.agent.config.load import check_store_url
from sandbur.state.databases.database import open_database
from sandbur.state.databases.url import parse_server_url
from sandbur.state.errors import StoreError, UsageError


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost/runs",
        "postgres://u:hunter2@db.example.org:5433/runs?sslmode=verify-full",
        "postgresql://u@h1:5432,h2:5433/runs?target_session_attrs=read-write",
        "postgresql:///runs?host=/var/run/postgresql",
        "postgresql+psycopg://[::1]:5432/runs",
        "mysql://u:p%40ss%2Fword@127.0.0.1:3306/runs",
        "mariadb://u@localhost/runs?unix_socket=/run/mysqld/mysqld.sock",
        "mysql://u@%2Frun%2Fmysqld%2Fmysqld.sock/runs",
    ],
)
def test_servers_are_accepted_as_they_are_written(url: str) -> None:
    assert check_store_url(url, "--store", UsageError) == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql:h/d", "not the URL of a database server"),
        ("mysql://u:hunter2@h", "names no database"),
        ("mysql://u:hunter2@h/", "names no database"),
        ("postgresql://u:hunter2@h/a/b", "names no database"),
        ("postgresql://u:hunter2@h:port/d", "no readable host"),
        ("postgresql://u:hunter2@[::1/d", "no readable host"),
        ("postgresql://u:hun/ter2@h/d", "no readable host"),
        ("postgresql://u:hun?ter2@h/d", "no readable host"),
        ("postgresql://u:hun#ter2@h/d", "contains a space, a `#`"),
        ("postgresql://u:hun ter2@h/d", "contains a space, a `#`"),
        ("oracle://u:hunter2@h/d", "not a store URL"),
    ],
)
def test_what_cannot_be_read_is_refused_without_repeating_it(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        check_store_url(url, "--store", UsageError)
    assert refused.value.hint
    assert "hun" not in str(refused.value)
    assert "ter2" not in str(refused.value)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_the_name_of_a_store_has_no_user_and_no_options(kind: str) -> None:
    url = parse_server_url(f"{kind}://me:hun%40ter2@h:5432/runs?password=ter2&user=me")
    assert (url.user, url.password, url.name) == ("me", "hun@ter2", f"{kind}://h:5432/runs")
    assert "ter2" not in repr(url).replace("'password': 'ter2'", "")


def test_several_hosts_and_sockets_are_told_apart() -> None:
    several = parse_server_url("postgresql://h1:5432,h2/runs")
    assert (several.host, several.port) == ("h1,h2", "5432,")
    assert parse_server_url("postgresql://[::1]:5432/runs").host == "::1"
    assert parse_server_url("mysql://%2Frun%2Fmy.sock/runs").host == "/run/my.sock"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("compress=1", "compress is not known"),
        ("ssl-mode=maybe", "ssl-mode must be"),
        ("ssl-ca=/nowhere/ca.pem", "certificate file cannot be read"),
        ("connect_timeout=soon", "not a number of seconds"),
    ],
)
def test_an_option_that_mysql_does_not_know_is_said(option: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as refused:
        open_database(f"mysql://u:hunter2@127.0.0.1:1/d?{option}")
    assert "hunter2" not in str(refused.value)


def test_an_option_that_postgresql_does_not_know_is_said() -> None:
    with pytest.raises(StoreError, match="an option that its driver does not accept"):
        open_database("postgresql://u:hunter2@127.0.0.1:1/d?row_factory=x")


def test_only_known_kinds_are_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not the URL of a store"):
        open_database(f"{tmp_path}/store.db")
    open_database(f"sqlite:///{tmp_path}/store.db").close()
