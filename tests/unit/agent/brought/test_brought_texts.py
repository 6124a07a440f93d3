"""Skills and commands of files: what is found, in which order, what is left out, and what is trusted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbur.agent.extensions.markdown_files import TextFolder, folders_of, split_front_matter
from sandbur.agent.extensions.prompt_commands import PromptCommand, find_commands
from sandbur.agent.extensions.skills.catalogue import find_skills
from sandbur.state.errors import ConfigError, UsageError

Write = Callable[[str, str], Path]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return written


def skill(name: str = "", description: str = "what it is for", body: str = "Do it well.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"


def trust_all(project: Path, env: dict[str, str]) -> None:
    for kind in ("skills", "commands"):
        for folder in folders_of(kind, project, env):
            if folder.is_project:
                folder.trust(env)


@pytest.mark.parametrize(
    ("text", "fields", "body"),
    [
        ("no fields", {}, "no fields"),
        ("---\nname: a\n---\nbody", {"name": "a"}, "body"),
        ("\ufeff---\nName:  'it''s'  \n---\n", {"name": "it's"}, ""),
        ('---\na: "x # y"\nb: z # note\n---\n', {"a": "x # y", "b": "z"}, ""),
        ("---\na: >-\n  one\n  two\nb: |\n  c\n---\n", {"a": "one\ntwo", "b": "c"}, ""),
        (
            "---\na:\n  - Read\n  - Bash(git *)\nb: [x, 'y']\n---\n",
            {"a": "Read, Bash(git *)", "b": "x, y"},
            "",
        ),
        ("---\na: one\n  two\n: broken\n\t?\n---\nb", {"a": "one two"}, "b"),
        ("---\nnever: closed\nbody", {}, "---\nnever: closed\nbody"),
        ("---\na: 1\na: 2\n---", {"a": "1"}, ""),
    ],
)
def test_fields_above_a_text(text: str, fields: dict[str, str], body: str) -> None:
    read = split_front_matter(text)
    assert (dict(read.fields), read.body) == (fields, body)


def test_skills_of_the_project_go_before_those_of_the_person(
    project: Path, env: dict[str, str], write: Write
) -> None:
    write("project/.agents/skills/a/SKILL.md", skill("a", "first"))
    write("project/.claude/skills/a/SKILL.md", skill("a", "second"))
    write("project/.claude/skills/b/SKILL.md", skill("b"))
    write("home/.sandbur/skills/b/SKILL.md", skill("b", "of the person"))
    write("home/.claude/skills/c/SKILL.md", skill("c"))
    write("home/.claude/skills/c/references/deep/SKILL.md", skill("x"))
    before = find_skills(project, env)
    assert list(before.skills) == ["b", "c"]
    assert len(before.untrusted) == len(before.notices) == 2
    trust_all(project, env)
    (project / "sub").mkdir()
    found = find_skills(project / "sub", env)
    assert {name: one.description for name, one in found.skills.items()} == {
        "a": "first", "b": "what it is for", "c": "what it is for",
    }  # fmt: skip
    assert found.notices == ()


def test_trust_ends_with_the_first_change_of_any_file(
    project: Path, env: dict[str, str], write: Write
) -> None:
    write("project/.agents/skills/a/SKILL.md", skill("a"))
    script = write("project/.agents/skills/a/scripts/do.sh", "echo fine")
    trust_all(project, env)
    found = find_skills(project, env)
    script.write_text("rm -rf /")
    with pytest.raises(ConfigError, match="was changed since the session began"):
        found.skills["a"].within.read("a/scripts/do.sh")
    again = find_skills(project, env)
    assert again.skills == {}
    assert "not trusted" in again.notices[0]


def test_a_wrong_name_is_told_and_a_missing_description_leaves_out(
    project: Path, env: dict[str, str], write: Write
) -> None:
    write("home/.agents/skills/pdf/SKILL.md", skill("PDF \x1b[31mTools\u202e"))
    write("home/.agents/skills/none/SKILL.md", skill("none", ""))
    write("home/.agents/skills/latin/SKILL.md", "").write_bytes(b"---\nname: latin\ndescription: \xff\n---\n")
    found = find_skills(project, env)
    (name,) = found.skills
    assert name == "PDF-31mTools"
    assert any("should be that of its folder" in one for one in found.notices)
    assert any("none/SKILL.md has no description" in one for one in found.notices)
    assert any("is not UTF-8" in one for one in found.notices)


def test_nothing_outside_of_a_folder_is_read(project: Path, env: dict[str, str], write: Write) -> None:
    secret = write("secret", "s")
    write("project/.agents/skills/a/SKILL.md", skill("a"))
    (project / ".agents/skills/a/link").symlink_to(secret)
    (project / ".agents/skills/b").symlink_to(secret.parent)
    folder = TextFolder(project / ".agents/skills", True)
    assert list(folder.files) == ["a/SKILL.md"]
    for name in ("a/link", "../../../secret", "/etc/passwd", "a/../../../../secret", "b/secret", ""):
        with pytest.raises(ConfigError):
            folder.read(name)


def command(body: str) -> PromptCommand:
    return PromptCommand("x", "d", "", "", "", body, Path("x.md"))


@pytest.mark.parametrize(
    ("body", "words", "said"),
    [
        ("Look at $1 and $2.", "'a b' c", "Look at a b and c."),
        ("Look at $1 and $2.", "a", "Look at a and ."),
        ("All: $ARGUMENTS", "a 'b", "All: a 'b"),
        ("$1", "$2 x", "$2"),
        ("Do it.", "", "Do it."),
        ("Do it.", "for a", "Do it.\n\nfor a"),
        ("It costs $100 and $ 1.", "", "It costs 0 and $ 1."),
        ("Say `hi!` and ``!`` a.", "", "Say `hi!` and ``!`` a."),
    ],
)
def test_what_is_typed_goes_to_its_places(body: str, words: str, said: str) -> None:
    assert command(body).message(words) == said


def test_what_a_command_runs_first_is_known_before_anything_that_is_typed() -> None:
    made = command("Look: !`git log $1` and !`ls`. Now: $2")
    assert made.runs("main '!`rm -rf x`'") == ("git log main", "ls")
    ran = "this command ran just now; its output is above"
    assert made.message("main '!`rm -rf x`'", has_run=True) == (
        f"Look: `git log main` ({ran}) and `ls` ({ran}). Now: !`rm -rf x`"
    )


def test_a_command_that_runs_something_first_is_refused_outside_of_the_chat() -> None:
    with pytest.raises(UsageError, match="only the chat can do that"):
        command("Status: !`git status`").message("")


def test_a_folder_that_cannot_be_looked_at_has_no_commands(
    project: Path, env: dict[str, str], write: Write
) -> None:
    write("home/.claude/commands/hello.md", "# Say hello")
    (project / ".claude").symlink_to("a" * 300)
    assert list(find_commands(project, env).commands) == ["hello"]


def test_commands_are_named_after_their_folders(project: Path, env: dict[str, str], write: Write) -> None:
    fields = (
        "---\ndescription: Look at it\nargument-hint: FILE\nmodel: a/b\nallowed-tools: Bash(git *)\n---\n"
    )
    write("project/.sandbur/commands/git/review.md", f"{fields}Review $1")
    write("project/.agents/commands/git/review.md", "another")
    write("home/.claude/commands/hello.md", "# Say hello\nto me")
    write("home/.claude/commands/not a name.md", "x")
    write("home/.claude/commands/empty.md", "---\ndescription: x\n---\n")
    assert list(find_commands(project, env).commands) == ["hello"]
    trust_all(project, env)
    found = find_commands(project, env)
    assert list(found.commands) == ["git:review", "hello"]
    review = found.commands["git:review"]
    assert (review.description, review.argument_hint, review.model) == ("Look at it", "FILE", "a/b")
    assert review.message("a.py") == "Review a.py"
    assert found.commands["hello"].description == "Say hello"
    assert len(found.notices) == 2
