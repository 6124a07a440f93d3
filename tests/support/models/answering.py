"""Structured answers, and a tool that ends the run."""

from pathlib import Path
from typing import Any

from support.models.real_ports import open_real
from support.models.scripted import Recorder, ScriptedModel

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.turn.output.format import output_schema
from sandbur.state.calls import Effect
from sandbur.state.store.store import Store

REPORT = {
    "title": "report",
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["good", "bad"]},
        "score": {"type": "integer", "minimum": 0},
        "note": {"type": "string"},
    },
    "required": ["verdict", "score"],
}
GOOD = '{"verdict": "good", "score": 3}'
BAD = '{"verdict": "fine", "score": 3}'


class Done(Recorder):
    """A tool that ends the run with its argument as the answer."""

    def __init__(self, effect: Effect = "effect") -> None:
        super().__init__("done", effect)

    async def run(self, arguments: str, context: ToolContext) -> ToolOutcome:
        self.done.append(arguments)
        return ToolOutcome("ok", f"ended: {arguments}", ends_run=arguments)


def call_done(text: str) -> tuple[str, dict[str, str]]:
    return ("done", {"text": text})


def final(**answer: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("final_answer", answer)]


async def reporting(store: Store, folder: Path, *turns: Any, schema: Any = REPORT, **more: Any) -> Any:
    """Open a session whose answers are reports; return it and its model."""
    model = ScriptedModel(*turns)
    return await open_real(store, model, folder, output_schema=output_schema(schema), **more), model
