"""Results beyond the limit: what the model is given, what is kept, and how it is read again."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import collect

import sandbur
from sandbur import Agent, tool
from sandbur.actions.ports import ModelRequest
from sandbur.actions.tools.registry import result_reader
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.agent.runtime.runtime import Runtime
from sandbur.state.conversation.messages import Text, ToolResult
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.slow

ROWS = 20_000
WHOLE = "".join(f"row {n} of a long text\n" for n in range(1, ROWS + 1))
HANDLE = "call_1_0"


@tool(effect="read")
def report() -> str:
    """Return a long text."""
    return WHOLE


@tool(effect="read")
def one_line() -> str:
    """Return a long line of JSON."""
    return json.dumps([{"number": n} for n in range(20_000)])


def read(**arguments: Any) -> ToolCall:
    return ToolCall("read_result", handle=HANDLE, **arguments)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


def results(model: ScriptedModel) -> list[ToolResult]:
    return results_of(model.requests[-1])


def results_of(request: ModelRequest) -> list[ToolResult]:
    return [result for message in request.messages for result in message.tool_results]


def store_of(env: dict[str, str]) -> Store:
    return Store.open(f"sqlite:///{env['SANDBUR_HOME']}/sandbur.db")


async def run(env: dict[str, str], *replies: Any, tools: Any = (report,), **options: Any) -> ScriptedModel:
    model = ScriptedModel([*replies, "done"])
    result = await Agent(model, tools=tools, env=env, **options).run("go", session_id="s1")
    assert result.status == "done", result
    model.assert_done()
    return model


async def test_the_model_gets_both_ends_and_a_handle(env: dict[str, str]) -> None:
    (shown,) = results(await run(env, ToolCall("report")))
    assert shown.content.startswith("row 1 of a long text\nrow 2 ")
    assert shown.content.endswith(f"row {ROWS} of a long text\n")
    assert f'characters are left out; all is kept: read_result(handle="{HANDLE}", offset=' in shown.content
    assert len(shown.content) < 25_000
    store = store_of(env)
    assert store.load_output("s1", HANDLE) == WHOLE.encode()
    store.close()


async def test_a_result_of_the_limit_stays_whole_and_one_beyond_it_does_not(env: dict[str, str]) -> None:
    @tool(effect="read")
    def text(size: int) -> str:
        """Return a text."""
        return "x" * size

    env["SANDBUR_MAX_RESULT_TOKENS"] = "1000"
    model = await run(env, ToolCall("text", size=4000), ToolCall("text", size=4001), tools=[text])
    whole, cut = (len(result.content) for result in results(model))
    assert whole == 4000
    assert cut < 1500


async def test_what_is_left_out_begins_at_the_row_that_is_named(env: dict[str, str]) -> None:
    model = await run(env, ToolCall("report"), read(offset=1))
    before, _, after = results(model)[0].content.partition("\n[... ")
    offset = int(after.partition("offset=")[2].partition(")")[0])
    assert before.endswith(f"row {offset - 1} of a long text")


async def test_a_page_says_where_to_go_on(env: dict[str, str]) -> None:
    model = await run(env, ToolCall("report"), read(offset=500, limit=2), read(offset=ROWS))
    _, page, last = (result.content for result in results(model))
    rows = "500\trow 500 of a long text\n501\trow 501 of a long text"
    assert page == f"{rows}\n[20,000 rows in all; go on with offset=502]"
    assert last == f"{ROWS}\trow {ROWS} of a long text\n[20,000 rows in all]"


async def test_a_pattern_finds_rows(env: dict[str, str]) -> None:
    model = await run(
        env,
        ToolCall("report"),
        read(pattern="^ROW 777 "),
        read(pattern="(?i)^ROW 777 "),
        read(pattern="row 19\\d{3} ", limit=1),
        read(pattern="("),
        read(pattern="(a+)+$"),
    )
    _, none, found, many, broken, evil = (result.content for result in results(model))
    assert none == "[0 of 20,000 rows match]"
    assert found == "777\trow 777 of a long text\n[1 of 20,000 rows match]"
    assert many == "19000\trow 19000 of a long text\n[1000 of 20,000 rows match; go on with offset=19001]"
    assert broken == "The pattern cannot be used: unclosed group."
    assert evil == "[0 of 20,000 rows match]"


async def test_a_single_long_line_is_read_in_rows_and_nothing_between_them_is_missed(
    env: dict[str, str],
) -> None:
    model = await run(
        env, ToolCall("one_line"), read(offset=2, limit=1), read(pattern='"number": 19999}'), tools=[one_line]
    )
    shown, row, found = (result.content for result in results(model))
    whole = json.dumps([{"number": n} for n in range(20_000)])
    assert len(shown) < 25_000
    assert row.splitlines()[0] == f"2\t{whole[1000:2000]}"
    assert '"number": 19999}' in found
    for place in range(995, 1000):
        piece = whole[place : place + 12]
        model = await run(
            {**env, "SANDBUR_HOME": f"{env['SANDBUR_HOME']}{place}"},
            ToolCall("one_line"),
            read(pattern=piece.replace("{", "\\{"), limit=1),
            tools=[one_line],
        )
        assert results(model)[1].content.startswith("1\t")


async def test_a_handle_that_is_none_is_refused_with_a_sentence(env: dict[str, str]) -> None:
    model = await run(env, ToolCall("read_result", handle="nope"))
    assert (
        results(model)[0].content
        == "No call with the handle 'nope' has ended. Take it from the result itself."
    )


async def test_a_small_result_can_be_read_by_its_call_too(env: dict[str, str]) -> None:
    @tool(effect="read")
    def small() -> str:
        """Return little."""
        return "a\nb"

    model = await run(env, ToolCall("small"), read(), tools=[small])
    assert results(model)[1].content == "1\ta\n2\tb\n[2 rows in all]"


async def test_secrets_are_kept_out_of_what_is_kept(env: dict[str, str]) -> None:
    key = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT" * 2

    @tool(effect="read")
    def leak() -> str:
        """Return a secret in the middle of a lot."""
        return f"{WHOLE}OPENAI_API_KEY={key}\n{WHOLE}"

    model = await run(env, ToolCall("leak"), read(pattern="API_KEY"), tools=[leak])
    assert "[masked" in results(model)[1].content
    store = store_of(env)
    assert key.encode() not in (store.load_output("s1", HANDLE) or b"")
    store.close()


async def test_words_beside_pictures_do_not_get_around_the_limit(env: dict[str, str]) -> None:
    @tool(effect="read")
    def told() -> list[Any]:
        """Return words as blocks."""
        return [Text(text=WHOLE), Text(text="end")]

    (shown,) = results(await run(env, ToolCall("told"), tools=[told]))
    assert sum(len(getattr(block, "text", "")) for block in shown.blocks) + len(shown.content) < 25_000


async def test_another_process_reads_it_after_a_resume(env: dict[str, str]) -> None:
    await run(env, ToolCall("report"))
    model = ScriptedModel([read(offset=9, limit=1), "again"])
    await Agent(model, tools=[report], env=env).run("and?", session_id="s1")
    assert results(model)[-1].content.startswith("9\trow 9 of a long text\n")


async def test_a_fork_reads_what_its_parent_kept(env: dict[str, str]) -> None:
    await run(env, ToolCall("report"))
    model = ScriptedModel([read(offset=9, limit=1), "again"])
    definition = Agent(model, tools=[report], env=env).definition
    runtime = Runtime.open({}, env, definition=definition)
    try:
        session = await runtime.resume(await runtime.fork("s1"))
        async for _ in session.send("and?"):
            pass
    finally:
        await runtime.aclose()
    assert results(model)[-1].content.startswith("9\trow 9 of a long text\n")


async def test_what_was_pruned_is_said_to_be_gone(env: dict[str, str]) -> None:
    await run(env, ToolCall("report"))
    store = store_of(env)
    store.database.commit([("DELETE FROM outputs", ())])
    store.close()
    model = ScriptedModel([read(offset=2, limit=1), "again"])
    await Agent(model, tools=[report], env=env).run("and?", session_id="s1")
    said, row, _ = results(model)[-1].content.split("\n")
    assert said.startswith(f"[The whole result ({len(WHOLE):,} bytes) is not in the store any more")
    assert row == "2\trow 2 of a long text"


async def test_a_replay_needs_neither_the_tool_nor_the_limit_of_today(env: dict[str, str]) -> None:
    await run(env, ToolCall("report"), read(offset=3), ToolCall("one_line"), tools=[report, one_line])
    store = store_of(env)
    today = Today(toolbox={"report": report, "one_line": one_line})
    replayed = await replay(store, "s1", today=today)
    assert (replayed.divergence, replayed.steps) == (None, 8)
    store.close()


async def test_output_that_a_command_wrote_is_read_whole(env: dict[str, str], tmp_path: Path) -> None:
    model = await run(
        env,
        ToolCall("run_shell_command", command="seq 100000"),
        read(offset=50_000, limit=1),
        tools=sandbur.workspace_tools(),
        mode="yolo",
        cwd=tmp_path,
    )
    shown, row = (result.content for result in results(model))
    assert f'\n[the whole output: read_result(handle="{HANDLE}")]\nexit code: 0' in shown
    assert row.startswith("50000\t50000\n[100,000 rows in all")


async def test_a_session_from_before_there_was_a_limit_goes_on_without_one(
    store: Store, tmp_path: Path
) -> None:
    model = ScriptedModel([ToolCall("report"), "done"])
    session = await open_real(store, model, tmp_path, toolbox={"report": report})
    await collect(session.send("go"))
    assert results(model)[0].content == WHOLE
    assert "max_result_tokens" not in session.settings.model_dump(mode="json")


def test_the_reader_only_reads() -> None:
    (reader,) = result_reader().values()
    assert (reader.effect, reader.traits.writes_files, list(reader.paths(None))) == ("read", False, [])
