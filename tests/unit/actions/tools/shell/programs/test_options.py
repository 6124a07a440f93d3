"""The tables of options, held against the programs that they speak of."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.row_by_row import for_each

from sandbur.actions.tools.shell.language.programs.git_tables import GIT_OPTION_WORDS
from sandbur.actions.tools.shell.language.programs.options import (
    Kind,
    Program,
    UnknownOption,
    read_arguments,
    table,
)
from sandbur.actions.tools.shell.language.programs.tables import OPTION_WORDS, PROGRAMS

TABLES = {**OPTION_WORDS, **{f"git {name}": words for name, words in GIT_OPTION_WORDS.items()}}
WORD = re.compile(r"-#|-[A-Za-z0-9.]+|-[A-Za-z0-9][:%<?&]|--[a-z0-9]+(?:-[a-z0-9]+)*[:%<?&]?")
LONG_WITH_ONE_DASH = re.compile(r"-[A-Za-z_0]+(?:00)?[:%<]?")
NO_FILES = frozenset(
    ("seq", "sed", "awk", "type", "pwd", "whoami", "logname", "groups", "arch", "tty", "uptime")
)


@for_each("row", TABLES.items())
def test_every_word_of_a_table_is_one_option(row: tuple[str, str]) -> None:
    name, words = row
    pattern = LONG_WITH_ONE_DASH if name in ("find", "xxd") else WORD
    wrong = [word for word in words.split() if not pattern.fullmatch(word)]
    assert not wrong, name


def test_the_tables_are_many() -> None:
    assert len(TABLES) > 80
    assert sum(len(table(words)) for words in TABLES.values()) > 1500


def valued(program: str, kinds: tuple[Kind, ...]) -> Iterator[tuple[str, Kind]]:
    for option, kind in PROGRAMS[program].options.items():
        if kind in kinds:
            yield option, kind


def spellings(option: str, kind: Kind, value: str, program: str) -> Iterator[list[str]]:
    """Yield the ways in which an option can be given a value."""
    if kind == "pair":
        yield [option, "name", value]
        return
    if kind != "optional":
        yield [option, value]
    if PROGRAMS[program].is_single_dash:
        return
    yield [f"{option}={value}"] if option.startswith("--") else [f"{option}{value}"]


def opened_files(folder: Path, commands: list[list[str]], value: str) -> list[list[str]]:
    """Return those of the commands that open the file called `value`, as strace sees it."""
    trace = folder / "trace"
    found: list[list[str]] = []
    for start in range(0, len(commands), 200):
        lines: list[str] = []
        for number, words in enumerate(commands[start : start + 200], start):
            quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
            lines.append(f": > mark{number}; timeout 5 {quoted} < /dev/null > /dev/null 2>&1")
        (folder / "script").write_text("\n".join(lines))
        strace = [
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=open,openat",
            "-s",
            "300",
            "-o",
            str(trace),
            "bash",
            "script",
        ]
        subprocess.run(strace, cwd=folder, check=False, timeout=240, stdin=subprocess.DEVNULL)
        number = -1
        for line in trace.read_text(errors="replace").splitlines():
            if mark := re.search(r'"mark(\d+)"', line):
                number = int(mark[1])
            elif (f'"{value}"' in line or f'{folder}/{value}"' in line) and commands[number] not in found:
                found.append(commands[number])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("operand", "other"):
        (tmp_path / name).write_text("a b\nc d\n")
    (tmp_path / "planted_value").write_text("planted\n")
    return tmp_path


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
INSTALLED = [name for name in PROGRAMS if shutil.which(name) and name not in NO_FILES]


@needs_strace
@pytest.mark.slow
def test_no_value_of_an_option_is_a_file_unless_the_table_says_so(folder: Path) -> None:
    """Each option with a value is given the name of a file: the program does not open it."""
    commands = [
        [program, *words, *(["x"] if program in ("grep", "egrep", "fgrep", "rg") else []), "operand"]
        for program in INSTALLED
        for option, kind in valued(program, ("word", "text", "optional", "pair"))
        for words in spellings(option, kind, "planted_value", program)
    ]
    assert len(commands) > 300
    opened = opened_files(folder, commands, "planted_value")
    assert opened == []


@needs_strace
@pytest.mark.slow
def test_an_option_with_a_file_is_seen_to_open_it(folder: Path) -> None:
    """So the test above would see a wrong row."""
    commands = [
        [program, *words, "operand"]
        for program in INSTALLED
        for option, kind in valued(program, ("file",))
        for words in spellings(option, kind, "planted_value", program)
        if program in ("grep", "egrep", "fgrep", "rg")
    ]
    assert opened_files(folder, commands, "planted_value") == commands
    assert opened_files(folder, [["column", "-t", "planted_value"]], "planted_value")


@needs_strace
@pytest.mark.slow
def test_a_flag_takes_no_word(folder: Path) -> None:
    """Where a pattern or script comes first, the word behind a flag is that, and no value of the flag."""
    commands = [
        [program, option, "planted_value", "operand"]
        for program in INSTALLED
        if PROGRAMS[program].leading
        for option, _ in valued(program, ("flag",))
        if option not in PROGRAMS[program].instead and option != "-#"
    ]
    assert len(commands) > 100
    assert opened_files(folder, commands, "planted_value") == []


def test_an_option_is_known_only_if_it_is_written_in_full() -> None:
    for program, known in PROGRAMS.items():
        for option in known.options:
            if not option.startswith("--"):
                continue
            for end in range(3, len(option)):
                if option[:end] not in known.options:
                    with pytest.raises(UnknownOption):
                        read_arguments(known, [option[:end], "x"])
                    with pytest.raises(UnknownOption):
                        read_arguments(known, [f"{option[:end]}=x"])
        for danger in (
            "--files0-from=x",
            "--files0-f=x",
            "--fi=x",
            "--check",
            "--ch",
            "--output=x",
            "--outp=x",
        ):
            if danger.partition("=")[0] not in known.options:
                with pytest.raises(UnknownOption):
                    read_arguments(known, [danger])
        assert program


def test_arguments_are_told_apart_as_getopt_does() -> None:
    program = Program(table("-ab -n: -c? --long: --maybe? --flag -#"))
    read = read_arguments(program, ["-abn5", "x", "-n", "6", "--long", "7", "--maybe=8", "-3", "--", "-y"])
    assert [(one.name, one.value) for one in read.options] == [
        ("-a", ""), ("-b", ""), ("-n", "5"), ("-n", "6"), ("--long", "7"), ("--maybe", "8"), ("-#", "3"),
    ]  # fmt: skip
    assert read.operands == ["x", "-y"]
    for wrong in (["-x"], ["-ax"], ["--lon", "7"], ["--flag=1"], ["-n"], ["--long"], ["--other"]):
        with pytest.raises(UnknownOption):
            read_arguments(program, wrong)


@pytest.mark.slow
def test_the_folder_is_not_written_to_by_any_option(folder: Path) -> None:
    """What a flag makes of the file behind it: it stays as it is."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    commands = [
        [program, option, "other"]
        for program in INSTALLED
        for option, _ in valued(program, ("flag",))
        if program not in ("lsblk", "free", "find") and option != "-#"
    ]
    script = "\n".join(f"timeout 5 {' '.join(words)}" for words in commands)
    environment = {**os.environ, "LC_ALL": "C"}
    subprocess.run(["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL, env=environment, check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=240)  # fmt: skip
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
