"""The list of trusted folders as a file."""

import shutil
import stat
from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.server import ModelServer
from support.models.turns import say

from sandbur.agent.config.trust import is_trusted, is_trusted_link, list_trusted, take_back, trust, trust_link
from sandbur.state.errors import ConfigError


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


def folder_with(tmp_path: Path, name: str, content: str) -> Path:
    folder = tmp_path / name
    (folder / ".sandbur").mkdir(parents=True)
    (folder / ".sandbur/config.toml").write_text(content)
    return folder


def test_trust_is_kept_for_each_folder(tmp_path: Path, env: dict[str, str]) -> None:
    one, two = folder_with(tmp_path, "one", "a"), folder_with(tmp_path, "two", "a")
    trust(one, env)
    assert is_trusted(one, env)
    assert not is_trusted(two, env)
    trust(two, env)
    assert is_trusted(one, env)
    assert is_trusted(two, env)


def test_a_link_to_a_trusted_folder_is_that_folder(tmp_path: Path, env: dict[str, str]) -> None:
    folder = folder_with(tmp_path, "one", "a")
    (tmp_path / "link").symlink_to(folder)
    trust(tmp_path / "link", env)
    assert is_trusted(folder, env)


def test_only_its_owner_can_read_the_list(tmp_path: Path, env: dict[str, str]) -> None:
    trust(folder_with(tmp_path, "one", "a"), env)
    config = Path(env["HOME"]) / ".config/sandbur"
    assert stat.S_IMODE((config / "trusted.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(config.stat().st_mode) == 0o700
    assert [path.name for path in config.iterdir()] == ["trusted.json"]


@pytest.mark.parametrize(
    "content", ["", "x", "[]", '{"version": 2}', '{"folders": {"a": 1}}', '{"other": 1}']
)
def test_a_damaged_list_trusts_nobody_and_says_so(tmp_path: Path, env: dict[str, str], content: str) -> None:
    folder = folder_with(tmp_path, "one", "a")
    trust(folder, env)
    (Path(env["HOME"]) / ".config/sandbur/trusted.json").write_text(content)
    with pytest.raises(ConfigError, match="list of trusted folders"):
        is_trusted(folder, env)


def test_a_list_that_everybody_can_change_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    folder = folder_with(tmp_path, "one", "a")
    trust(folder, env)
    (Path(env["HOME"]) / ".config/sandbur/trusted.json").chmod(0o646)
    with pytest.raises(ConfigError, match="every user"):
        is_trusted(folder, env)


def test_a_list_that_cannot_be_written_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be"):
        trust(folder_with(tmp_path, "one", "a"), {"HOME": str(tmp_path / "file")})


def test_trust_is_taken_back(tmp_path: Path, env: dict[str, str]) -> None:
    one, two = folder_with(tmp_path, "one", "a"), folder_with(tmp_path, "two", "b")
    for folder in (one, two):
        trust(folder, env)
    assert list_trusted(env) == [str(one), str(two)]
    assert take_back(one, env)
    assert not take_back(one, env)
    assert not is_trusted(one, env)
    assert is_trusted(two, env)


def test_trust_in_a_folder_that_is_gone_is_taken_back(tmp_path: Path, env: dict[str, str]) -> None:
    folder = folder_with(tmp_path, "one", "a")
    trust(folder, env)
    shutil.rmtree(folder)
    assert take_back(folder, env)
    assert list_trusted(env) == []


def test_a_link_is_trusted_as_far_as_it_led_then(tmp_path: Path, env: dict[str, str]) -> None:
    link = tmp_path / "AGENTS.md"
    link.symlink_to("/elsewhere/a")
    trust_link(link, Path("/elsewhere/a"), env)
    assert is_trusted_link(link, Path("/elsewhere/a"), env)
    assert not is_trusted_link(link, Path("/elsewhere/b"), env)
    assert not is_trusted_link(tmp_path / "other.md", Path("/elsewhere/a"), env)
    assert take_back(link, env)
    assert not is_trusted_link(link, Path("/elsewhere/a"), env)


def test_the_command_lists_what_is_trusted_and_takes_it_back(tmp_path: Path) -> None:
    command = Command(tmp_path)
    folder = folder_with(tmp_path, "one", 'model = "demo"')
    trust(folder, command.env)
    assert command.run("trust").out == f"{folder}\n"
    assert command.run("-p", "hello", "-C", str(folder)).code == 0
    assert command.run("trust", "--remove", "one").code == 0
    assert command.run("trust").out == ""
    ended = command.run("-p", "hello", "-m", "demo", "-C", str(folder))
    assert (ended.code, "is not trusted" in ended.err) == (0, True)
    for words in (("one",), ("--remove",), ("--remove", "one")):
        assert command.run("trust", *words).code == 2


def test_an_empty_list_says_that_nothing_is_trusted_and_how_that_changes(tmp_path: Path) -> None:
    ended = Command(tmp_path).run("trust")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith("Nothing is trusted. ")
    assert "`sandbur`" in ended.err


def server_of(project: str, command: Command, folder: Path, **env: str) -> str | None:
    """Run a hello that a project redirects; return the key that its server was given."""
    with ModelServer([say("hi")]) as server:
        (folder / ".sandbur").mkdir(exist_ok=True)
        (folder / ".sandbur/config.toml").write_text(project.format(url=server.base_url))
        trust(folder, command.env)
        ended = command.run("-p", "hello", "-m", "openai-chat/x", "-C", str(folder), **env)
        assert ended.code == 0, ended
        return server.requests[0].headers.get("authorization")


def test_a_projects_server_gets_a_key_only_if_the_project_names_it(tmp_path: Path) -> None:
    command = Command(tmp_path)
    keys = {"OPENAI_API_KEY": "sk-persons-own", "LAB_KEY": "sk-of-the-lab"}
    redirect = '[providers.openai-chat]\nbase_url = "{url}"\n'
    given = server_of(redirect, command, tmp_path, **keys)
    assert given is not None
    assert "sk-" not in given
    named = server_of(redirect + 'api_key_env = "LAB_KEY"\n', command, tmp_path, **keys)
    assert named == "Bearer sk-of-the-lab"


def test_a_server_of_the_persons_own_configuration_gets_the_known_key(tmp_path: Path) -> None:
    command = Command(tmp_path)
    with ModelServer([say("hi")]) as server:
        config = tmp_path / ".config/sandbur/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[providers.openai-chat]\nbase_url = "{server.base_url}"\n')
        ended = command.run("-p", "hello", "-m", "openai-chat/x", OPENAI_API_KEY="sk-persons-own")
        assert ended.code == 0, ended
        assert server.requests[0].headers["authorization"] == "Bearer sk-persons-own"
