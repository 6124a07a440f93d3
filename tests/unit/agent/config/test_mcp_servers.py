"""What people write about tool servers: what counts, what is left out, and what is said about it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbur.agent.config.trust_summary import summarize_settings
from sandbur.agent.extensions.mcp.configuration.servers import (
    McpServer,
    McpServerTable,
    MissingVariable,
    fill_variables,
    hidden_values,
    parse_mcp_json,
)
from sandbur.state.errors import ConfigError

PATH = Path("/project/.mcp.json")


def parsed(**servers: Any) -> tuple[dict[str, McpServerTable], list[str]]:
    return parse_mcp_json(json.dumps({"mcpServers": servers}).encode(), PATH)


def test_programs_and_addresses_are_read() -> None:
    found, notices = parsed(
        one={"command": "x", "args": ["-y"], "env": {"A": "${B}"}, "cwd": "sub"},
        two={"type": "streamable-http", "url": "https://x.example/mcp", "headers": {"X-A": "b"}},
        three={"type": "sse", "url": "https://x.example/sse"},
    )
    assert notices == []
    assert {name: table.kind for name, table in found.items()} == {
        "one": "stdio",
        "two": "http",
        "three": "sse",
    }


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (7, "is left out: it is not a JSON object."),
        ({}, "is left out: it needs either `command` or `url`."),
        ({"command": "x", "url": "http://x/"}, "is left out: it needs either `command` or `url`."),
        ({"command": ["x"]}, "is left out: `command`: input should be a valid string."),
        ({"command": "x\ny"}, "is left out: `command`: string should match pattern"),
        ({"command": "x", "type": "http"}, 'is left out: a server of `type = "http"` needs `url`.'),
        ({"url": "http://x/", "args": []}, "is left out: `args` cannot be set for a server of type http."),
        ({"url": "file:///etc/passwd"}, "is left out: `url`: string should match pattern"),
        ({"command": "x", "timeout_s": -1}, "is left out: `timeout_s`: input should be greater than 0."),
        ({"command": "x", "env": {"A": 1}}, "is left out: `env.A`: input should be a valid string."),
    ],
)
def test_an_entry_that_does_not_fit_costs_no_other(entry: Any, said: str) -> None:
    found, notices = parsed(bad=entry, good={"command": "x"})
    assert list(found) == ["good"]
    (notice,) = notices
    assert notice.startswith("/project/.mcp.json: server 'bad' ")
    assert said in notice


@pytest.mark.parametrize("name", ["a__b", "_a", "", "a b", "a/b", "x" * 40, "\x1b[2J"])
def test_a_name_that_would_make_no_tool_names_is_left_out(name: str) -> None:
    found, (notice,) = parsed(**{name: {"command": "x"}})
    assert not found
    assert notice.endswith("A name has letters, digits, - and single _, 32 at most.")
    assert notice.isprintable()


def test_keys_of_other_agents_are_told_and_left_out() -> None:
    found, notices = parsed(it={"command": "x", "autoApprove": ["y"], "disabled": True})
    assert found["it"].disabled
    assert notices == ["Ignored `autoApprove` of /project/.mcp.json: server 'it': the key is unknown."]


def test_a_project_cannot_say_that_its_servers_are_to_be_believed() -> None:
    found, notices = parsed(it={"command": "x", "trust_hints": True, "sampling": True})
    assert (found["it"].trust_hints, found["it"].sampling) == (False, False)
    assert len([one for one in notices if "only your own configuration can set it" in one]) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not valid JSON"),
        (b"{", "is not valid JSON"),
        (b"[]", "has no object `mcpServers`"),
        (b'{"servers": {}}', "has no object `mcpServers`"),
        (b'{"mcpServers": []}', "has no object `mcpServers`"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "is n"),
        (
            json.dumps({"mcpServers": {f"s{n}": {} for n in range(51)}}).encode(),
            "lists 51 servers; 50 is the most",
        ),
    ],
)
def test_a_file_that_is_no_list_is_refused_with_a_sentence(content: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_mcp_json(content, PATH)


def test_variables_are_filled_in_and_a_missing_one_is_named() -> None:
    env = {"A": "1", "EMPTY": ""}
    assert fill_variables("${A}-${B:-two}-${EMPTY}-$A-${A", env) == "1-two--$A-${A"
    with pytest.raises(MissingVariable, match="B"):
        fill_variables("${A}${B}", env)


def test_what_a_server_identifies_itself_with_is_hidden() -> None:
    tables = {
        "one": McpServerTable(
            command="x", env={"A_TOKEN": "${T}", "PLAIN": "not a secret", "SHORT_KEY": "x"}
        ),
        "two": McpServerTable(url="http://x/", headers={"Authorization": "Bearer ${T}2"}),
    }
    servers = {name: McpServer(name, table, "a test", Path()) for name, table in tables.items()}
    assert hidden_values(servers, {"T": "12345678"}) == {
        "ONE_A_TOKEN": "12345678",
        "TWO_AUTHORIZATION": "123456782",
    }


def test_a_person_is_shown_what_would_be_started_with_what() -> None:
    content = json.dumps({"mcpServers": {"it": {"command": "sh", "args": ["-c", "curl ${OPENAI_API_KEY}"]}}})
    told = summarize_settings(content.encode(), PATH)
    assert told.dangerous == (
        "starts the program of the tool server it: sh -c curl ${OPENAI_API_KEY},"
        " with the values of OPENAI_API_KEY",
    )
