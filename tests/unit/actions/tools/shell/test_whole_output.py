"""What is kept beside a result goes to the store without secrets, even where no file can be made for it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.samples.secret import draw_random

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.shell.tool import RunShellCommand
from sandbur.actions.turn.calls.whole_output import mask_whole_output
from sandbur.agent.session.secrets import masker_for
from sandbur.state.databases.file_parts import FilePart, OpenFile, read_file_parts
from sandbur.state.errors import StoreError

SECRET = draw_random(24)
OUTPUT = b"a line of a log\n" * 100_000 + f"my {SECRET}\n".encode() + b"\xff\n" * 70_000
MASKED = OUTPUT.replace(SECRET.encode(), b"[masked value of A_TOKEN]")


def outcome_of(folder: Path) -> ToolOutcome:
    file = OpenFile.create_nameless(folder)
    file.append(OUTPUT)
    return ToolOutcome("ok", "both ends", output_file=file)


def masked(outcome: ToolOutcome, folder: Path) -> ToolOutcome:
    masker = masker_for({"A_TOKEN": SECRET}, folder)
    return mask_whole_output(outcome, masker, folder)


def test_a_masked_output_is_a_new_file_without_a_name(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path)
    found = masked(outcome, tmp_path)
    assert found.output_file is not None
    assert found.output_file is not outcome.output_file
    assert found.output_file.read(0, len(OUTPUT) + 100) == MASKED
    assert found.full_output is None
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be_made_the_masked_output_is_kept_in_memory(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path)
    found = mask_whole_output(outcome, masker_for({"A_TOKEN": SECRET}, tmp_path), tmp_path / "gone")
    assert (found.full_output, found.output_file, found.content) == (MASKED, None, "both ends")


def test_an_output_that_cannot_be_read_back_is_missing_and_the_model_knows(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_bytes(OUTPUT)
    unreadable = OpenFile(os.open(path, os.O_WRONLY))
    found = masked(ToolOutcome("ok", "both ends", output_file=unreadable), tmp_path)
    assert (found.full_output, found.output_file) == (None, None)
    assert found.content == "both ends\n[the whole output could not be kept: bad file descriptor]"


def test_an_output_in_memory_stays_there(tmp_path: Path) -> None:
    found = masked(ToolOutcome("ok", "both ends", OUTPUT), tmp_path)
    assert (found.full_output, found.output_file) == (MASKED, None)
    nothing = ToolOutcome("ok", "all of it")
    assert masked(nothing, tmp_path) is nothing


def test_a_file_is_closed_when_nothing_refers_to_it(tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    file = OpenFile.create_nameless(tmp_path)
    file.append(b"some words")
    part = FilePart(file, 5, 5)
    del file
    assert read_file_parts(("call", 0, part)) == ("call", 0, b"words")
    del part
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_part_of_a_file_that_became_shorter_is_an_error_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_bytes(b"some words")
    part = FilePart(OpenFile(os.open(path, os.O_RDONLY)), 5, 5)
    os.truncate(path, 7)
    with pytest.raises(StoreError, match="its file became shorter"):
        part.read()


async def test_the_output_of_a_command_whose_agent_died_comes_from_its_file_too(tmp_path: Path) -> None:
    (tmp_path / "output.bin").write_bytes(OUTPUT)
    tool, scratch = RunShellCommand(), tmp_path / "c"
    arguments = tool.parse('{"command": "cat output.bin"}')
    context = ToolContext("c1", tmp_path, lambda text: None, scratch=scratch)
    ran = await tool.run(arguments, context)
    in_memory = (await tool.recover(arguments, context)).outcome
    in_file = (await tool.recover(arguments, replace(context, takes_file=True))).outcome
    assert in_memory is not None
    assert in_file is not None
    assert in_file.output_file is not None
    assert ran.full_output == in_memory.full_output == OUTPUT
    assert in_file.output_file.read(0, len(OUTPUT) + 1) == OUTPUT
    assert (in_file.content, in_file.outcome) == (in_memory.content, in_memory.outcome)
