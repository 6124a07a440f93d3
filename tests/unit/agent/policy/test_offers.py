"""What "always" offers for a call: rules that cover it, and no prefix behind which anything can come."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.actions.tools.shell.sandbox.sandbox import sandbox_kind
from sandbur.agent.policy.rules.rule_suggestions import RuleSuggestion, find_prefix
from sandbur.agent.runtime.runtime import Runtime
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision, PendingCall
from sandbur.state.store.store import Store


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data")}
    work = tmp_path / "work"
    work.mkdir()
    runtime = Runtime.open({"model": "demo", "cwd": work}, env)
    yield await runtime.create()
    await runtime.aclose()


def call(tool: str, call_id: str = "c1", **arguments: object) -> PendingCall:
    return PendingCall(call_id=call_id, tool=tool, arguments=json.dumps(arguments))


def shell(command: str) -> PendingCall:
    return call("run_shell_command", command=command)


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("npm test", "npm test *"),
        ("npm test -- --watch", "npm test *"),
        ("npm run build -- --prod", "npm run build *"),
        ("cargo  test --all", "cargo test *"),
        ("make check", "make check *"),
        ("git add -A", "git add *"),
        ("docker ps -a", "docker ps *"),
        ("docker compose logs web", "docker compose logs *"),
        ("kubectl get pods", "kubectl get *"),
        ("gh pr view 3", "gh pr view *"),
        ("gh pr merge 3", None),
        ("gh pr", None),
        ("docker exec c sh", None),
        ("docker -H x ps", None),
        ("npm run", None),
        ("npm exec evil", None),
        ("git push origin", None),
        ("git config alias.x '!sh'", None),
        ("pytest -q", None),
        ("pytest tests/unit", None),
        ("./build.sh all", None),
        ("FOO=1 npm test", None),
        ("npm", None),
        ("$X test", None),
        ("'npm' test", None),
        *((f"{program} build x", None) for program in (
            "bash", "sh", "python", "python3", "python3.11", "node", "perl", "sudo", "env", "xargs", "ssh",
            "docker", "curl", "wget", "rm", "mv", "kubectl", "npx", "time", "nohup", "eval", "source",
        )),
    ],
)  # fmt: skip
def test_a_prefix_is_a_program_and_its_first_word_and_never_one_that_runs_its_arguments(
    command: str, prefix: str | None
) -> None:
    assert find_prefix(command) == prefix


def test_exactly_this_and_its_prefix_are_offered_for_a_command(session: Session) -> None:
    assert rules_offered(session, shell("npm test -- -x")) == (
        RuleSuggestion("exact", "run_shell_command(npm test -- -x)"),
        RuleSuggestion("prefix", "run_shell_command(npm test *)"),
    )


def rules_offered(session: Session, waiting: PendingCall) -> tuple[RuleSuggestion, ...]:
    """Return the offers that are no matter of the sandboxes that work on this machine."""
    return tuple(offer for offer in session.waiting.suggest_rules(waiting) if offer.kind != "sandbox")


@pytest.mark.skipif(sandbox_kind() is None, reason="no sandbox works on this machine")
def test_where_a_sandbox_works_commands_that_it_holds_can_pass_in_it(session: Session) -> None:
    sandboxed = RuleSuggestion("sandbox", "sandboxed(run_shell_command)")
    assert sandboxed in session.waiting.suggest_rules(shell("npm test"))
    for waiting in (
        shell("cp /etc/passwd ."),
        call("write_file", path="a", content=""),
    ):
        assert sandboxed not in session.waiting.suggest_rules(waiting)


@pytest.mark.parametrize(
    "command", ["npm test && touch x", "npm test $(touch x)", "npm test > x", "npm test; id"]
)
def test_a_prefix_that_does_not_cover_the_whole_command_is_not_offered(
    session: Session, command: str
) -> None:
    assert [offer.kind for offer in rules_offered(session, shell(command))] in (["exact"], [])


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("docker ps -a", "run_shell_command(docker ps *)"),
        ("kubectl logs pod/x --tail=5", "run_shell_command(kubectl logs *)"),
        ("gh issue list", "run_shell_command(gh issue list *)"),
    ],
)
def test_one_key_covers_looking_at_a_service(session: Session, command: str, rule: str) -> None:
    assert RuleSuggestion("prefix", rule) in session.waiting.suggest_rules(shell(command))


@pytest.mark.parametrize(
    "command",
    [
        "kubectl get secret x",
        "kubectl get pods,secrets",
        "kubectl get pods --kubeconfig=x",
        "kubectl get -f x",
        "kubectl get pods --ser x",
        "gh pr view --web",
        "docker ps; rm x",
        "docker ps --host=x",
    ],
)
def test_the_key_for_a_service_does_not_cover_more_than_looking(session: Session, command: str) -> None:
    assert "prefix" not in [offer.kind for offer in session.waiting.suggest_rules(shell(command))]


async def test_what_is_offered_lets_the_very_call_pass(session: Session) -> None:
    for waiting in (shell("npm test a"), shell("a 'b c' [d]"), call("write_file", path="a[b]", content="")):
        for offer in session.waiting.suggest_rules(waiting):
            if offer.rule:
                session.waiting.accept(offer)
                assert offer.rule in session.settings.allow
                assert session.waiting.suggest_rules(waiting) != ()


@pytest.mark.parametrize("path", ["notes.md", "./notes.md", "docs/notes.md"])
def test_a_rule_for_exactly_one_file_covers_no_other_of_its_name(session: Session, path: str) -> None:
    exact = session.waiting.suggest_rules(call("write_file", path=path, content=""))[0]
    session.waiting.accept(exact)
    other = "docs/notes.md" if path != "docs/notes.md" else "notes.md"
    assert session.state.execution_mode == "interactive"
    gate = session.ports.gate
    tool = session.ports.toolbox["write_file"]
    for name, decision in ((path, "allow"), (other, "ask")):
        arguments = tool.parse(json.dumps({"path": name, "content": ""}))
        assert gate.judge(tool, arguments, "interactive").decision == decision


def test_all_edits_are_offered_where_the_mode_lets_this_one_pass(session: Session) -> None:
    inside = session.waiting.suggest_rules(call("write_file", path="a", content=""))
    assert inside[-1] == RuleSuggestion("edits", mode="auto-edit")
    for path in ("/etc/passwd", ".git/config"):
        assert "edits" not in [
            offer.kind for offer in session.waiting.suggest_rules(call("write_file", path=path, content=""))
        ]
    session.waiting.accept(inside[-1])
    assert session.state.execution_mode == "auto-edit"


def test_nothing_is_offered_that_a_deny_rule_stops(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "SANDBUR_DENY": "run_shell_command"}
    runtime = Runtime.open({"model": "demo", "cwd": tmp_path}, env)

    async def offered() -> tuple[RuleSuggestion, ...]:
        session = await runtime.create()
        found = session.waiting.suggest_rules(shell("npm test"))
        await runtime.aclose()
        return found

    import asyncio

    assert asyncio.run(offered()) == ()


@pytest.mark.parametrize(
    "waiting",
    [
        call("no_such_tool", x="y"),
        call("run_shell_command"),
        shell("  "),
        call("run_shell_command", command="npm test", cwd="/"),
    ],
)
def test_what_no_rule_can_be_written_for_is_not_offered(session: Session, waiting: PendingCall) -> None:
    assert rules_offered(session, waiting) == ()


async def test_what_a_person_let_pass_for_good_is_not_asked_for_a_second_call(store: Store) -> None:
    """Of two calls one is decided, and what was allowed with it covers the other, too."""
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a", "b"), "done"), tool, mode="interactive")
    _, end = await collect(session.send("go"))
    session.change_mode("yolo")
    _, end = await collect(session.decide([CallDecision(call_id=end.pending[0].call_id, approved=True)]))
    assert (end.status, tool.done) == ("done", ["a", "b"])


async def test_a_decision_about_one_call_leaves_the_others_waiting(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a", "b")), tool, mode="interactive")
    _, end = await collect(session.send("go"))
    _, end = await collect(session.decide([CallDecision(call_id=end.pending[0].call_id, approved=True)]))
    assert (end.status, len(end.pending), tool.done) == ("needs_approval", 1, [])
