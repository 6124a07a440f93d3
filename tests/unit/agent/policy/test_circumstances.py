"""What a person is told beside a call that asks: why, where it leads, and what it runs in."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.models.plans import list_tools
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel

from sandbur.agent.policy.approval_context import ApprovalContext
from sandbur.agent.session.session import Session
from sandbur.state.calls import PendingCall
from sandbur.state.store.store import Store

SHELL = "run_shell_command"


@pytest.fixture
async def session(tmp_path: Path) -> Session:
    folder = tmp_path / "work"
    folder.mkdir()
    store = Store.open(f"sqlite:///{tmp_path / 's.db'}")
    opened = await open_real(store, ScriptedModel(), folder)
    opened.change_mode("interactive")
    return opened


def about(
    session: Session, tool: str, is_edited: bool = False, reason: str = "", **arguments: Any
) -> ApprovalContext:
    call = PendingCall(call_id="c", tool=tool, arguments=json.dumps(arguments), reason=reason)
    return session.waiting.describe(call, is_edited)


def test_files_of_a_command_and_whom_it_names_of_the_network(session: Session, tmp_path: Path) -> None:
    (tmp_path / "work/build").mkdir()
    command = "curl https://me:pw@x.example:8080/a > /tmp/out.txt && rm -rf build absent-word"
    found = about(session, SHELL, command=command)
    assert "/tmp/out.txt (outside the workspace)" in found.leads
    assert "build" in found.leads
    assert found.hosts == ("x.example:8080",)
    assert found.sandbox == "off: it runs with your rights"
    assert "deletes" in found.why
    assert not found.problem


def test_a_link_is_followed_to_where_it_leads(session: Session, tmp_path: Path) -> None:
    (tmp_path / "work/link").symlink_to("/etc/hosts")
    (tmp_path / "work/inner").symlink_to(tmp_path / "work/real.txt")
    assert about(session, "write_file", path="link", content="x").leads == (
        "/etc/hosts (outside the workspace)",
    )
    found = about(session, "write_file", path="inner", content="x")
    assert (found.leads, found.sandbox) == (("real.txt",), "")


def test_the_reason_is_the_one_that_was_given_until_the_call_is_edited(session: Session) -> None:
    given = "it was approved, but since then a.txt has changed"
    assert about(session, SHELL, reason=given, command="rm x").why == given
    assert about(session, SHELL, is_edited=True, reason=given, command="rm x").why == "deletes"
    harmless = about(session, SHELL, is_edited=True, reason=given, command="ls")
    assert harmless.why.startswith("it would run without a question now: ")


@pytest.mark.parametrize("arguments", [{}, {"command": 7}, {"nothing": "x"}])
def test_what_cannot_run_is_said_before_anybody_approves_it(
    session: Session, arguments: dict[str, Any]
) -> None:
    assert "command" in about(session, SHELL, is_edited=True, **arguments).problem


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "\ud800"])
def test_what_is_no_path_leads_nowhere_and_breaks_nothing(session: Session, path: str) -> None:
    assert about(session, "write_file", path=path, content="x").why is not None


def test_many_places_are_cut(session: Session, tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(30)]
    found = about(session, SHELL, command=f"touch {' '.join(names)}")
    assert len(found.leads) == 9
    assert found.leads[-1] == "..."


async def test_the_question_about_a_plan_names_no_place_that_the_call_reaches(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 's.db'}")
    session = await open_real(store, ScriptedModel(), tmp_path, toolbox=list_tools(tmp_path), mode="plan")
    plan = "# Read https://x.example/a\n## Read it\n- hosts: x.example\n"
    found = about(session, "propose_plan", plan=plan)
    assert (found.is_plan, found.leads, found.hosts) == (True, (), ())
    unreadable = about(session, "propose_plan", plan="x")
    assert unreadable.is_plan
    assert unreadable.problem
