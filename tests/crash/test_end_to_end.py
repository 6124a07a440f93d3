"""The command against a strict local server on all three wires: routes, counts, requests, bad answers."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.models.server import Answer, ModelServer, Request, ToolCall, call, calls, cut, fail, say

WIRES = ("openai-chat", "openai-responses", "anthropic")
every_wire = pytest.mark.parametrize("provider", WIRES)

VIBE: list[Answer] = [
    call("start_plan", goal="look around"),
    call("submit_plan", steps=[{"description": "count"}, {"description": "name"}]),
    call("run_shell_command", command="seq 1 40 | wc -l"),
    call("finish_step", status="completed", summary="there are 40"),
    calls(ToolCall("list_directory", '{"path": "."}'), ToolCall("read_file", '{"path": "a.txt"}')),
    call("finish_step", status="failed", summary="no name found"),
    call("submit_plan", steps=[{"description": "name it another way"}]),
    say("the name is alpha"),
    say("40, alpha"),
]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    (tmp_path / "a.txt").write_text("alpha\n")
    return Command(tmp_path)


def ask(command: Command, server: ModelServer, provider: str, *more: str) -> Ended:
    variable = "ANTHROPIC" if provider == "anthropic" else "OPENAI"
    url = server.url if provider == "anthropic" else server.base_url
    env = {f"{variable}_API_KEY": "sk-test-123456", f"{variable}_BASE_URL": url}
    return command.run("-p", "go", "-m", f"{provider}/m", "--output-format", "json", *more, **env)


def assert_prefixes(requests: list[Request]) -> None:
    """Each request repeats the one before up to what closes it."""
    for before, after in itertools.pairwise(requests):
        pairs = enumerate(zip(before.raw, after.raw, strict=False))
        common = next((at for at, (old, new) in pairs if old != new), len(before.raw))
        assert len(before.raw) - common < 160


@every_wire
def test_chat_is_one_call(command: Command, provider: str) -> None:
    with ModelServer([say("hello")]) as server:
        ended = ask(command, server, provider)
        assert (ended.code, ended.result["result"], len(server.requests)) == (0, "hello", 1)
    assert ended.result["usage"]["llm_calls"] == 1
    assert ended.result["usage"]["cost_usd"] is None


@every_wire
def test_ops_extends_its_requests_and_runs_what_was_asked(command: Command, provider: str) -> None:
    turns = [call("run_shell_command", command=f"echo {n} >> log") for n in (1, 2)]
    with ModelServer([*turns, call("read_file", path="log"), say("1 and 2")]) as server:
        ended = ask(command, server, provider, "--yolo")
        assert (ended.code, ended.result["workflow_mode"], server.rejections) == (0, "ops", [])
        assert_prefixes(server.requests)
    assert (command.folder / "log").read_text() == "1\n2\n"


@every_wire
def test_vibe_with_a_failed_step_takes_the_calls_of_the_contract(command: Command, provider: str) -> None:
    with ModelServer(VIBE) as server:
        ended = ask(command, server, provider, "--yolo")
        assert server.rejections == []
        assert len(server.requests) == len(VIBE) == ended.result["usage"]["llm_calls"]
        assert_prefixes(server.requests[:3])
        for step_requests in (server.requests[2:4], server.requests[4:6]):
            assert_prefixes(step_requests)
        later = server.requests[4].raw.decode()
        assert "Step 1 completed: there are 40" in later
        assert "exit code: 0" not in later
        heads = {json.dumps([_tools(request), _system(request)]) for request in server.requests}
        assert len(heads) == 1
    assert (ended.code, ended.result["result"]) == (0, "40, alpha")
    statuses = [(step["step_id"], step["status"]) for step in ended.result["steps"]]
    assert statuses == [("1", "completed"), ("2", "failed"), ("3", "completed")]


def _tools(request: Request) -> Any:
    return request.body["tools"]


def _system(request: Request) -> Any:
    body = request.body
    return body.get("system") or body.get("instructions") or body["messages"][0]


@every_wire
def test_the_planner_forces_the_plan_and_the_router_offers_all_tools(command: Command, provider: str) -> None:
    with ModelServer(VIBE) as server:
        ask(command, server, provider, "--yolo")
        router, planner = server.requests[:2]
    names = json.dumps(_tools(router))
    for name in ("run_shell_command", "read_file", "write_file", "edit_file", "list_directory", "glob",
                 "grep", "start_plan", "submit_plan", "finish_step"):  # fmt: skip
        assert f'"{name}"' in names
    assert "submit_plan" in json.dumps(planner.body["tool_choice"])


@every_wire
def test_a_stop_for_approval_lists_the_call_and_approve_carries_on(command: Command, provider: str) -> None:
    turns = [call("write_file", path="new.txt", content="x\n"), say("written")]
    with ModelServer(turns) as server:
        ended = ask(command, server, provider)
        assert (ended.code, ended.result["status"]) == (3, "needs_approval")
        [pending] = ended.result["pending"]
        assert (pending["tool"], pending["kind"]) == ("write_file", "approval")
        assert f"sandbur -r {ended.result['session_id']}" in ended.err
        assert not (command.folder / "new.txt").exists()
        variable = "ANTHROPIC" if provider == "anthropic" else "OPENAI"
        url = server.url if provider == "anthropic" else server.base_url
        env = {f"{variable}_API_KEY": "k", f"{variable}_BASE_URL": url}
        approved = command.run("approve", ended.result["session_id"], "--all", **env)
        assert (approved.code, approved.out.strip(), server.rejections) == (0, "written", [])
    assert (command.folder / "new.txt").read_text() == "x\n"


@every_wire
def test_a_denial_is_what_the_model_reads(command: Command, provider: str) -> None:
    with ModelServer([call("run_shell_command", command="rm -rf x"), say("fine")]) as server:
        ended = ask(command, server, provider, "--yolo", "--deny", "run_shell_command(rm *)")
        assert (ended.code, ended.result["status"], ended.result["result"]) == (3, "denied", "fine")
        assert "enied" in server.requests[1].raw.decode()
        assert server.rejections == []


@every_wire
def test_a_cut_stream_is_tried_again_and_its_call_never_runs(command: Command, provider: str) -> None:
    danger = call("run_shell_command", command="touch ran")
    with ModelServer([cut(danger), say("all is well")]) as server:
        ended = ask(command, server, provider, "--yolo")
        assert (ended.code, ended.result["result"], len(server.requests)) == (0, "all is well", 2)
    assert not (command.folder / "ran").exists()


@every_wire
def test_a_wrong_key_is_one_sentence_and_exit_41(command: Command, provider: str) -> None:
    with ModelServer([fail(401, "bad key sk-test-123456")]) as server:
        ended = ask(command, server, provider)
    assert (ended.code, ended.result["error"]["code"]) == (41, "credentials")
    assert "sk-test-123456" not in ended.out + ended.err
    assert "Traceback" not in ended.err


@every_wire
def test_a_full_context_is_compressed_and_the_turn_goes_on(command: Command, provider: str) -> None:
    full = fail(400, "prompt is too long: 250000 tokens > 200000 maximum", code="context_length_exceeded")
    read = call("run_shell_command", command="seq 1 3000")
    with ModelServer([read, full, say("the numbers up to 3000"), say("that was long")]) as server:
        ended = ask(command, server, provider, "--yolo")
        assert (ended.code, ended.result["result"], server.rejections) == (0, "that was long", [])
        last = server.requests[-1].raw.decode()
    assert "the numbers up to 3000" in last
    assert "2999" not in last


def test_limits_have_their_exit_codes_and_leave_a_resumable_session(command: Command) -> None:
    rounds: list[Answer] = [call("list_directory", path="./" * n) for n in range(1, 7)]
    with ModelServer([*rounds, say("done")]) as server:
        ended = ask(command, server, "openai-chat", "--max-turns", "2")
        assert (ended.code, ended.result["status"], len(server.requests)) == (53, "turn_limit", 2)
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url}
        again = command.run("-p", "-r", ended.result["session_id"], **env)
        assert (again.code, again.out.strip()) == (0, "done")


def test_a_budget_needs_a_price(command: Command) -> None:
    with ModelServer([]) as server:
        ended = ask(command, server, "openai-chat", "--max-budget-usd", "1")
        assert (ended.code, server.requests) == (2, [])
    assert "No price is known" in ended.err
    config = command.folder / ".config/sandbur"
    config.mkdir(parents=True)
    prices = '[prices."openai-chat/m"]\ninput = 5000\noutput = 5000\n'
    (config / "config.toml").write_text(prices)
    with ModelServer([call("list_directory", path="."), say("never")]) as server:
        ended = ask(command, server, "openai-chat", "--max-budget-usd", "0.01")
        assert (ended.code, ended.result["status"]) == (125, "budget_limit")
        assert ended.result["usage"]["cost_usd"] > 0.01


def test_a_fallback_model_answers_when_the_first_stays_overloaded(command: Command) -> None:
    def by_model(request: Request) -> Answer:
        if request.body["model"] == "m":
            return fail(429, "slow down", retry_after=3600)
        return say("the second answers")

    with ModelServer(by_model) as server:
        ended = ask(command, server, "openai-chat", "--fallback-model", "openai-chat/n")
        assert (ended.code, ended.result["result"]) == (0, "the second answers")


def test_an_overloaded_provider_ends_with_75_and_the_run_can_go_on(command: Command) -> None:
    with ModelServer([fail(529, "overloaded", retry_after=3600), say("better now")]) as server:
        ended = ask(command, server, "anthropic")
        assert (ended.code, ended.result["status"]) == (75, "rate_limited")
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        again = command.run("-p", "-r", ended.result["session_id"], **env)
        assert (again.code, again.out.strip()) == (0, "better now")


def test_the_whole_output_of_a_cut_result_is_in_the_export(command: Command) -> None:
    with ModelServer([call("run_shell_command", command="seq 1 30000"), say("many")]) as server:
        ended = ask(command, server, "openai-chat", "--yolo")
        assert len(server.requests[1].raw) < 60_000
    exported = command.run("sessions", "export", ended.result["session_id"])
    [output] = [line for line in exported.lines if line["kind"] == "output"]
    assert output["text"].split() == [str(number) for number in range(1, 30_001)]
