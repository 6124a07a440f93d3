"""AGENTS.md files, and the system prompt that carries them."""

import os
from pathlib import Path

import pytest

from sandbur.agent.prompts import MAX_BYTES, find_instructions, session_prompt, system_prompt
from sandbur.state.errors import ConfigError


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def nested(tmp_path: Path) -> Path:
    folder = tmp_path / "outer" / "repo" / "sub"
    folder.mkdir(parents=True)
    for here, text in ((tmp_path / "outer", "OUTER"), (tmp_path / "outer/repo", "REPO"), (folder, "SUB")):
        (here / "AGENTS.md").write_text(text)
    return folder


def texts(cwd: Path, env: dict[str, str]) -> list[str]:
    return [instructions.text for instructions in find_instructions(cwd, env)]


def test_instructions_come_outermost_first(tmp_path: Path, env: dict[str, str]) -> None:
    assert texts(nested(tmp_path), env) == ["OUTER", "REPO", "SUB"]


def test_the_way_up_ends_at_the_repository(tmp_path: Path, env: dict[str, str]) -> None:
    folder = nested(tmp_path)
    (tmp_path / "outer/repo/.git").mkdir()
    assert texts(folder, env) == ["REPO", "SUB"]


def test_the_way_up_ends_at_home(tmp_path: Path, env: dict[str, str]) -> None:
    folder = nested(tmp_path)
    assert texts(folder, {"HOME": str(tmp_path / "outer/repo")}) == ["REPO", "SUB"]
    assert texts(folder, {"HOME": "/nowhere"}) == ["OUTER", "REPO", "SUB"]


def test_an_empty_file_and_a_missing_one_say_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "AGENTS.md").write_text(" \n")
    assert texts(tmp_path, env) == []


def test_a_byte_order_mark_is_dropped(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xef\xbb\xbfhello")
    assert texts(tmp_path, env) == ["hello"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"caf\xe9", "line 1, column 4"), (b"ok\n\xff\xfe", "line 2, column 1"), (b"a\n\0", "line 2")],
)
def test_a_file_that_is_no_text_is_one_clear_sentence(
    tmp_path: Path, env: dict[str, str], content: bytes, said: str
) -> None:
    (tmp_path / "AGENTS.md").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        find_instructions(tmp_path, env)
    assert said in str(caught.value)
    assert str(tmp_path / "AGENTS.md") in str(caught.value)
    assert caught.value.exit_code == 52


def test_what_is_no_file_is_one_clear_sentence(tmp_path: Path, env: dict[str, str]) -> None:
    path = tmp_path / "AGENTS.md"
    path.mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        find_instructions(tmp_path, env)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="no regular file"):
        find_instructions(tmp_path, env)
    path.unlink()
    path.symlink_to("missing")
    with pytest.raises(ConfigError, match="link to a file"):
        find_instructions(tmp_path, env)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_strangers_file_above_the_working_folder_is_passed_over(
    tmp_path: Path, env: dict[str, str]
) -> None:
    folder = nested(tmp_path)
    for path in (tmp_path / "outer/AGENTS.md", folder / "AGENTS.md"):
        os.chown(path, 12345, 12345)
    assert texts(folder, env) == ["REPO", "SUB"]


def test_a_long_file_is_cut_behind_a_line_and_that_is_said(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "AGENTS.md").write_text("häuser\n" * 20_000, encoding="utf-8")
    (found,) = find_instructions(tmp_path, env)
    assert len(found.text.encode()) <= MAX_BYTES
    assert set(found.text.splitlines()) == {"häuser"}
    assert found.cut_bytes + len(found.text.encode()) + 1 == 160_000
    prompt, notices = session_prompt(tmp_path, [], env)
    assert f"the last {found.cut_bytes} bytes are left out" in prompt
    assert len(notices) == 1
    assert str(found.path) in notices[0]


def test_a_long_line_is_cut_between_characters(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"x" + "ä".encode() * 100_000)
    (found,) = find_instructions(tmp_path, env)
    assert found.text == "x" + "ä" * ((MAX_BYTES - 1) // 2)


def test_the_prompt_is_short_and_the_same_every_time(tmp_path: Path, env: dict[str, str]) -> None:
    prompt, notices = session_prompt(tmp_path, [Path("/added")], env)
    assert notices == []
    assert prompt == session_prompt(tmp_path, [Path("/added")], env)[0]
    assert len(prompt.encode()) < 2500
    for word in (str(tmp_path), "/added", "start_plan", "submit_plan", "finish_step", "denied", "unknown"):
        assert word in prompt


def test_the_prompt_carries_the_instructions_after_its_own(tmp_path: Path, env: dict[str, str]) -> None:
    folder = nested(tmp_path)
    prompt, _ = session_prompt(folder, [], env)
    own = system_prompt(folder, [])
    assert prompt.startswith(own)
    rest = prompt[len(own) :]
    assert rest.index("OUTER") < rest.index("REPO") < rest.index("SUB")
