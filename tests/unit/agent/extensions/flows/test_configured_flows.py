"""Flows of configuration files, agent files and skills; the commands that list and test them."""

import json
from pathlib import Path

import pytest
from support.commands.command import Command

from sandbur import Agent
from sandbur.agent.config.trust_summary import summarize_settings
from sandbur.agent.extensions.markdown_files import folders_of
from sandbur.testing import ScriptedModel

CONFIG = r"""
[flows.hours]
exact = ["hours", "opening hours"]
reply = "Nine to five."

[flows.order]
regex = 'order (?P<id>\d+)'
priority = 5
http = { url = "http://127.0.0.1:9/orders/{id}" }
answer = "Order {id} is {result.status}."

[flows.look]
prefix = "list"
tool = "list_directory"
arguments = { path = "{rest}" }
"""
WRONG = [
    ("[flows.f]\nexact = 'a'\n", "`flows.f`: The flow f: it needs exactly one of reply"),
    ("[flows.f]\nregex = '('\nreply = 'a'\n", "a group is not closed"),
    ("[flows.f]\nexact = 'a'\nrepyl = 'a'\n", "`flows.f` does not fit: `repyl`"),
    ("[flows]\nf = 3\n", "`flows.f` does not fit"),
    ("[flows.f]\nexact = 'a'\nhttp = { url = 'ftp://x' }\n", "the tool flow_f has a `url`"),
    ("[flows.f]\nexact = 'a'\ncommand = '/mode yolo'\n", "cannot run /mode yolo"),
]


def write_config(home: Path, text: str) -> None:
    place = home / ".config" / "sandbur"
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text(text)


def test_the_command_lists_flows_in_their_order_and_tests_a_text_without_doing_anything(
    command: Command,
) -> None:
    write_config(command.folder, CONFIG)
    listed = command.run("flows", "list", "--json")
    assert [json.loads(line)["name"] for line in listed.out.splitlines()] == ["order", "hours", "look"]
    found = json.loads(command.run("flows", "test", "where is order 4711?", "--json").out)
    assert (found["flow"], found["tool"], found["arguments"]) == ("order", "flow_order", {"id": "4711"})
    assert "the model is asked" in command.run("flows", "test", "something else").out
    assert not (command.folder / "data").exists()


def test_a_headless_run_answers_by_a_flow_and_says_so_in_its_lines(command: Command) -> None:
    write_config(command.folder, CONFIG)
    ended = command.run("-p", "list .", "-m", "demo", "--output-format", "stream-json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["type"] for line in lines if line["type"] != "notice"] == [
        "init", "message", "flow", "tool_use", "tool_result", "text", "message", "result",
    ]  # fmt: skip
    assert next(line for line in lines if line["type"] == "flow")["flow"] == "look"
    assert lines[-1]["usage"]["llm_calls"] == 0


@pytest.mark.parametrize(("text", "why"), WRONG)
def test_a_mistake_is_named_with_file_and_key(command: Command, text: str, why: str) -> None:
    write_config(command.folder, text)
    ended = command.run("flows", "list")
    assert ended.code == 52
    assert why in ended.err
    assert "Traceback" not in ended.err


def test_what_flows_of_a_project_do_is_disclosed_before_it_is_trusted(tmp_path: Path) -> None:
    dangerous = "\n".join(summarize_settings(CONFIG.encode(), tmp_path / "config.toml").dangerous)
    assert "sends GET http://127.0.0.1:9/orders/{id} without asking the model" in dangerous
    assert "calls list_directory with {'path': '{rest}'} without asking the model" in dangerous
    assert 'on the text "hours" or the text "opening hours" (flow hours)' in dangerous


async def test_an_agent_file_has_all_kinds_of_triggers_and_targets(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "tools: [list_directory]\n"
        "flows:\n"
        "- {name: hours, trigger: ['opening hours*', hours], reply: Nine to five.}\n"
        "- {name: look, prefix: show, tool: list_directory, arguments: {path: '{rest}'},\n"
        "   answer: 'There: {result}'}\n"
    )
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home")}
    agent = Agent.from_file(path, model=ScriptedModel([]), env=env, cwd=tmp_path)
    async with agent:
        assert (await agent.run("Opening hours on Sunday?")).output == "Nine to five."
        assert "agent.yaml" in str((await agent.run("show .")).output)


SKILL = """---
name: notes
description: How notes are written.
triggers:
  - exact: release notes
  - regex: "notes for v(\\\\d{1,3})"
---
Write them short.
"""


def write_skill(folder: Path, text: str = SKILL) -> None:
    place = folder / ".agents" / "skills" / "notes"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(text)


def test_a_trigger_chooses_a_skill_before_the_model(command: Command) -> None:
    write_skill(command.folder)
    found = json.loads(command.run("flows", "test", "notes for v12", "--json").out)
    assert (found["flow"], found["does"]) == ("notes", "skill")
    assert found["text"].startswith("[Skill notes]")
    ended = command.run("-p", "release notes", "-m", "demo", "--output-format", "stream-json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert next(line for line in lines if line["type"] == "flow")["does"] == "skill"


def test_triggers_of_an_untrusted_project_choose_nothing(command: Command) -> None:
    project = command.folder / "project"
    write_skill(project)
    line = ("flows", "test", "release notes", "--json", "-C", str(project))
    assert command.run(*line).result["flow"] is None
    for folder in folders_of("skills", project, command.env):
        folder.trust(command.env)
    assert command.run(*line).result["flow"] == "notes"


def test_a_wrong_trigger_leaves_the_skill_and_is_named(command: Command) -> None:
    write_skill(command.folder, SKILL.replace("exact:", "exactly:"))
    ended = command.run("-p", "release notes", "-m", "demo")
    assert "begins with none of exact" in ended.err
    assert ended.code == 0
