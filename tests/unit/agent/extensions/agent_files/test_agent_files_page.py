"""The page about agent files: its file is an agent, its commands can be typed, its program runs."""

import re
import shlex
import subprocess
import sys

from support.commands.command import Command
from support.places import ROOT

from sandbur import Agent
from sandbur.agent.extensions.agent_files.schema import AgentFile, EndpointTable, HttpToolEntry
from sandbur.ui.cli.arguments import parse

PAGE = (ROOT / "docs" / "agent-files.md").read_text("utf-8")


def test_the_file_of_the_page_is_an_agent(command: Command) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    path = command.folder / "support.yaml"
    path.write_text(text)
    definition = Agent.from_file(path, env=command.env).definition
    assert [tool.spec.name for tool in definition.tools] == ["save_customer"]
    assert "Condition: A customer wants a demo." in str(definition.instructions)


def test_every_key_is_explained() -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    keys = {*AgentFile.model_fields, *HttpToolEntry.model_fields, *EndpointTable.model_fields} - {
        "schema_address"
    }
    assert {key for key in keys if f"`{key}`" not in rows} == set()


def test_the_commands_of_the_page_can_be_typed() -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    for line in commands.splitlines():
        parse(shlex.split(line)[1:])


def test_the_program_of_the_page_runs(command: Command) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (command.folder / "program.py").write_text(program)
    words = [sys.executable, "-W", "error", "program.py"]
    done = subprocess.run(words, cwd=command.folder, env=command.env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
