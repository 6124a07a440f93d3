"""What a model may send to the built-in tools, and what it is told otherwise."""

import json

import pytest

from sandbur.actions.ports import BadArguments
from sandbur.actions.tools.registry import builtin_tools

TOOLS = builtin_tools()


def refusal(tool: str, arguments: str) -> str:
    with pytest.raises(BadArguments) as caught:
        TOOLS[tool].parse(arguments)
    return str(caught.value)


def test_the_tools_come_in_a_fixed_order():
    assert list(builtin_tools()) == [
        "run_shell_command", "read_file", "write_file", "edit_file", "list_directory", "glob", "grep",
    ]  # fmt: skip


def test_every_tool_declares_what_running_it_twice_means():
    effects = {name: tool.effect for name, tool in TOOLS.items()}
    assert effects == {
        "run_shell_command": "effect",
        "read_file": "read",
        "write_file": "verifiable",
        "edit_file": "verifiable",
        "list_directory": "read",
        "glob": "read",
        "grep": "read",
    }


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_schema_is_one_flat_closed_object_of_plain_types(tool):
    schema = tool.spec.parameters
    assert set(schema) == {"type", "properties", "required", "additionalProperties"}
    assert schema["additionalProperties"] is False
    for name, field in schema["properties"].items():
        assert set(field) <= {"type", "description", "minimum", "maximum"}, name
        assert field["type"] in ("string", "integer", "boolean")
        assert field["description"]
    assert set(schema["required"]) <= set(schema["properties"])


def test_the_schemas_name_the_arguments_of_the_contract():
    signatures = {
        name: (list(tool.spec.parameters["properties"]), tool.spec.parameters["required"])
        for name, tool in TOOLS.items()
    }
    assert signatures == {
        "run_shell_command": (["command", "cwd", "timeout_s"], ["command"]),
        "read_file": (["path", "offset", "limit"], ["path"]),
        "write_file": (["path", "content"], ["path", "content"]),
        "edit_file": (["path", "old", "new", "replace_all"], ["path", "old", "new"]),
        "list_directory": (["path"], ["path"]),
        "glob": (["pattern", "path"], ["pattern"]),
        "grep": (["pattern", "path", "glob"], ["pattern"]),
    }


def test_bounds_of_numbers_are_in_the_schema():
    field = TOOLS["run_shell_command"].spec.parameters["properties"]["timeout_s"]
    assert (field["minimum"], field["maximum"]) == (1, 3600)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ('{"path": "a"} {}', "not valid JSON"),
        ('{"path": ' + "9" * 5000 + "}", "not valid JSON"),
        ("null", "must be one JSON object, not null"),
        ("[1]", "must be one JSON object, not an array"),
        ('"a"', "must be one JSON object, not a string"),
        ("{}", "path is missing"),
        ('{"path": null}', "path must be a non-empty string, got null"),
        ('{"path": 5}', "path must be a non-empty string, got 5"),
        ('{"path": ["a"]}', "got an array"),
        ('{"path": {"a": 1}}', "got an object"),
        ('{"path": ""}', "got an empty string"),
        ('{"path": "a\\u0000b"}', "path must not hold a NUL"),
        ('{"path": "\\ud800"}', "surrogate"),
        ('{"path": "a", "offset": "2"}', "offset must be an integer of at least 1, got a string"),
        ('{"path": "a", "offset": true}', "got true"),
        ('{"path": "a", "offset": 1.5}', "got 1.5"),
        ('{"path": "a", "offset": 0}', "of at least 1, got 0"),
        ('{"path": "a", "offset": NaN}', "NaN is not a JSON number"),
        ('{"path": "a", "offset": -Infinity}', "-Infinity is not a JSON number"),
        ('{"path": "a", "file": "b"}', 'there is no argument "file"'),
        ('{"path": "a", "path": "b"}', '"path" is given more than once'),
        ('{"path": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"path": "' + "a" * 5_000_000 + '"}', "the limit is 4,000,000 bytes"),
    ],
    ids=lambda value: value[:40],
)
def test_a_mistake_is_told_in_a_sentence_with_what_is_expected(arguments, told):
    message = refusal("read_file", arguments)
    assert message.startswith("read_file: ")
    assert told in message
    assert "limit is" in message or "Expected: path (string), offset (integer, optional)" in message
    assert len(message) < 500


def test_a_timeout_out_of_range_is_refused():
    assert "of at least 1 and of at most 3600, got 4000" in refusal(
        "run_shell_command", '{"command": "a", "timeout_s": 4000}'
    )


def test_an_overlong_expression_is_refused():
    assert "pattern is longer than 4,000" in refusal("grep", json.dumps({"pattern": "a" * 5000}))


def test_null_for_an_optional_argument_means_its_default():
    arguments = TOOLS["read_file"].parse('{"path": "a", "offset": null, "limit": null}')
    assert (arguments.offset, arguments.limit) == (1, 2000)


def test_a_whole_number_may_be_written_as_a_float():
    assert TOOLS["read_file"].parse('{"path": "a", "offset": 5.0}').offset == 5


def test_subject_and_paths_are_given_as_written():
    cases = {
        "run_shell_command": ({"command": "ls", "cwd": "../x"}, "ls", ["../x"]),
        "read_file": ({"path": "~/a"}, "~/a", ["~/a"]),
        "write_file": ({"path": "./a", "content": ""}, "./a", ["./a"]),
        "edit_file": ({"path": "a/../b", "old": "x", "new": ""}, "a/../b", ["a/../b"]),
        "list_directory": ({"path": "/"}, "/", ["/"]),
        "glob": ({"pattern": "*.py", "path": "src"}, "*.py", ["src", "src/"]),
        "grep": ({"pattern": "x"}, "x", ["."]),
    }
    for name, (given, subject, paths) in cases.items():
        tool = TOOLS[name]
        arguments = tool.parse(json.dumps(given))
        assert (tool.subject(arguments), list(tool.paths(arguments))) == (subject, paths)
    assert list(TOOLS["run_shell_command"].paths(TOOLS["run_shell_command"].parse('{"command": "ls"}'))) == []
