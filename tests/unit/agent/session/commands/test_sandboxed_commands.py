"""The choice "in the sandbox, and do not ask again": a rule of the session."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.required import lacks
from support.stores.audits import breaches
from support.stores.reopening import reopen

from sandbur.actions.tools.shell.sandbox.sandbox import sandbox_kind
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    if sandbox_kind() is None:
        lacks("no sandbox works on this machine")
    with TemporaryDirectory(dir="/var/tmp") as name:
        Path(name, "ws").mkdir()
        yield Path(name, "ws")


def shell(command: str) -> tuple[str, dict[str, Any]]:
    return "run_shell_command", {"command": command}


def escaping(place: Path, name: str) -> tuple[str, dict[str, Any]]:
    """Return a command that writes in the workspace, and tries to write beside it without saying so."""
    place.joinpath("Makefile").write_text(
        "all:\n\techo in >> inside; echo out >> ../outside; echo kept >> /tmp/kept; cat /tmp/kept\n"
    )
    return shell(f"make {name}")


def waiting(session: Session) -> list[Any]:
    return [call for call in session.state.pending_tool_calls if call.decision == "undecided"]


async def accepted(store: Store, place: Path) -> Session:
    """Return a session in which the choice was made at the first question."""
    model = ScriptedModel([escaping(place, "all")], "one", [escaping(place, "-s")], "two", "three")
    session = await open_real(store, model, place, mode="interactive")
    await collect(session.send("go"))
    [call] = waiting(session)
    [offer] = [offer for offer in session.waiting.suggest_rules(call) if offer.kind == "sandbox"]
    session.waiting.accept(offer)
    await collect(session.decide([CallDecision(call_id=call.call_id, approved=True)]))
    return session


async def test_the_command_and_those_after_it_run_in_a_sandbox(store: Store, place: Path) -> None:
    session = await accepted(store, place)
    assert place.joinpath("inside").read_text() == "in\n"
    _, end = await collect(session.send("more"))
    assert end.status == "done"
    assert place.joinpath("inside").read_text() == "in\nin\n"
    assert not place.parent.joinpath("outside").exists()
    texts = [one.content for message in session.state.chat_history for one in message.tool_results]
    # All commands of the session share their `/tmp`.
    assert [text.count("\nkept") for text in texts] == [1, 2]
    assert not breaches(store)


async def test_a_resumed_session_keeps_the_choice_as_its_other_rules(store: Store, place: Path) -> None:
    session = await accepted(store, place)
    rules = session.settings.allow
    assert rules == ("sandboxed(run_shell_command)",)
    again = await open_real(
        reopen(store), ScriptedModel([escaping(place, "-s")], "two"), place, mode="interactive", allow=rules
    )
    _, end = await collect(again.send("more"))
    assert end.status == "done"
    assert not place.parent.joinpath("outside").exists()


async def test_it_is_not_offered_for_what_asks_in_spite_of_it(store: Store, place: Path) -> None:
    model = ScriptedModel([shell("echo x > AGENTS.md"), shell("touch ../outside"), shell("$X")], "end")
    session = await open_real(store, model, place, mode="interactive")
    await collect(session.send("go"))
    for call in waiting(session):
        assert "sandbox" not in [offer.kind for offer in session.waiting.suggest_rules(call)]
