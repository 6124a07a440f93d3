"""Open the database that a URL names."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from .database import Database, Durability
from .url import SCHEMES, ServerUrl, server_url

if TYPE_CHECKING:
    from .server import Server

_SQLITE = "sqlite:///"


def open_database(
    url: str, on_notice: Callable[[str], None] | None = None, durability: Durability = "full"
) -> Database:
    """Open a file or a server; drivers are imported only for the kind that is named.

    `on_notice` is told already when opening takes long. `durability` is about files: a server has its own.
    """
    if url.partition("://")[0].lower().partition("+")[0] in SCHEMES:
        from .network import NetworkDatabase

        return NetworkDatabase(_server(server_url(url)), on_notice)
    if not url.startswith(_SQLITE):
        raise StoreError(
            "This is no store URL.",
            "Write sqlite:///PATH, postgresql://HOST/DATABASE or mysql://HOST/DATABASE.",
        )
    from .sqlite import SqliteDatabase

    return SqliteDatabase(Path(url.removeprefix(_SQLITE)), on_notice, durability)


def _server(url: ServerUrl) -> "Server":
    try:
        if url.kind == "postgresql":
            from .postgres import PostgresServer

            return PostgresServer(url)
        from .mysql import MysqlServer

        return MysqlServer(url)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "pymysql"):
            raise
        from ..installation import install_command

        extra = "postgres" if url.kind == "postgresql" else "mysql"
        raise StoreError(
            f"The driver for {url.name} is missing.", f"Install it: {install_command(extra)}"
        ) from error
