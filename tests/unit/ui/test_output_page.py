"""`--json-schema`, and the page about answers in a form: what it shows is what happens."""

import json
import re
import shlex

import pytest
from support.commands.command import Command
from support.commands.programs import run_program
from support.models.server import ModelServer, say
from support.models.talk import environment
from support.places import ROOT

from sandbur.ui.cli.arguments import parse

PAGE = (ROOT / "docs" / "output.md").read_text("utf-8")
SCHEMA = re.findall(r"```json\n(.*?)```", PAGE, re.S)[0]
COMMANDS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)[0].splitlines()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
GOOD = '{"verdict": "good", "score": 7, "remarks": null}'


@pytest.fixture
def file(command: Command) -> str:
    (command.folder / "review.json").write_text(SCHEMA)
    return "review.json"


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    parse(shlex.split(line.partition(" > ")[0])[1:])


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_page_runs(command: Command, program: str) -> None:
    assert run_program(command, program) in ("Review 0\n", "")


def test_the_demo_answers_in_the_form(command: Command, file: str) -> None:
    ended = command.run("-p", "hello", "-m", "demo", "--json-schema", file, "--output-format", "json")
    assert ended.code == 0, ended.err
    assert ended.result["output"] == json.loads(ended.result["result"])
    assert ended.result["output"]["verdict"] == "good"


def test_the_result_has_the_value_beside_its_text_and_only_then(command: Command, file: str) -> None:
    with ModelServer([say(GOOD), say(GOOD)]) as server:
        words = ("-p", "go", "-m", "openai-chat/gpt-test", "--output-format", "json")
        ended = command.run(*words, "--json-schema", file, **environment(server))
        plain = command.run(*words, **environment(server))
    assert ended.code == 0, ended.err
    keys = list(ended.result)
    assert keys[keys.index("result") + 1] == "output"
    assert ended.result["output"] == {"verdict": "good", "score": 7}
    assert json.loads(ended.result["result"]) == ended.result["output"]
    assert "output" not in plain.result


def test_text_and_stream_have_it_too(command: Command, file: str) -> None:
    with ModelServer([say(GOOD), say(GOOD)]) as server:
        words = ("-p", "go", "-m", "openai-chat/gpt-test", "--json-schema", file)
        text = command.run(*words, **environment(server))
        stream = command.run(*words, "--output-format", "stream-json", **environment(server))
    assert json.loads(text.out) == {"verdict": "good", "score": 7}
    assert stream.lines[-1]["output"] == {"verdict": "good", "score": 7}


def test_an_answer_that_never_fits_is_an_error_and_the_session_goes_on(command: Command, file: str) -> None:
    with ModelServer([say("no"), say("never"), say(GOOD)]) as server:
        words = ("-p", "go", "-m", "openai-chat/gpt-test", "--json-schema", file, "--output-format", "json")
        failed = command.run(*words, **environment(server))
        assert (failed.code, failed.result["error"]["code"]) == (1, "output_invalid")
        assert "never" in failed.result["error"]["message"]
        assert (failed.result["output"], failed.result["result"]) == (None, None)
        assert f"Resume with: sandbur -r {failed.result['session_id']}" in failed.err
        again = command.run("-p", "-r", failed.result["session_id"], "--output-format", "json",
                            **environment(server))  # fmt: skip
        assert server.rejections == []
    assert (again.code, again.result["output"]) == (0, {"verdict": "good", "score": 7})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory."),
        ("", "is not JSON: Expecting value: line 1 column 1 (char 0)."),
        ("{", "is not JSON"),
        ("[]", "is not a schema for answers: it is not an object."),
        ('{"type": "text"}', '"text" is not valid'),
        ('{"$ref": "http://example.org/x"}', "http://example.org/x"),
        ("[" * 100_000, "is not JSON"),
        (" " * 1_000_001, "is larger than 1000 KB."),
    ],
)
def test_a_bad_file_is_one_sentence_and_exit_2(command: Command, content: str | None, said: str) -> None:
    if content is not None:
        (command.folder / "bad.json").write_text(content)
    ended = command.run("-p", "go", "-m", "demo", "--json-schema", "bad.json")
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert ended.out == ""
    assert command.run("sessions", "list").out == ""


def test_a_stored_session_keeps_its_form(command: Command, file: str) -> None:
    refused = command.run("-p", "go", "-c", "--json-schema", file)
    assert refused.code == 2
    assert "is for a new session" in refused.err
