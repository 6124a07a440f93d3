"""`sandbur sessions list` prints a page, and says how many more there are."""

import json

import pytest
from support.commands.command import Command

from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store
from sandbur.ui.commands.sessions.command import MOST_LISTED

COUNT = MOST_LISTED + 7


@pytest.fixture
def stocked(command: Command) -> Command:
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db", durability="normal")
    for number in range(COUNT):
        store.index.create(f"s{number:03}", SessionSettings(model="demo", cwd="/work"), f"title {number}")
    store.close()
    return command


def test_a_page_is_listed_and_what_it_leaves_out_is_counted_on_stderr(stocked: Command) -> None:
    ended = stocked.run("sessions")
    assert [line.split("\t")[0] for line in ended.out.splitlines()] == [
        f"s{number:03}" for number in range(COUNT - 1, COUNT - 1 - MOST_LISTED, -1)
    ]
    assert ended.err.splitlines()[-1] == (
        "7 more sessions are in the store. See them: sandbur sessions --all, or --limit N"
    )


@pytest.mark.parametrize(("words", "listed", "more"), [
    (("--limit", "2"), 2, COUNT - 2),
    (("--limit", str(COUNT - 1)), COUNT - 1, 1),
    (("--limit", "5000"), COUNT, 0),
    (("--all",), COUNT, 0),
])  # fmt: skip
def test_the_flags_say_how_many_are_listed(
    stocked: Command, words: tuple[str, ...], listed: int, more: int
) -> None:
    lines = stocked.run("sessions", "list", *words)
    array = stocked.run("sessions", "list", *words, "--json")
    assert len(lines.out.splitlines()) == len(json.loads(array.out)) == listed
    assert [one["id"] for one in json.loads(array.out)] == [
        one.split("\t")[0] for one in lines.out.splitlines()
    ]
    for ended in (lines, array):
        assert ended.err.startswith(f"{more} more session" if more else "")
        assert bool(ended.err) == bool(more)


def test_an_empty_store_is_an_empty_array(command: Command) -> None:
    assert json.loads(command.run("sessions", "--json").out) == []
    assert command.run("sessions").err == "There is no session yet. Start one: sandbur\n"


@pytest.mark.parametrize(
    "words", [("list", "--all", "--limit", "3"), ("show", "s001", "--all"), ("--limit", "0")]
)
def test_flags_that_do_not_fit_are_refused(command: Command, words: tuple[str, ...]) -> None:
    ended = command.run("sessions", *words)
    assert ended.code == 2
    assert "--all" in ended.err or "--limit" in ended.err
