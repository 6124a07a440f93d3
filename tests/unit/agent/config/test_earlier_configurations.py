"""Files that a person wrote for an earlier version mean the same, or one notice has the line to write now."""

import re
from pathlib import Path

import pytest
from support.commands.command import Command
from support.commands.machine import Machine
from support.places import FIXTURES, ROOT

from sandbur import Agent
from sandbur.agent.agents.markdown.agent_files import find_agents
from sandbur.agent.config.settings import SETTINGS, Settings
from sandbur.agent.config.trust import list_trusted
from sandbur.agent.extensions.prompt_commands import find_commands
from sandbur.agent.extensions.skills.catalogue import find_skills
from sandbur.agent.review.plans.saved_plans import find_plans, read_plan

EARLIER = FIXTURES / "configurations"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def place(machine: Machine, name: str, *, at: str = "config.toml") -> Path:
    """Copy a fixture into the person's own folder of settings."""
    return machine.write(machine.user_config.parent / at, (EARLIER / name).read_bytes())


def load(machine: Machine, name: str) -> Settings:
    place(machine, name)
    return machine.load()


def test_the_first_configuration_means_the_same(machine: Machine) -> None:
    settings = load(machine, "config-1.toml")
    assert settings.notices == ()
    assert (settings.model, settings.mode) == ("anthropic/claude-sonnet-5-5", "interactive")
    assert settings.allow == ("run_shell_command(git diff*)", "write_file(docs/**)")
    assert settings.deny == ("run_shell_command(sudo *)", "read_file(secrets/**)")
    assert settings.search_provider == "searxng"
    assert settings.providers["lab"].api_key_env == "LAB_API_KEY"
    assert settings.prices["lab/any-model"].output == 0.4


def test_rules_of_the_first_configuration_still_decide(machine: Machine, tmp_path: Path) -> None:
    place(machine, "config-1.toml")
    here = Command(tmp_path / "project")
    here.env["HOME"] = str(machine.home)
    assert here.run("policy", "check", "sudo ls", "--json").result["verdict"] == "deny"
    assert here.run("policy", "check", "git diff HEAD", "--json").result["verdict"] == "allow"


def test_servers_hooks_and_tools_by_http_of_an_earlier_configuration_mean_the_same(machine: Machine) -> None:
    settings = load(machine, "config-2.toml")
    assert settings.notices == ()
    assert settings.aliases == {"fast": "openai/gpt-6.1-mini"}
    assert settings.of("variables") == ("owner=apache", "repo=burr")
    assert set(settings.of("mcp_servers")) == {"time", "issues", "issues-mirror"}
    assert [(hook.event, hook.matcher) for hook in settings.of("hooks")] == [
        ("PreToolUse", "write_file|edit_file"),
        ("PostToolUse", "write_file|edit_file"),
    ]
    assert set(settings.of("http_tools")) == {"find_issues", "comment"}


def test_hooks_in_a_file_of_their_own_mean_the_same(machine: Machine) -> None:
    place(machine, "hooks-1.json", at="hooks.json")
    (hook,) = machine.load().of("hooks")
    assert (hook.event, hook.timeout_s) == ("Stop", 300)


def test_keys_with_an_earlier_name_count_and_one_notice_has_the_line_to_write(machine: Machine) -> None:
    settings = load(machine, "config-3.toml")
    assert settings.of("memory_extraction") == "propose"
    assert settings.of("extraction_model") == "anthropic/claude-haiku-4-5"
    assert settings.of("extraction_tokens") == 100_000
    path = machine.user_config
    assert settings.notices == (
        f"{path}: `memory_extraction_model` is now called `extraction_model`."
        ' Replace its line with: extraction_model = "anthropic/claude-haiku-4-5"',
        f"{path}: `memory_extraction_tokens` is now called `extraction_tokens`."
        " Replace its line with: extraction_tokens = 100000",
    )


def test_the_lines_of_the_notices_are_a_configuration_without_notices(machine: Machine) -> None:
    before = load(machine, "config-3.toml")
    lines = [notice.partition("with: ")[2] for notice in before.notices]
    machine.write(machine.user_config, "\n".join(['memory_extraction = "propose"', *lines]))
    after = machine.load()
    assert after.notices == ()
    assert after.of_extensions == before.of_extensions


def test_a_key_by_both_names_is_an_error_that_names_them(machine: Machine) -> None:
    machine.write(machine.user_config, 'extraction_model = "a/b"\nmemory_extraction_model = "a/c"')
    problem = machine.problem()
    assert problem.message.endswith(
        "sets `extraction_model` twice: `memory_extraction_model` is its earlier name."
    )
    assert problem.hint == "Remove `memory_extraction_model`."


def test_a_bad_value_by_an_earlier_name_is_an_error_of_the_present_key(machine: Machine) -> None:
    machine.write(machine.user_config, "memory_extraction_tokens = 1")
    assert "`extraction_tokens` does not fit" in machine.problem().message


def test_variables_with_an_earlier_name_count_with_a_notice(machine: Machine) -> None:
    machine.env["SANDBUR_MEMORY_EXTRACTION_TOKENS"] = "5000"
    settings = machine.load()
    assert settings.of("extraction_tokens") == 5000
    assert settings.notices == (
        "The variable SANDBUR_MEMORY_EXTRACTION_TOKENS is now called SANDBUR_EXTRACTION_TOKENS."
        " Set that one instead.",
    )


def test_a_variable_with_two_values_by_both_names_is_an_error(machine: Machine) -> None:
    machine.env |= {"SANDBUR_MEMORY_EXTRACTION_TOKENS": "5000", "SANDBUR_EXTRACTION_TOKENS": "6000"}
    assert "have different values" in machine.problem().message
    machine.env["SANDBUR_MEMORY_EXTRACTION_TOKENS"] = "6000"
    assert machine.load().of("extraction_tokens") == 6000


def test_a_command_that_sets_a_key_removes_its_line_with_the_earlier_name(
    machine: Machine, tmp_path: Path
) -> None:
    path = place(machine, "config-3.toml")
    here = Command(tmp_path / "project")
    here.env["HOME"] = str(machine.home)
    refused = here.run("config", "set", "memory_extraction_model", "a/b")
    assert (refused.code, refused.err.count("Use: extraction_model")) == (2, 1)
    assert here.run("config", "set", "extraction_model", "a/b").code == 0
    assert here.run("config", "unset", "extraction_tokens").code == 0
    text = path.read_text()
    assert ('extraction_model = "a/b"' in text, "memory_extraction_" in text) == (True, False)
    assert text.startswith("# The model and the limit")


def test_no_earlier_name_is_the_name_of_a_setting() -> None:
    present = {name for row in SETTINGS for name in (row.key, row.variable)}
    earlier = [name for row in SETTINGS for name in row.earlier_names]
    assert len(set(earlier)) == len(earlier) > 0
    assert not present & set(earlier)


def test_the_page_lists_every_earlier_name() -> None:
    listed = (
        (ROOT / "docs/configuration.md")
        .read_text("utf-8")
        .partition("### Renamed keys")[2]
        .partition("## ")[0]
    )
    rows = re.findall(r"^\| `(\w+)`, `(\w+)` \| `(\w+)`, `(\w+)` \|$", listed, re.M)
    assert rows == [(*row.earlier_names, row.key, row.variable) for row in SETTINGS if row.earlier_names]


def test_an_earlier_agent_file_is_the_same_agent(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_bytes((EARLIER / "agent-1.yaml").read_bytes())
    definition = Agent.from_file(tmp_path / "agent.yaml", env={}).definition
    assert [flow.name for flow in definition.flows] == ["hours", "leave"]
    assert definition.overrides["allow"] == ("save_customer",)
    assert "You are the support desk of a shop for anvils." in str(definition.instructions)


def test_earlier_agents_commands_and_skills_in_markdown_mean_the_same(machine: Machine) -> None:
    place(machine, "agent-1.md", at="agents/reviewer.md")
    place(machine, "command-1.md", at="commands/review.md")
    place(machine, "skill-1.md", at="skills/release-notes/SKILL.md")
    found = find_agents(machine.project, machine.env)
    agent = found.agents["reviewer"]
    assert (found.notices, agent.mode, agent.max_turns) == ((), "plan", 30)
    commands = find_commands(machine.project, machine.env)
    assert (commands.notices, [*commands.commands]) == ((), ["review"])
    skills = find_skills(machine.project, machine.env)
    assert (skills.notices, [*skills.skills]) == ((), ["release-notes"])
    place(machine, "skill-2.md", at="skills/release-notes/SKILL.md")
    assert find_skills(machine.project, machine.env).skills["release-notes"].triggers.exact == (
        "release notes",
    )


def test_earlier_plans_allow_the_same(machine: Machine) -> None:
    for name in ("plan-1.md", "plan-2.md"):
        place(machine, name, at=f"plans/{name}")
    plans = find_plans(machine.project, machine.env).plans
    first, second = (read_plan(plans[name], {}, machine.project, ()) for name in ("plan-1", "plan-2"))
    files = [
        f"{tool}(src/{name})" for name in ("parser/**", "main.py") for tool in ("write_file", "edit_file")
    ]
    assert [step.allows for step in first.steps] == [
        (*files, "run_shell_command(git mv)", "run_shell_command(git mv *)"),
        ("run_shell_command(pytest -q)", "run_shell_command(pytest -q *)"),
    ]
    assert [step.after for step in second.steps] == [(), (), None]


def test_an_earlier_list_of_trusted_files_still_trusts(machine: Machine) -> None:
    listed = '{\n "folders": {\n  "/srv/site": "' + "0" * 64 + '"\n },\n "version": 1\n}\n'
    machine.write(machine.user_config.with_name("trusted.json"), listed)
    assert list_trusted(machine.env) == ["/srv/site"]
