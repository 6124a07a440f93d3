"""Suites are folders of tasks in the format of harbor; what is wrong with one is told with its path."""

import asyncio
import os
from pathlib import Path

import pytest

from sandbur import Suite, Task
from sandbur.agent.review.evaluation.runs.run_place import RunPlace
from sandbur.state.errors import SandburError, UsageError

TOML = 'version = "1.0"\n[agent]\ntimeout_sec = 12.5\n[verifier]\ntimeout_sec = 30\n'


def make_task(root: Path, name: str = "one", **files: str) -> Path:
    folder = root / name
    texts = {"task.toml": TOML, "instruction.md": "Do it in /app.\n", "tests/test.sh": "true\n", **files}
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_folder_of_folders_is_a_suite(tmp_path: Path) -> None:
    make_task(tmp_path, "b/two")
    make_task(tmp_path, "a")
    suite = Suite.from_folder(tmp_path)
    assert [task.name for task in suite] == ["a", "b/two"]
    assert {(task.timeout_s, task.check_timeout_s) for task in suite} == {(12.5, 30.0)}
    assert [task.name for task in suite.select(["b"])] == ["b/two"]
    assert Suite.from_folder(tmp_path / "a" / "..").name == tmp_path.name


def test_a_file_of_an_environment_is_no_task_whatever_its_name_is(tmp_path: Path) -> None:
    folder = make_task(tmp_path, **{"environment/project/task.toml": "[tool]\n"})
    (folder / "environment" / os.fsdecode(b"\xff.txt")).write_text("x")
    (task,) = Suite.from_folder(tmp_path)
    assert (task.name, len(task.digest)) == ("one", 64)


def test_files_in_turns_are_messages_before_the_instruction(tmp_path: Path) -> None:
    folder = make_task(tmp_path, **{"turns/2.md": "second\n", "turns/1.md": "first\n"})
    assert Suite.from_folder(folder).tasks[0].turns == ("first", "second")
    (folder / "turns" / "3.md").write_text("\n")
    with pytest.raises(UsageError, match=r"3\.md is empty"):
        Suite.from_folder(folder)


def test_a_folder_with_one_task_is_a_suite_of_one(tmp_path: Path) -> None:
    assert [task.name for task in Suite.from_folder(make_task(tmp_path))] == ["one"]


def test_the_shipped_suite_has_twenty_tasks_and_each_has_a_script() -> None:
    suite = Suite.shipped("smoke")
    assert len(suite) == 20
    for task in suite:
        assert task.folder is not None
        assert (task.folder / "solution" / "script.json").is_file()
        assert (task.folder / "solution" / "solve.sh").is_file()


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("task.toml", "version =", "task.toml is not TOML"),
        ("task.toml", f"version = {'1' * 5000}", "task.toml is not TOML"),
        ("task.toml", "[agent]\ntimeout_sec = 'soon'\n", "[agent] timeout_sec is 'soon'"),
        ("task.toml", "[verifier]\ntimeout_sec = 0\n", "[verifier] timeout_sec is 0"),
        ("task.toml", "[agent]\ntimeout_sec = inf\n", "[agent] timeout_sec is inf"),
        ("task.toml", "agent = 3\n", "`agent` is 3"),
        ("task.toml", "[metadata]\ninterrupt_at_call = -1\n", "[metadata] interrupt_at_call is -1"),
        ("instruction.md", " \n", "instruction.md is empty"),
        ("tests/test.sh", "\n", "test.sh is empty"),
    ],
)
def test_a_wrong_task_is_told_with_its_path_and_field(
    tmp_path: Path, path: str, text: str, said: str
) -> None:
    folder = make_task(tmp_path, **{path: text})
    with pytest.raises(UsageError) as error:
        Suite.from_folder(tmp_path)
    assert said in error.value.message
    assert str(folder) in error.value.message


@pytest.mark.parametrize("place", ["instruction.md", "environment/a.txt", "tests/data", "environment/folder"])
def test_no_link_of_a_suite_leads_out_of_it(tmp_path: Path, place: str) -> None:
    folder = make_task(tmp_path / "suite", **{"environment/own.txt": "own\n"})
    secret = tmp_path / "home" / "id_rsa"
    secret.parent.mkdir()
    secret.write_text("the key of a person\n")
    (folder / "environment" / "link.txt").symlink_to("own.txt")
    assert len(Suite.from_folder(tmp_path / "suite")) == 1, "a link to a file of the suite is fine"
    (folder / place).unlink(missing_ok=True)
    (folder / place).symlink_to(secret if "." in place else secret.parent)
    with pytest.raises(UsageError, match=f"{place} is a link, but not to a file of the suite"):
        Suite.from_folder(tmp_path / "suite")


def test_what_is_no_file_is_neither_a_task_nor_a_reward(tmp_path: Path) -> None:
    folder = make_task(tmp_path)
    task = Suite.from_folder(tmp_path).tasks[0]
    os.mkfifo(folder / "turns.md")
    with pytest.raises(UsageError, match=r"turns\.md is a named pipe"):
        Suite.from_folder(tmp_path)
    (folder / "turns.md").unlink()
    place = RunPlace(tmp_path / "home", "id", task, "off", ())
    place.make()
    (folder / "tests" / "test.sh").write_text("mkfifo /logs/verifier/reward.txt\n")
    assert asyncio.run(place.run_check()) == (1.0, "")


@pytest.mark.parametrize("missing", ["instruction.md", "tests/test.sh"])
def test_a_task_without_a_file_is_told(tmp_path: Path, missing: str) -> None:
    folder = make_task(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(UsageError, match=f"has no {missing}"):
        Suite.from_folder(tmp_path)


def test_a_folder_without_tasks_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no task"):
        Suite.from_folder(tmp_path)
    with pytest.raises(UsageError, match="There is no folder"):
        Suite.from_folder(tmp_path / "missing")


def test_tasks_of_a_program_are_checked() -> None:
    assert [task.name for task in Suite([Task("a", check="true"), Task("b", check="true")])] == [
        "task-1",
        "task-2",
    ]
    with pytest.raises(UsageError, match="two tasks with the name"):
        Suite([Task("a", check="true", name="x"), Task("b", check="true", name="x")])
    with pytest.raises(UsageError, match="has no tasks"):
        Suite([])
    with pytest.raises(UsageError, match="has no check"):
        Task("a")
    with pytest.raises(SandburError, match="not empty"):
        Task(" ", check="true")
    with pytest.raises(UsageError, match="outside of its workspace"):
        Task("a", {"../b": "c"}, check="true")


def test_a_changed_file_of_a_task_changes_its_digest(tmp_path: Path) -> None:
    folder = make_task(tmp_path)
    before = Suite.from_folder(folder).tasks[0].digest
    assert Suite.from_folder(folder).tasks[0].digest == before
    (folder / "tests" / "test.sh").write_text("false\n")
    assert Suite.from_folder(folder).tasks[0].digest != before


def test_a_workspace_has_the_files_of_the_environment_without_the_image(tmp_path: Path) -> None:
    folder = make_task(tmp_path, **{"environment/Dockerfile": "FROM x\n", "environment/sub/a.txt": "a\n"})
    task = Suite.from_folder(folder).tasks[0]
    assert [notice for notice in task.notices if "Dockerfile is not used" in notice]
    place = RunPlace(tmp_path / "home", "id", task, "off", ())
    place.make()
    found = [
        path.relative_to(place.workspace).as_posix() for path in place.workspace.rglob("*") if path.is_file()
    ]
    assert found == ["sub/a.txt"]
    (place.workspace / "sub" / "a.txt").write_text("changed\n")
    place.make()
    assert (place.workspace / "sub" / "a.txt").read_text() == "changed\n"


def test_the_paths_of_the_container_become_those_of_the_run(tmp_path: Path) -> None:
    place = RunPlace(tmp_path / "home", "id", Suite.from_folder(make_task(tmp_path)).tasks[0], "off", ())
    folder = place.folder
    assert place.instruction == f"Do it in {folder}/app."
    assert place.translate("cat /app/x > /logs/verifier/reward.txt") == (
        f"cat {folder}/app/x > {folder}/logs/verifier/reward.txt"
    )
    assert place.translate("/usr/app ./app /apps /application $HOME/app") == (
        "/usr/app ./app /apps /application $HOME/app"
    )


@pytest.mark.parametrize(
    ("script", "reward"),
    [
        ("exit 0", 1.0),
        ("exit 3", 0.0),
        ("echo 0.25 > /logs/verifier/reward.txt; exit 1", 0.25),
        ("echo much > /logs/verifier/reward.txt", 0.0),
        (": > /logs/verifier/reward.txt", 0.0),
        ("mkfifo /logs/verifier/reward.txt", 1.0),
        ("set -e\r\nif true; then\r\n  true\r\nfi\r", 1.0),
        ("rm -r /app", 1.0),
        ('pwd; test "$(pwd)" = /app', 1.0),
    ],
)
async def test_the_reward_is_that_of_the_script(tmp_path: Path, script: str, reward: float) -> None:
    folder = make_task(tmp_path, **{"tests/test.sh": f"{script}\n"})
    place = RunPlace(tmp_path / "home", "id", Suite.from_folder(folder).tasks[0], "off", ())
    place.make()
    assert (await place.run_check())[0] == reward


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo much > /logs/verifier/reward.txt", "reward.txt has 'much', which is no number."),
        ("echo nan > /logs/verifier/reward.txt", "reward.txt has 'nan', which is no number."),
        ("echo begun; sleep 60", "begun\nThe script reached its time limit of 0.5 s."),
        ("head -c 30000000 /dev/zero", "The script was stopped: it wrote more than 20.0 MB of output."),
    ],
)
async def test_the_output_of_a_check_says_why_it_does_not_count(
    tmp_path: Path, script: str, said: str
) -> None:
    toml = "[verifier]\ntimeout_sec = 0.5\n" if "sleep" in script else TOML
    folder = make_task(tmp_path, **{"tests/test.sh": f"{script}\n", "task.toml": toml})
    place = RunPlace(tmp_path / "home", "id", Suite.from_folder(folder).tasks[0], "off", ())
    place.make()
    reward, output = await place.run_check()
    assert reward == 0
    assert output.endswith(said)


async def test_files_of_windows_are_read_and_their_scripts_run(tmp_path: Path) -> None:
    folder = make_task(tmp_path)
    (folder / "task.toml").write_bytes(b"\xef\xbb\xbf" + TOML.replace("\n", "\r\n").encode())
    (folder / "instruction.md").write_bytes(b"\xef\xbb\xbfDo it.\r\n")
    (folder / "tests/test.sh").write_bytes(b"\xef\xbb\xbfset -e\r\ntest -e /app\r\n")
    (folder / "tests/data.csv").write_bytes(b"/app\r\n")
    task = Suite.from_folder(folder).tasks[0]
    assert (task.instruction, task.timeout_s) == ("Do it.", 12.5)
    place = RunPlace(tmp_path / "home", "id", task, "off", ())
    place.make()
    assert await place.run_check() == (1.0, "")
    assert (place.folder / "tests/data.csv").read_bytes() == f"{place.workspace}\r\n".encode()
