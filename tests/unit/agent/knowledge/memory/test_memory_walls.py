"""A fact of one project, user or agent is neither read nor changed from another one, also not by its id."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.network.sandbur_server import serve

from sandbur import Memory
from sandbur.state.errors import UsageError


def run_in(command: Command, folder: str, *words: str, **more: Any) -> Ended:
    """Run `sandbur memory` in a git folder below that of the test."""
    (command.folder / folder / ".git").mkdir(parents=True, exist_ok=True)
    return command.run("memory", *words, "-C", str(command.folder / folder), **more)


def add_in(command: Command, folder: str, *words: str) -> str:
    added = run_in(command, folder, "add", *words)
    assert added.code == 0, added.err
    return added.out.strip()


@pytest.mark.parametrize(
    "words",
    [("show",), ("edit", "hijacked"), ("forget", "--yes"), ("trace",), ("restore",)],
    ids=lambda words: str(words[0]),
)
def test_no_project_reaches_the_facts_of_another_by_their_id(command: Command, words: list[str]) -> None:
    fact = add_in(command, "pa", "Tests run with make")
    for name in (fact, fact[:8]):
        done = run_in(command, "pb", words[0], name, *words[1:])
        assert done.code == 2
        assert f"Fact {fact[:8]} belongs to the project {command.folder / 'pa'}" in done.err
        assert f"--scope project:{command.folder / 'pa'}" in done.err
        assert "make" not in done.out + done.err
    assert [one["text"] for one in run_in(command, "pa", "list", "--all", "--json").lines] == [
        "Tests run with make"
    ]


def test_a_person_who_names_the_other_project_reaches_its_facts(command: Command) -> None:
    fact = add_in(command, "pa", "Tests run with make")
    there = ("--scope", "project:../pa")
    assert "Tests run with make" in run_in(command, "pb", "show", fact[:8], *there).out
    edited = run_in(command, "pb", "edit", fact[:8], "Tests run with just", *there)
    assert edited.code == 0, edited.err
    assert [one["text"] for one in run_in(command, "pb", "list", "--json", *there).lines] == [
        "Tests run with just"
    ]
    assert run_in(command, "pb", "list").out == ""


def test_the_facts_of_a_folder_that_is_gone_are_moved_to_another_project(command: Command) -> None:
    add_in(command, "pa", "Tests run with make")
    (command.folder / "pa").rename(command.folder / "renamed")
    exported = run_in(command, "pb", "export", "--scope", "project:../pa")
    moved = run_in(command, "pb", "import", "-", "--here", stdin=exported.out)
    assert "Added 1 fact;" in moved.err
    assert [one["text"] for one in run_in(command, "pb", "list", "--json").lines] == ["Tests run with make"]


def test_the_start_of_an_id_is_looked_for_in_this_project_first(command: Command) -> None:
    own = add_in(command, "pb", "The port is 9090")
    for one in range(20):
        add_in(command, "pa", f"Port {one} is free")
    assert "9090" in run_in(command, "pb", "show", own[0]).out


def test_facts_of_other_projects_that_were_derived_from_an_own_one_are_only_counted(command: Command) -> None:
    own = add_in(command, "pa", "I use make", "--scope", "user")
    add_in(command, "pa", "Tests of the secret project run with make", "--from", own)
    shown = run_in(command, "pb", "show", own).out
    assert "secret project" not in shown
    assert "source of  1 of other projects or agents" in shown
    assert "secret project" in run_in(command, "pa", "show", own).out


def test_nothing_is_derived_from_a_fact_of_another_project(command: Command) -> None:
    fact = add_in(command, "pa", "Tests run with make")
    derived = run_in(command, "pb", "add", "Use make", "--scope", "user", "--from", fact)
    assert (derived.code, "belongs to the project" in derived.err) == (2, True)


def test_facts_of_an_agent_need_the_name_of_the_agent(command: Command) -> None:
    fact = add_in(command, "pa", "Be short", "--scope", "agent:helper")
    refused = run_in(command, "pa", "show", fact)
    assert (refused.code, "--scope agent:helper" in refused.err) == (2, True)
    assert "Be short" in run_in(command, "pa", "show", fact, "--scope", "agent:helper").out


Change = Callable[[Memory, str], Coroutine[Any, Any, object]]
CHANGES: dict[str, Change] = {
    "correct": lambda memory, fact: memory.correct(fact, "hijacked"),
    "forget": lambda memory, fact: memory.forget(fact),
    "restore": lambda memory, fact: memory.restore(fact),
    "accept": lambda memory, fact: memory.accept(fact),
    "reject": lambda memory, fact: memory.reject(fact),
    "derive": lambda memory, fact: memory.add("more", derived_from=[fact]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_no_user_of_a_program_reaches_the_facts_of_another(tmp_path: Path, change: Change) -> None:
    store = f"sqlite:///{tmp_path}/facts.db"
    ada = Memory(store, cwd=tmp_path, user="ada", agent="clerk")
    bob = Memory(store, cwd=tmp_path, user="bob", agent="porter")
    fact = await ada.add("My card is blue", scope="user")
    with pytest.raises(UsageError, match=f"There is no fact '{fact.id}'"):
        await change(bob, fact.id)
    of_agent = await ada.add("Be short", scope="agent")
    with pytest.raises(UsageError, match="belongs to the agent clerk"):
        await change(bob, of_agent.id)
    assert [one.text for one in await ada.list(scope="user")] == ["My card is blue"]
    assert [one.text for one in await ada.list(scope="agent")] == ["Be short"]


async def test_a_server_reaches_by_an_id_what_its_callers_can_list(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/facts.db"
    elsewhere = await Memory(store, cwd=tmp_path).add("Tests run with make")
    of_ada = await Memory(store, cwd=tmp_path, user="ada").add("My card is blue", scope="user")
    of_agent = await Memory(store, cwd=tmp_path, agent="clerk").add("Be short", scope="agent")
    with serve(tmp_path / "served", store=store) as running:
        for fact in (elsewhere, of_ada):
            for method in ("GET", "DELETE"):
                assert running.ask(method, f"/v1/facts/{fact.id}").status == 404
        assert running.ask("GET", f"/v1/facts/{of_agent.id}").json["text"] == "Be short"
        assert running.ask("DELETE", f"/v1/facts/{of_agent.id}").json == {"deleted": [of_agent.id]}
    assert [one.text for one in await Memory(store, cwd=tmp_path).list()] == ["Tests run with make"]
