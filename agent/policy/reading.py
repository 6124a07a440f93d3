"""What the gate says to a file that a person names in a message: as to the model's wish to read it."""

import json

from ...actions.ports import Gate, Verdict
from ...actions.tools.read_file import ReadFile
from ...state.application import ExecutionMode


def reading_verdict(gate: Gate, path: str, mode: ExecutionMode) -> Verdict:
    tool = ReadFile()
    return gate.judge(tool, tool.parse(json.dumps({"path": path})), mode)
