"""One list of secret files and one of protected places: what the gate says about each of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.samples.guarded_files import OF_A_HOME, RUN_LATER

from sandbur.actions.tools.registry import builtin_tools
from sandbur.actions.workspace.protected.protected_places import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
)
from sandbur.actions.workspace.protected.secret_files import (
    SECRET_FILES,
    SECRET_FOLDERS,
    SYSTEM_SECRETS,
    is_secret_file,
)
from sandbur.agent.policy.gate import Policy

TOOLS = builtin_tools()
LISTED_SECRETS = [*SECRET_FILES, *(f"{folder}/inside" for folder in SECRET_FOLDERS)]
LISTED_PLACES = [
    *PROTECTED_FILES,
    *PROTECTED_PATHS,
    *(f"{place}/inside" for place in (*PROTECTED_FOLDERS, *PROTECTED_PATHS)),
]


def decision(workspace: Path, tool: str, mode: Any, **arguments: str) -> str:
    found = TOOLS[tool]
    return Policy((), (), workspace).judge(found, found.parse(json.dumps(arguments)), mode).decision


@pytest.mark.parametrize("name", [*OF_A_HOME, *LISTED_SECRETS])
def test_a_file_of_secrets_is_not_read_unasked_where_the_home_is_the_workspace(tmp_path: Path, name: str):
    place = tmp_path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("x")
    assert is_secret_file(str(place))
    assert decision(tmp_path, "read_file", "interactive", path=name) == "ask"
    assert decision(tmp_path, "run_shell_command", "auto-edit", command=f"cat '{name}'") == "ask"


@pytest.mark.parametrize("place", SYSTEM_SECRETS)
def test_secrets_of_the_machine_are_known(place: str):
    assert is_secret_file(place)
    assert is_secret_file(f"{place}/inside")


@pytest.mark.parametrize("name", [*RUN_LATER, *LISTED_PLACES])
def test_a_protected_place_is_not_written_unasked(tmp_path: Path, name: str):
    for place in (name, f"sub/deeper/{name}"):
        assert decision(tmp_path, "write_file", "auto-edit", path=place, content="x") == "ask"
        assert decision(tmp_path, "run_shell_command", "auto-edit", command=f"echo x > '{place}'") == "ask"


@pytest.mark.parametrize(
    "name",
    ["src/main.py", ".github/ISSUE_TEMPLATE/bug.md", "docs/agents.txt", "node_modules/a/index.js", ".hg/x"],
)
def test_other_files_are_edited_unasked_in_auto_edit(tmp_path: Path, name: str):
    assert decision(tmp_path, "write_file", "auto-edit", path=name, content="x") == "allow"
