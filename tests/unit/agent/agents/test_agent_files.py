"""Markdown agents of folders: which ones count, which are trusted, and what a model reads of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbur.agent.agents.markdown.agent_files import catalogue, find_agents, read_untrusted_agents
from sandbur.agent.agents.markdown.agent_spec import AgentSpec
from sandbur.agent.extensions.markdown_files import describe_fields, folders_of

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "project/sub").mkdir()
    return tmp_path / "project"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def agent(name: str, description: str = "what it is for", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\nDo it well.\n"


def trust_all(cwd: Path, env: dict[str, str]) -> None:
    for folder in folders_of("agents", cwd, env):
        if folder.is_project:
            folder.trust(env)


def test_the_nearest_agent_of_a_name_counts_and_a_project_only_after_trust(
    project: Path, env: dict[str, str], write: Write
) -> None:
    write("project/sub/.claude/agents/a.md", agent("a", "nearest"))
    write("project/.sandbur/agents/a.md", agent("a", "of the root"))
    write("project/.sandbur/agents/deep/b.md", agent("b", "of the root"))
    write("config/sandbur/agents/b.md", agent("b", "of the person"))
    write("home/.claude/agents/c.md", agent("c", "of the person"))
    before = find_agents(project / "sub", env)
    assert list(before.agents) == ["b", "c"]
    assert not any(spec.is_of_project for spec in before.agents.values())
    assert len(before.untrusted) == len(before.notices) == 2
    waiting, _ = read_untrusted_agents(before.untrusted)
    assert [(spec.name, spec.is_trusted, spec.is_of_project) for spec in waiting] == [
        ("a", False, True), ("a", False, True), ("b", False, True),
    ]  # fmt: skip
    trust_all(project / "sub", env)
    found = find_agents(project / "sub", env)
    assert {name: spec.description for name, spec in found.agents.items()} == {
        "a": "nearest", "b": "of the root", "c": "of the person",
    }  # fmt: skip
    assert (found.untrusted, found.notices) == ((), ())
    assert found.agents["a"].is_of_project
    assert found.agents["a"].source == project / "sub/.claude/agents/a.md"


def test_trust_ends_with_the_first_change_of_a_file(project: Path, env: dict[str, str], write: Write) -> None:
    path = write("project/.sandbur/agents/a.md", agent("a"))
    trust_all(project, env)
    assert list(find_agents(project, env).agents) == ["a"]
    path.write_text(agent("a", more="permissionMode: bypassPermissions\n"))
    again = find_agents(project, env)
    assert (again.agents, len(again.untrusted)) == ({}, 1)
    path.write_text(agent("a", more="maxTurns: many\n"))
    waiting, (mistake,) = read_untrusted_agents(find_agents(project, env).untrusted)
    assert waiting == []
    assert mistake.startswith(f"{path}, line ")
    assert "not trusted" in again.notices[0]


def test_a_bad_file_is_left_out_with_one_sentence_and_the_others_count(
    project: Path, env: dict[str, str], write: Write
) -> None:
    write("project/.sandbur/agents/fine.md", agent("fine"))
    write("project/.sandbur/agents/binary.md", b"\x7fELF\x00\xff\xfe")
    write("project/.sandbur/agents/latin.md", "---\nname: x\ndescription: \xe4\n---\nx".encode("latin-1"))
    write("project/.sandbur/agents/large.md", b"a" * 10_000_000)
    write("project/.sandbur/agents/nul.md", "---\ndescription: x\0\n---\nx")
    write("project/.sandbur/agents/README.md", "# How agents are written here")
    write("project/.sandbur/agents/turns.md", agent("turns", more="maxTurns: many\n"))
    write("project/.sandbur/agents/twice.md", agent("fine"))
    write("home/.claude/agents/large.md", b"a" * 10_000_000)
    trust_all(project, env)
    found = find_agents(project, env)
    assert list(found.agents) == ["fine"]
    assert found.untrusted == ()
    notices = {Path(notice.split(",")[0].split(" ")[0]).name: notice for notice in found.notices}
    assert all(notice.endswith("The agent is left out.") for notice in found.notices)
    assert len(found.notices) == 8
    assert "not UTF-8: byte 0xff in line 1" in notices["binary.md"]
    assert "line 3" in notices["latin.md"]
    assert "NUL character in line 2" in notices["nul.md"]
    assert "no keys between two lines" in notices["README.md"]
    assert "line 4: `maxTurns`" in notices["turns.md"]
    assert "describes an agent `fine`, as" in notices["twice.md"]
    assert sum("'large.md' of up to 1,048,576 bytes" in notice for notice in found.notices) == 2


def test_one_notice_about_many_files_is_one_sentence(
    project: Path, env: dict[str, str], write: Write
) -> None:
    for number in range(30):
        write(f"home/.claude/agents/a{number:02}.md", agent(f"a{number:02}", more="model: sonnet\n"))
    folder = Path(env["HOME"]) / ".claude/agents"
    (notice,) = find_agents(project, env).notices
    assert notice.startswith(f"{folder / 'a00.md'}, line 4 and 29 more files: `model` is `sonnet`")
    assert find_agents(project, env, {"sonnet": "lab/big"}).notices == ()


def test_at_most_two_hundred_agents_count(project: Path, env: dict[str, str], write: Write) -> None:
    for number in range(203):
        write(f"home/.claude/agents/a{number:03}.md", agent(f"a{number:03}"))
    found = find_agents(project, env)
    assert len(found.agents) == 200
    (notice,) = found.notices
    assert "over 200 agents" in notice
    assert "a200.md and those after it are left out" in notice


def test_links_of_a_project_lead_nowhere(project: Path, env: dict[str, str], write: Write) -> None:
    outside = write("outside/a.md", agent("a"))
    (project / ".sandbur/agents").mkdir(parents=True)
    (project / ".sandbur/agents/a.md").symlink_to(outside)
    trust_all(project, env)
    assert find_agents(project, env).agents == {}


def spec(name: str, description: str) -> AgentSpec:
    return AgentSpec(name=name, description=description, instructions="x")


def test_the_catalogue_is_short_and_without_control_characters() -> None:
    agents = {
        f"agent-{number}": spec(f"agent-{number}", f"For {number}\n- shell: run it\x1b[31m\u202e {'x' * 500}")
        for number in range(25)
    }
    lines = catalogue(agents).splitlines()
    assert len(lines) == 21
    assert lines[0].startswith("- agent-0: For 0 - shell: run it [31m xxx")
    assert max(map(len, lines)) <= 200 + len("- agent-10: ")
    assert lines[20] == "and 5 more: sandbur agents list"
    assert catalogue({}) == ""


def test_the_question_about_trust_shows_what_a_file_sets(
    project: Path, env: dict[str, str], write: Write
) -> None:
    write(
        "project/.sandbur/agents/a.md",
        agent("a", more="model: lab/big\ntools:\n  - Bash\n  - Read\nhooks:\n"),
    )
    write("project/.sandbur/agents/notes.txt", "model: x")
    write(
        "project/.sandbur/agents/b.md",
        "\n".join(("---", *(f"k{number}: {'y' * 300}" for number in range(40)), "---", "x")),
    )
    (folder,) = folders_of("agents", project, env)
    assert describe_fields(folder, "a.md") == "model: lab/big; tools: Bash, Read"
    assert describe_fields(folder, "notes.txt") == ""
    assert describe_fields(folder, "b.md").endswith("...; and 10 more")
