"""A session goes into a file and out of it again, whole or not at all."""

import base64
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.commands.killed import kill_in_command
from support.places import FIXTURES
from support.stores.databases import DATABASES, fresh_url

from sandbur.state.maintenance.export import export_session, parse_if_reversible, to_stored_text
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

JSON = ("--output-format", "json")


def talk(command: Command, *words: str) -> str:
    return command.run("-p", *words, "-m", "demo", *JSON).result["session_id"]


def exported(command: Command, session_id: str) -> list[Any]:
    return command.run("sessions", "export", session_id).lines


def import_lines(command: Command, lines: list[Any]) -> Any:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return command.run("sessions", "import", "-", "--yes", stdin=text)


def test_an_imported_session_says_the_same_and_goes_on(here: Command, there: Command) -> None:
    (here.folder / "a.txt").write_text("before\n")
    session_id = talk(here, "replace before with after in a.txt", "--yolo")
    ended = here.run("sessions", "export", session_id, "out.jsonl")
    assert (ended.code, ended.out) == (0, "")
    file = here.folder / "out.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    taken = there.run("sessions", "import", "out.jsonl", "--yes")
    assert (taken.code, taken.out.strip()) == (0, session_id)
    show = ("sessions", "show", session_id, "--json")
    before, after = json.loads(here.run(*show).out), json.loads(there.run(*show).out)
    ours = {"updated_at": "", "mode": "", "is_foreign": ""}
    assert {**before, **ours} == {**after, **ours}
    again = exported(there, session_id)
    added = [line for line in again if line["kind"] != "session"]
    for line in exported(here, session_id):
        if line["kind"] != "session":
            added.remove(line)
    assert [(line["kind"], line["event"]) for line in added] == [("trace", "imported")]
    assert "blob" in {line["kind"] for line in again}
    assert there.run("doctor").code == 0
    assert there.run("-p", "-r", session_id, "run echo more", "--yolo", *JSON).result["status"] == "done"


def test_a_fork_brings_what_it_was_forked_from(here: Command, there: Command) -> None:
    parent = talk(here, "hello")
    fork = here.run("fork", parent, "--at", "0").out.strip()
    here.run("-p", "-r", fork)
    assert import_lines(there, exported(here, fork)).code == 0
    assert there.run("-p", "-r", fork, "run echo hi", "--yolo").code == 0
    assert there.run("-p", "-r", parent, "and on").code == 0
    second = here.run("fork", parent).out.strip()
    taken = import_lines(there, exported(here, second))
    assert taken.code == 0, taken.err
    assert there.run("doctor").code == 0


def test_a_parent_that_is_there_in_another_state_is_refused(here: Command, there: Command) -> None:
    parent = talk(here, "hello")
    assert import_lines(there, exported(here, parent)).code == 0
    here.run("-p", "-r", parent, "more")
    fork = here.run("fork", parent).out.strip()
    ended = import_lines(there, exported(here, fork))
    assert ended.code == 2
    assert "but with other records" in ended.err


def test_a_session_that_is_there_already_is_refused(here: Command) -> None:
    session_id = talk(here, "hello")
    ended = import_lines(here, exported(here, session_id))
    assert (ended.code, ended.out) == (2, "")
    assert f"A session {session_id} exists already." in ended.err


def test_a_run_that_waits_for_a_decision_waits_there_too(here: Command, there: Command) -> None:
    session_id = kill_in_command(here)
    here.run("-p", "-r", session_id)
    assert import_lines(there, exported(here, session_id)).code == 0
    assert there.run("-p", "-r", session_id, *JSON).result["status"] == "needs_decision"
    assert there.run("settle", session_id, "--as", "done", *JSON).result["status"] == "done"


def broken(lines: list[Any]) -> Iterator[tuple[str, list[Any], str]]:
    """Yield damaged exports, and the error message for each."""
    at = next(number for number, line in enumerate(lines) if line["kind"] == "message")
    message = lines[at]

    def with_line(**changes: Any) -> list[Any]:
        return [*lines[:at], {**message, **changes}, *lines[at + 1 :]]

    yield (
        "a changed text",
        with_line(body={**message["body"], "origin": "runtime"}),
        f"Line {at + 1} is damaged",
    )
    yield "a changed digest", with_line(digest="0" * 40), f"Line {at + 1} is damaged"
    yield "a missing line", lines[:at] + lines[at + 1 :], "some are missing"
    yield "a line twice", [*lines, message], f"repeats line {at + 1}"
    yield "an unknown kind", with_line(kind="secret"), f"Line {at + 1} has a kind"
    yield "a wrong type", with_line(idx="0"), f"Line {at + 1} has no valid `idx`"
    yield "a hole", with_line(body=None), "is damaged"
    yield "a text that cannot be stored", with_line(body="\0"), f"Line {at + 1} has no valid `body`"
    yield "a stranger", with_line(session_id="x"), f"Line {at + 1} belongs to no session"
    yield "a newer format", [{**lines[0], "format": 99}, *lines[1:]], "of another version: format 99"
    yield "another schema", [{**lines[0], "schema": 1}, *lines[1:]], "schema 1"
    yield "no export", lines[1:], "This is not an export of Sandbur."
    yield "nothing", [], "This is not an export of Sandbur."
    yield "no session", lines[:1], "the exported session is missing"
    yield "no settings", [lines[0], {**lines[1], "settings": {"cwd": 3}}, *lines[2:]], "Line 2 has settings"
    yield "a number", [*lines, 3], f"Line {len(lines) + 1} is not a JSON object"


def test_a_damaged_file_is_refused_with_the_number_of_the_line(here: Command, there: Command) -> None:
    lines = exported(here, talk(here, "run echo hi", "--yolo"))
    for what, damaged, problem in broken(lines):
        ended = import_lines(there, damaged)
        assert ended.code == 2, (what, ended.err)
        assert problem in ended.err, what
        assert len(ended.err.splitlines()) == 1, what
    assert there.run("sessions", "list", "--json").lines == []
    assert import_lines(there, lines).code == 0


def test_a_file_that_was_cut_off_is_refused(here: Command, there: Command) -> None:
    session_id = talk(here, "hello")
    whole = here.run("sessions", "export", session_id).out
    inside_a_line = whole.rindex("\n", 0, len(whole) * 3 // 4) + 100
    ended = there.run("sessions", "import", "-", "--yes", stdin=whole[:inside_a_line])
    assert ended.code == 2
    assert "is not JSON: the file is damaged or was cut off" in ended.err


def test_a_changed_file_content_is_found(here: Command, there: Command) -> None:
    (here.folder / "a.txt").write_text("before\n")
    lines = exported(here, talk(here, "replace before with after in a.txt", "--yolo"))
    (blob,) = [line for line in lines if line["kind"] == "blob"]
    blob["base64"] = base64.b64encode(base64.b64decode(blob["base64"])[:-1] + b"x").decode()
    ended = import_lines(there, lines)
    assert ended.code == 2
    assert "file content" in ended.err


def test_an_existing_file_is_not_written_over(here: Command) -> None:
    session_id = talk(here, "hello")
    (here.folder / "out.jsonl").write_text("mine")
    ended = here.run("sessions", "export", session_id, "out.jsonl")
    assert ended.code == 2
    assert "exists already" in ended.err
    assert (here.folder / "out.jsonl").read_text() == "mine"


def test_a_full_disk_leaves_no_half_file(here: Command) -> None:
    session_id = talk(here, "hello")
    ended = here.run("sessions", "export", session_id, "/no/such/out.jsonl")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)


def test_an_output_that_is_no_text_comes_back_byte_by_byte(here: Command, there: Command) -> None:
    session_id = talk(here, "run head -c 60000 /dev/zero | tr '\\0' '\\377'", "--yolo")
    lines = exported(here, session_id)
    outputs = [line for line in lines if line["kind"] == "output"]
    assert base64.b64decode(outputs[0]["base64"]) == b"\xff" * 60_000
    assert import_lines(there, lines).code == 0
    assert [line for line in exported(there, session_id) if line["kind"] == "output"] == outputs


@pytest.mark.parametrize("kind", DATABASES)
async def test_a_session_moves_between_any_two_kinds_of_database(
    kind: str, here: Command, tmp_path: Path
) -> None:
    (here.folder / "a.txt").write_text("before\n")
    session_id = talk(here, "replace before with after in a.txt", "--yolo")
    with fresh_url(kind, tmp_path / "other") as url:
        words = ("--store", url)
        lines = exported(here, session_id)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        taken = here.run("sessions", "import", "-", "--yes", *words, stdin=text)
        assert taken.code == 0, taken.err
        assert here.run("-p", "-r", session_id, "run echo hi", "--yolo", *words).code == 0
        back = here.run("sessions", "export", session_id, *words).out
        shutil.rmtree(here.folder / "data")
        assert here.run("sessions", "import", "-", "--yes", stdin=back).code == 0
    assert here.run("doctor").code == 0
    store = Store.open(f"sqlite:///{here.folder}/data/sandbur.db")
    assert len(list(export_session(store.database, session_id))) > len(lines)
    store.close()


@pytest.mark.parametrize(
    "text",
    ['{"a":1}', '{"a": 1}', '{"a":1e-7}', '{"a":1,"a":2}', '"words"', "[]", "no json", '{"a":"\\u00e4"}', ""],
)
def test_a_stored_text_is_the_same_after_it_was_made_readable(text: str) -> None:
    assert to_stored_text(json.loads(json.dumps(parse_if_reversible(text)))) == text


def test_what_would_be_masked_today_is_exported_only_as_recorded(here: Command) -> None:
    session_id = talk(here, "hello correct-horse-battery-19")
    here.env["DEPLOY_TOKEN"] = "correct-horse-battery-19"
    refused = here.run("sessions", "export", session_id, "out.jsonl")
    assert (refused.code, "text that looks like a secret" in refused.err) == (2, True)
    assert not (here.folder / "out.jsonl").exists()
    assert "correct-horse" not in here.run("sessions", "export", session_id, "--format", "md").out
    whole = here.run("sessions", "export", session_id, "--as-recorded")
    assert (whole.code, "correct-horse" in whole.out) == (0, True)


def test_a_pipe_is_no_file_to_import_from_by_name(here: Command) -> None:
    os.mkfifo(here.folder / "pipe")
    writer = os.open(here.folder / "pipe", os.O_RDWR)
    ended = here.run("sessions", "import", "pipe")
    os.close(writer)
    assert ended.code == 2
    assert "sandbur sessions import -" in ended.err


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("export-*.jsonl")), ids=lambda file: file.stem)
def test_an_export_of_an_older_version_comes_in(here: Command, file: Path) -> None:
    taken = here.run("sessions", "import", str(file), "--yes")
    assert taken.code == 0, taken.err
    assert here.run("sessions", "verify", taken.out.strip()).code == 0
