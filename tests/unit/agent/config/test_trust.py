"""The list of trusted folders as a file."""

import stat
from pathlib import Path

import pytest

from sandbur.agent.config.trust import is_trusted, trust
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
