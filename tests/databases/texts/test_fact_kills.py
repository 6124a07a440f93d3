"""A process that changes facts is killed: each operation happened wholly or not at all."""

import signal
from pathlib import Path

import pytest
from support.stores.databases import DATABASES, fresh_url
from support.victims.victims import run_victim

from sandbur.state.memory.fact_store import FactStore
from sandbur.state.memory.facts import FactScope
from sandbur.state.store.store import Store

SCOPE = FactScope(kind="project", key="/srv/shop")
BEFORE, DURING, AFTER = "fact_change_planned", "store_in_transaction", "fact_change_committed"
STEPS: dict[str, tuple[list[str], list[str]]] = {
    "correct": (["forgotten", "forgotten", "superseded", "valid"], ["The root is 9090"]),
    "forget": (["forgotten"] * 3, []),
    "restore": (["valid"] * 3, ["The end is 8080", "The leaf is 8080", "The root is 8080"]),
}
"""Operation -> the states of the facts afterwards, and the texts that a search finds."""


def look(url: str) -> tuple[list[str], list[str]]:
    """Return the states of all facts, and the texts that are found."""
    store = Store.open(url)
    facts = FactStore(store.database)
    every = facts.list_facts([SCOPE], ("valid", "superseded", "forgotten"))
    found = [hit.fact.text for hit in facts.search("the root leaf end is 8080 9090", [SCOPE])]
    assert store.database.find_problems() == []
    assert all(facts.history(fact.id) for fact in every)
    store.close()
    return sorted(fact.state for fact in every), sorted(found)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("kind", DATABASES)
@pytest.mark.parametrize("operation", STEPS)
def test_a_killed_change_of_facts_happened_wholly_or_not_at_all(
    tmp_path: Path, kind: str, operation: str
) -> None:
    with fresh_url(kind, tmp_path) as url:
        assert run_victim("agents/fact_victim", url, "fill").code == 0
        if operation == "restore":
            assert run_victim("agents/fact_victim", url, "forget").code == 0
        untouched = look(url)
        for point in (BEFORE, DURING):
            died = run_victim("agents/fact_victim", url, operation, point=point)
            assert died.code == -signal.SIGKILL, died.err
            assert look(url) == untouched
        died = run_victim("agents/fact_victim", url, operation, point=AFTER)
        assert died.code == -signal.SIGKILL, died.err
        assert look(url) == STEPS[operation]
