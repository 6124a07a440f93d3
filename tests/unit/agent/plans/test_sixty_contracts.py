"""Random plans and random calls: what a plan names never asks, and what it does not name always asks."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.models.plans import FINISH, Calls, approve, list_tools, open_with_plans, propose, run, write
from support.models.scripted import ScriptedModel, collect

from sandbur.agent.policy.gate import Policy
from sandbur.agent.review.plans.permissions import Permissions
from sandbur.agent.review.plans.plan_text import parse_plan
from sandbur.state.application import PlanTerms
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store

FOLDERS = ("out", "docs", "src/parser", "notes/2026")
FILES = ("a.txt", "docs/index.md", "src/main.py")
COMMANDS = ("touch built", "mkdir made", "touch one two", "touch three", "git tag v1")
OUTSIDE = (
    write("elsewhere/x.txt"),
    write("outer/a.txt"),
    write("../escape.txt"),
    write(".git/config"),
    run("touch elsewhere"),
    run("git push"),
    run("rm -rf ."),
    run("mkdir other && touch built2"),
)
SESSIONS = 60


class Contract:
    """A random plan of some steps, and calls inside and outside of each step."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        count = self._random.randint(1, 4)
        self.steps = [self._make_step() for _ in range(count)]

    def _make_step(self) -> dict[str, list[str]]:
        pick = self._random.sample
        return {
            "folders": pick(FOLDERS, self._random.randint(0, 2)),
            "files": pick(FILES, self._random.randint(0, 2)),
            "commands": pick(COMMANDS, self._random.randint(0, 3)),
        }

    @property
    def text(self) -> str:
        lines = ["# A random goal"]
        for number, step in enumerate(self.steps, 1):
            lines.append(f"## {number}. Do a part")
            paths = [*(f"{folder}/" for folder in step["folders"]), *step["files"]]
            lines += [f"- writes: {', '.join(paths)}"] if paths else []
            lines += [f"- runs: {command}" for command in step["commands"]]
        return "\n".join(lines)

    def inside(self, step: dict[str, list[str]]) -> Calls:
        """Return one random call that the step names; an empty list if it names nothing."""
        calls = [
            *(write(f"{folder}/deep/file.txt") for folder in step["folders"]),
            *(write(file) for file in step["files"]),
            *(run(command) for command in step["commands"]),
            *(run(f"{command} more") for command in step["commands"]),
        ]
        return self._random.choice(calls) if calls else []

    def outside(self, step: dict[str, list[str]]) -> Calls:
        """Return one random call that the step does not name, but perhaps another one does."""
        named = (*step["folders"], *step["files"])
        others = [write(file) for file in FILES if file not in named and Path(file).parent.name not in named]
        others += [run(command) for command in COMMANDS if not covers(step["commands"], command)]
        return self._random.choice([*OUTSIDE, *others])

    def list_calls(self) -> Iterator[tuple[int, bool, Calls]]:
        """Yield the place of a step, whether the call is inside of it, and the call."""
        for place, step in enumerate(self.steps):
            for _ in range(self._random.randint(2, 5)):
                is_inside = self._random.random() < 0.6
                call = self.inside(step) if is_inside else self.outside(step)
                if call:
                    yield place, is_inside, call


def covers(commands: list[str], command: str) -> bool:
    return any(command == one or command.startswith(f"{one} ") for one in commands)


@pytest.mark.parametrize("seed", range(SESSIONS))
def test_the_gate_holds_a_random_plan(tmp_path: Path, seed: int) -> None:
    contract = Contract(seed)
    plan = parse_plan(contract.text, Permissions(tmp_path).by_key)
    tools = list_tools(tmp_path)
    policy = Policy([], [], tmp_path)
    for place, is_inside, ((name, arguments),) in contract.list_calls():
        tool = tools[name]
        terms = PlanTerms(plan.digest, plan.steps[place].allows)
        parsed = tool.parse(_encode(arguments))
        for mode in ("interactive", "auto-edit"):
            verdict = policy.judge(tool, parsed, mode, plan=terms)
            expected = "allow" if is_inside else "ask"
            assert verdict.decision == expected, (contract.text, place, name, arguments, verdict)


@pytest.mark.parametrize("seed", range(SESSIONS))
async def test_a_session_asks_exactly_what_its_plan_does_not_name(
    store: Store, tmp_path: Path, seed: int
) -> None:
    contract = Contract(1000 + seed)
    expected: list[bool] = []
    turns: list[Any] = [propose(contract.text)]
    calls = list(contract.list_calls())
    for place in range(len(contract.steps)):
        for _, is_inside, call in (one for one in calls if one[0] == place):
            turns.append(call)
            expected.append(is_inside)
        turns.append(FINISH)
    session = await open_with_plans(store, tmp_path, ScriptedModel(*turns, "Done."))
    await collect(session.send("go"))
    _, end = await approve(session)
    asked = 0
    while end.status == "needs_approval":
        (call,) = session.state.calls_to_decide
        assert call.reason, contract.text
        asked += 1
        _, end = await collect(session.decide([CallDecision(call_id=call.call_id, approved=False)]))
    assert asked == expected.count(False), contract.text
    assert end.result == "Done."
    # Nothing outside of the plan has happened.
    assert not [one for one in ("elsewhere", "outer", "other") if (tmp_path / one).exists()]
    assert not (tmp_path.parent / "escape.txt").exists()


def _encode(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments)
