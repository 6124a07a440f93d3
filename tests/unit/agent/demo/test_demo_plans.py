"""The demo proposes a plan that binds, and works through it with the real tools."""

from pathlib import Path

from support.models.plans import approve, list_tools
from support.models.real_ports import open_real
from support.models.scripted import collect

from sandbur.agent.models.demo.demo_model import DemoModel
from sandbur.state.store.store import Store
from sandbur.ui.chat.slash.looking import PLAN_REQUEST


async def test_the_demo_shows_a_plan_that_binds(store: Store, tmp_path: Path) -> None:
    session = await open_real(store, DemoModel(), tmp_path, mode="plan", toolbox=list_tools(tmp_path))
    task = "create file a.txt with hello\nrun touch b.txt"
    _, waits = await collect(session.send(PLAN_REQUEST.format(task=task)))
    assert waits.status == "needs_approval"
    _, end = await approve(session)
    assert end.status == "done"
    assert end.result is not None
    assert "a.txt" in end.result.splitlines()[0]
    assert [step.status for step in end.steps] == ["completed", "completed"]
    assert (tmp_path / "a.txt").read_text() == "hello\n"
    assert (tmp_path / "b.txt").exists()


async def test_the_demo_proposes_no_plan_for_what_it_cannot_do(store: Store, tmp_path: Path) -> None:
    session = await open_real(store, DemoModel(), tmp_path, mode="plan", toolbox=list_tools(tmp_path))
    _, end = await collect(session.send(PLAN_REQUEST.format(task="write a novel about a whale")))
    assert (end.status, end.pending) == ("done", ())


async def test_the_demo_proposes_a_plan_for_what_plan_mode_refuses(store: Store, tmp_path: Path) -> None:
    session = await open_real(store, DemoModel(), tmp_path, mode="plan", toolbox=list_tools(tmp_path))
    _, waits = await collect(session.send("create file a.txt with hello"))
    assert [call.tool for call in waits.pending] == ["propose_plan"]
    _, end = await approve(session)
    assert end.status == "done"
    assert (tmp_path / "a.txt").read_text() == "hello\n"
