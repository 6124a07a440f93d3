"""Names of one's own for models: where they count, and what is said about those that lead nowhere."""

from pathlib import Path

import pytest
from support.commands.command import Command
from support.commands.machine import Machine

from sandbur import Agent
from sandbur.state.errors import ConfigError
from sandbur.testing import ScriptedModel, temporary_store


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


ALIASES = """
fallback_models = ["smart", "c/d"]
[aliases]
fast = "openai/gpt-mini"
quick = "fast"
smart = "openrouter/a/b"
none = "demo"
"""


@pytest.mark.parametrize(
    ("said", "model"),
    [
        ("fast", "openai/gpt-mini"),
        ("quick", "openai/gpt-mini"),
        ("none", "demo"),
        ("demo", "demo"),
        ("x/fast", "x/fast"),
    ],
)
def test_a_flag_may_name_an_alias_or_a_model(machine: Machine, said: str, model: str) -> None:
    machine.write(machine.user_config, ALIASES)
    assert machine.load(model=said).model == model


def test_variables_files_and_fallbacks_may_name_aliases_too(machine: Machine) -> None:
    machine.write(machine.user_config, f'model = "smart"{ALIASES}')
    settings = machine.load()
    assert settings.model == "openrouter/a/b"
    assert settings.fallback_models == ("openrouter/a/b", "c/d")
    machine.env |= {"SANDBUR_MODEL": "quick", "SANDBUR_FALLBACK_MODEL": "fast, e/f"}
    settings = machine.load()
    assert (settings.model, settings.fallback_models) == ("openai/gpt-mini", ("openai/gpt-mini", "e/f"))


@pytest.mark.parametrize(
    ("aliases", "sentence"),
    [
        ('a = "b"\nb = "a"', "`aliases.a` is circular: a -> b -> a. Let one of them name a model."),
        ('a = "a"', "`aliases.a` is circular: a -> a."),
        ('a = "b"\nb = "gpt"', "`aliases.b`: there is no model and no alias 'gpt'."),
        ('a = "openai/"', "`aliases.a`: there is no model and no alias 'openai/'."),
        ('demo = "a/b"', "`aliases.demo`: demo is a built-in model."),
        ('"a/b" = "c/d"', "`aliases.a/b` does not fit"),
    ],
)
def test_an_alias_that_leads_nowhere_is_one_sentence(machine: Machine, aliases: str, sentence: str) -> None:
    machine.write(machine.user_config, f"[aliases]\n{aliases}")
    with pytest.raises(ConfigError) as failed:
        machine.load()
    assert sentence in str(failed.value)


@pytest.mark.parametrize("words", [("-m", "fats"), ("-m", "fast", "--fallback-model", "fats")])
def test_an_unknown_name_is_told_with_the_aliases(command: Command, words: tuple[str, ...]) -> None:
    config = command.folder / "config" / "sandbur" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[aliases]\nfast = "demo"')
    ended = command.run("-p", "hello", *words, XDG_CONFIG_HOME=str(command.folder / "config"))
    assert ended.code == 2
    sentence = "There is no model and no alias 'fats'. Use -m PROVIDER/MODEL, demo or an alias: fast."
    assert sentence in " ".join(ended.err.split())


async def test_an_agent_may_name_an_alias_and_its_model_object_may_have_the_name_of_one(
    tmp_path: Path,
) -> None:
    with temporary_store() as store:
        config = store.folder / "config" / "sandbur" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text('[aliases]\nown = "demo"\nmine = "openai/x"')
        named = await Agent("own", store=store.url, env=store.env).run("hello")
        model = ScriptedModel(["My own."], name="mine")
        given = await Agent(model, store=store.url, env=store.env).run("hello")
    assert named.status == "done"
    assert given.output == "My own."


def test_a_session_keeps_the_model_that_the_alias_stood_for(command: Command) -> None:
    config = command.folder / "config" / "sandbur" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[aliases]\nown = "demo"')
    env = {"XDG_CONFIG_HOME": str(command.folder / "config")}
    first = command.run("-p", "hello", "-m", "own", "--output-format", "json", **env)
    assert first.code == 0, first.err
    config.write_text("")
    again = command.run("-r", first.result["session_id"], "-p", "hello", "--output-format", "json", **env)
    assert again.code == 0, again.err
