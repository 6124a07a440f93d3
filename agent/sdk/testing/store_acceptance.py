"""Tests that every store passes, as a class that the tests of another store inherit."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ....state.databases.acceptance import DatabaseAcceptance
from ....state.databases.database import update
from ....state.errors import StoreError
from ....state.session import SessionSettings
from ....state.store.sessions.listing import LabelFilter
from ....state.store.store import Store
from ..agent import Agent
from .scripted_model import ScriptedModel, ToolCall

_SETTINGS = SessionSettings.model_validate({"model": "m", "cwd": "/"})


class StoreAcceptance(DatabaseAcceptance):
    """Inherit from this class in a test module, name it `Test...`, and write `make_url`."""

    def test_a_store_that_is_opened_again_has_its_sessions(self, tmp_path: Path) -> None:
        url = self.make_url(tmp_path)
        for number in range(2):
            store = Store.open(url)
            assert len(store.sessions()) == number
            store.index.create(f"s{number}", _SETTINGS)
            store.close()

    def test_sessions_are_listed_by_labels_and_pages(self, tmp_path: Path) -> None:
        with self._store(tmp_path) as store:
            for number in range(25):
                labels: dict[str, Any] = {"app": "shop", "user": f"u{number % 2}", "tags": ("new",)}
                store.index.create(f"s{number:02}", _SETTINGS.model_copy(update=labels))
            wanted = LabelFilter(app="shop", user="u1", tags=("new",))
            found = list(store.newest_sessions(wanted))
            assert {one.id for one in found} == {f"s{number:02}" for number in range(1, 25, 2)}
            rest = LabelFilter(user="u1", after=(found[4].updated_at, found[4].id))
            assert [one.id for one in store.newest_sessions(rest)] == [one.id for one in found[5:]]
            assert list(store.newest_sessions(LabelFilter(app="bank"))) == []

    def test_sessions_are_forked_and_deleted(self, tmp_path: Path) -> None:
        with self._store(tmp_path) as store:
            store.index.create("s", _SETTINGS.model_copy(update={"tags": ("old",)}))
            store.database.commit([update("heads", {"last_seq": 3}, {"session_id": "s"})])
            store.fork("s", "fork", 2)
            assert [fork.session_id for fork in store.index.forks("s")] == ["fork"]
            self._expect(StoreError, lambda: store.delete("s"))
            store.delete("fork")
            store.delete("s")
            assert store.sessions() == []
            assert list(store.newest_sessions(LabelFilter(tags=("old",)))) == []

    def test_an_agent_runs_waits_for_an_approval_and_goes_on(self, tmp_path: Path) -> None:
        effects: list[str] = []

        def ship(order: str) -> str:
            """Ship an order."""
            effects.append(order)
            return "shipped"

        model = ScriptedModel([ToolCall("ship", order="7"), "It is on its way."])
        env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home")}
        agent = Agent(model, tools=[ship], store=self.make_url(tmp_path), env=env)

        async def run() -> None:
            first = await agent.run("Ship order 7, please.", user="ada")
            assert (first.status, effects) == ("needs_approval", [])
            last = await agent.approve(first.session_id, first.pending[0].call_id)
            assert (last.output, effects) == ("It is on its way.", ["7"])
            found = [info.id async for info in agent.sessions(user="ada", text="order WAY ship")]
            assert found == [first.session_id]
            assert [info.id async for info in agent.sessions(text="zebra")] == []

        asyncio.run(run())

    @contextmanager
    def _store(self, folder: Path) -> Generator[Store]:
        store = Store.open(self.make_url(folder))
        try:
            yield store
        finally:
            store.close()
