"""The page about groups, searches and results that do not stay: what it shows runs; flags do what it says."""

import json
import re
import shlex
from typing import Any

import pytest
from support.commands.command import Command
from support.commands.programs import run_program
from support.models.server import ModelServer, say
from support.models.talk import environment
from support.places import ROOT

from sandbur.actions.ports.events import ToolsChanged
from sandbur.ui.cli.arguments import parse
from sandbur.ui.headless.json_output import stream_object
from sandbur.ui.terminal.lines import tools_line

PAGE = (ROOT / "docs" / "toolset.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
COMMANDS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)[0].splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_page_runs(command: Command, program: str) -> None:
    run_program(command, program)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    parse(shlex.split(line)[1:])


def offered(server: ModelServer) -> list[str]:
    names = [tool["function"]["name"] for tool in server.requests[-1].body["tools"]]
    return [name for name in names if name not in ("start_plan", "submit_plan", "finish_step")]


def run(command: Command, server: ModelServer, *words: str) -> Any:
    return command.run("-m", "openai-chat/gpt-test", "--output-format", "json", *words, **environment(server))


def test_flags_choose_the_tools_and_the_session_keeps_them(command: Command) -> None:
    with ModelServer([say("one"), say("two"), say("three")]) as server:
        ended = run(command, server, "-p", "go", "--tools", "Read,gr*,glob", "--disallowed-tools", "glob")
        assert ended.code == 0, ended.err
        assert offered(server) == ["read_file", "grep", "read_result"]
        session = ended.result["session_id"]
        assert run(command, server, "-p", "-r", session, "more").code == 0
        assert offered(server) == ["read_file", "grep", "read_result"]
        assert run(command, server, "-p", "-r", session, "more", "--tools", "glob,grep").code == 0
        assert offered(server) == ["grep", "read_result"]
    replayed = command.run("replay", session)
    assert replayed.code == 0, replayed.out + replayed.err


@pytest.mark.parametrize("flag", ["--tools", "--disallowed-tools"])
def test_a_name_that_means_nothing_is_refused_with_a_sentence(command: Command, flag: str) -> None:
    with ModelServer([say("no")]) as server:
        ended = run(command, server, "-p", "go", flag, "read_fil")
    assert ended.code == 2
    sentence = f"{flag} names `read_fil`, which is neither a tool nor a group of this session."
    assert f"{sentence} Did you mean `read_file`?" in ended.err


def test_a_change_of_the_tools_is_seen_in_every_output() -> None:
    event = ToolsChanged(added=tuple(f"tool_{n}" for n in range(10)), removed=("old",), groups=("far",))
    line = stream_object(event)
    assert json.loads(json.dumps(line)) == {
        "type": "tools", "added": list(event.added), "removed": ["old"], "groups": ["far"]
    }  # fmt: skip
    assert tools_line(event) == (
        "Tools added: tool_0, tool_1, tool_2, tool_3, tool_4, tool_5, tool_6, tool_7 and 2 more;"
        " Tools removed: old (group far). The model reads its whole input again."
    )
