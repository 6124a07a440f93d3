"""What `run_shell_command` tells about commands that really run."""

import asyncio
import json
import os
import resource
import time
from pathlib import Path

import pytest

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.shell.command_output import plain, plain_piece, split_unfinished
from sandbur.actions.tools.shell.execution.process_marker import shell_environment
from sandbur.actions.tools.shell.tool import RunShellCommand

pytestmark = pytest.mark.slow


async def run(
    folder: Path,
    command: str,
    tool: RunShellCommand | None = None,
    shown: list[str] | None = None,
    **options: object,
) -> ToolOutcome:
    tool = tool or RunShellCommand()
    live = shown if shown is not None else []
    context = ToolContext("c1", folder, live.append)
    return await tool.run(tool.parse(json.dumps({"command": command, **options})), context)


async def test_both_streams_come_in_order_with_the_exit_code(tmp_path: Path):
    command = "for n in 1 2 3; do echo out $n; echo err $n >&2; done"
    outcome = await run(tmp_path, command)
    assert outcome == ToolOutcome("ok", "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nexit code: 0")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("true", "(no output)\nexit code: 0"),
        ("exit 1", "exit code: 1"),
        ("exit 126", "exit code: 126 (found, but it could not be executed)"),
        ("/dev/null", "exit code: 126 (found, but it could not be executed)"),
        ("no-such-command", "exit code: 127 (command not found)"),
        ("kill -SEGV $$", "exit code: 139 (killed by SIGSEGV)"),
        ("sh -c 'kill -KILL $$'; exit $?", "exit code: 137 (as after SIGKILL)"),
        ("exit 255", "exit code: 255"),
    ],
)
async def test_the_exit_code_is_told_exactly(tmp_path: Path, command: str, told: str):
    outcome = await run(tmp_path, command)
    assert outcome.content.endswith(told)
    assert outcome.outcome == ("ok" if command == "true" else "error")


async def test_a_command_runs_in_the_working_folder_or_in_the_one_it_names(tmp_path: Path):
    tmp_path.joinpath("sub").mkdir()
    assert (await run(tmp_path, "pwd")).content.startswith(f"{tmp_path}\n")
    assert (await run(tmp_path, "pwd", cwd="sub")).content.startswith(f"{tmp_path}/sub\n")


async def test_a_folder_that_is_gone_is_told_clearly(tmp_path: Path):
    folder = tmp_path / "gone"
    folder.mkdir()
    assert (await run(folder, 'rmdir "$PWD"')).outcome == "ok"
    outcome = await run(folder, "echo")
    assert outcome.outcome == "error"
    assert outcome.content == f"The command was not run: {folder} does not exist."
    tmp_path.joinpath("file").touch()
    assert "is a file, not a folder" in (await run(tmp_path, "echo", cwd="file")).content


async def test_an_overlong_command_line_is_told_clearly(tmp_path: Path):
    outcome = await run(tmp_path, "echo " + "x" * 200_000)
    assert outcome.content.startswith("The command was not run: the command line is longer than")


async def test_nothing_waits_for_a_person(tmp_path: Path):
    command = (
        "cat; read x || echo no input; exec 3</dev/tty || echo no terminal;"
        "test -t 0 || echo not a terminal; echo $PAGER $GIT_TERMINAL_PROMPT $DEBIAN_FRONTEND $TERM"
    )
    async with asyncio.timeout(5):
        outcome = await run(tmp_path, command)
    assert "no input\n" in outcome.content
    assert "no terminal\nnot a terminal\ncat 0 noninteractive dumb\n" in outcome.content


def test_the_keys_of_the_agent_stay_with_the_agent():
    outer = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "k",
        "ANTHROPIC_API_KEY": "k",
        "SANDBUR_STORE": "s",
        "GITHUB_TOKEN": "t",
        "FORCE_COLOR": "1",
        "PAGER": "less",
    }
    inner = shell_environment(outer, "mark")
    assert {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SANDBUR_STORE", "FORCE_COLOR"}.isdisjoint(inner)
    assert (inner["PATH"], inner["GITHUB_TOKEN"], inner["PAGER"]) == ("/bin", "t", "cat")
    assert inner["SANDBUR_CALL"] == "mark"


async def test_a_command_leaves_no_core_and_breaks_pipes_as_usual(tmp_path: Path):
    assert (await run(tmp_path, "ulimit -c")).content.startswith("0\n")
    outcome = await run(tmp_path, "yes | head -1; echo ${PIPESTATUS[0]}")
    assert outcome.content == "y\n141\nexit code: 0"


async def test_a_command_inherits_no_file_of_the_agent(tmp_path: Path):
    with tmp_path.joinpath("open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        outcome = await run(tmp_path, "ls /proc/$$/fd")
    assert outcome.content.split("\n")[:3] == ["0", "1", "2"]
    assert str(tmp_path / "open") not in (await run(tmp_path, "ls -l /proc/$$/fd")).content


async def test_output_is_shown_while_the_command_runs(tmp_path: Path):
    shown: list[str] = []
    task = asyncio.create_task(run(tmp_path, "echo first; sleep 0.6; echo second", shown=shown))
    await asyncio.sleep(0.35)
    assert "".join(shown) == "first\n"
    await task
    assert "".join(shown) == "first\nsecond\n"


async def test_live_output_is_bounded_in_rate_and_size(tmp_path: Path):
    shown: list[str] = []
    began = time.monotonic()
    await run(tmp_path, "timeout 0.5 yes 0123456789", shown=shown)
    assert len(shown) <= 20 * (time.monotonic() - began) + 3
    assert max(len(piece) for piece in shown) < 8400


async def test_a_character_in_two_pieces_is_shown_whole(tmp_path: Path):
    shown: list[str] = []
    command = r"printf '\303'; sleep 0.2; printf '\244\033['; sleep 0.2; printf '31mred\n'"
    outcome = await run(tmp_path, command, shown=shown)
    assert outcome.content == "ä" + "red\nexit code: 0"
    assert "".join(shown) == "ä" + "red\n"


async def test_long_output_is_cut_in_the_middle_and_kept_whole_beside(tmp_path: Path):
    outcome = await run(tmp_path, "seq 1000000")
    lines = outcome.content.split("\n")
    assert (lines[0], lines[-2:]) == ("1", ["1000000", "exit code: 0"])
    marker = next(line for line in lines if line.startswith("[..."))
    assert marker.endswith(" MB left out ...]")
    kept = [int(line) for line in lines[:-1] if line != marker]
    left_out = int(marker.split()[1].replace(",", ""))
    assert len(kept) + left_out == 1_000_000
    assert kept == sorted(kept)
    assert len(outcome.content.encode()) < 31_000
    assert outcome.full_output == "".join(f"{n}\n" for n in range(1, 1_000_001)).encode()


async def test_output_that_fits_is_not_kept_twice(tmp_path: Path):
    assert (await run(tmp_path, "seq 1000")).full_output is None


async def test_one_long_line_is_cut_at_characters(tmp_path: Path):
    began = time.monotonic()
    outcome = await run(tmp_path, "head -c 10000000 /dev/zero | sed 's/\\x0/äx/g'")
    assert time.monotonic() - began < 60
    assert len(outcome.content.encode()) < 31_000
    assert "\ufffd" not in outcome.content
    assert "0 lines, " in outcome.content


async def test_binary_output_is_replaced_for_the_model_and_kept_as_it_was(tmp_path: Path):
    outcome = await run(tmp_path, r"printf 'a\000b\377\376c\n'")
    assert outcome.content == "ab\ufffd\ufffdc\nexit code: 0"
    assert outcome.full_output == b"a\x00b\xff\xfec\n"


async def test_a_flood_ends_at_the_byte_limit_with_little_memory(tmp_path: Path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tool = RunShellCommand(max_output_bytes=5_000_000)
    began = time.monotonic()
    outcome = await run(tmp_path, "cat /dev/zero", tool)
    assert time.monotonic() - began < 10
    assert outcome.outcome == "error"
    assert "[killed, with all its processes: it wrote more than 5.0 MB of output]" in outcome.content
    assert len(outcome.full_output or b"") == 5_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


async def test_a_wall_limit_ends_a_command_that_keeps_writing(tmp_path: Path):
    began = time.monotonic()
    outcome = await run(tmp_path, "while :; do echo tick; sleep 0.1; done", timeout_s=1)
    assert time.monotonic() - began < 10
    assert outcome.outcome == "timeout"
    assert outcome.content.startswith("tick\ntick\n")
    assert "[timed out: killed, with all its processes, after 1 s; a larger timeout_s" in outcome.content
    assert outcome.content.endswith("exit code: 143 (killed by SIGTERM)")


async def test_an_idle_limit_ends_a_silent_command(tmp_path: Path):
    tool = RunShellCommand(idle_s=0.4)
    outcome = await run(tmp_path, "for n in 1 2 3; do echo $n; sleep 0.2; done; sleep 60", tool)
    assert outcome.outcome == "timeout"
    assert outcome.content.startswith("1\n2\n3\n[timed out: killed")
    assert "after 0.4 s without any output" in outcome.content


async def test_a_cancelled_command_hands_over_its_output_so_far(tmp_path: Path):
    task = asyncio.create_task(run(tmp_path, "echo so far; sleep 60"))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.args[0] == "so far\n"
    assert time.monotonic() - began < 10


async def test_commands_run_side_by_side(tmp_path: Path):
    began = time.monotonic()
    await asyncio.gather(*(run(tmp_path, "sleep 1.5") for _ in range(8)))
    assert time.monotonic() - began < 10


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_nothing_stays_open(tmp_path: Path):
    await run(tmp_path, "true")
    before = open_files()
    for _ in range(5):
        await run(tmp_path, "seq 100000")
        await run(tmp_path, "sleep 60 & kill -9 $PPID")
    assert open_files() == before


def test_text_for_a_terminal_becomes_plain_text():
    assert plain("\x1b[1;31mred\x1b[0m") == "red"
    assert plain("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "alink"
    assert plain("10%\r50%\r100%\r\nnext\r\n") == "100%\nnext\n"
    assert plain("N\x08NA\x08AME _\x08x") == "NAME x"
    assert plain("a\x00b\x07c\x9bd\te\n") == "abcd\te\n"
    assert plain("a\x1b") == "a"
    assert plain_piece("10%\r50%\r\n") == "10%\n50%\n"


@pytest.mark.parametrize("sequence", ["\x1b[1;31m", "\x1b]0;title\x07", "\x1b]8;;x\x1b\\", "\x1b(B"])
def test_a_sequence_in_two_pieces_never_shows(sequence: str):
    for cut in range(1, len(sequence)):
        first, rest = split_unfinished("a" + sequence[:cut])
        assert plain_piece(first) + plain_piece(rest + sequence[cut:] + "b") == "ab"


def test_hostile_text_takes_no_time():
    began = time.monotonic()
    for text in ("\x1b]" * 500_000, "\x1b[" + "0" * 1_000_000, "a\x08" * 500_000, "a\r" * 500_000):
        assert len(plain(text)) <= len(text)
    assert time.monotonic() - began < 10
