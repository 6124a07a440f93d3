"""The page about HTTP tools: its tables are read, its commands can be typed, its programs run."""

import json
import re
import shlex

import pytest
from support.commands.command import Command
from support.commands.programs import run_program
from support.places import ROOT

from sandbur import http_tools
from sandbur.actions.tools.http.tables import HttpToolTable
from sandbur.ui.cli.arguments import parse

PAGE = (ROOT / "docs" / "http.md").read_text("utf-8")
TABLES = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
COMMANDS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)[0].splitlines()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def test_the_tables_of_the_page_are_tools(command: Command) -> None:
    operations = {"operationId": "listPets"}, {"operationId": "createPet"}, {"responses": {}}
    paths = {"/pets": {"get": operations[0], "post": operations[1]}, "/pets/all": {"get": operations[2]}}
    (command.folder / "pets.json").write_text(json.dumps({"openapi": "3.0.0", "paths": paths}))
    found: dict[str, str] = {}
    for number, text in enumerate(TABLES):
        file = command.folder / f"{number}.toml"
        file.write_text(text)
        found |= {tool.spec.name: tool.effect for tool in http_tools(file)}
    assert found == {
        "find_issues": "read", "comment": "effect", "listPets": "read", "createPet": "idempotent",
        "get_pets_all": "read",
    }  # fmt: skip


def test_every_key_is_explained() -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert {key for key in HttpToolTable.model_fields if f"`{key}`" not in rows} == set()


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    parse(shlex.split(line)[1:])


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_page_runs(command: Command, program: str) -> None:
    assert run_program(command, program) == ("listPets read ['tag']\n" if "print(" in program else "")
