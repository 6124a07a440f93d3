"""AGENTS.md files, and the system prompt that carries them."""

import os
import stat
from pathlib import Path

import pytest
from support.commands.command import Command

from sandbur.agent.config.trust import trust_link
from sandbur.agent.runtime.agent_definition import SessionPlace
from sandbur.agent.runtime.prompts import MAX_BYTES, find_instructions, session_prompt, system_prompt


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
    return [instructions.text for instructions in find_instructions(cwd, env).instructions]


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
def test_a_file_that_is_no_text_is_left_out_with_one_clear_sentence(
    tmp_path: Path, env: dict[str, str], content: bytes, said: str
) -> None:
    (tmp_path / "AGENTS.md").write_bytes(content)
    found = find_instructions(tmp_path, env)
    assert found.instructions == ()
    (problem,) = found.problems
    assert said in problem
    assert str(tmp_path / "AGENTS.md") in problem
    assert problem.endswith("It is left out.")


def test_what_is_no_file_is_left_out_with_one_clear_sentence(tmp_path: Path, env: dict[str, str]) -> None:
    path = tmp_path / "AGENTS.md"
    path.mkdir()
    assert "is a folder" in find_instructions(tmp_path, env).problems[0]
    path.rmdir()
    os.mkfifo(path)
    assert "no regular file" in find_instructions(tmp_path, env).problems[0]
    path.unlink()
    path.symlink_to("missing")
    assert "link to a file" in find_instructions(tmp_path, env).problems[0]
    path.unlink()
    path.symlink_to("AGENTS.md")
    assert "cannot be read" in find_instructions(tmp_path, env).problems[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a device")
def test_a_device_is_left_out(tmp_path: Path, env: dict[str, str]) -> None:
    os.mknod(tmp_path / "AGENTS.md", 0o644 | stat.S_IFCHR, os.makedev(1, 5))
    assert "no regular file" in find_instructions(tmp_path, env).problems[0]


@pytest.mark.parametrize("kind", ["fifo", "bytes", "outside", "fifo outside"])
def test_a_bad_file_stops_no_start(tmp_path: Path, kind: str) -> None:
    folder, path = tmp_path / "repo", tmp_path / "repo/AGENTS.md"
    (folder / ".git").mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    if kind == "bytes":
        path.write_bytes(b"\xff\xfe")
    elif kind == "outside":
        elsewhere.write_text("OUTSIDE")
    elif kind == "fifo outside":
        os.mkfifo(elsewhere)
    if kind.endswith("outside"):
        path.symlink_to(elsewhere)
    elif kind == "fifo":
        os.mkfifo(path)
    ended = Command(tmp_path).run("-p", "hello", "-m", "demo", "-C", str(folder))
    assert (ended.code, "left out" in ended.err, str(path) in ended.err) == (0, True, True)


async def test_a_link_out_of_the_repository_is_not_read_until_somebody_says_so(
    tmp_path: Path, env: dict[str, str]
) -> None:
    folder = nested(tmp_path)
    (tmp_path / "outer/repo/.git").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    link = folder / "AGENTS.md"
    link.unlink()
    link.symlink_to(secret)
    found = find_instructions(folder, env)
    assert [each.text for each in found.instructions] == ["REPO"]
    assert [(each.link, each.target) for each in found.outside] == [(link, secret)]
    prompt, (notice,) = await session_prompt(SessionPlace("s", folder), [], env)
    assert "SECRET" not in prompt
    assert f"{link} leads outside, to {secret}" in notice
    trust_link(link, secret, env)
    assert texts(folder, env) == ["REPO", "SECRET"]
    link.unlink()
    link.symlink_to(tmp_path / "outer/AGENTS.md")
    assert texts(folder, env) == ["REPO"]


def test_a_link_inside_the_repository_is_read(tmp_path: Path, env: dict[str, str]) -> None:
    folder = nested(tmp_path)
    (tmp_path / "outer/repo/.git").mkdir()
    (folder / "AGENTS.md").unlink()
    (folder / "AGENTS.md").symlink_to("../CLAUDE.md")
    (tmp_path / "outer/repo/CLAUDE.md").write_text("SAME")
    assert texts(folder, env) == ["REPO", "SAME"]
    (folder / "AGENTS.md").unlink()
    (folder / "AGENTS.md").symlink_to("../../AGENTS.md")
    assert texts(folder, env) == ["REPO"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_strangers_file_above_the_working_folder_is_passed_over(
    tmp_path: Path, env: dict[str, str]
) -> None:
    folder = nested(tmp_path)
    for path in (tmp_path / "outer/AGENTS.md", folder / "AGENTS.md"):
        os.chown(path, 12345, 12345)
    assert texts(folder, env) == ["REPO", "SUB"]


async def test_a_long_file_is_cut_behind_a_line_and_that_is_said(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "AGENTS.md").write_text("häuser\n" * 20_000, encoding="utf-8")
    (found,) = find_instructions(tmp_path, env).instructions
    assert len(found.text.encode()) <= MAX_BYTES
    assert set(found.text.splitlines()) == {"häuser"}
    assert found.cut_bytes + len(found.text.encode()) + 1 == 160_000
    prompt, notices = await session_prompt(SessionPlace("s", tmp_path), [], env)
    assert f"the last {found.cut_bytes} bytes are left out" in prompt
    assert len(notices) == 1
    assert str(found.path) in notices[0]


def test_a_long_line_is_cut_between_characters(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"x" + "ä".encode() * 100_000)
    (found,) = find_instructions(tmp_path, env).instructions
    assert found.text == "x" + "ä" * ((MAX_BYTES - 1) // 2)


async def test_the_prompt_is_short_and_the_same_every_time(tmp_path: Path, env: dict[str, str]) -> None:
    place = SessionPlace("s", tmp_path)
    prompt, notices = await session_prompt(place, [Path("/added")], env)
    assert notices == []
    assert prompt == (await session_prompt(place, [Path("/added")], env))[0]
    assert len(prompt.encode()) < 2500
    for word in (str(tmp_path), "/added", "start_plan", "submit_plan", "finish_step", "denied", "unknown"):
        assert word in prompt


async def test_the_prompt_carries_the_instructions_after_its_own(tmp_path: Path, env: dict[str, str]) -> None:
    folder = nested(tmp_path)
    prompt, _ = await session_prompt(SessionPlace("s", folder), [], env)
    own = system_prompt(folder, [])
    assert prompt.startswith(own)
    rest = prompt[len(own) :]
    assert rest.index("OUTER") < rest.index("REPO") < rest.index("SUB")
