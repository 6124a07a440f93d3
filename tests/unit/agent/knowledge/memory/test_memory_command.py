"""`sandbur memory` and `/memory`: a person looks at facts, corrects, forgets and restores them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.commands.command import Command, Ended
from support.models.scripted import ScriptedModel
from support.screens.slash_desk import SlashDesk, slash_desk

from sandbur.state.memory.fact_store import FactStore, NewFact
from sandbur.state.memory.facts import FactScope, Provenance
from sandbur.state.memory.proposals import Proposals
from sandbur.state.store.store import Store
from sandbur.ui.chat.decisions.questions import GivenAnswer
from sandbur.ui.commands.knowledge.memory.slash import list_memory_choices


def run(command: Command, *words: str, **more: Any) -> Ended:
    return command.run("memory", *words, **more)


def add(command: Command, *words: str) -> str:
    added = run(command, "add", *words)
    assert added.code == 0, added.err
    return added.out.strip()


def test_a_fact_is_added_listed_shown_and_corrected(command: Command) -> None:
    assert "Nothing is remembered here." in run(command).err
    first = add(command, "The port is 8080", "--path", "port.md", "--kind", "setting")
    leaf = add(command, "Clients dial 8080", "--from", first[:8])
    add(command, "Answer in German", "--scope", "user")
    assert [row.split("  ")[-1] for row in run(command).out.splitlines()] == [
        "Answer in German", "Clients dial 8080", "The port is 8080",
    ]  # fmt: skip
    assert [one["text"] for one in run(command, "list", "--json", "--scope", "user").lines] == [
        "Answer in German"
    ]
    edited = run(command, "edit", first[:10], "The port is 9090", "--reason", "it was moved")
    assert "What was derived from the old text (1) is forgotten:" in edited.err
    shown = run(command, "show", first[:8]).out
    assert f"state      superseded by {edited.out.strip()}" in shown
    assert "it was moved" in shown
    assert "path       /memories/project/port.md" in shown
    states = {one["text"]: one["state"] for one in run(command, "list", "--all", "--json").lines}
    assert states["Clients dial 8080"] == "forgotten"
    assert run(command, "restore", first).code == 0
    assert run(command, "show", leaf, "--json").result["state"] == "valid"
    assert [one["text"] for one in run(command, "search", "port", "--json").lines] == ["The port is 8080"]
    none = run(command, "search", "zebra")
    assert (none.code, none.out, none.err.strip()) == (1, "", "No fact matches.")


def test_forgetting_shows_what_goes_along_and_needs_a_yes(command: Command) -> None:
    first = add(command, "The port is 8080")
    add(command, "Clients dial 8080", "--from", first)
    asked = run(command, "forget", first)
    assert asked.code == 2
    assert "What was derived from it (1) goes along:" in asked.err
    assert "Add --yes." in asked.err
    assert len(run(command).out.splitlines()) == 2
    done = run(command, "forget", first, "--yes", "--reason", "old")
    assert done.code == 0
    assert f"sandbur memory restore {first[:8]}" in done.err
    assert run(command).out == ""


def propose(command: Command, text: str, fact_id: str, session_id: str = "s1") -> None:
    """Let a fact wait for a person, as if it was found in the output of a tool."""
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    scope = FactScope(kind="project", key=str(command.folder.resolve()))
    provenance = Provenance(origin="tool", session_id=session_id, step=1, call_id="c1")
    Proposals(FactStore(store.database)).propose(NewFact(text, scope, provenance=provenance), fact_id)
    store.close()


def test_proposals_are_listed_accepted_rejected_and_forgotten_with_their_source(command: Command) -> None:
    assert "No fact waits for you." in run(command, "review").err
    propose(command, "The port is 8080", "aaaa1")
    propose(command, "The host is evil.example", "bbbb1")
    listed = run(command, "review", "--json").lines
    assert [(one["id"], one["state"]) for one in listed] == [("aaaa1", "proposed"), ("bbbb1", "proposed")]
    assert run(command).out == ""
    decided = run(command, "review", "--accept", "aaaa1", "--reject", "bbbb1")
    assert decided.code == 0, decided.err
    assert [one["text"] for one in run(command, "list", "--json").lines] == ["The port is 8080"]
    assert "is valid, and not a proposal" in run(command, "review", "--accept", "aaaa1").err
    traced = run(command, "trace", "aaaa1")
    assert "from the same call (1)" in traced.out
    assert "sandbur memory forget --from-call c1" in traced.out
    asked = run(command, "forget", "--from-session", "s")
    assert (asked.code, "Add --yes." in asked.err) == (2, True)
    assert run(command, "forget", "--from-call", "c1", "--yes").code == 0
    assert run(command).out == ""
    assert run(command, "restore", "aaaa1").code == 0
    assert len(run(command).out.splitlines()) == 1


def test_doctor_names_facts_that_no_search_finds_and_entries_without_a_fact(command: Command) -> None:
    add(command, "The port is 8080")
    assert "no search finds" not in command.run("doctor").out
    with closing(sqlite3.connect(command.folder / "data/sandbur.db", isolation_level=None)) as connection:
        connection.execute("UPDATE facts SET state = 'forgotten'")
    assert "entries of the search without a valid fact: 1" in command.run("doctor").out
    with closing(sqlite3.connect(command.folder / "data/sandbur.db", isolation_level=None)) as connection:
        connection.execute("UPDATE facts SET state = 'valid'")
        connection.execute("DELETE FROM documents")
    assert "facts that no search finds: 1" in command.run("doctor").out


def test_an_export_is_imported_into_another_project(command: Command) -> None:
    add(command, "The port is 8080", "--path", "port.md")
    file = command.folder / "memory.jsonl"
    assert run(command, "export", str(file)).err.strip() == f"Exported 1 fact to {file}."
    assert file.stat().st_mode & 0o777 == 0o600
    assert "exists already" in run(command, "export", str(file)).err
    (command.folder / "other").mkdir()
    other = ("-C", str(command.folder / "other"))
    store = ("--store", f"sqlite:///{command.folder}/other.db")
    assert "Added 1 fact;" in run(command, "import", str(file), "--scope", "project", *other, *store).err
    (found,) = run(command, "list", "--json", *other, *store).lines
    assert (found["text"], found["scope_key"]) == ("The port is 8080", str(command.folder / "other"))
    again = run(command, "import", str(file), "--scope", "project", *other, *store)
    assert "Added 0 facts; 1 was there already." in again.err
    text = file.read_text().replace("The port is 8080", "ghp_abcdefghijklmnopqrstuvwxyz0123456789")
    assert "contains a secret" in run(command, "import", "-", *store, stdin=text).err


def test_an_import_says_whose_the_facts_are_and_puts_those_of_a_project_here(command: Command) -> None:
    first = add(command, "The port is 8080")
    add(command, "Clients dial 8080", "--from", first)
    add(command, "Answer in German", "--scope", "user")
    run(command, "edit", first, "The port is 9090", "--reason", "it was moved")
    file = command.folder / "memory.jsonl"
    run(command, "export", str(file))
    (command.folder / "other").mkdir()
    other = ("-C", str(command.folder / "other"))
    for more in ((), ("--store", f"sqlite:///{command.folder}/other.db")):
        told = run(command, "import", str(file), *other, *more).err
        assert f"3 facts belong to the project {command.folder}, and are not found here." in told
        assert f"sandbur memory import {file} --here" in told
        assert [one["text"] for one in run(command, "list", "--json", *other, *more).lines] == [
            "Answer in German"
        ]
        assert "Added 3 facts; 1 was there already." in run(
            command, "import", str(file), "--here", *other, *more
        ).err  # fmt: skip
        assert "Added 0 facts" in run(command, "import", str(file), "--here", *other, *more).err
        listed = run(command, "list", "--all", "--json", *other, *more).lines
        assert {(one["text"], one["scope"], one["state"]) for one in listed} == {
            ("Answer in German", "user", "valid"),
            ("The port is 9090", "project", "valid"),
            ("The port is 8080", "project", "superseded"),
            ("Clients dial 8080", "project", "forgotten"),
        }
        ids = {one["text"]: one["id"] for one in listed}
        (old,) = [one for one in listed if one["text"] == "The port is 8080"]
        assert old["superseded_by"] == ids["The port is 9090"]
    assert {
        one["scope_key"] for one in run(command, "list", "--all", "--json", "--scope", "project").lines
    } == {str(command.folder)}


@pytest.mark.parametrize("text", ["{}", "[]", "hello", '{"type": "session"}', '{"fact": {}}'])
def test_a_file_that_is_no_export_is_refused(command: Command, text: str) -> None:
    done = run(command, "import", "-", stdin=text)
    assert (done.code, "This is not an export of facts." in done.err) == (2, True)


def test_a_text_that_was_corrected_before_is_added_with_the_reason(command: Command) -> None:
    first = add(command, "The port is 8080")
    edited = run(command, "edit", first, "The service listens on 9090", "--reason", "it was moved")
    assert f"Undo it with: sandbur memory restore {first[:8]}" in edited.err
    again = run(command, "add", "the port is 8080.")
    assert again.code == 0
    assert "This text was corrected on" in again.err
    assert ": it was moved" in again.err
    assert "The service listens on 9090" in again.err
    assert f"Take the new one back with: sandbur memory forget {again.out.strip()[:8]}" in again.err
    assert run(command, "forget", again.out.strip(), "--yes", "--reason", "wrong").code == 0
    assert "This text was forgotten on" in run(command, "add", "The port is 8080").err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show"], "needs the ID of a fact"),
        (["show", "zz"], "There is no fact 'zz'."),
        (["show", "../x"], "There is no fact"),
        (["search"], "needs WORDS"),
        (["add", "two", "words"], "`words` is one word too many."),
        (["add", ""], "A fact needs a text."),
        (["add", "x", "--scope", "world"], "'world' is not a scope of memory."),
        (["add", "x", "--scope", "agent"], "needs the name of the agent"),
        (["add", "x", "--kind", "A b"], "is not a kind of facts"),
        (["add", "x", "--path", "../x"], "is not a path of a fact"),
        (["add", "key ghp_abcdefghijklmnopqrstuvwxyz0123456789"], "contains a secret"),
        (["list", "--yes"], "--yes belongs to `sandbur memory forget`."),
        (["import", "none.jsonl"], "cannot be read"),
        (["dance"], "sandbur: `dance` is not a known value; the values are list, search"),
        (["import", "x", "--here", "--scope", "user"], "--here and --scope exclude each other."),
        (["list", "--here"], "--here belongs to `sandbur memory import`."),
    ],
)
def test_bad_input_is_one_sentence(command: Command, words: list[str], why: str) -> None:
    done = run(command, *words)
    assert done.code == 2
    assert why in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1


class Pressed(NamedTuple):
    key: str


async def read(desk: SlashDesk, text: str) -> str:
    desk.read_output()
    await desk.type(text)
    return " ".join(desk.read_output().split())


async def test_the_chat_has_the_same_verbs(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, ScriptedModel()) as desk:
        assert "Nothing is remembered here." in await read(desk, "/memory")
        assert "Remembered for the project" in await read(desk, "/memory add The port is 8080")
        added = await read(desk, "/memory add user Answer in German")
        assert "Remembered for all projects." in added
        listed = await read(desk, "/memory list")
        fact = next(word for word in listed.split("project")[0].split()[::-1] if len(word) == 8)
        assert "The port is 8080" in await read(desk, "/memory search ports")
        assert f"id {fact}" in await read(desk, f"/memory show {fact}")
        corrected = await read(desk, f"/memory edit {fact} The port is 9090")
        assert f"Corrected {fact}" in corrected
        assert "Restored:" in await read(desk, f"/memory restore {fact}")
        picks: list[Any] = desk.picks
        picks.append(Pressed("n"))
        assert "Nothing was forgotten." in await read(desk, f"/memory forget {fact}")
        picks.append(Pressed("y"))
        assert "Forgotten." in await read(desk, f"/memory forget {fact}")
        assert "8080" not in await read(desk, "/memory list")
        assert "needs an ID" in await read(desk, "/memory show")
        assert "has no 'dance'" in await read(desk, "/memory dance")
    assert "forget" in [offer.text for offer in list_memory_choices(None)]


async def test_the_chat_asks_about_each_proposal(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, ScriptedModel()) as desk:
        facts = FactStore(desk.runtime.store.database)
        scope = FactScope(kind="project", key=str(Path(desk.session.settings.cwd).resolve()))
        for number, text in enumerate(("The port is 8080", "The cat is black", "The sky is blue")):
            Proposals(facts).propose(NewFact(text, scope), f"id{number}")
        picks: list[Any] = desk.picks
        picks += [GivenAnswer("y"), GivenAnswer(text="The cat is white"), GivenAnswer("n")]
        reviewed = await read(desk, "/memory review")
        assert "3 of 3" in reviewed
        assert "Accepted: fact id0." in reviewed
        assert "Rejected." in reviewed
        listed = await read(desk, "/memory list")
        assert "The port is 8080" in listed
        assert "The cat is white" in listed
        assert "blue" not in listed
        assert "No fact waits for you." in await read(desk, "/memory review")


async def test_recall_finds_facts_and_messages_together(tmp_path: Path) -> None:
    async with slash_desk(tmp_path, ScriptedModel()) as desk:
        assert "Nothing in memory or since the session began matches." in await read(desk, "/recall bittern")
        await desk.type("/memory add The bittern nests in reeds")
        found = await read(desk, "/recall nest of the bittern")
        assert found.startswith("From memory")
        assert "The bittern nests in reeds" in found
        assert "Nothing in memory" not in found


def test_control_characters_of_a_fact_do_not_reach_the_screen(command: Command) -> None:
    assert "control character" in run(command, "add", "a \x1b[31m b").err
    add(command, "one\n\u202etwo")
    assert "\u202e" not in run(command).out
    assert "\u202e" not in run(command, "show", json.loads(run(command, "list", "--json").out)["id"]).out
