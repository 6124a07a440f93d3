"""`sandbur plan list`, `show`, `save` and `use`, and `/plan` of the chat with saved plans."""

from pathlib import Path

import pytest
from support.commands.command import Command, Ended

from sandbur.agent.extensions.markdown_files import TextFolder

TEXT = "# Write a note about {what}\n## Write it\n- writes: notes/\n"
PLAIN = "# Look\n- expects: it is known\n## List the files\n"


@pytest.fixture
def project(command: Command) -> Path:
    (command.folder / "project/.git").mkdir(parents=True)
    folder = command.folder / "project/.sandbur/plans"
    folder.mkdir(parents=True)
    (folder / "note.md").write_text(TEXT)
    (folder / "look.md").write_text(PLAIN)
    return folder


def run(command: Command, *words: str) -> Ended:
    return command.run("plan", *words, "-C", str(command.folder / "project"))


def trust(folder: Path, command: Command) -> None:
    TextFolder(folder, True).trust(command.env)


def test_plans_of_a_project_are_listed_and_shown_once_they_are_trusted(
    command: Command, project: Path
) -> None:
    before = run(command, "list")
    assert (before.code, before.out) == (0, "")
    assert "are not trusted" in before.err
    trust(project, command)
    listed = run(command, "list")
    assert listed.out.splitlines() == [
        f"look\tLook\t{project}/look.md",
        f"note\tWrite a note about {{what}}\t{project}/note.md",
    ]
    assert run(command, "show", "look").out == PLAIN
    (first, second) = run(command, "list", "--json").lines
    assert (first["name"], second["values"], second["project"]) == ("look", ["what"], True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show", "../note"], "cannot name a plan"),
        (["show", "nothing"], "There is no saved plan nothing."),
        (["show"], "needs the NAME of a plan"),
        (["save", "note"], "needs a session"),
        (["list", "--approve"], "--approve"),
        (["use", "note"], "The plan note needs what."),
        (["use", "note", "what=x", "--json"], "--json"),
    ],
)
def test_wrong_words_get_one_sentence(command: Command, project: Path, words: list[str], why: str) -> None:
    trust(project, command)
    ended = run(command, *words)
    assert (ended.code, ended.out) == (2, "")
    assert why in ended.err


def test_a_plan_that_names_what_it_may_do_needs_an_approval(command: Command, project: Path) -> None:
    trust(project, command)
    asked = run(command, "use", "note", "what=ada", "-m", "demo")
    assert (asked.code, asked.out) == (3, "")
    assert "# Write a note about ada" in asked.err
    assert "add --approve" in asked.err
    assert command.run("sessions", "list", "--json").lines == []
    words = ("use", "note", "what=ada", "--approve", "-m", "demo", "--output-format", "json")
    ended = run(command, *words)
    assert [one["description"] for one in ended.result["steps"]] == ["Write it"]
    assert ended.result["workflow_mode"] == "vibe"


def test_a_plan_without_permissions_begins_at_once_and_can_be_saved_again(
    command: Command, project: Path
) -> None:
    trust(project, command)
    ended = run(command, "use", "look", "and be quick", "-m", "demo", "--output-format", "json")
    session = ended.result["session_id"]
    assert ended.result["steps"][0]["description"] == "List the files"
    saved = run(command, "save", "again", session)
    assert (saved.code, (project / "again.md").read_text().splitlines()[:2]) == (
        0,
        ["# Look", "- expects: it is known"],
    )
    # The folder was trusted, and the person wrote the new file.
    assert "again" in run(command, "list").out
    assert run(command, "save", "again", session).code == 2
