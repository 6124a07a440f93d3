"""Each value of an agent file has its line, in JSON, YAML and TOML."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

from sandbur.agent.extensions.agent_files.document import read_document, spell
from sandbur.state.errors import ConfigError

AGENTS = ROOT / "examples" / "agents"
TOML = '''\
# a comment with [brackets]
title = "one # two"
"quoted.key" = 'it'
a.b.c = 1

text = """
[not.a.table]
key = 2"""
raw = \'\'\'
x = 3\'\'\'
when = 1979-05-27 07:32:00
list = [
    1,  # one
    { deep = [ "]", "}" ], more = { x = 1 } },
]

[table.inner]
x = 1
[[several]]
name = "first"
[[several.items]]
y = 1
[[several.items]]
y = 2
[[several]]
name = "second"
[several.sub]
z = [[1], [2, 3]]
'''


def places(values: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    items = (
        values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    )
    for key, one in items:
        yield from places(one, (*place, key))


@pytest.mark.parametrize(
    "path", [*sorted(AGENTS.iterdir()), ROOT / "pyproject.toml"], ids=lambda path: path.name
)
def test_every_value_has_the_line_that_it_is_in(path: Path) -> None:
    text = path.read_text("utf-8")
    document = read_document(path, text)
    lines = text.splitlines()
    assert set(document.lines) - {()} == set(places(document.values))
    for place, line in document.lines.items():
        if place and isinstance(place[-1], str):
            assert place[-1] in lines[line - 1], (place, line)


def test_the_lines_of_toml_follow_strings_arrays_and_tables() -> None:
    document = read_document(Path("x.toml"), TOML)
    lines = {spell(place): line for place, line in document.lines.items()}
    assert set(document.lines) == set(places(document.values))
    assert (lines["quoted.key"], lines["a.b.c"], lines["text"], lines["raw"], lines["when"]) == (
        3,
        4,
        6,
        9,
        11,
    )
    assert (lines["list[0]"], lines["list[1].deep[1]"], lines["list[1].more.x"]) == (13, 14, 14)
    assert (lines["table.inner.x"], lines["several[0].items[1].y"]) == (18, 24)
    assert (lines["several[1].name"], lines["several[1].sub.z[1][1]"]) == (26, 28)


def test_words_of_yaml_mean_what_json_has_and_nothing_else() -> None:
    text = "a: yes\nb: 2024-01-01\nc: 0x10\nd: 010\ne: 1.5\nf: ~\ng: 'true'\nh: true\ni: 12:30\nj: -3\n"
    assert read_document(Path("x.yaml"), text).values == {
        "a": "yes", "b": "2024-01-01", "c": "0x10", "d": "010", "e": 1.5, "f": None, "g": "true", "h": True,
        "i": "12:30", "j": -3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("x.yaml", "a: 1\nb: *a\n", "x.yaml, line 2: the alias *a cannot be here."),
        ("x.yaml", "a: 1\na: 2\n", "x.yaml, line 2: the key `a` appears a second time."),
        (
            "x.yaml",
            "a: !!python/name:os.system x\n",
            "line 1: the tag tag:yaml.org,2002:python/name:os.system",
        ),
        ("x.yaml", "a:\n  b: [1\nc: 2\n", "x.yaml, line 3: this is not valid YAML: expected ',' or ']'"),
        ("x.yaml", "- a\n", "x.yaml, line 1: the file is not a table."),
        ("x.yaml", "", "x.yaml, line 1: the file is not a table."),
        ("x.yaml", "[" * 5000 + "]" * 5000, "x.yaml is nested too deeply."),
        ("x.json", '{"a": 1,\n"b": }', "x.json, line 2: this is not valid JSON: Expecting value."),
        ("x.json", '{"a": 1,\n"a": 2}', "x.json, line 2: the second key `a` cannot be here."),
        ("x.json", '{"a":\nNaN}', "x.json, line 2: NaN cannot be here."),
        ("x.json", "[" * 100_000, "x.json is nested too deeply."),
        ("x.toml", "a = 1\na = 2\n", "x.toml, line 2: this is not valid TOML: Cannot overwrite a value."),
        ("x.yaml", f"a: 1\nb: {'1' * 5000}", "x.yaml, line 2: this number has too many digits."),
        ("x.json", f'{{"a": {"1" * 5000}}}', "x.json: a number of this JSON has too many digits."),
        ("x.toml", f"a = {'1' * 5000}", "x.toml, line 1: this is not valid TOML: Exceeds the limit"),
        ("x.toml", "a = 1\nb = [1,", "x.toml, line 2: this is not valid TOML: Invalid value."),
    ],
)
def test_a_text_that_cannot_be_read_names_file_and_line(name: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_document(Path(name), text)
    assert problem in raised.value.message


def test_yaml_without_its_package_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("instructions: x\n")
    code = """
import sys
sys.modules["yaml"] = None
from sandbur import Agent
try:
    Agent.from_file("a.yaml")
except Exception as error:
    print(error.message, error.hint)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "is YAML, and the package PyYAML is not installed." in done.stdout, done.stderr
    assert "-m pip install" in done.stdout or "uv pip install" in done.stdout
