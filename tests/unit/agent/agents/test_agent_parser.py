"""Markdown agents: what each key means, which mistakes leave a file out, and which only give a notice."""

from pathlib import Path

import pytest

from sandbur.agent.agents.markdown.agent_parser import KEYS, parse_agent
from sandbur.agent.agents.markdown.agent_spec import AgentSpec
from sandbur.agent.agents.markdown.front_matter import Notices
from sandbur.state.errors import ConfigError

PATH = Path("/agents/reviewer.md")


def parse(fields: str, body: str = "Review it.", *aliases: str) -> tuple[AgentSpec, list[str]]:
    """Parse a file with a description; return the agent and the notices without their place."""
    notices = Notices()
    text = f"---\ndescription: Reviews changes\n{fields}\n---\n{body}\n"
    spec = parse_agent(PATH, text, aliases, notices)
    return spec, [notice.removeprefix(f"{PATH}, line ") for notice in notices.render()]


def test_a_file_with_a_description_and_a_text_is_an_agent_with_everything_of_its_parent() -> None:
    spec, notices = parse("")
    assert spec == AgentSpec(
        name="reviewer", description="Reviews changes", instructions="Review it.", source=PATH
    )
    assert (spec.folder, notices) == (PATH.parent, [])


def test_every_key_is_read() -> None:
    spec, notices = parse(
        "name: code-reviewer\ntools: Read, Grep\ndisallowedTools: [Write]\nmodel: lab/big\n"
        "permissionMode: plan\nmaxTurns: 12\nskills:\n  - pdf\n  - notes\nmcpServers: docs, time\n"
        "effort: low\nisolation: copy\ncolor: Blue\ninitialPrompt: Begin.\n"
        "background: false\nmemory:\nhooks:"
    )
    assert notices == []
    assert spec == AgentSpec(
        name="code-reviewer",
        description="Reviews changes",
        instructions="Review it.",
        model="lab/big",
        tools=("read_file", "grep"),
        disallowed_tools=("write_file",),
        may_start=(),
        mode="plan",
        max_turns=12,
        skills=("pdf", "notes"),
        mcp_servers=("docs", "time"),
        effort="low",
        isolation="copy",
        color="blue",
        initial_prompt="Begin.",
        source=PATH,
    )


@pytest.mark.parametrize(
    ("given", "tools", "may_start"),
    [
        (
            "Bash, Read, Edit, Write, LS",
            "run_shell_command read_file edit_file write_file list_directory",
            (),
        ),
        ("Grep, Glob, WebFetch, WebSearch", "grep glob web_fetch web_search", ()),
        ("read_file, mcp__docs, mcp__docs__find, own_*", "read_file mcp__docs mcp__docs__find own_*", ()),
        ("Read, Read, read_file", "read_file", ()),
        ("Read, Agent", "read_file", None),
        ("Read, Task(tester, Doc Writer), Agent(x)", "read_file", ("tester", "doc-writer", "x")),
        ("Agent(x)", "", ("x",)),
        ("Agent()", "", ()),
        ("'*'", None, None),
        ("['*', Agent(x)]", None, ("x",)),
    ],
)
def test_tools_may_have_their_names_of_other_agents(
    given: str, tools: str | None, may_start: tuple[str, ...] | None
) -> None:
    spec, notices = parse(f"tools: {given}")
    assert spec.tools == (None if tools is None else tuple(tools.split()))
    assert (spec.may_start, notices) == (may_start, [])


def test_tools_that_are_taken_away_may_be_the_agents() -> None:
    spec, _ = parse("disallowedTools: Agent, Bash")
    assert (spec.tools, spec.disallowed_tools, spec.may_start) == (None, ("run_shell_command",), ())
    with pytest.raises(ConfigError, match="a part of a tool cannot be taken away"):
        parse("disallowedTools: Agent(x)")


@pytest.mark.parametrize(
    ("line", "notice"),
    [
        ("tools: Bash(git log, git diff), Read", "3: `tools` has `Bash(...)`: the whole tool is offered"),
        ("tools: TodoWrite, Read", "3: `tools` names `TodoWrite`, which is not a tool here."),
        ("tools: Agent(reviewer)", "3: `tools` lets the agent `reviewer` start only itself."),
        (
            "permisionMode: plan",
            "3: `permisionMode` is not a key of a Markdown agent. Did you mean `permission",
        ),
        ("allowed-tools: Read", "3: `allowed-tools` is not a key of a Markdown agent. Did you mean `tools`?"),
        ("zzz: 1", f"3: `zzz` is not a key of a Markdown agent. The keys are: {', '.join(KEYS)}."),
        ("permissionMode:plan", "3: the line is not `key: value`, and is ignored."),
        ("model: lab/a\nmodel: lab/b", "4: `model` appears twice; the first one counts."),
        ("permissionMode: dontAsk", "3: `permissionMode` is `dontAsk`, which is not a mode here"),
        (
            "isolation: worktree",
            "3: `isolation` is `worktree`, which is not offered: the agent",
        ),
        ("hooks:\n  Stop:\n    - matcher: x", "3: `hooks` is not used: the hooks of the session count"),
        ("memory: project", "3: `memory` is not used yet."),
        ("background: true", "3: `background` is not used: a session waits"),
        ("color: mauve", "3: `color` is ignored; the colors are: red, "),
        ("name: My Agent", "3: `name` should be of a-z, 0-9 and -: 'My Agent' is called `my-agent`."),
        ("mcpServers:\n  - docs\n  - play:\n      command: npx", "3: `mcpServers` defines a server"),
        ("mcpServers: {play: {command: npx}}", "3: `mcpServers` defines a server, which is not used"),
        (
            "model: opus",
            "3: `model` is `opus`, which is not an alias here: the agent uses",
        ),
    ],
)
def test_what_is_not_used_gives_one_notice_with_line_and_key(line: str, notice: str) -> None:
    _, notices = parse(line)
    assert len(notices) == 1
    assert notices[0].startswith(notice)


def test_servers_that_the_file_defines_are_left_out_and_configured_ones_stay() -> None:
    spec, _ = parse("mcpServers:\n\t- docs\n\t- play:\n\t\t\tcommand: npx\n\t- 'time'")
    assert spec.mcp_servers == ("docs", "time")
    only_inline, _ = parse("mcpServers:\n  play:\n    command: npx")
    assert only_inline.mcp_servers == ()


@pytest.mark.parametrize(
    ("model", "aliases", "expected"),
    [
        ("inherit", (), ""),
        ("sonnet", (), ""),
        ("sonnet", ("sonnet",), "sonnet"),
        ("demo", (), ""),
        ("anthropic/claude-opus-5", (), "anthropic/claude-opus-5"),
    ],
)
def test_a_short_name_of_a_model_counts_if_it_is_an_alias(
    model: str, aliases: tuple[str, ...], expected: str
) -> None:
    assert parse(f"model: {model}", "Work.", *aliases)[0].model == expected


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("default", "interactive"),
        ("acceptEdits", "auto-edit"),
        ("plan", "plan"),
        ("bypassPermissions", "yolo"),
        ("auto-edit", "auto-edit"),
        ("auto", None),
    ],
)
def test_modes_have_their_names_of_claude_code(word: str, mode: str | None) -> None:
    assert parse(f"permissionMode: {word}")[0].mode == mode


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("maxTurns: many", "line 3: `maxTurns` is 'many'; it should be a whole number from 1"),
        ("maxTurns: 0", "line 3: `maxTurns` is '0'"),
        ("max-turns: -1", "line 3: `maxTurns` is '-1'"),
        ("maxTurns: 99999999999999999999", "line 3: `maxTurns` is '9999"),
        ("effort: huge", "line 3: `effort` is 'huge'; it should be one of: none, minimal, low"),
        ("permissionMode: root", "line 3: `permissionMode` is 'root'; it should be one of: default"),
        ("isolation: vm", "line 3: `isolation` is 'vm'; it should be one of: none, copy, worktree"),
        ("background: perhaps", "line 3: `background` is 'perhaps'"),
        ("model: x; rm -rf ~", "line 3: `model` is 'x; rm -rf ~'; it should be PROVIDER/MODEL"),
        ("model: \x1b[31m", "line 3: `model` is "),
        ("tools: Read Grep", "line 3: `tools` has `Read Grep`, which is not the name of a tool"),
        ("tools: Bash(git", "line 3: `tools` has `Bash(git`"),
        ("skills: a\x1b[31mb", "line 3: `skills` has a name that is too long or not printable"),
        ("name: '!!!'", "line 3: `name` is '!!!'; it should be of a-z, 0-9 and -"),
        (f"tools: {', '.join(f'tool_{number}' for number in range(201))}", "has 201 names; 200 are possible"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_line_and_key(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert str(refused.value).startswith(str(PATH))
    assert problem in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: the file has no keys between two lines `---`"),
        ("# How agents are written here", "line 1: the file has no keys"),
        ("---\ndescription: never closed\nText.", "line 1: the file has no keys"),
        ("---\nname: a\n---\nText.", "line 1: `description` is missing"),
        ("---\ndescription:\n---\nText.", "line 2: `description` is missing"),
        ("---\ndescription: x\n---\n \n", "the file has no instructions"),
    ],
)
def test_a_file_that_is_no_agent_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem.replace("`", ".")):
        parse_agent(PATH, text, (), Notices())


def test_line_ends_and_marks_of_other_systems_are_read() -> None:
    text = "\ufeff---\nname: a\ndescription: |\n  One.\n\n  Two.\ntools:\n\t- Read\n---\nDo\nit.\n"
    spec = parse_agent(PATH, text.replace("\n", "\r\n"), (), Notices())
    assert (spec.description, spec.tools, spec.instructions) == ("One. Two.", ("read_file",), "Do\nit.")


def test_a_description_with_examples_of_claude_code_becomes_one_line() -> None:
    text = "---\ndescription: Use it: always.\\n\\n<example>user: 'hi'</example>\\n\n---\nText."
    spec = parse_agent(PATH, text, (), Notices())
    assert spec.description == "Use it: always. <example>user: 'hi'</example>"


def test_a_file_of_many_keys_gives_few_notices_and_one_of_too_many_is_refused() -> None:
    keys = "\n".join(f"unknown{number}: {number}" for number in range(1_900))
    _, notices = parse(keys)
    assert len(notices) == 11
    assert notices[10].endswith("1890 more keys are not keys of a Markdown agent.")
    with pytest.raises(ConfigError, match="no keys between two lines"):
        parse(f"{keys}\n{keys}")
    with pytest.raises(ConfigError, match="`skills` has 500,001 characters; 40,000 are possible"):
        parse(f"skills: a{',' * 500_000}")
