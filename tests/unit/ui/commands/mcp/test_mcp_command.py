"""`sandbur mcp list`, `add`, `remove` and `test`."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from support.commands.command import Command
from support.tool_servers.configured import HOSTILE

OWN = ".config/sandbur/config.toml"


def own(command: Command) -> Path:
    return command.folder / OWN


def test_a_server_is_added_listed_tried_and_removed(command: Command) -> None:
    own(command).parent.mkdir(parents=True)
    before = '# mine\nallow = [\n  "grep",\n]\n\n[prices]\n"a/b" = { input = 1, output = 2 }\n'
    own(command).write_text(before)
    added = command.run(
        "mcp", "add", "it", "--env", "A_TOKEN=${HOME}", "--", sys.executable, HOSTILE, "good", "--x"
    )
    assert (added.code, added.out) == (0, "")
    assert f"Added the tool server it to {own(command)}." in added.err
    assert own(command).read_text().startswith(before)
    assert tomllib.loads(own(command).read_text())["mcp_servers"] == {
        "it": {"command": sys.executable, "args": [HOSTILE, "good", "--x"], "env": {"A_TOKEN": "${HOME}"}}
    }
    (listed,) = command.run("mcp", "list", "--json").lines
    assert (listed["name"], listed["type"], listed["env"]) == ("it", "stdio", ["A_TOKEN"])
    assert listed["source"] == str(own(command))
    tried = command.run("mcp", "test", "it", "--json")
    assert tried.code == 0, tried.err
    (found,) = tried.lines
    assert (found["ok"], [tool["name"] for tool in found["tools"]]) == (True, ["mcp__it__act"])
    removed = command.run("mcp", "remove", "it")
    assert removed.code == 0, removed.err
    assert own(command).read_text().strip() == before.strip()


def test_the_list_shows_no_password_of_an_address(command: Command) -> None:
    address = "https://me:hunter2pw99@h.invalid/mcp?token=7fGh2kLm9nPq4rSt"
    own(command).parent.mkdir(parents=True)
    own(command).write_text(f'[mcp_servers.web]\nurl = "{address}"\n')
    for listed in (command.run("mcp", "list"), command.run("mcp", "list", "--json")):
        assert "h.invalid/mcp" in listed.out
        assert not [secret for secret in ("hunter2pw99", "7fGh2kLm9nPq4rSt") if secret in listed.out]


def test_a_server_between_other_tables_is_taken_out_alone(command: Command) -> None:
    own(command).parent.mkdir(parents=True)
    first = '[mcp_servers.one]\ncommand = "one"\nargs = [\n  "[mcp_servers.two]",\n]\n'
    middle = '[mcp_servers.two]\ncommand = "two"\n[mcp_servers."two".env]\nA = "b"\n\n'
    last = "# what they cost\n[prices]\n[mcp_servers.three]\ncommand = 'three'\n"
    own(command).write_text(first + middle + last)
    assert command.run("mcp", "remove", "two").code == 0
    assert own(command).read_text() == first + last


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('mcp_servers = { it = { command = "it" } }  # mine\n', "mcp_servers = {  }  # mine\n"),
        ('mcp_servers.it.command = "it"\n# mine\n', "# mine\n"),
        ('[mcp_servers]\nit = { command = "it" }\n# mine\n', "[mcp_servers]\n# mine\n"),
    ],
)
def test_a_server_is_taken_out_whatever_form_the_person_chose(
    command: Command, before: str, after: str
) -> None:
    own(command).parent.mkdir(parents=True)
    own(command).write_text(before)
    added = command.run("mcp", "add", "other", "--", "other")
    assert added.code == 0, added.err
    written = tomllib.loads(own(command).read_text())["mcp_servers"]
    assert written == {"it": {"command": "it"}, "other": {"command": "other"}}
    for name in ("other", "it"):
        assert command.run("mcp", "remove", name).code == 0
    assert own(command).read_text().strip() == after.strip()


def test_a_file_that_is_no_toml_is_refused_in_one_sentence_and_left_alone(command: Command) -> None:
    own(command).parent.mkdir(parents=True)
    own(command).write_text("mcp_servers = {\n")
    for words in (("add", "it", "--", "x"), ("remove", "it")):
        refused = command.run("mcp", *words)
        assert (refused.code, len(refused.err.splitlines())) == (52, 1), refused.err
        assert "is not valid TOML" in refused.err
    assert own(command).read_text() == "mcp_servers = {\n"


def test_a_project_file_is_kept_trusted_by_who_writes_it_here(command: Command) -> None:
    assert command.run("mcp", "add", "it", "--project", "--url", "http://localhost:1/mcp").code == 0
    path = command.folder / ".mcp.json"
    assert json.loads(path.read_text()) == {"mcpServers": {"it": {"url": "http://localhost:1/mcp"}}}
    assert "it\thttp\thttp://localhost:1/mcp" in command.run("mcp", "list").out
    path.write_text('{"mcpServers": {"bad": {"command": "rm"}}}')
    listed = command.run("mcp", "list")
    assert (listed.out, "is not trusted" in listed.err) == ("", True)
    refused = command.run("mcp", "add", "more", "--project", "--", "x")
    assert (refused.code, "is not trusted" in refused.err) == (52, True)


def test_one_that_does_not_answer_is_named_and_the_exit_code_says_so(command: Command) -> None:
    command.run("mcp", "add", "it", "--", sys.executable, HOSTILE, "dies_at_start")
    tried = command.run("mcp", "test")
    assert tried.code == 1
    assert (
        "The tool server it is left out: it ended; it wrote: there is no licence on this machine."
        in tried.err
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add",), "needs the NAME of a server"),
        (("add", "it"), "needs a program or an address"),
        (("add", "it", "--url", "http://x/", "--", "x"), "needs a program or an address"),
        (("add", "a__b", "--", "x"), "`a__b` is not a valid server name"),
        (("add", "it", "--url", "ftp://x/"), "`url`: string should match pattern"),
        (("add", "it", "--type", "sse", "--", "x"), 'a server of `type = "sse"` needs `url`'),
        (("add", "it", "--header", "A=b", "--", "x"), "`headers` cannot be set for a server of type stdio"),
        (("add", "it", "--env", "A", "--", "x"), "--env needs NAME=VALUE"),
        (("remove", "it"), "has no tool server it"),
        (("test", "it"), "There is no tool server it here"),
        (("list", "it"), "`it` is one word too many"),
        (("list", "--project"), "--project belongs to"),
        (("test", "--allow-decisions"), "--allow-decisions belongs to"),
        (("lst",), "`lst` is not a known value"),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(
    command: Command, words: tuple[str, ...], said: str
) -> None:
    done = command.run("mcp", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            "[mcp_servers.it]\ncomand = 'x'",
            "`mcp_servers.it`: there is no key `comand`. Did you mean `command`?",
        ),
        ("[mcp_servers.it]\nargs = []", "does not fit: it needs either `command` or `url`."),
        ("[mcp_servers.it]\ncommand = 7", "does not fit: `command`: input should be a valid string."),
        ("[mcp_servers.a__b]\ncommand = 'x'", "`mcp_servers.a__b` is not a valid server name."),
        ("mcp_servers = 7", "`mcp_servers` does not fit"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(command: Command, config: str, said: str) -> None:
    own(command).parent.mkdir(parents=True)
    own(command).write_text(config)
    done = command.run("-p", "hello", "-m", "demo")
    assert (done.code, said in done.err) == (52, True), done.err
