"""Mode and model of a session are chosen in the editor, recorded, and kept by whoever goes on with it."""

import asyncio
import json
from typing import Any

from support.commands.command import Command
from support.models.server import ModelServer, say, stall
from support.screens.editor import Editor, catch_refusal, editing
from test_acp import load, of


def value(options: list[Any], option: str) -> str:
    return str(next(one.current_value for one in options if one.id == option))


def models(options: list[Any]) -> list[str]:
    return [one.value for one in next(one.options for one in options if one.id == "model")]


async def chosen(editor: Editor, session_id: str, option: str, value: str) -> list[Any]:
    answered = await editor.agent.set_config_option(session_id=session_id, config_id=option, value=value)
    return list(answered.config_options)


def asked(server: ModelServer) -> list[str]:
    return [request.body["model"] for request in server.requests]


async def test_a_model_that_is_chosen_answers_from_then_on_and_after_a_restart(command: Command) -> None:
    home = command.folder / ".config" / "sandbur"
    home.mkdir(parents=True)
    (home / "config.toml").write_text('[aliases]\nfast = "openai/gpt-fast"\n')
    with ModelServer([say("one"), say("two"), say("three"), say("four")]) as server:
        async with editing(command, **of(server)) as editor:
            made = await editor.agent.new_session(cwd=str(command.folder), mcp_servers=[])
            assert [(one.id, one.category) for one in made.config_options] == [
                ("mode", "mode"), ("model", "model"),
            ]  # fmt: skip
            assert models(made.config_options) == ["openai/gpt-test", "openai/gpt-fast"]
            # Before anything is stored, and after.
            options = await chosen(editor, made.session_id, "model", "openai/gpt-first")
            assert value(options, "model") == "openai/gpt-first"
            await editor.prompt(made.session_id, "a")
            assert value(await chosen(editor, made.session_id, "model", "fast"), "model") == "openai/gpt-fast"
            await editor.prompt(made.session_id, "b")
            await editor.prompt(made.session_id, "/model openai/gpt-typed")
            assert value(editor.of("config_option_update")[-1].config_options, "model") == "openai/gpt-typed"
            await editor.prompt(made.session_id, "c")
        env = {name: said for name, said in of(server).items() if name != "SANDBUR_MODEL"}
        async with editing(command, **env) as editor:
            loaded = await load(editor, made.session_id, command.folder)
            assert value(loaded.config_options, "model") == "openai/gpt-typed"
            assert "openai/gpt-typed" in models(loaded.config_options)
            await editor.prompt(made.session_id, "d")
    assert asked(server) == ["gpt-first", "gpt-fast", "gpt-typed", "gpt-typed"]


async def test_what_cannot_be_chosen_changes_nothing(command: Command) -> None:
    with ModelServer([stall(say("late")), say("fine")]) as server:
        async with editing(command, **of(server)) as editor:
            made = await editor.agent.new_session(cwd=str(command.folder), mcp_servers=[])
            session_id = made.session_id
            for option, wrong in (("model", "nowhere/x"), ("mode", "yolo"), ("colour", "red")):
                assert (await catch_refusal(chosen(editor, session_id, option, wrong))).code == -32602
            no_key = await catch_refusal(chosen(editor, session_id, "model", "anthropic/claude-x"))
            assert (no_key.code, "ANTHROPIC_API_KEY" in str(no_key)) == (-32000, True)
            running = asyncio.ensure_future(editor.prompt(session_id, "a"))
            await asyncio.to_thread(_until_asked, server)
            busy = await catch_refusal(chosen(editor, session_id, "model", "openai/other"))
            assert "answering a message" in str(busy)
            assert value(await chosen(editor, session_id, "mode", "plan"), "mode") == "plan"
            await editor.agent.cancel(session_id=session_id)
            assert (await running).stop_reason == "cancelled"
            await editor.prompt(session_id, "b")
    assert asked(server) == ["gpt-test", "gpt-test"]
    shown = json.loads(command.run("sessions", "show", session_id, "--json").out)
    assert (shown["mode"], shown["model"]) == ("plan", "openai/gpt-test")


def _until_asked(server: ModelServer) -> None:
    import time

    end = time.monotonic() + 60
    while not server.requests:
        assert time.monotonic() < end
        time.sleep(0.02)


async def test_a_command_that_asks_for_a_model_has_it_for_its_answer_alone(command: Command) -> None:
    home = command.folder / ".sandbur" / "commands"
    home.mkdir(parents=True)
    (home / "think.md").write_text("---\nmodel: openai/gpt-deep\n---\nThink about $ARGUMENTS.\n")
    (home / "broken.md").write_text("---\nmodel: nowhere/x\n---\nGo.\n")
    with ModelServer([say("deep"), say("plain")]) as server:
        async with editing(command, **of(server)) as editor:
            made = await editor.agent.new_session(cwd=str(command.folder), mcp_servers=[])
            await editor.prompt(made.session_id, "/think it over")
            assert "nowhere" in str(await catch_refusal(editor.prompt(made.session_id, "/broken")))
            await editor.prompt(made.session_id, "and now?")
    assert asked(server) == ["gpt-deep", "gpt-test"]
    assert "Think about it over." in json.dumps(server.requests[0].body["messages"])
