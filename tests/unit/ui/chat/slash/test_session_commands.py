"""Commands that change a session do the real thing, and it is there after a resume."""

from pathlib import Path

import pytest
from support.commands.command import Command
from support.commands.killed import kill_in_command
from support.models.scripted import ScriptedModel
from support.screens.slash_desk import SlashDesk, environment, slash_desk

from sandbur.state.errors import ModelError
from sandbur.ui.chat.slash.command import DONE, SlashResult
from sandbur.ui.chat.slash.table import COMMANDS

CHANGED = SlashResult(goes_on=True)
ALONE = {"exit", "sessions", "resume", "ui", "doctor", "undo", "init", "rewind"}
"""Commands that wait for somebody, look at the machine, or talk to the model."""


async def said(desk: SlashDesk, *texts: str) -> None:
    for text in texts:
        await desk.send(text)
    desk.read_output()


@pytest.mark.parametrize("is_new", [True, False])
async def test_every_command_can_be_typed_at_once_and_says_something(tmp_path: Path, is_new: bool) -> None:
    async with slash_desk(tmp_path) as desk:
        if not is_new:
            await said(desk, "run echo hi", "hello")
        for command in COMMANDS:
            if command.name not in ALONE:
                await desk.type(f"{command.typed} {'x' if command.usage == 'TITLE' else ''}")
                assert desk.read_output().strip(), command.name


async def test_another_model_is_recorded_and_used_after_a_resume(tmp_path: Path) -> None:
    env = {**environment(tmp_path), "OPENAI_API_KEY": "k-1234567890123456"}
    async with slash_desk(tmp_path, env=env) as desk:
        await said(desk, "hello")
        session_id = desk.session.id
        assert await desk.type("/model openai/gpt-4o") == CHANGED
        assert "The model is openai/gpt-4o now." in desk.read_output()
        assert desk.runtime.store.index.settings(session_id).model == "openai/gpt-4o"
        await desk.type("/model nonsense")
        assert "nonsense" in desk.read_output()
        assert desk.session.ports.model.name == "openai/gpt-4o"
        await desk.type("/model demo")
        await said(desk, "hello again")
        assert desk.finished is not None
        assert desk.finished.status == "done"
        assert len(desk.session.state.chat_history) == 4
        await desk.type("/model openai/gpt-4o")
    async with slash_desk(tmp_path, env=env, resume=session_id) as desk:
        assert desk.session.ports.model.name == "openai/gpt-4o"


async def test_a_model_chosen_before_the_first_message_is_the_one_of_the_session(tmp_path: Path) -> None:
    env = {**environment(tmp_path), "OPENAI_API_KEY": "k-1234567890123456"}
    async with slash_desk(tmp_path, env=env) as desk:
        await desk.type("/mode plan")
        await desk.type("/model openai/gpt-4o")
        assert desk.session.state.execution_mode == "plan"
        session_id = desk.session.id
    async with slash_desk(tmp_path, env=env, resume=session_id) as desk:
        assert (desk.session.ports.model.name, desk.session.state.execution_mode) == ("openai/gpt-4o", "plan")


async def test_a_budget_holds_for_runs_of_the_session_and_survives(tmp_path: Path) -> None:
    model = ScriptedModel(*["fine"] * 9, cost_usd=0.4)
    prices = {"prices": {"scripted/one": {"input": 1, "output": 1}}}
    async with slash_desk(tmp_path, model, **prices) as desk:
        await said(desk, "hello")
        for wrong in ("0", "-1", "lots", "nan"):
            await desk.type(f"/budget {wrong}")
            assert "is not an amount above 0" in desk.read_output()
        assert await desk.type("/budget 2.5") == CHANGED
        assert "A run may cost 2.5 USD now." in desk.read_output()
        await desk.type("/budget")
        assert "A run may cost 2.5 USD, as you chose in this session." in desk.read_output()
        session_id = desk.session.id
    async with slash_desk(tmp_path, model, resume=session_id, **prices) as desk:
        assert desk.session.settings.max_budget_usd == 2.5
        await desk.type("/budget off")
        assert desk.session.settings.max_budget_usd is None


async def test_rules_are_listed_added_and_removed_for_the_session(tmp_path: Path) -> None:
    rule = "run_shell_command(touch *)"
    async with slash_desk(tmp_path, deny=("write_file",)) as desk:
        await desk.type("/permissions")
        assert "deny   write_file   (--deny)" in desk.read_output()
        await said(desk, "run touch made")
        assert desk.finished is not None
        assert desk.finished.status == "needs_approval"
        desk.asks = True
        assert await desk.type(f"/permissions allow {rule}") == CHANGED
        desk.asks = False
        assert f"`{rule}` runs without a question in this session." in desk.read_output()
        session_id = desk.session.id
        assert rule in desk.runtime.store.index.settings(session_id).allow
        await desk.follow(desk.session.carry_on())
        assert (tmp_path / "made").exists()
        desk.read_output()
        for wrong, why in (("(((", "cannot be read"), ("run_shel_command", "Did you mean")):
            await desk.type(f"/permissions allow {wrong}")
            assert why in desk.read_output()
        await desk.type(f"/permissions remove {rule}")
        await desk.type(f"/permissions remove {rule}")
        assert "is not a rule of this session." in desk.read_output()
    async with slash_desk(tmp_path, resume=session_id) as desk:
        assert desk.session.settings.allow == ()
        assert desk.session.settings.deny == ("write_file",)


@pytest.mark.parametrize(
    ("second", "summary", "requests"), [("two", "unread", 3), ("two " * 120, "A long summary. " * 300, 4)]
)
async def test_a_compression_that_would_not_shorten_says_so_and_changes_nothing(
    tmp_path: Path, second: str, summary: str, requests: int
) -> None:
    model = ScriptedModel("one", second, "three", summary)
    async with slash_desk(tmp_path, model) as desk:
        await said(desk, "hi", "you", "there")
        before = list(desk.session.state.chat_history)
        await desk.type("/compact")
        assert "Nothing was changed: a summary would be longer" in desk.read_output()
        assert list(desk.session.state.chat_history) == before
        assert len(model.requests) == requests


async def test_a_compression_is_recorded_and_taken_back(tmp_path: Path) -> None:
    model = ScriptedModel("one", "two " * 500, "three", "SUMMARY", "after", "four")
    async with slash_desk(tmp_path, model) as desk:
        await said(desk, "remember swordfish", "second", "third")
        before = list(desk.session.state.chat_history)
        await desk.type("/compact the fish")
        assert "/uncompact restores them" in desk.read_output()
        assert "Above all keep: the fish" in model.requests[-1].histories[0].last.text  # pyright: ignore
        short = [one.text for one in desk.session.state.chat_history]
        assert "SUMMARY" in short[0]
        assert "third" in short[0]
        assert len(short) < len(before)
        assert desk.session.next_action == "prompt"
        await said(desk, "more")
        session_id = desk.session.id
    async with slash_desk(tmp_path, model, resume=session_id) as desk:
        await desk.type("/uncompact")
        assert "messages are back" in desk.read_output()
        now = [one.text for one in desk.session.state.chat_history]
        assert now == [*(one.text for one in before), "more", "after"]
        await desk.type("/uncompact")
        assert desk.read_output() == "Nothing of this conversation is compressed.\n"
        await said(desk, "last")
        assert [one.text for one in desk.session.state.chat_history][-2:] == ["last", "four"]
    async with slash_desk(tmp_path, model, resume=session_id) as desk:
        assert [one.text for one in desk.session.state.chat_history] == [*now, "last", "four"]
        assert desk.runtime.store.verify(session_id) == []


async def test_each_rule_is_told_with_the_file_flag_or_variable_that_it_comes_from(tmp_path: Path) -> None:
    config = tmp_path / "config" / "sandbur" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('allow = ["run_shell_command(make *)"]\nask = ["write_file"]\n')
    env = {**environment(tmp_path), "SANDBUR_ALLOW": "run_shell_command(make *),run_shell_command(ls *)"}
    async with slash_desk(tmp_path, env=env, allow=("run_shell_command(df)",)) as desk:
        await desk.type("/permissions deny run_shell_command(sudo *)")
        desk.read_output()
        await desk.type("/permissions")
        lines = desk.read_output().splitlines()[1:]
    assert lines == [
        "  deny   run_shell_command(sudo *)   (this session)",
        f"  ask    write_file   ({config})",
        "  allow  run_shell_command(df)   (--allow)",
        f"  allow  run_shell_command(make *)   (SANDBUR_ALLOW, {config})",
        "  allow  run_shell_command(ls *)   (SANDBUR_ALLOW)",
    ]


async def test_a_title_a_fork_and_a_new_session(tmp_path: Path) -> None:
    async with slash_desk(tmp_path) as desk:
        await said(desk, "hello")
        old = desk.session.id
        await desk.type("/rename the \x1b[31mgreat thing")
        assert "\x1b" not in desk.read_output()
        await desk.type("/mode plan")
        assert await desk.type("/fork") == CHANGED
        assert desk.session.id != old
        assert desk.session.state.execution_mode == "plan"
        assert desk.runtime.store.index.summary(desk.session.id).parent_id == old
        await desk.type("/clear")
        assert "A new session begins." in desk.read_output()
        assert not len(desk.session.state.chat_history)
        await desk.type(f"/resume {old[:8]}")
        assert desk.session.id == old
        assert "Resumed:" in desk.read_output()
        await desk.type("/resume nowhere")
        assert "There is no session" in desk.read_output()
        await desk.type(f"/export {tmp_path}/a.jsonl")
        assert (tmp_path / "a.jsonl").read_text().count("\n") > 3
        await desk.type(f"/export {tmp_path}/a.jsonl")
        assert "exists already" in desk.read_output()


async def test_a_session_that_died_can_be_looked_at_left_and_entered_again(tmp_path: Path) -> None:
    command = Command(tmp_path)
    dead = kill_in_command(command)
    async with slash_desk(tmp_path) as desk:
        await said(desk, "hello")
        before = desk.session.id
        for name in (dead, before, dead):
            await desk.type(f"/resume {name}")
        assert "Resumed:" in desk.read_output()
        assert desk.finished is not None
        assert desk.finished.status == "needs_decision"
        assert [call.kind for call in desk.session.state.pending_tool_calls] == ["outcome_unknown"]
        assert desk.runtime.store.verify(dead) == []


async def test_what_the_last_turn_changed_is_shown_and_brought_back(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("before\n")
    async with slash_desk(tmp_path, mode="yolo") as desk:
        await said(desk, "replace before with after in a.txt")
        assert file.read_text() == "after\n"
        await desk.type("/diff")
        shown = desk.read_output()
        assert "a.txt" in shown
        assert "+after" in shown.replace(" ", "")
        desk.picks = ["n"]
        await desk.type("/undo")
        assert file.read_text() == "after\n"
        desk.picks = ["y"]
        await desk.type("/undo")
        assert file.read_text() == "before\n"
        last = desk.session.state.chat_history.last
        assert last is not None
        assert "taken back" in last.text
        assert "a.txt" in last.text
        desk.read_output()
        await desk.type("/undo")
        assert "changed no files" in desk.read_output()


async def test_commands_that_go_elsewhere_wait_for_the_answer_of_a_question(tmp_path: Path) -> None:
    async with slash_desk(tmp_path) as desk:
        await said(desk, "run touch made")
        desk.asks = True
        for name in ("clear", "resume", "fork", "compact", "init", "undo"):
            assert await desk.type(f"/{name}") == DONE
            assert desk.read_output() == f"/{name} waits until the question is answered.\n"
        assert len(desk.sent) == 1


async def test_instructions_are_listed_added_to_and_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "AGENTS.md"
    monkeypatch.setenv("VISUAL", "sed -i s/ruff/black/")
    async with slash_desk(tmp_path) as desk:
        await desk.type("/instructions")
        assert "There is no AGENTS.md here." in desk.read_output()
        await desk.type("/instructions add lint with   ruff")
        assert file.read_text() == "- lint with ruff\n"
        await desk.type("/instructions edit")
        assert file.read_text() == "- lint with black\n"
        await desk.type("/instructions show")
        assert "lint with black" in desk.read_output()
        await desk.type("/editor use ruff")
        assert desk.composer.take_text() == "use black"
        file.unlink()
        file.symlink_to(tmp_path / "elsewhere")
        await desk.type("/instructions add more")
        assert "is a link" in desk.read_output()
        assert not (tmp_path / "elsewhere").exists()
        await desk.type("/init keep it short")
        assert desk.sent[0].endswith("The person adds: keep it short")


async def test_a_compression_that_failed_goes_on_after_a_resume(tmp_path: Path) -> None:
    model = ScriptedModel("one", "two " * 500, ModelError("broken"), "SUMMARY", "three")
    async with slash_desk(tmp_path, model) as desk:
        await said(desk, "first", "second")
        await desk.type("/compact")
        assert desk.finished is not None
        assert desk.finished.status == "error"
        assert desk.session.next_action == "context_compressor"
        session_id = desk.session.id
    async with slash_desk(tmp_path, model, resume=session_id) as desk:
        await desk.follow(desk.session.carry_on())
        assert desk.session.next_action == "prompt"
        assert "SUMMARY" in next(iter(desk.session.state.chat_history)).text
        await said(desk, "third")
        assert desk.session.state.chat_history.last is not None
        assert desk.session.state.chat_history.last.text == "three"
