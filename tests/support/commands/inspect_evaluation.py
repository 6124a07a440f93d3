"""Evaluations with inspect-ai, for a Python that has it.

Usage: inspect_evaluation.py pay|retry|page|write|limit|suite|session|project|tools

`pay` is killed by its tool right after the effect, `retry` goes on with its log. It works in the folder that
`EVALUATION_FOLDER` names, and prints one JSON object about the only sample.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval, eval_retry, task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, ModelUsage, modelapi
from inspect_ai.scorer import Score, Scorer, Target, accuracy, includes, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import sandbox

from sandbur import Agent, tool, workspace_tools
from sandbur.inspect import sandbur_agent, sandbur_solver, sandbur_suite

FOLDER = Path(os.environ["EVALUATION_FOLDER"])
PORT = "6543"
"""What a person mentions in the tasks `staging-port` of the suite `memory`."""
STORE = f"sqlite:///{FOLDER}/runs.db"


@modelapi(name="script")
class ScriptModel(ModelAPI):
    """Calls the tool that the instruction needs, then says what it read."""

    def __init__(self, model_name: str, base_url: str | None = None, api_key: str | None = None, **more: Any):
        super().__init__(model_name, base_url, api_key, [], GenerateConfig())

    async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
        results = [message for message in input if message.role == "tool"]
        is_question = "capital" in input[-1].text
        if is_question or {one.name for one in tools}.isdisjoint({"write_file", "pay_invoice"}):
            made = self.talk(input, has_memory=any(one.name == "memory" for one in tools))
        elif results:
            made = ModelOutput.from_content(self.model_name, f"It is done: {results[-1].text}")
        elif "draft.txt" in input[-1].text:
            arguments = {"command": "mv draft.txt final.txt"}
            made = ModelOutput.for_tool_call(self.model_name, "run_shell_command", arguments)
        elif any(one.name == "pay_invoice" for one in tools):
            made = ModelOutput.for_tool_call(self.model_name, "pay_invoice", {})
        else:
            arguments = {"path": "answer.txt", "content": "42\n"}
            made = ModelOutput.for_tool_call(self.model_name, "write_file", arguments)
        made.usage = ModelUsage(input_tokens=100, output_tokens=5, total_tokens=105)
        return made

    def talk(self, input: Any, has_memory: bool) -> ModelOutput:
        """Repeat the port that a person has mentioned; with a memory, keep it there and look for it."""
        last = input[-1]
        if "capital" in last.text:
            return ModelOutput.from_content(self.model_name, "It is Reykjavik.")
        if last.role == "tool":
            return ModelOutput.from_content(self.model_name, f"It is done: {last.text}")
        if has_memory and last.text.startswith("On which port"):
            arguments = {"command": "recall", "query": last.text}
            return ModelOutput.for_tool_call(self.model_name, "memory", arguments)
        if has_memory and PORT in last.text:
            arguments = {"command": "create", "path": "/memories/project/port.md", "file_text": last.text}
            return ModelOutput.for_tool_call(self.model_name, "memory", arguments)
        is_there = any(PORT in message.text for message in input)
        return ModelOutput.from_content(self.model_name, f"Noted: {PORT}" if is_there else "Noted.")


@tool
def pay_invoice() -> str:
    """Pay the invoice."""
    payments = FOLDER / "payments"
    with payments.open("a") as file:
        file.write("paid\n")
    if len(payments.read_text().splitlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


@task
def pay() -> Task:
    agent = Agent(tools=[pay_invoice], planning="off")
    sample = Sample(input="Pay the invoice.", target="is done", id="invoice")
    return Task(dataset=[sample], solver=sandbur_solver(agent, store=STORE), scorer=includes())


@scorer(metrics=[accuracy()])
def answer_in_sandbox() -> Scorer:
    async def check(state: TaskState, target: Target) -> Score:
        return Score(value=await sandbox().read_file("answer.txt") == target.text)

    return check


@task
def write() -> Task:
    agent = sandbur_agent(Agent(tools=workspace_tools()), store=STORE)
    sample = Sample(
        input="Write the number in name.txt.", target="42\n", id="write", files={"name.txt": "forty-two"}
    )
    return Task(dataset=[sample], solver=agent, scorer=answer_in_sandbox(), sandbox="local")


def describe(log: EvalLog) -> dict[str, Any]:
    assert log.samples, log.error
    (sample,) = log.samples
    return {
        "status": log.status,
        "scores": {name: score.value for name, score in (sample.scores or {}).items()},
        "metrics": [score.metadata for score in (sample.scores or {}).values()],
        "messages": [[message.role, message.text] for message in sample.messages],
        "calls": [event.event for event in sample.events].count("model"),
        "tokens": sum(usage.total_tokens for usage in sample.model_usage.values()),
        "limit": sample.limit and sample.limit.type,
        "error": sample.error and sample.error.message,
    }


def run(what: str) -> EvalLog:
    options: dict[str, Any] = {"log_dir": f"{FOLDER}/logs", "display": "none", "model": "script/one"}
    if what == "retry":
        logs = [read_eval_log(one) for one in list_eval_logs(f"{FOLDER}/logs")]
        return eval_retry(logs, log_dir=f"{FOLDER}/logs", display="none")[0]
    if what == "page":
        return eval(f"{FOLDER}/capitals.py@capitals", **options)[0]
    if what == "limit":
        return eval(write(), token_limit=105, **options)[0]
    if what == "suite":
        suite = sandbur_suite("smoke", Agent(tools=workspace_tools()), store=STORE)
        return eval(suite, sample_id="files/rename", **options)[0]
    if what in ("session", "project"):
        agent = Agent(memory="agent" if what == "project" else "off")
        suite = sandbur_suite("memory", agent, store=STORE)
        return eval(suite, sample_id=f"{what}/staging-port", **options)[0]
    if what == "tools":
        suite = sandbur_suite("tool-choice/irrelevance", Agent(tools=workspace_tools()), store=STORE)
        return eval(suite, limit=1, **options)[0]
    return eval(f"{__file__}@{what}", **options)[0]


if __name__ == "__main__":
    print(json.dumps(describe(run(sys.argv[1]))))
