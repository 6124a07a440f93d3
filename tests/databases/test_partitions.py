"""A store whose large tables are partitioned as `docs/scaling.md` says works as any other."""

import asyncio
import re
from pathlib import Path

import psycopg
from support.places import ROOT
from support.stores.databases import ON_POSTGRESQL, fresh_url

from sandbur import Agent, tool
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

(PARTITION,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/scaling.md").read_text("utf-8"), re.S)
SESSIONS = 6
PARTS = "SELECT COUNT(*) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE relkind = 'r'"


async def run_sessions(url: str, folder: Path) -> None:
    @tool(effect="effect")
    def act(text: str) -> str:
        """Act."""
        return text

    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    for number in range(SESSIONS):
        script = [ToolCall("act", text="one"), f"done {number}", "more"]
        agent = Agent(ScriptedModel(script), tools=[act], mode="yolo", store=url, env=env, cwd=folder)
        async with agent, agent.session(f"s{number}") as session:
            await session.run("go")
        async with agent, agent.session(f"s{number}") as session:
            await session.run("go on")


@ON_POSTGRESQL
def test_sessions_of_a_partitioned_store_are_written_resumed_verified_and_deleted(tmp_path: Path) -> None:
    with fresh_url("postgresql", tmp_path) as url:
        Store.open(url).close()
        with psycopg.connect(url) as owner:
            owner.execute(PARTITION.encode())
        asyncio.run(run_sessions(url, tmp_path))
        store = Store.open(url)
        names = [f"s{number}" for number in range(SESSIONS)]
        assert {one.id for one in store.sessions()} == {*names}
        assert not audit(store.database, names).breaches
        last = store.show("s3").state.chat_history.last
        assert last is not None
        assert last.text == "more"
        ((parts,),) = store.database.query(f"{PARTS} AND relname LIKE 'steps%'")
        ((filled,),) = store.database.query("SELECT COUNT(DISTINCT tableoid) FROM steps")
        assert parts >= 16
        assert filled > 1
        for name in names:
            store.index.delete(name)
        assert store.database.query("SELECT COUNT(*) FROM messages") == [(0,)]
        store.close()
