"""Masks the whole output of a call before it is stored. An output in a file stays in a file."""

from dataclasses import replace
from pathlib import Path

from ....state.databases.file_parts import OpenFile
from ...ports import Masker, ToolOutcome

_LOST = "[the whole output could not be kept: {why}]"


def mask_whole_output(outcome: ToolOutcome, masker: Masker, folder: Path) -> ToolOutcome:
    """Return the outcome with masked `full_output` or `output_file`. A new file is created in `folder`."""
    output = outcome.output_file
    if output is None:
        whole = outcome.full_output
        return outcome if whole is None else replace(outcome, full_output=masker.data(whole))
    try:
        file = _mask_file(output, masker, folder)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return replace(outcome, content=f"{outcome.content}\n{_LOST.format(why=why)}", output_file=None)
    if isinstance(file, bytes):
        return replace(outcome, full_output=file, output_file=None)
    return replace(outcome, output_file=file)


def _mask_file(output: OpenFile, masker: Masker, folder: Path) -> OpenFile | bytes:
    """Write the masked output to a new file. Return the output as bytes if the file cannot be written."""
    try:
        file = OpenFile.create_nameless(folder)
        for piece in masker.windows(output.read, output.size):
            file.append(piece)
    except OSError:
        return b"".join(masker.windows(output.read, output.size))
    return file
