"""Search in the texts of collections: words, fragments of words and vectors."""

from ..databases.database import Database, LateTables

_MARK, _VERSION, _NOUN = "knowledge", 1, "knowledge bases"


def open_knowledge_tables(database: Database, tables: tuple[str, ...] = ()) -> LateTables:
    """Return the tables of knowledge bases, which need `tables` only to be created.

    Most stores have none, so that a new session need not load what reads them.
    """
    return LateTables(database, _MARK, _VERSION, tables, _NOUN)
