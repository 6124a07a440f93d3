"""What an editor hands over, and how texts of models and tools reach it."""

import pytest
from acp import audio_block, embedded_text_resource, image_block, resource_block, text_block
from acp.schema import AcpMcpServer, EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

from sandbur.agent.extensions.mcp.configuration.servers import check_tables
from sandbur.state.calls import PendingCall
from sandbur.state.errors import UsageError
from sandbur.ui.acp.editor_inputs import message_of, servers_of_editor
from sandbur.ui.acp.permission_questions import question_about
from sandbur.ui.terminal.text.sanitize import fence_text


@pytest.mark.parametrize("text", ["plain", "```\nowned", "````` [x](http://evil)", "`a`", ""])
def test_nothing_in_a_text_ends_its_code_block(text: str) -> None:
    first, *inside, last = fence_text(text).split("\n")
    assert first == last
    assert set(first) == {"`"}
    assert "\n".join(inside) == text
    assert first not in text


def test_servers_of_an_editor_fit_the_configuration_whatever_they_are_called() -> None:
    env = [EnvVariable(name="A", value="b")]
    header = [HttpHeader(name="X-Key", value="v")]
    names = ["My Server!", "my  server?", "__", "x" * 99, "a__b", "", "My Server!"]
    servers = [McpServerStdio(name=name, command="/bin/x", args=["-v"], env=env) for name in names]
    web = HttpMcpServer(type="http", name="web", url="https://example.com/mcp", headers=header)
    found = servers_of_editor([*servers, web])
    assert len(found) == len(names) + 1
    tables = check_tables(found, "a test", UsageError)
    assert tables["web"].headers == {"X-Key": "v"}
    assert tables["My-Server"].env == {"A": "b"}
    assert servers_of_editor(None) == {}


def test_a_server_that_only_the_editor_reaches_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be reached"):
        servers_of_editor([AcpMcpServer(type="acp", name="inner", id="x", server_id="x")])


def test_words_alone_stay_one_text_so_that_they_can_be_a_command() -> None:
    assert message_of([text_block("/mode"), text_block(" plan")]) == "/mode plan"
    said = message_of([text_block("see"), resource_block(embedded_text_resource("file:///a%20b.py", "x"))])
    assert said == 'see\n<resource uri="/a b.py">\nx\n</resource>\n'


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (audio_block("", "audio/wav"), "audio is empty"),
        (image_block("not valid base64!", "image/png"), "not valid base64"),
        (image_block("AAAA", "image/png"), "cannot be attached"),
        (text_block(" \n"), "empty"),
        (resource_block(embedded_text_resource("file:///big", "x" * 1_000_001)), "too large"),
    ],
)
def test_what_no_model_takes_is_refused(block: object, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        message_of([block])  # type: ignore[list-item]


def test_an_editor_that_allows_everything_lets_the_model_look_first() -> None:
    call = PendingCall(call_id="c1", tool="x", arguments="{}", kind="outcome_unknown")
    question = question_about(call, ())
    allowed = [option.option_id for option in question.options if option.kind == "allow_once"]
    assert allowed[0] == "check"
    assert allowed[-1] == "rerun"
