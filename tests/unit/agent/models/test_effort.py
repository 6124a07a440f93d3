"""How much a model is to think: what each wire format says, what servers refuse, what a session keeps."""

import json
from typing import Any

import pytest
from support.commands.command import Command
from support.models.server import Answer, ModelServer, Request, fail, say
from support.models.talk import WIRES, ask_model, connect_to_model, talk

from sandbur.state.conversation.messages import person_message
from sandbur.state.session import SessionSettings


async def sent(name: str, effort: str | None, **more: Any) -> dict[str, Any]:
    async with (
        ModelServer([say("done")]) as server,
        connect_to_model(server, name, effort=effort, **more) as model,
    ):
        await talk(model)
        return server.requests[0].body


@pytest.mark.parametrize("effort", ["none", "low", "max"])
async def test_responses_and_chat_are_told_in_the_words_of_the_setting(effort: str) -> None:
    assert (await sent("openai-responses/gpt-6", effort))["reasoning"] == {
        "summary": "auto",
        "effort": effort,
    }
    assert (await sent("openai-responses/own", effort))["reasoning"] == {"effort": effort}
    assert (await sent("openai-chat/gpt-6", effort))["reasoning_effort"] == effort


@pytest.mark.parametrize(("effort", "told"), [("minimal", "low"), ("medium", "medium"), ("xhigh", "xhigh")])
async def test_a_claude_that_thinks_as_it_likes_is_told_how_much(effort: str, told: str) -> None:
    body = await sent("anthropic/claude-opus-5", effort)
    assert body["output_config"] == {"effort": told}
    assert body["thinking"]["type"] == "adaptive"


async def test_an_older_claude_gets_a_budget_below_its_output() -> None:
    body = await sent("anthropic/claude-sonnet-4-5", "medium")
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 12_800}
    assert body["max_tokens"] == 32_000
    assert "output_config" not in body


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-4-5"])
async def test_no_effort_switches_the_thinking_of_a_claude_off(model: str) -> None:
    body = await sent(f"anthropic/{model}", "none")
    assert body["thinking"] == {"type": "disabled"}
    assert "output_config" not in body


async def test_a_budget_too_small_to_think_in_is_not_asked_for() -> None:
    assert "thinking" not in await sent("anthropic/claude-sonnet-4-5", "low", max_output_tokens=4000)


@pytest.mark.parametrize("wire", WIRES)
async def test_without_a_setting_nothing_is_said_of_it(wire: str) -> None:
    assert "effort" not in json.dumps(await sent(wire, None))


REFUSED = {
    "openai-chat/gpt-6": "Unrecognized request argument supplied: reasoning_effort",
    "openai-responses/gpt-6": "Unsupported value: 'reasoning.effort' does not support 'high' here.",
    "anthropic/claude-opus-5": "output_config.effort: Extra inputs are not permitted",
}


@pytest.mark.parametrize(("name", "problem"), REFUSED.items())
async def test_a_server_that_does_not_take_it_is_asked_without_and_the_person_told(
    name: str, problem: str
) -> None:
    def answer(request: Request) -> Answer:
        return fail(400, problem) if b"effort" in request.raw else say("done")

    async with ModelServer(answer) as server, connect_to_model(server, name, effort="high") as model:
        heard = await talk(model)
        again = await talk(model)
        has = [b"effort" in request.raw for request in server.requests]
    assert heard.reply.message.text == "done"
    assert heard.notices == [f"{name} does not take this effort, so it goes on without it."]
    assert (again.notices, has) == ([], [True, False, False])


async def test_a_claude_that_does_not_think_can_be_forced_to_a_tool() -> None:
    async with (
        ModelServer([say("done"), say("done")]) as server,
        connect_to_model(server, "anthropic/claude-opus-5", effort="none") as model,
    ):
        await talk(model, ask_model(person_message("go"), forced="run_shell_command"))
        assert server.requests[0].body["tool_choice"]["name"] == "run_shell_command"


def test_a_resumed_session_keeps_its_effort_until_a_flag_changes_it(command: Command) -> None:
    with ModelServer([say("one"), say("two"), say("three")]) as server:
        env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-test"}
        words = ("-p", "hello", "--output-format", "json")
        first = command.run(*words, "-m", "openai/gpt-6", SANDBUR_EFFORT="high", **env)
        assert first.code == 0, first.err
        resumed = ("-r", first.result["session_id"])
        assert command.run(*words, *resumed, **env).code == 0
        assert command.run(*words, *resumed, "--effort", "low", **env).code == 0
        assert [request.body["reasoning_effort"] for request in server.requests] == ["high", "high", "low"]


def test_a_word_that_is_no_effort_is_refused(command: Command) -> None:
    ended = command.run("-p", "hello", "-m", "demo", "--effort", "huge")
    assert ended.code == 2
    assert "--effort" in ended.err


def test_settings_without_an_effort_are_stored_as_before() -> None:
    settings = SessionSettings(model="demo", cwd="/")
    assert "effort" not in settings.model_dump(mode="json")
    assert settings.model_copy(update={"effort": "low"}).model_dump(mode="json")["effort"] == "low"
