"""The sub-agents of a step have a line each below it, while it is worked on and in the whole plan."""

from io import StringIO

from rich.console import Console

from sandbur.actions.ports.events import (
    MessageAdded,
    PlanChanged,
    RunFinished,
    StepChanged,
    SubAgent,
    SubAgentEvent,
    ToolStarted,
    UsageChanged,
)
from sandbur.state.application import Usage, VibeStep
from sandbur.ui.terminal.render import Renderer
from sandbur.ui.terminal.terminal import Glyphs
from sandbur.ui.terminal.view.plan_progress import PlanProgress

STEPS = (VibeStep(step_id="s1", description="read"), VibeStep(step_id="s2", description="write"))


def lines_of(plan: PlanProgress) -> list[str]:
    return [text.strip() for _, text in plan.lines(0.0)]


def test_a_sub_agent_has_a_line_below_the_step_that_started_it() -> None:
    plan = PlanProgress(Glyphs())
    plan.set(STEPS)
    plan.note_agent("early", "belongs to no step")
    plan.change("s1", "in_progress", 0.0)
    plan.note_agent("a", "reader (the parts): reads")
    plan.note_agent("b", "reader (the rest): begins")
    assert [text for _, text, _ in plan.rows(0.0)][2:4] == [
        "      reader (the parts): reads",
        "      reader (the rest): begins",
    ]
    plan.change("s1", "completed", 1.0)
    plan.change("s2", "in_progress", 1.0)
    plan.note_agent("a", "reader (the parts): done")
    lines = lines_of(plan)
    at = lines.index("reader (the parts): done")
    assert "read" in lines[at - 1]
    assert lines[at + 1] == "reader (the rest): begins"
    assert "write" in lines[at + 2]
    assert "belongs to no step" not in lines
    assert not any("reader" in text for _, text, _ in plan.rows(1.0))


def test_of_many_sub_agents_the_newest_are_shown() -> None:
    plan = PlanProgress(Glyphs())
    plan.set(STEPS)
    plan.change("s1", "in_progress", 0.0)
    for number in range(1000):
        plan.note_agent(str(number), f"agent {number}")
    shown = [text.strip() for _, text, _ in plan.rows(0.0)][2:-1]
    assert shown == [
        f"{Glyphs().rest} 996 sub-agents before",
        "agent 996",
        "agent 997",
        "agent 998",
        "agent 999",
    ]


def test_sub_agents_of_steps_side_by_side_stand_below_their_own_steps() -> None:
    renderer = Renderer(Console(file=StringIO(), width=100, markup=False), answers=True)
    renderer.show(PlanChanged(STEPS))
    for number in ("1", "2"):
        renderer.show(StepChanged(f"s{number}", "in_progress"))
        renderer.show(ToolStarted(f"step-{number}", "task", f"s{number}"))
    for number in ("2", "1"):
        agent = SubAgent(f"child{number}", "parent", f"step-{number}", "general", f"part {number}")
        renderer.show(SubAgentEvent(agent, MessageAdded("assistant", f"works on {number}")))
    lines = lines_of(renderer._plan.progress)
    for number, title in (("1", "read"), ("2", "write")):
        at = lines.index(f"general (part {number}): works on {number}")
        assert title in lines[at - 1]


def test_what_a_sub_agent_does_is_followed_below_its_step() -> None:
    out = StringIO()
    renderer = Renderer(Console(file=out, width=100, markup=False), answers=True)
    agent = SubAgent("child", "parent", "c1", "reader\x1b", "the parts")
    below = SubAgent("grandchild", "child", "c2", "leaf", "a leaf")
    used = Usage(input_tokens=1200, output_tokens=0)
    renderer.show(PlanChanged(STEPS))
    renderer.show(StepChanged("s1", "in_progress"))
    renderer.show(SubAgentEvent(agent, MessageAdded("assistant", "I look around")))
    renderer.show(SubAgentEvent(below, MessageAdded("assistant", "I am a leaf")))
    renderer.show(SubAgentEvent(agent, UsageChanged(used, used)))
    plan = renderer._plan.progress
    assert "reader\\x1b (the parts): I look around  1.2k tokens" in lines_of(plan)
    renderer.show(SubAgentEvent(agent, RunFinished("child", "done", 0, "x", "done")))
    assert [line for line in lines_of(plan) if "reader" in line] == [
        "reader\\x1b (the parts): done  1.2k tokens"
    ]
    assert not any(line.startswith("leaf") for line in lines_of(plan))
