"""`sandbur sessions list` prints a page, and says how many more there are."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from support.commands.command import Command
from support.screens.terminal_pair import Terminal

from sandbur.state.process.clock import format_time
from sandbur.state.session import SessionSettings, SpawnedBy
from sandbur.state.store.store import Store
from sandbur.ui.commands.sessions.command import MOST_LISTED

COUNT = MOST_LISTED + 7
DEMO = "11111111-2222-4333-8444-555555555555"


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
    objects = stocked.run("sessions", "list", *words, "--json")
    assert len(lines.out.splitlines()) == len(objects.lines) == listed
    assert [one["id"] for one in objects.lines] == [one.split("\t")[0] for one in lines.out.splitlines()]
    for ended in (lines, objects):
        assert ended.err.startswith(f"{more} more session" if more else "")
        assert bool(ended.err) == bool(more)


def test_an_empty_store_has_no_object(command: Command) -> None:
    assert command.run("sessions", "--json").lines == []
    assert command.run("sessions").err == "There is no session yet. Start one: sandbur\n"


@pytest.fixture
def labelled(command: Command) -> Command:
    """Return a command whose store has sessions of two shops; `demo` is one that ran."""
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db", durability="normal")
    rows: list[tuple[str, str, dict[str, Any]]] = [
        ("s1", "done", {"app": "shop", "user": "ada", "tags": ("vip", "new")}),
        ("s2", "needs_approval", {"app": "shop", "user": "bob", "tags": ("new",)}),
        ("s3", "done", {"app": "bank", "user": "ada"}),
    ]
    for day, (name, status, labels) in enumerate(rows, 1):
        store.index.create(name, SessionSettings(model="demo", cwd="/work", **labels), f"title of {name}")
        noon = format_time(datetime(2026, 3, day, 12).astimezone(UTC))
        sql = "UPDATE heads SET status = ?, updated_at = ? WHERE session_id = ?"
        store.database.commit([(sql, (status, noon, name))])
    store.close()
    ended = command.run("-p", "/mode plan", "-m", "demo", "--session-id", DEMO)
    assert ended.code == 0, ended.err
    return command


def listed(command: Command, *words: str) -> list[str]:
    """Return the ids that are listed, which are the same as lines and as JSON."""
    lines, objects = command.run("sessions", "list", *words), command.run("sessions", *words, "--json")
    assert (lines.code, objects.code) == (0, 0), lines.err
    found = [one["id"] for one in objects.lines]
    assert [line.split("\t")[0] for line in lines.out.splitlines()] == found
    return found


def test_sessions_are_listed_by_labels_status_and_time(labelled: Command) -> None:
    assert listed(labelled, "--app", "shop") == ["s2", "s1"]
    assert listed(labelled, "--user", "ada", "--app", "bank") == ["s3"]
    assert listed(labelled, "--tag", "new") == ["s2", "s1"]
    assert listed(labelled, "--tag", "new", "--tag", "vip") == ["s1"]
    assert listed(labelled, "--status", "needs_approval") == ["s2"]
    assert listed(labelled, "--since", "2026-03-02", "--until", "2026-03-03") == ["s3", "s2"]
    assert listed(labelled, "--since", "2026-03-01T12:00", "--until", "2026-03-02T12:00") == ["s1"]
    assert listed(labelled, "--until", "2026-03-01") == ["s1"]
    assert listed(labelled, "--since", "1h") == [DEMO]
    assert listed(labelled, "--until", "1h") == ["s3", "s2", "s1"]
    assert listed(labelled, "--user", "ada", "--limit", "1") == ["s3"]
    more = labelled.run("sessions", "--user", "ada", "--limit", "1")
    assert more.err == "More sessions match. See them with --all, or --limit N\n"
    assert labelled.run("sessions", "--user", "ada", "--all").err == ""
    none = labelled.run("sessions", "--user", "eve")
    assert none.err == "No session matches. See all: sandbur sessions --all\n"


def test_sessions_are_listed_by_the_words_of_their_messages_and_titles(command: Command) -> None:
    for text in ("the rope and the anvil", "an anvil alone"):
        ended = command.run("-p", text, "-m", "demo", "--output-format", "json")
        assert ended.code == 0, ended.err
    both = listed(command, "--text", "ANVIL")
    (rope,) = listed(command, "--text", "anvil rope")
    assert len(both) == 2
    assert rope == both[1]
    assert listed(command, "--text", "the rope and the") == [rope]
    assert listed(command, "--text", "nothing such") == []
    assert listed(command, "--text", "anvil", "--until", "1d") == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--since", "yesterday"), "`yesterday` is not a time such as 2026-11-05, 2026-11-05T09:30, 3d"),
        (("--until", "2026-02-30"), "`2026-02-30` is not a time"),
        (("--since", "0001-01-01"), "`0001-01-01` is not a time"),
        (("--until", "9999-12-31"), "`9999-12-31` is not a time"),
        (("--since", "999999w"), "`999999w` is not a time"),
        (("--since", ""), "`` is not a time"),
        (("--status", "needs_aproval"), "not a status of a session. Did you mean `needs_approval`?"),
        (("--status", "x"), "The statuses are new, running, done"),
        (("show", "s1", "--text", "x"), "belong to `sandbur sessions list`"),
        (("prune", "--tag", "x"), "belong to `sandbur sessions list`"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_a_selection_is_one_sentence(
    command: Command, words: tuple[str, ...], problem: str
) -> None:
    ended = command.run("sessions", *words)
    assert (ended.code, ended.out) == (2, "")
    assert problem in " ".join(ended.err.split())
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "words", [("list", "--all", "--limit", "3"), ("show", "s001", "--all"), ("--limit", "0")]
)
def test_flags_that_do_not_fit_are_refused(command: Command, words: tuple[str, ...]) -> None:
    ended = command.run("sessions", *words)
    assert ended.code == 2
    assert "--all" in ended.err or "--limit" in ended.err


@pytest.fixture
def family(command: Command) -> Command:
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db", durability="normal")
    store.index.create("parent", SessionSettings(model="demo", cwd="/work"), "title")
    for number in range(3):
        by = SpawnedBy(session_id="parent", sequence=0, call_id=f"c{number}", agents=("reader",))
        settings = SessionSettings(model="demo", cwd="/work", spawned_by=by)
        store.index.create(f"child{number}", settings, f"part {number}")
    store.close()
    return command


def test_a_list_has_the_number_of_sub_agents_in_place_of_them(family: Command) -> None:
    ended = family.run("sessions")
    assert [line.split("\t")[0::6] for line in ended.out.splitlines()] == [["parent", "3"]]
    assert ended.err == ""
    [found] = family.run("sessions", "--json").lines
    assert (found["id"], found["sub_agents"]) == ("parent", 3)


def test_sub_agents_are_listed_with_their_parent_named_or_with_all_sessions(family: Command) -> None:
    ended = family.run("sessions", "--children", "par", "--limit", "2", "--json")
    assert [one["spawned_by"]["session_id"] for one in ended.lines] == ["parent"] * 2
    assert ended.err == "1 more sub-agent is in session parent. See them with --limit N\n"
    assert len(family.run("sessions", "--all").out.splitlines()) == 4


def test_a_session_without_sub_agents_is_named(family: Command) -> None:
    ended = family.run("sessions", "--children", "child1")
    assert (ended.code, ended.out, ended.err) == (0, "", "Session child1 has no sub-agents.\n")
    assert family.run("sessions", "--children", "nobody").code == 2
    assert family.run("sessions", "--children", "child1", "--all").code == 2


def test_continuing_the_newest_session_never_takes_a_sub_agent(command: Command) -> None:
    assert command.run("-p", "first", "-m", "demo").code == 0
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db", durability="normal")
    [parent] = store.sessions()
    by = SpawnedBy(session_id=parent.id, sequence=0, call_id="c", agents=("reader",))
    store.index.create("child", SessionSettings(model="demo", cwd=parent.cwd, spawned_by=by), "part")
    assert store.sessions()[0].id == "child"
    store.close()
    assert command.run("-p", "-c", "second", "--output-format", "json").result["session_id"] == parent.id


def test_what_happens_to_sub_agents_is_said_when_their_session_is_exported_pruned_or_deleted(
    command: Command,
) -> None:
    (command.folder / "shop.py").write_text(PROGRAM)
    parent = command.run("-p", "go", "--agent", "shop:shop", "--output-format", "json").result["session_id"]
    exported = command.run("sessions", "export", parent, "run.jsonl")
    assert exported.err.startswith(f"Exported session {parent} with its 2 sub-agents: ")
    pruned = command.run("sessions", "prune", "--older-than", "0h", "--keep", "0", "--dry-run")
    assert len(pruned.out.splitlines()) == 1
    assert "with its 2 sub-agents" in pruned.out
    assert pruned.err.startswith("Would delete 3 sessions (2 of sub-agents), ")
    deleted = command.run("sessions", "delete", parent)
    assert deleted.err == f"Deleted session {parent} with its 2 sub-agents.\n"
    assert command.run("sessions", "--all", "--json").lines == []
    imported = command.run("sessions", "import", "run.jsonl", "--yes")
    assert "records, with its sub-agents (2). Its settings:" in imported.err
    [found] = command.run("sessions", "--json").lines
    assert (found["id"], found["sub_agents"]) == (parent, 2)


PROGRAM = """
from sandbur import Agent
from sandbur.testing import ScriptedModel, ToolCall

def parent(request):
    calls = [ToolCall("task", description="count", prompt=one, agent="counter") for one in "ab"]
    return "done" if any(message.tool_results for message in request.messages) else calls

counter = Agent(ScriptedModel(lambda request: "3"), name="counter", description="Counts.")
shop = Agent(ScriptedModel(parent), agents=[counter])
"""


MADE = [f"0b9b9da{digit}-3b4a-4a51-8d6c-0f3d5a1d2c{digit}a" for digit in "0123"]
NEAR = MADE[2].replace("-3", "-4", 1)


@pytest.fixture
def spread(command: Command) -> Command:
    """Return a command whose store has sessions of its folder, of one below it, and newer ones elsewhere."""
    (command.folder / ".git").mkdir()
    (command.folder / "below").mkdir()
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db", durability="normal")
    folders = (command.folder, command.folder / "below", "/srv/shop", "/srv/bank")
    for session_id, folder in zip(MADE, folders, strict=True):
        store.index.create(session_id, SessionSettings(model="demo", cwd=str(folder)), f"title of {folder}")
    store.index.create(NEAR, SessionSettings(model="demo", cwd="/work"), "a near id")
    store.close()
    return command


def read_table(command: Command, *words: str, columns: int = 100) -> list[str]:
    with Terminal(columns=columns) as terminal:
        process = command.start("sessions", *words, **terminal.streams, start_new_session=True)
        terminal.drain(process)
        assert process.returncode == 0
        rows = re.sub(r"\x1b\[[0-9;]*m", "", terminal.output.decode()).splitlines()
    assert max(map(len, rows)) <= columns
    return rows


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_table_begins_with_this_folder_and_has_short_ids_that_resume(spread: Command, columns: int) -> None:
    table = read_table(spread, columns=columns)
    assert sum("a near id" in row for row in table) == 1  # not even a narrow window cuts a short title
    head, *rows = (row for row in table if not row.startswith("  "))
    assert head.split()[:3] == ["id", "used", "status"]
    ids = [row.split()[0] for row in rows]
    assert ids[:3] == ["0b9b9da1", "0b9b9da0", "in"]
    assert sorted(ids[3:]) == [MADE[2][:10], NEAR[:10], "0b9b9da3"]
    assert all(row.split()[1] == "0m" for row in rows if not row.startswith("in "))
    for short in (one for one in ids if one != "in"):
        assert spread.run("sessions", "show", short).code == 0
    (bank,) = (row for row in rows if row.startswith("0b9b9da3"))
    assert ("/srv/bank" in bank.partition("title")[0]) == (columns >= 80)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_table_says_that_all_its_sessions_are_in_other_folders(spread: Command, columns: int) -> None:
    (spread.folder / "empty").mkdir()
    (spread.folder / ".git").rmdir()
    rows = read_table(spread, "-C", "empty", columns=columns)
    assert rows.count("in other folders:") == 1
    assert rows.index("in other folders:") <= 2


def test_here_lists_only_this_folder_and_its_repository(spread: Command) -> None:
    assert listed(spread, "--here") == [MADE[1], MADE[0]]
    assert [row.split()[0] for row in read_table(spread, "--here")] == ["id", "0b9b9da1", "0b9b9da0"]
    assert listed(spread, "-C", "below", "--here") == [MADE[1], MADE[0]]
    assert listed(spread, "--here", "--app", "shop") == []
    problem = spread.run("sessions", "show", MADE[0], "--here")
    assert (problem.code, "--here belong" in problem.err) == (2, True)
