"""Whatever a tool server does: there is an outcome or a sentence, in time, and nothing of it is left."""

import asyncio
import json
import re
import time
from pathlib import Path

import pytest
from support.tool_servers.configured import call_server_tool, configure_server, hostile, open_servers
from support.tools.processes import alive

from sandbur.actions.ports import BadArguments
from sandbur.agent.extensions.mcp.server_requests.questions import ElicitationAnswer, Host
from sandbur.agent.extensions.mcp.transport.keeper import MOST_ERROR_BYTES
from sandbur.agent.runtime.tool_servers import Elicitation

pytestmark = pytest.mark.slow


async def outcome_of(behaviour: str, folder: Path, arguments: str = "{}", **table: object) -> tuple[str, str]:
    async with open_servers(hostile(behaviour, folder, **table), folder=folder) as (tools, source):
        assert len(tools) == 1, source.notices()
        outcome = await call_server_tool(next(iter(tools.values())), arguments)
    assert not alive(str(folder))
    return outcome.outcome, outcome.content


async def notices_of(behaviour: str, folder: Path, **table: object) -> tuple[list[str], str]:
    """Return the names of the tools, and what is said."""
    async with open_servers(hostile(behaviour, folder, **table), folder=folder) as (tools, source):
        found = list(tools), "\n".join(source.notices())
    assert not alive(str(folder))
    return found


async def test_a_good_one_is_called(tmp_path: Path) -> None:
    assert await outcome_of("good", tmp_path, '{"n": 3}') == ("ok", "done 3")
    assert (tmp_path / "calls").read_text() == '{"n": 3}\n'


@pytest.mark.parametrize("behaviour", ["silent", "deaf"])
async def test_one_that_does_not_get_ready_is_left_out_in_time(behaviour: str, tmp_path: Path) -> None:
    began = time.monotonic()
    tools, said = await notices_of(behaviour, tmp_path, startup_timeout_s=1.0)
    assert (tools, said) == ([], f"The tool server {behaviour} is left out: it did not get ready within 1 s.")
    assert time.monotonic() - began < 8


async def test_one_that_cannot_be_started_is_named_with_its_reason(tmp_path: Path) -> None:
    async with open_servers(
        configure_server("gone", tmp_path, command="no-such-program"), folder=tmp_path
    ) as (
        tools,
        source,
    ):
        assert not tools
        (said,) = source.notices()
    assert said.endswith("it ended; it wrote: no-such-program cannot be started: No such file or directory.")


async def test_who_was_waited_for_is_said(tmp_path: Path) -> None:
    servers = [hostile("good", tmp_path), hostile("silent", tmp_path, startup_timeout_s=8.0)]
    async with open_servers(*servers, folder=tmp_path, slow_s=0.5) as (tools, source):
        assert list(tools) == ["mcp__good__act"]
        said = source.notices()[0]
    assert re.fullmatch(
        r"The session waited \d+ s for the tool server silent to start\."
        r" `startup_timeout_s` limits this wait\.",
        said,
    )


async def test_the_last_words_of_one_that_ends_are_passed_on(tmp_path: Path) -> None:
    tools, said = await notices_of("dies_at_start", tmp_path)
    assert (tools, said) == (
        [],
        "The tool server dies-at-start is left out: it ended; it wrote: there is no licence on this machine.",
    )


async def test_a_slow_one_holds_nobody_up_for_longer_than_its_time(tmp_path: Path) -> None:
    servers = (hostile("silent", tmp_path, startup_timeout_s=2.0), hostile("good", tmp_path))
    began = time.monotonic()
    async with open_servers(*servers, folder=tmp_path) as (tools, source):
        assert list(tools) == ["mcp__good__act"]
        assert len(source.notices()) == 1
        assert time.monotonic() - began < 8
        assert (await call_server_tool(tools["mcp__good__act"])).outcome == "ok"


async def test_a_banner_and_broken_bytes_are_passed_over(tmp_path: Path) -> None:
    assert (await outcome_of("banner", tmp_path))[0] == "ok"
    assert (await outcome_of("bad_bytes", tmp_path))[0] == "ok"


async def test_one_that_sends_nothing_but_garbage_is_given_up(tmp_path: Path) -> None:
    _, said = await notices_of("garbage", tmp_path)
    assert said.startswith("The tool server garbage is left out: its output is not a sequence of messages")


async def test_of_ten_thousand_tools_the_first_are_used(tmp_path: Path) -> None:
    tools, said = await notices_of("many_tools", tmp_path)
    assert (len(tools), tools[0], tools[-1]) == (128, "mcp__many-tools__act0", "mcp__many-tools__act127")
    assert "lists 1,000 tools or more; the first 128 are used" in said
    assert "it sent 10,000 tools at once; the first 1,000 were read" in said


async def test_a_list_without_an_end_ends(tmp_path: Path) -> None:
    tools, _ = await notices_of("endless_pages", tmp_path)
    assert len(tools) == 20


async def test_only_the_tools_that_are_wanted_are_offered(tmp_path: Path) -> None:
    tools, said = await notices_of("many_tools", tmp_path, tools=["act7", "act3", "nothing"])
    assert tools == ["mcp__many-tools__act3", "mcp__many-tools__act7"]
    assert "has no tool nothing" in said


async def test_of_two_tools_of_one_name_the_first_counts(tmp_path: Path) -> None:
    tools, said = await notices_of("duplicates", tmp_path)
    assert tools == ["mcp__duplicates__act", "mcp__duplicates__act_"]
    assert "it lists act twice; the first one counts" in said
    assert "has two tools whose names would become mcp__duplicates__act_" in said


async def test_a_bad_entry_costs_no_other(tmp_path: Path) -> None:
    tools, said = await notices_of("bad_tool", tmp_path)
    assert tools == ["mcp__bad-tool__act"]
    assert "an entry of its tools is not valid: '7'" in said


async def test_a_schema_that_no_provider_takes_costs_its_tool(tmp_path: Path) -> None:
    async with open_servers(hostile("bad_schema", tmp_path), folder=tmp_path) as (tools, source):
        loop, bomb = tools.values()
        said = "\n".join(source.notices())
    inner = {"self": {}, "list": {"type": "array", "items": {}}}
    properties = {**inner, "self": {"type": "object", "properties": inner}}
    assert loop.spec.parameters == {"type": "object", "properties": properties}
    assert "tool far is left out: its schema refers to another document: https://example.com/x.json" in said
    # What is nested this deeply is open from some depth on.
    assert len(json.dumps(bomb.spec.parameters)) < 20_000
    assert bomb.parse('{"x": 1}') == {"x": 1}
    assert "an entry of its tools is not valid: 'text'" in said


async def test_a_schema_made_to_take_for_ever_takes_no_time(tmp_path: Path) -> None:
    began = time.monotonic()
    outcome, content = await outcome_of("slow_schema", tmp_path, json.dumps({"n": "a" * 40 + "!"}))
    assert outcome == "ok"
    assert content.startswith("done")
    assert time.monotonic() - began < 20


async def test_arguments_that_do_not_fit_are_not_sent(tmp_path: Path) -> None:
    async with open_servers(hostile("good", tmp_path), folder=tmp_path) as (tools, _):
        with pytest.raises(
            BadArguments, match=r"mcp__good__act: n: 'x' is not of type 'integer'. Expected: n"
        ):
            tools["mcp__good__act"].parse('{"n": "x"}')
    assert not (tmp_path / "calls").exists()


async def test_what_a_call_came_to_is_unknown_if_its_server_died(tmp_path: Path) -> None:
    async with open_servers(hostile("dies", tmp_path), folder=tmp_path) as (tools, _):
        outcome = await call_server_tool(tools["mcp__dies__act"])
        assert outcome.outcome == "unknown"
        assert outcome.content == (
            "The tool server dies went away while this ran (it ended). It may or may not have taken effect."
            " It was not run again: verify its effect before you repeat it."
        )
        assert len((tmp_path / "calls").read_text().splitlines()) == 1
        # It is started again for the next call, and told apart from the call before.
        assert (await call_server_tool(tools["mcp__dies__act"])).outcome == "unknown"
        later = await call_server_tool(tools["mcp__dies__act"])
        assert later.outcome in ("unknown", "error")


async def test_a_call_that_is_not_answered_ends_in_time_and_the_next_one_works(tmp_path: Path) -> None:
    async with open_servers(hostile("never_answers", tmp_path, timeout_s=0.5), folder=tmp_path) as (
        tools,
        source,
    ):
        began = time.monotonic()
        outcome = await call_server_tool(tools["mcp__never-answers__act"])
        assert (outcome.outcome, time.monotonic() - began < 3) == ("timeout", True)
        assert "it sent no message for 0.5 s. It may have taken effect." in outcome.content
        assert source.health()["never-answers"].state == "up"


async def test_an_answer_to_another_question_is_no_answer(tmp_path: Path) -> None:
    assert (await outcome_of("wrong_id", tmp_path, timeout_s=0.5))[0] == "timeout"


async def test_a_second_answer_is_passed_over(tmp_path: Path) -> None:
    assert await outcome_of("twice", tmp_path) == ("ok", "first")


async def test_a_message_of_20_megabytes_is_not_taken(tmp_path: Path) -> None:
    began = time.monotonic()
    outcome, content = await outcome_of("long_line", tmp_path)
    assert outcome == "unknown"
    assert "it sent a message of more than 10,000,000 bytes" in content
    assert time.monotonic() - began < 20


async def test_a_long_result_is_cut_and_kept_whole(tmp_path: Path) -> None:
    async with open_servers(hostile("big_result", tmp_path), folder=tmp_path) as (tools, _):
        outcome = await call_server_tool(tools["mcp__big-result__act"])
    assert len(outcome.content) < 51_000
    assert "[... 2,950,000 characters left out ...]" in outcome.content
    assert outcome.full_output == b"x" * 3_000_000


async def test_structured_content_that_breaks_its_word_is_shown_as_it_is(tmp_path: Path) -> None:
    assert await outcome_of("wrong_structure", tmp_path) == ("ok", 'done\n{"n": "seven"}')


async def test_content_of_an_unknown_kind_costs_nothing_else(tmp_path: Path) -> None:
    said = "(content of an unknown kind: 'hologram')\nand text"
    assert await outcome_of("unknown_block", tmp_path) == ("ok", said)


async def test_what_is_no_result_is_an_error(tmp_path: Path) -> None:
    outcome, content = await outcome_of("not_a_result", tmp_path)
    assert outcome == "error"
    assert content.startswith("The tool server not-a-result refused: its answer does not fit the protocol: ")


async def test_an_error_of_the_server_is_shown_without_its_control_characters(tmp_path: Path) -> None:
    assert await outcome_of("error", tmp_path) == ("error", "The tool server error refused: no[2J such luck.")


async def test_an_error_with_a_code_of_the_library_is_an_answer_of_the_server(tmp_path: Path) -> None:
    async with open_servers(hostile("error_of_library", tmp_path), folder=tmp_path) as (tools, _):
        for _ in range(2):
            outcome = await call_server_tool(tools["mcp__error-of-library__act"])
            said = "The tool server error-of-library refused: no such user."
            assert (outcome.outcome, outcome.content) == ("error", said)


async def test_descriptions_hide_nothing(tmp_path: Path) -> None:
    async with open_servers(hostile("control_characters", tmp_path), folder=tmp_path) as (tools, _):
        (tool,) = tools.values()
    assert tool.spec.description == "acts]0;owned gnihton "


async def test_half_a_character_does_not_stop_a_result(tmp_path: Path) -> None:
    outcome, content = await outcome_of("nul", tmp_path)
    assert (outcome, content.encode()) == ("ok", content.encode("utf-8"))


async def test_a_flood_of_notifications_does_not_reach_anybody(tmp_path: Path) -> None:
    assert await outcome_of("flood", tmp_path) == ("ok", "after the flood")


async def test_a_tool_that_changed_behind_its_name_is_not_run(tmp_path: Path) -> None:
    async with open_servers(hostile("rug_pull", tmp_path), folder=tmp_path) as (tools, source):
        tool = tools["mcp__rug-pull__act"]
        assert (await call_server_tool(tool)).outcome == "ok"
        await asyncio.sleep(2.1)
        outcome = await call_server_tool(tool)
        assert outcome.outcome == "error"
        assert "has changed its tool act since this session recorded it" in outcome.content
        assert len((tmp_path / "calls").read_text().splitlines()) == 1
        assert source.notices() == (
            "The tool server rug-pull has changed its list of tools. The next run uses the new list.",
        )


async def test_progress_is_shown_and_gives_a_call_more_time(tmp_path: Path) -> None:
    heard: list[str] = []
    async with open_servers(hostile("progress", tmp_path, timeout_s=1.0), folder=tmp_path) as (tools, _):
        outcome = await call_server_tool(tools["mcp__progress__act"], output=heard)
    assert (outcome.outcome, heard[0], heard[-1]) == ("ok", "0/4 part 0\n", "3/4 part 3\n")


async def test_a_question_that_nobody_answers_is_declined_and_told(tmp_path: Path) -> None:
    told: list[str] = []
    server = hostile("asks", tmp_path)
    async with open_servers(server, folder=tmp_path, host=Host(tell=told.append)) as (tools, _):
        outcome = await call_server_tool(tools["mcp__asks__act"])
    assert json.loads(outcome.content)["action"] == "decline"
    assert told == [
        "The tool server asks asked a question, which was declined, because nobody is there to answer: Who?"
    ]


async def test_a_person_answers_a_question(tmp_path: Path) -> None:
    async def ask(question: Elicitation) -> ElicitationAnswer:
        assert (question.server, question.message) == ("asks", "Who?")
        assert list(question.schema["properties"]) == ["name"]
        return ElicitationAnswer("accept", {"name": "Ada"})

    server = hostile("asks", tmp_path)
    async with open_servers(server, folder=tmp_path, host=Host(asks_person=ask)) as (tools, _):
        outcome = await call_server_tool(tools["mcp__asks__act"])
    assert json.loads(outcome.content)["content"] == {"name": "Ada"}


async def test_a_server_asks_the_model_only_if_it_may(tmp_path: Path) -> None:
    async def sample(system: str, text: str, most_tokens: int) -> tuple[str, str]:
        return "demo", f"{text} ({most_tokens})"

    host = Host(samples=sample)
    async with open_servers(hostile("samples", tmp_path), folder=tmp_path, host=host) as (tools, _):
        refused = await call_server_tool(tools["mcp__samples__act"])
    assert "content" not in json.loads(refused.content)
    async with open_servers(hostile("samples", tmp_path, sampling=True), folder=tmp_path, host=host) as (
        tools,
        _,
    ):
        allowed = await call_server_tool(tools["mcp__samples__act"])
    assert json.loads(allowed.content)["content"]["text"] == "user: hi (9)"


async def test_a_server_is_told_the_folders_of_the_session(tmp_path: Path) -> None:
    host = Host(roots=(tmp_path,))
    async with open_servers(hostile("roots", tmp_path), folder=tmp_path, host=host) as (tools, _):
        outcome = await call_server_tool(tools["mcp__roots__act"])
    assert json.loads(outcome.content)["roots"][0]["uri"] == tmp_path.as_uri()


async def test_what_a_server_complains_of_stays_within_bounds(tmp_path: Path) -> None:
    assert (await outcome_of("complains", tmp_path))[0] == "ok"
    log = tmp_path / "logs" / "complains.log"
    assert 0 < log.stat().st_size <= MOST_ERROR_BYTES
    assert log.stat().st_mode & 0o077 == 0
    assert log.read_text().splitlines()[-1].startswith("complaint 59999 ")


async def test_one_that_does_not_heed_its_end_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    assert (await outcome_of("ignores_eof", tmp_path))[0] == "ok"
    assert time.monotonic() - began < 15


async def test_what_stands_in_for_a_server_serves_its_tools(tmp_path: Path) -> None:
    first = configure_server("first", tmp_path, command="no-such-program", fallback="good")
    async with open_servers(first, hostile("good", tmp_path), folder=tmp_path) as (tools, source):
        assert list(tools) == ["mcp__first__act", "mcp__good__act"]
        assert (await call_server_tool(tools["mcp__first__act"], '{"n": 5}')).content == "done 5"
        assert source.notices() == ()


async def test_hints_count_only_where_the_person_says_so(tmp_path: Path) -> None:
    async with open_servers(hostile("good", tmp_path), folder=tmp_path) as (tools, _):
        assert tools["mcp__good__act"].effect == "effect"
        assert "a tool of the server good (definition " in tools["mcp__good__act"].traits.description
