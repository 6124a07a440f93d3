"""Every mistake in an agent file is one sentence with file, line and key, in each of the three formats."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from support.places import ROOT

from sandbur import Agent
from sandbur.agent.extensions.agent_files.schema import json_schema
from sandbur.state.errors import ConfigError

AGENTS = sorted((ROOT / "examples" / "agents").iterdir())
TOOL = """\
tools:
  - name: find
    description: Find it.
    parameters: {id: {type: integer}}
    endpoint:
      url: https://shop.example/orders/{id}
"""
MISTAKES = [
    ("basic_setings: {}\n", "line 1: `basic_setings` is not a key here.", "Did you mean `basic_settings`?"),
    ("basic_settings:\n  nmae: A\n", "line 2: `basic_settings.nmae` is not a key here.", "`name`"),
    ("action_books:\n- action: x\n", "line 2: `action_books[0]` lacks the key `condition`.", "Add it."),
    ("mode: yolo\n", "line 1: `mode` does not fit: it should be 'interactive', 'plan'", ""),
    ("limits:\n  max_turns: 0\n", "line 2: `limits.max_turns` does not fit: it should be greater than", ""),
    ("limits:\n  timeout_s: soon\n", "line 2: `limits.timeout_s` does not fit: it should be a valid", ""),
    ("variables:\n  a b: x\n", "line 2: `variables.a b` does not fit", ""),
    ("tools: [shell]\n", "line 1: `tools[0]` names no tool of Sandbur: shell.", "There are: "),
    (f"{TOOL}  - name: find\n    description: x\n    endpoint: {{url: 'https://a.example'}}\n",
     "line 7: `tools[1]` is a second tool called find.", "Rename"),
    (TOOL.replace("endpoint", "endpont"), "line 5: `tools[0].endpont` is not a key here.", "`endpoint`"),
    (TOOL.replace("{id}", "{nr}"), "line 6: the tool find has a placeholder {nr} and no parameter `nr`.", ""),
    (TOOL.replace("shop", "{id}"), "line 6: the tool find has a placeholder in the host of its `url`.", ""),
    (TOOL.replace("id: {", "x: {type: string}, id: {"), "line 4: the tool find has a parameter `x`", ""),
    (f"{TOOL}      headers: {{X-Id: todo_autofill_by_system}}\n",
     "line 7: `tools[0].endpoint.headers.X-Id` cannot be todo_autofill_by_system", "Write {var.NAME}"),
    (f"{TOOL}      body: {{a: 1}}\n", "line 5: the tool find has a body, which", ""),
    (f"{TOOL}action_books:\n- condition: a\n  action: b\n  tools:\n  - find\n  - fnd\n",
     "line 12: `action_books[0].tools[1]` names no tool of this agent: fnd.", "Did you mean `find`?"),
    ("flows:\n- name: f\n  trigger: hi\n", "line 2: `flows[0]` does not fit: it needs exactly one", ""),
    ("flows:\n- name: f\n  trigger: hi\n  reply: a\n  goal: b\n", "`flows[0]` does not fit: goal", ""),
    ("flows:\n- name: f\n  trigger: '*'\n  reply: a\n", "line 3: `flows[0].trigger` has no word, so", ""),
    ("flows:\n- name: f\n  trigger: ['a', '{x}{y} a']\n  reply: a\n",
     "line 3: `flows[0].trigger[1]` has two gaps without a text between them.", ""),
    ("flows:\n- name: f\n  trigger: go {x}\n  reply: to {y}\n",
     "line 3: `flows[0].trigger` has no {y}, which the flow uses.", "Write {y} in it."),
    ("planning: off\nflows:\n- name: f\n  trigger: go\n  plan: [a]\n",
     "line 1: `planning` is off, but a flow has a plan.", ""),
    ("mcp_servers:\n  clock: {comand: x}\n", "line 2: `mcp_servers.clock` does not fit: ", ""),
    ("rules:\n  allow: [read_file, 'shell(']\n", "line 2: `rules.allow[1]` does not fit: the rule", ""),
    ("rules:\n  deny:\n  - read_fil\n", "line 3: `rules.deny[0]` does not fit: the rule", "`read_file`"),
    (TOOL.replace("find", "start_plan"), "line 2: `tools[0]` is not the only tool called start_plan.", ""),
    ("output_schema: {type: objekt}\n", "line 1: `output_schema` is not a JSON schema: ", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "hint"), MISTAKES, ids=[problem for _, problem, _ in MISTAKES])
def test_a_mistake_names_file_line_and_key(tmp_path: Path, text: str, problem: str, hint: str) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        Agent.from_file(path)
    assert raised.value.message.startswith(f"{path}, {problem}" if problem[:4] == "line" else f"{path}, line")
    assert problem in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.name)
def test_a_mistake_has_its_line_in_every_format(tmp_path: Path, path: Path) -> None:
    text = (
        path.read_text("utf-8").replace("Ask the manager", "Ask {nobody}").replace("{nobody}", "the {boss}")
    )
    changed = tmp_path / path.name
    changed.write_text(text)
    with pytest.raises(ConfigError) as raised:
        Agent.from_file(changed)
    numbered = list(enumerate(text.splitlines(), 1))
    (line,) = (number for number, each in numbered if "I want {days}" in each)
    assert raised.value.message == (
        f"{changed}, line {line}: `flows[1].trigger` has no {{boss}}, which the flow uses."
    )


@pytest.mark.parametrize("name", ["agent.txt", "agent"])
def test_a_file_of_another_kind_is_no_agent(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match="is not an agent file"):
        Agent.from_file(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"The file .*gone\.yaml does not exist"):
        Agent.from_file(tmp_path / "gone.yaml")


def test_the_schema_for_editors_takes_what_the_parser_takes(tmp_path: Path) -> None:
    validator = jsonschema_rs.validator_for(json_schema())
    for path in AGENTS:
        if path.suffix == ".json":
            assert validator.is_valid(json.loads(path.read_text("utf-8")))
    assert not validator.is_valid({"basic_setings": {}})
    assert not validator.is_valid({"mode": "yolo"})
    assert not validator.is_valid({"tools": [{"name": "x"}]})
    assert validator.is_valid({"$schema": "x", "tools": ["anything"], "limits": {"max_turns": 1}})
