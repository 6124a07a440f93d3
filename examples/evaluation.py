"""An evaluation: two agents solve tasks several times each, are checked and compared, and go on after a kill.

The models are scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from sandbur import Agent, Evaluator, Metric, ModelRequest, Solution, Suite, Task, workspace_tools
from sandbur.testing import ScriptedModel, ToolCall, temporary_store


def has_sorted_names(solution: Solution) -> None:
    assert (solution.workspace / "sorted.txt").read_text() == "ada\nbo\ncy\n", "the names are not sorted"


SUITE = Suite(
    [
        Task(
            "Write the names in names.txt, sorted, into sorted.txt.",
            {"names.txt": "cy\nada\nbo\n"},
            check=has_sorted_names,
            name="sort",
        ),
        Task("Say the word ready.", check=lambda solution: "ready" in solution.result, name="say"),
    ]
)


def careful(request: ModelRequest) -> Any:
    texts = [message.text for message in request.messages]
    if "ready" in texts[0]:
        return "ready"
    if any(message.tool_results for message in request.messages):
        return "The names are sorted."
    return ToolCall("write_file", path="sorted.txt", content="ada\nbo\ncy\n")


def hasty(request: ModelRequest) -> str:
    return "ready"


async def main(store: str, env: Mapping[str, str]) -> None:
    model = os.environ.get("SANDBUR_MODEL")
    agents = {
        name: Agent(model or ScriptedModel(replies), tools=workspace_tools(), store=store, env=env)
        for name, replies in (("careful", careful), ("hasty", hasty))
    }
    metrics = [Metric("answer_chars", lambda solution: len(solution.result))]
    for attempt in ("first", "again"):
        # The second time, nothing runs: every run has ended.
        result = await Evaluator(SUITE, agents, repeats=3, store=store, env=env, metrics=metrics).run()
        passed = {name: sum(run.is_passed for run in result.runs if run.contender == name) for name in agents}
        print(attempt, passed)
    for one in result.metrics_of("hasty"):
        if one.name in ("pass@1", "pass^3") and one.interval is not None:
            print(f"hasty {one.name}: {one.interval.value:.2f}")
    compared = result.compare()[0]
    print(f"careful against hasty: better at {compared.test.better} of {compared.test.tasks} tasks")


if __name__ == "__main__":
    with temporary_store() as kept:
        asyncio.run(main(kept.url, kept.env))
