"""Hooks in configuration files: what may declare them, and one sentence for what cannot be read."""

import json
from pathlib import Path

import pytest

from sandbur.agent.config.load import load_settings
from sandbur.agent.config.trust import trust
from sandbur.agent.config.trust_summary import summarize_settings
from sandbur.agent.extensions.hooks.declared import HOOK_EVENTS, HookCommand
from sandbur.state.errors import ConfigError

TABLE = """\
[[hooks.PreToolUse]]
matcher = "write_file|edit_file"
hooks = [
    {type = "command", command = "./check", timeout = 5, onFailure = "block"},
    {command = "./log"},
]
[[hooks.Stop]]
hooks = [{command = "./tests"}]
"""
DECLARED = (
    HookCommand("PreToolUse", "write_file|edit_file", "./check", 5, True),
    HookCommand("PreToolUse", "write_file|edit_file", "./log"),
    HookCommand("Stop", "", "./tests"),
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".config/sandbur").mkdir(parents=True)
    (tmp_path / "project/.sandbur").mkdir(parents=True)
    return {"HOME": str(tmp_path)}


def hooks_of(env: dict[str, str]) -> tuple[HookCommand, ...]:
    return load_settings({"cwd": Path(env["HOME"], "project")}, env).of("hooks")


def write(env: dict[str, str], name: str, text: str) -> Path:
    path = Path(env["HOME"], name)
    path.write_text(text)
    return path


def test_the_users_own_configuration_declares_hooks(env: dict[str, str]) -> None:
    write(env, ".config/sandbur/config.toml", TABLE)
    assert hooks_of(env) == DECLARED


def test_a_file_of_another_agents_schema_beside_it_does_too(env: dict[str, str]) -> None:
    group = {"matcher": "Bash", "hooks": [{"type": "command", "command": "./look", "timeout": 30}]}
    for whole in ({"PreToolUse": [group]}, {"hooks": {"PreToolUse": [group]}}):
        write(env, ".config/sandbur/hooks.json", json.dumps(whole))
        assert hooks_of(env) == (HookCommand("PreToolUse", "Bash", "./look", 30),)
    write(env, ".config/sandbur/config.toml", TABLE)
    assert hooks_of(env) == (*DECLARED, HookCommand("PreToolUse", "Bash", "./look", 30))


def test_a_project_declares_hooks_once_it_is_trusted_and_takes_none_away(env: dict[str, str]) -> None:
    write(env, ".config/sandbur/config.toml", '[[hooks.PreToolUse]]\nhooks = [{command = "./mine"}]\n')
    path = write(env, "project/.sandbur/config.toml", TABLE)
    mine = HookCommand("PreToolUse", "", "./mine")
    assert hooks_of(env) == (mine,)
    trust(path.parent.parent, env)
    assert set(hooks_of(env)) == {mine, *DECLARED}
    path.write_text(TABLE.replace("./log", "./other"))
    assert hooks_of(env) == (mine,)


def test_who_is_asked_to_trust_a_project_sees_every_command(tmp_path: Path) -> None:
    shown = summarize_settings(TABLE.encode(), tmp_path / "config.toml").dangerous
    assert shown == ("runs on PreToolUse: ./check", "runs on PreToolUse: ./log", "runs on Stop: ./tests")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[hooks.PreToolUze]]\nhooks = [{command = "x"}]', "`hooks.PreToolUze`"),
        ('[[hooks.Stop]]\nhooks = [{comand = "x"}]', "`hooks.Stop.0.hooks.0.comand`"),
        ("[[hooks.Stop]]\nmatcher = 'x'", "`hooks.Stop.0.hooks` is missing"),
        ('[[hooks.Stop]]\nmatcher = "("\nhooks = [{command = "x"}]', "it is not a regular expression"),
        ('[[hooks.Stop]]\nhooks = [{command = "x", timeout = -1}]', "`hooks.Stop.0.hooks.0.timeout`"),
        ('[[hooks.Stop]]\nhooks = [{type = "prompt", command = "x"}]', "`hooks.Stop.0.hooks.0.type`"),
        ('hooks = "x"', "`hooks`"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_that_names_it(env: dict[str, str], text: str, said: str) -> None:
    write(env, ".config/sandbur/config.toml", text)
    with pytest.raises(ConfigError) as refused:
        hooks_of(env)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"hooks": 1}', '{"Nothing": []}'])
def test_a_json_file_that_cannot_be_read_is_named(env: dict[str, str], text: str) -> None:
    path = write(env, ".config/sandbur/hooks.json", text)
    with pytest.raises(ConfigError, match="hooks"):
        hooks_of(env)
    path.chmod(0o666)
    with pytest.raises(ConfigError):
        hooks_of(env)


def test_every_event_of_the_schema_can_be_declared(env: dict[str, str]) -> None:
    write(
        env,
        ".config/sandbur/hooks.json",
        json.dumps({event: [{"hooks": [{"command": "x"}]}] for event in HOOK_EVENTS}),
    )
    assert [one.event for one in hooks_of(env)] == list(HOOK_EVENTS)
    assert len(HOOK_EVENTS) == 13
