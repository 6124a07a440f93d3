"""One value is set in a configuration file or taken out of it, and all else stays as it was."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbur.agent.config.edit.edit_config import ConfigPlace
from sandbur.agent.config.edit.edit_settings import set_value, unset_value
from sandbur.agent.config.load import load_settings
from sandbur.state.errors import ConfigError, UsageError

FILES = [
    "",
    "# mine\n",
    'model = "a/b"  # the usual one\nmax_turns = 3\n',
    'allow = [\n  "grep",  # quick\n  "glob",\n]\n\n[aliases]\nslow = "a/b"  # old\n"x-y" = "c/d"\n',
    '[prices]\n"a/b" = { input = 1, output = 2 }\n\n[aliases]\n\n[context_windows]\n"model" = 5000\n',
    "max_turns = 7\r\n'model' = \"a/b\"\r\n",
    'deny = ["x(model = 1)"]\naliases.slow = "a/b"\n\n[mcp_servers.model]\ncommand = "model"\n',
]
VALUES = [
    ("model", "openai/new", "openai/new"),
    ("max_turns", "12", 12),
    ("compress_at", "0.5", 0.5),
    ("otel", "yes", True),
    ("allow", "grep, run_shell_command(git log, *)", ["grep", "run_shell_command(git log, *)"]),
    ("aliases.slow", "e/f", "e/f"),
    ("aliases.new-1", "e/f", "e/f"),
]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def own(tmp_path: Path, text: str) -> ConfigPlace:
    path = tmp_path / ".config/sandbur/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return ConfigPlace(path, None)


def at(values: dict[str, Any], name: str) -> Any:
    key, _, entry = name.partition(".")
    return values.get(key, {}).get(entry) if entry else values.get(key)


def put(values: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    key, _, entry = name.partition(".")
    return {**values, key: {**values.get(key, {}), entry: value} if entry else value}


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize(("name", "said", "value"), VALUES)
def test_a_value_is_set_and_taken_out_and_nothing_else_changes(
    tmp_path: Path, env: dict[str, str], text: str, name: str, said: str, value: Any
) -> None:
    place = own(tmp_path, text)
    old = tomllib.loads(text)
    set_value(place, name, said, env)
    new = place.path.read_bytes().decode()
    assert tomllib.loads(new) == put(old, name, value)
    kept = [comment for comment in re.findall(r"# \w.*", text) if "quick" not in comment or name != "allow"]
    assert [comment for comment in kept if comment not in new] == []
    assert unset_value(place, name, env)
    assert at(tomllib.loads(place.path.read_text()), name) is None
    assert not unset_value(place, name, env)


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=40).filter(str.strip))
def test_every_text_is_read_back_as_it_was_set(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("any")
    place = own(folder, 'model = "a/b"\n')
    set_value(place, "model", text, {"HOME": str(folder)})
    assert tomllib.loads(place.path.read_text("utf-8"))["model"] == text.strip()


def test_what_cannot_be_set_is_refused_in_one_sentence_and_nothing_is_written(
    tmp_path: Path, env: dict[str, str]
) -> None:
    place = own(tmp_path, "max_turns = 3\n")
    for name, text, says in (
        ("modle", "x", "There is no setting `modle`. Did you mean `mode` or `model`?"),
        ("max_turns", "-1", "The new value: `max_turns` does not fit"),
        ("max_turns", "many", "`max_turns` should be a whole number, not `many`."),
        ("mode", "yolo", "Yolo mode is chosen for each run."),
        ("prices", "3", "`prices` is a table, not one value."),
        ("hooks", "x", "`hooks` is a table, not one value."),
        ("aliases", "x", "Name an entry: aliases.NAME"),
        ("aliases.a b", "x", "does not fit"),
        ("model.name", "x", "`model` has no entries that can be named."),
        ("cwd", "/", "There is no setting `cwd`."),
    ):
        with pytest.raises(UsageError) as refused:
            set_value(place, name, text, env)
        assert says in str(refused.value)
    assert place.path.read_text() == "max_turns = 3\n"


def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path, env: dict[str, str]) -> None:
    place = own(tmp_path, "max_turns = \n")
    for change in (lambda: set_value(place, "max_turns", "3", env), lambda: unset_value(place, "model", env)):
        with pytest.raises(ConfigError):
            change()
    assert place.path.read_text() == "max_turns = \n"


def test_comments_after_a_table_stay_when_its_last_entry_goes(tmp_path: Path, env: dict[str, str]) -> None:
    place = own(tmp_path, 'aliases.slow = "a/b"\n# what they cost\n[prices]\n')
    assert unset_value(place, "aliases.slow", env)
    assert place.path.read_text() == "# what they cost\n[prices]\n"


def test_only_what_edits_a_file_loads_the_parser_that_keeps_comments() -> None:
    code = (
        "import sys; import sandbur.ui.commands.setup.config, sandbur.ui.commands.mcp.configured_servers,"
        " sandbur.ui.chat.decisions.always, sandbur.ui.commands.policy.past; print('tomlkit' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_settings_know_who_says_what(tmp_path: Path, env: dict[str, str]) -> None:
    place = own(tmp_path, 'model = "a/b"\nmax_turns = 3\n')
    found = load_settings({"model": "c/d", "cwd": tmp_path}, {**env, "SANDBUR_MAX_TURNS": "4"})
    assert found.sources == {
        "model": ("The command line", str(place.path)),
        "max_turns": ("The environment", str(place.path)),
    }
