"""Runs that are recorded to be replayed."""

from pathlib import Path
from typing import Any

from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect

from sandbur.state.databases.schema import TABLES
from sandbur.state.store.store import Store

WRITE = [("write_file", {"path": "a.txt", "content": "one\ntwo\n"})]

READ = [("read_file", {"path": "a.txt"})]

SHELL = [("run_shell_command", {"command": "echo hi | tee /dev/null"})]


async def record(store: Store, folder: Path, *turns: Any, **options: Any) -> None:
    session = await open_real(store, ScriptedModel(*turns), folder, **options)
    await collect(session.send("go"))


def everything(store: Store) -> dict[str, Any]:
    names = [table.split()[2] for table in TABLES]
    return {name: store.database.query(f"SELECT * FROM {name}") for name in names}
