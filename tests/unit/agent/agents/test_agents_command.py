"""`sandbur agents list`, `show` and `new`."""

import json
from pathlib import Path

import pytest
from support.commands.command import Command

from sandbur.agent.agents.markdown.agent_files import find_agents
from sandbur.agent.agents.markdown.agent_parser import parse_agent
from sandbur.agent.agents.markdown.front_matter import Notices


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project within the home folder of the command."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    return project


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_new_agent_of_the_person_is_listed_and_shown(tmp_path: Path) -> None:
    command = Command(tmp_path)
    made = command.run("agents", "new", "deep-thinker", "--user")
    path = tmp_path / ".config/sandbur/agents/deep-thinker.md"
    assert (made.code, made.out) == (0, "")
    assert f"Wrote {path}." in made.err
    listed = command.run("agents")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.startswith(f"deep-thinker\tinherit\t{path}\t")
    shown = command.run("agents", "show", "deep-thinker")
    assert shown.code == 0
    assert f"file         {path}\n" in shown.out
    assert "\n\nYou are deep-thinker." in shown.out


def test_the_template_is_an_agent_and_each_of_its_keys_is_known(tmp_path: Path) -> None:
    Command(tmp_path).run("agents", "new", "it", "--user")
    text = (tmp_path / ".config/sandbur/agents/it.md").read_text()
    notices = Notices()
    assert parse_agent(Path("it.md"), text, (), notices).name == "it"
    used = "\n".join(
        line.removeprefix("# ") if line.startswith("# ") and ": " in line and line[2].islower() else line
        for line in text.splitlines()
    )
    spec = parse_agent(Path("it.md"), used, (), notices)
    assert list(notices.render()) == []
    assert (spec.mode, spec.max_turns, spec.isolation, spec.mcp_servers) == ("plan", 20, "copy", ("docs",))


def test_a_new_agent_of_the_project_counts_after_trust_and_is_never_written_over(
    folder: Path, tmp_path: Path
) -> None:
    command = Command(folder)
    command.env["HOME"] = str(tmp_path)
    made = command.run("agents", "new", "tester", "-C", "src")
    path = folder / ".sandbur/agents/tester.md"
    assert made.code == 0, made.err
    assert "Once you trust its folder in the chat" in made.err
    path.write_text("mine")
    again = command.run("agents", "new", "tester")
    assert (again.code, path.read_text()) == (2, "mine")
    assert f"{path} exists already; it was not changed." in again.err
    path.write_text("---\ndescription: Runs the tests\nmodel: lab/small\ntools: Bash\n---\nRun them.")
    listed = command.run("agents", "list")
    assert listed.out == f"tester\tlab/small\t{path} (not trusted)\tRuns the tests\n"
    assert "are not trusted. The chat asks about them." in listed.err
    (one,) = command.run("agents", "list", "--json").lines
    assert one == {
        "name": "tester",
        "description": "Runs the tests",
        "model": "lab/small",
        "source": str(path),
        "project": True,
        "trusted": False,
    }
    shown = json.loads(command.run("agents", "show", "tester", "--json").out)
    assert (shown["trusted"], shown["tools"], shown["instructions"]) == (
        False,
        ["run_shell_command"],
        "Run them.",
    )
    assert find_agents(folder, command.env).agents == {}


def test_what_a_file_says_cannot_play_with_the_terminal(tmp_path: Path) -> None:
    write(
        tmp_path / ".claude/agents/a.md",
        "---\ndescription: x\x1b]0;owned\x07\u202e\nzz\x1bz: 1\n---\n\x1b[2Jgone\r\nline",
    )
    command = Command(tmp_path)
    for words in (("list",), ("show", "a")):
        ended = command.run("agents", *words)
        assert ended.code == 0
        assert not {"\x1b", "\x07", "\u202e", "\r"} & set(ended.out + ended.err)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("show",), "`sandbur agents show` needs the NAME of an agent."),
        (("new",), "`sandbur agents new` needs the NAME of an agent."),
        (("list", "x"), "Did you mean: sandbur agents show x"),
        (("new", "My Agent"), "For example: sandbur agents new my-agent"),
        (("new", "../../x"), "cannot name an agent"),
        (("new", "x" * 300), "cannot name an agent"),
        (("show", "revewer"), "No file describes an agent `revewer` here. Did you mean `reviewer`?"),
        (("show", "a", "--user"), "--user belongs to `sandbur agents new`."),
        (("new", "a", "--json"), "--json belongs to `sandbur agents list`"),
        (("drop",), "drop"),
    ],
)
def test_wrong_words_are_refused_in_one_sentence(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    write(tmp_path / ".claude/agents/a.md", "---\nname: reviewer\ndescription: x\n---\nx")
    ended = Command(tmp_path).run("agents", *words)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert not (tmp_path / ".sandbur").exists()


def test_a_shell_completes_the_names(tmp_path: Path) -> None:
    write(tmp_path / ".claude/agents/a.md", "---\nname: reviewer\ndescription: Reviews\n---\nx")
    write(tmp_path / ".claude/agents/b.md", "---\nname: tester\ndescription: Tests\n---\nx")
    command = Command(tmp_path)
    assert command.run("_complete", "bash", "agents", "show", "").out == "reviewer\ntester\n"
    assert command.run("_complete", "zsh", "agents", "show", "re").out == "reviewer\tReviews\n"
    assert command.run("_complete", "bash", "agents", "new", "").out == ""


def test_nothing_is_written_through_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / ".sandbur").symlink_to(tmp_path / "elsewhere")
    ended = Command(folder).run("agents", "new", "a")
    assert ended.code == 2
    assert "is a link; nothing is written there." in ended.err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    write(folder / ".sandbur/agents", "a file")
    ended = Command(folder).run("agents", "new", "a")
    assert ended.code == 52
    assert f"{folder / '.sandbur/agents'} cannot be created" in ended.err


def test_without_agents_the_next_step_is_named(tmp_path: Path) -> None:
    ended = Command(tmp_path).run("agents", "list")
    assert (ended.code, ended.out) == (0, "")
    assert "Write one: sandbur agents new NAME" in ended.err
    assert Command(tmp_path).run("agents", "list", "--json").lines == []
