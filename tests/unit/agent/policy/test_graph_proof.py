"""The proof over the graph: it holds for the one that runs, and finds the path in every broken one."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from burr.core import State
from burr.core.graph import Graph, GraphBuilder
from support.commands.command import Command
from support.places import ROOT

from sandbur.actions.ports import Ports
from sandbur.actions.turn.burr_action import Changes, graph_action
from sandbur.agent.graph import (
    ACTIONS,
    OTHERWISE,
    TRANSITIONS,
    ApplicationTyping,
    TransitionCondition,
    Transitions,
    build_graph,
    next_action,
)
from sandbur.agent.policy.graph_proof import UnprovableGraph, prove
from sandbur.agent.policy.past.gate_outcomes import find_gate_outcomes, find_person_outcomes
from sandbur.state.application import ApplicationState
from sandbur.state.calls import PendingCall

pytestmark = pytest.mark.slow

EFFECT = "execute_tools"
ASKING = [way for way in TRANSITIONS if way[1] == "human_confirm" and way[0] != EFFECT]
"""The ways to the question. After a round that stopped, whatever comes next would ask, too."""
ALWAYS = TransitionCondition("always", lambda s: True)


def graph(*transitions: tuple[str, str, TransitionCondition]) -> Graph:
    return build_graph(transitions)


def replaced(old: tuple[str, str], *new: tuple[str, str, TransitionCondition]) -> Transitions:
    """Return the table with the one way between two actions replaced, in its place."""
    found: list[tuple[str, str, TransitionCondition]] = []
    for way in TRANSITIONS:
        found += new if way[:2] == old else [way]
    assert len(found) == len(TRANSITIONS) - 1 + len(new)
    return tuple(found)


async def test_no_path_of_the_graph_reaches_an_effect_that_nobody_allowed() -> None:
    proof = await prove(build_graph())
    assert proof.holds
    assert (proof.actions, proof.transitions) == (len(ACTIONS), len(TRANSITIONS))
    assert proof.states > 1000
    assert proof.points > proof.states
    assert proof.path == ()


@pytest.mark.parametrize("way", ASKING, ids=lambda way: way[0])
async def test_a_graph_that_forgets_to_ask_is_found(way: tuple[str, str, TransitionCondition]) -> None:
    proof = await prove(graph(*(other for other in TRANSITIONS if other is not way)))
    assert "waits for a decision" in proof.problem
    assert proof.path[0] == "prompt"
    assert proof.path[-1].startswith(EFFECT)
    assert "undecided" in proof.path[-1]
    assert proof.path[-2].startswith(way[0])


async def test_a_graph_that_looks_for_questions_too_late_is_found() -> None:
    ask, ready = (("router", to) for to in ("human_confirm", EFFECT))
    ways = {way[:2]: way for way in TRANSITIONS}
    proof = await prove(graph(*replaced(ask, ways[ready], ways[ask])))
    assert proof.path == (
        "prompt",
        "router  (a message)",
        f"{EFFECT}  (all decided)  calls: undecided",
    )


@pytest.mark.parametrize(("action", "holds"), [("vibe_planner", False), ("context_compressor", False),
                                               ("step_summarizer", True)])  # fmt: skip
async def test_a_way_around_the_question_is_found_unless_no_call_can_wait_there(
    action: str, holds: bool
) -> None:
    ways = [way for way in TRANSITIONS if way[0] != action]
    proof = await prove(graph(*ways, (action, EFFECT, ALWAYS)))
    assert proof.holds is holds


async def test_the_path_is_one_that_the_graph_takes() -> None:
    proof = await prove(graph(*replaced(("vibe_result_analyzer", "human_confirm"))))
    names = [line.split()[0] for line in proof.path]
    for start, end in pairwise(names):
        assert end == "prompt" or any(way[:2] == (start, end) for way in TRANSITIONS)


@graph_action(reads=[], writes=["pending_tool_calls"])
async def shortcut(state: ApplicationState, ports: Ports) -> Changes:
    """Approve everything."""
    return {}


async def test_an_action_that_writes_calls_past_the_gate_is_found() -> None:
    actions = {**ACTIONS, "shortcut": shortcut}
    builder = cast(Any, GraphBuilder()).with_actions(**actions)
    ways = [way for way in TRANSITIONS if way[:2] != ("step_summarizer", "router")]
    added = (("step_summarizer", "shortcut", OTHERWISE), ("shortcut", "router", OTHERWISE))
    proof = await prove(cast(Graph, builder.with_transitions(*ways, *added).build()))
    assert "neither a rule, nor the mode, nor a person" in proof.problem
    assert any(line.startswith("shortcut") for line in proof.path)


@pytest.mark.parametrize(
    "holds",
    [
        lambda s: s.bad_rounds > 3,
        lambda s: any(call.kind == "approval" for call in s.pending_tool_calls),
        lambda s: s.active_step is not None and s.active_step.analysis == "",
    ],
)
async def test_a_condition_on_what_the_proof_does_not_look_at_is_refused(holds: Any) -> None:
    condition = TransitionCondition("new", holds)
    ways = replaced(("execute_tools", "vibe_result_analyzer"), ("execute_tools", "router", condition))
    with pytest.raises(UnprovableGraph, match=r"execute_tools -> router \(new\) depends on"):
        await prove(graph(*ways))


def test_the_gate_lets_nothing_run_that_it_did_not_allow() -> None:
    assert find_gate_outcomes() == {"undecided", "granted", "refused"}


async def test_a_person_decides_what_waits_and_nothing_else() -> None:
    fates = await find_person_outcomes()
    assert fates["undecided"] == {"undecided", "granted", "refused"}
    assert fates["granted"] == {"granted"}
    assert fates["refused"] == {"refused"}


def states() -> Sequence[ApplicationState]:
    calls = [
        PendingCall.model_validate({"call_id": "c", "tool": "t", "arguments": "{}", "decision": decision})
        for decision in ("undecided", "approved", "denied")
    ]
    return [
        ApplicationState(pending_tool_calls=waiting, turn_open=is_open, phase=phase, overflow_from=overflow)
        for waiting in ((), (calls[1],), (calls[1], calls[0]), (calls[2],))
        for is_open in (False, True)
        for phase in ("idle", "planning", "working", "answering")
        for overflow in (None, "router")
    ]


def test_burr_takes_the_way_that_the_proof_takes() -> None:
    """The proof asks the conditions by itself, for Burr is slow; both go by the same order."""
    built = build_graph()
    for state in states():
        for action in ("router", "human_confirm", "vibe_planner", "step_summarizer"):
            held: State[Any] = ApplicationTyping().construct_state(state)
            node = built.get_next_node(action, held, "prompt")
            assert node is not None
            assert node.name == next_action(action, state)


def test_calls_run_in_no_other_action() -> None:
    runs = re.compile(r"\bToolRunner\(|\btool\.run\(")
    files = (path for layer in ("state", "actions", "agent", "ui") for path in (ROOT / layer).rglob("*.py"))
    found = {path.relative_to(ROOT).as_posix() for path in files if runs.search(path.read_text("utf-8"))}
    calls = "actions/turn/calls"
    assert found == {f"actions/{EFFECT}.py", f"{calls}/tool_runner.py", f"{calls}/nested_call_runner.py"}


def test_the_command_says_what_it_proved(command: Command) -> None:
    ended = command.run("graph", "--prove")
    assert ended.code == 0
    assert ended.out.startswith(
        "Proved: no path reaches an effect without an approval or a rule (9 actions, "
    )
    assert command.run("graph", "--prove", "--format", "dot").code == 2
