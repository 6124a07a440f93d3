"""What is kept for good: a line more in a configuration file, and nothing else in it is changed."""

import re
import stat
import tomllib
from pathlib import Path

import pytest

from sandbur.agent.config.edit.edit_config import ConfigPlace, choose_place, keep
from sandbur.agent.config.load import load_settings
from sandbur.agent.config.trust import is_trusted, trust
from sandbur.state.errors import ConfigError

RULE = 'run_shell_command(echo "a b" \\[x] é)'


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path / "project"


def config(folder: Path, text: str) -> Path:
    path = folder / ".sandbur/config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    return path


def test_a_project_without_a_file_gets_one_that_is_trusted(project: Path, env: dict[str, str]) -> None:
    (project / "sub").mkdir()
    place = choose_place(project / "sub", env)
    assert place == ConfigPlace(project / ".sandbur/config.toml", project)
    keep(place, "allow", RULE, env)
    settings = load_settings({"cwd": project}, env)
    assert (settings.allow, settings.notices) == ((RULE,), ())


FILES = [
    "",
    "# only a comment",
    'mode = "plan"\n',
    'mode = "plan"',
    'allow = []\ndeny = ["write_file"] # no\n',
    'allow = ["read_file"]\n',
    'allow = ["read_file",]\n',
    'allow = ["run_shell_command([[]x[]])", "read_file(a]b)"]\n',
    '"allow" = [ "read_file" ] # ]\n',
    "allow = ['read_file'] # why\n[prices]\n",
    'allow = [\n    "read_file",\n    "grep",\n]\nmax_turns = 3\n',
    'allow = [\n    "read_file", # ]\n    "grep" # last ]\n]\n',
    'allow = [\n    "read_file",\n    # nothing more\n]\n',
    'deny = [\n  "write_file",\n]\n\n[context_windows]\n"a/b" = 5000\n',
    'deny = ["write_file(\\"[x\\")"]\r\n\r\n[context_windows]\r\n"allow" = 5000\r\n',
]


@pytest.mark.parametrize("text", FILES)
def test_a_rule_more_changes_nothing_else(project: Path, env: dict[str, str], text: str) -> None:
    path = config(project, text)
    trust(project, env)
    keep(choose_place(project, env), "allow", RULE, env)
    new = path.read_bytes().decode()
    old = tomllib.loads(text)
    assert tomllib.loads(new) == {**old, "allow": [*old.get("allow", []), RULE]}
    assert re.findall(r"# \w.*", new) == re.findall(r"# \w.*", text)
    assert is_trusted(project, env)


@pytest.mark.parametrize("text", FILES)
def test_rules_can_be_added_one_by_one(project: Path, env: dict[str, str], text: str) -> None:
    path = config(project, text)
    trust(project, env)
    rules = [f"run_shell_command(make x{number} *)" for number in range(5)]
    for rule in (*rules, *rules):
        keep(choose_place(project, env), "allow", rule, env)
    assert tomllib.loads(path.read_text())["allow"] == [*tomllib.loads(text).get("allow", []), *rules]


@pytest.mark.parametrize("text", ["", 'mode = "plan" # now\n', "mode='yolo'\n[prices]\n", "[prices]\n"])
def test_a_mode_is_set_or_replaced(project: Path, env: dict[str, str], text: str) -> None:
    path = config(project, text)
    trust(project, env)
    keep(choose_place(project, env), "mode", "auto-edit", env)
    assert tomllib.loads(path.read_text()) == {**tomllib.loads(text), "mode": "auto-edit"}
    assert ("# now" in path.read_text()) is ("# now" in text)


def test_of_a_project_that_is_not_trusted_nothing_is_changed(project: Path, env: dict[str, str]) -> None:
    path = config(project, 'allow = ["write_file"]\n')
    place = choose_place(project, env)
    assert place == ConfigPlace(Path(env["HOME"]) / ".config/sandbur/config.toml", None)
    keep(place, "allow", RULE, env)
    assert path.read_text() == 'allow = ["write_file"]\n'
    assert not is_trusted(project, env)
    assert load_settings({"cwd": project}, env).allow == (RULE,)
    assert stat.S_IMODE(place.path.parent.stat().st_mode) == 0o700


def test_a_file_that_changed_since_the_question_is_not_trusted_by_the_answer(
    project: Path, env: dict[str, str]
) -> None:
    path = config(project, "")
    trust(project, env)
    place = choose_place(project, env)
    path.write_text('allow = ["write_file"]\n')
    with pytest.raises(ConfigError, match="has changed meanwhile"):
        keep(place, "allow", RULE, env)
    assert path.read_text() == 'allow = ["write_file"]\n'
    assert not is_trusted(project, env)


def test_a_link_of_a_repository_is_not_followed(project: Path, tmp_path: Path, env: dict[str, str]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / ".sandbur").symlink_to(elsewhere)
    assert choose_place(project, env).project is None
    (elsewhere / "config.toml").write_text("")
    trust(project, env)
    assert choose_place(project, env).project is None


def test_the_persons_own_file_may_be_a_link(project: Path, tmp_path: Path, env: dict[str, str]) -> None:
    config(project, "x")
    own = tmp_path / "home/.config/sandbur"
    own.mkdir(parents=True)
    (tmp_path / "dotfile.toml").write_text("# mine\n")
    (own / "config.toml").symlink_to(tmp_path / "dotfile.toml")
    keep(choose_place(project, env), "allow", RULE, env)
    assert (own / "config.toml").is_symlink()
    assert (tmp_path / "dotfile.toml").read_text().startswith("# mine\nallow = ")


@pytest.mark.parametrize("text", ["allow = 3\n", "no toml", 'allow = ["x'])
def test_a_file_that_cannot_be_read_is_left_alone(project: Path, env: dict[str, str], text: str) -> None:
    path = config(project, text)
    trust(project, env)
    with pytest.raises(ConfigError):
        keep(choose_place(project, env), "allow", RULE, env)
    assert path.read_text() == text


def test_the_mode_of_the_file_stays(project: Path, env: dict[str, str]) -> None:
    path = config(project, "")
    path.chmod(0o640)
    trust(project, env)
    keep(choose_place(project, env), "allow", RULE, env)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
