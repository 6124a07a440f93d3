"""Settings: precedence, trust, flags and variables."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from support.commands.machine import Machine
from support.places import ROOT

from sandbur.agent.config.settings import CONFINING, EFFORTS, MODES, SANDBOXES, SETTINGS, Settings
from sandbur.agent.config.trust import is_trusted, trust
from sandbur.agent.runtime.runtime import Runtime
from sandbur.agent.sdk.agent import Agent
from sandbur.state.application import ExecutionMode
from sandbur.state.errors import ConfigError, UsageError
from sandbur.state.session import Effort, SandboxWish


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_said_gives_the_defaults(machine: Machine) -> None:
    settings = machine.load()
    home = machine.home / ".local/share/sandbur"
    assert settings == Settings(
        model=None,
        agent=None,
        effort=None,
        aliases={},
        editing="emacs",
        resume="ask",
        of_extensions={
            "hooks": (),
            "flows": {},
            "mcp_servers": {},
            "http_tools": {},
            "openapi": {},
            "execute_python": False,
            "agents_at_once": 16,
            "agent_depth": 3,
            "agents_per_run": 200,
            "plan_proposals": True,
            "plan_notebook": False,
            "trial_copy_mb": 2000,
            "trials_at_once": 3,
            "knowledge": (),
            "embeddings": None,
            "memory": "agent",
            "memory_facts": 5,
            "memory_extraction": "off",
            "extraction_model": None,
            "extraction_tokens": 100_000,
            "memory_scopes": (),
            "variables": (),
            "otel": False,
        },
        fallback_models=(),
        mode="interactive",
        allow=(),
        deny=(),
        ask=(),
        catastrophic="ask",
        sandbox="off",
        allow_net=(),
        cwd=machine.project,
        add_dirs=(),
        max_turns=None,
        max_budget_usd=None,
        timeout_s=None,
        max_result_tokens=20_000,
        tools=(),
        disallowed_tools=(),
        groups=(),
        available_groups=(),
        group_descriptions={},
        max_listed_tools=40,
        strict_tools=True,
        store=f"sqlite:///{home}/sandbur.db",
        tenant="",
        home=home,
        prices={},
        providers={},
        transport="http",
        context_windows={},
        compress_at=0.8,
        compaction="summary",
        compaction_model=None,
        compaction_prompt=None,
        compaction_keep=None,
        durability="full",
        web_tools=True,
        search_provider=None,
        search_url=None,
        search_key_env=None,
        theme="dark",
        plain=False,
    )


def test_a_setting_stands_in_its_row_and_where_it_is_used() -> None:
    root = ROOT
    sources = [path for layer in ("state", "actions", "agent", "ui") for path in (root / layer).rglob("*.py")]
    named = {path.relative_to(root).as_posix() for path in sources if "max_turns" in path.read_text("utf-8")}
    assert named == {
        "agent/config/settings.py",
        "agent/session/run_limits.py",
        "agent/extensions/agent_files/schema.py",  # a key of agent files, too
        "agent/agents/markdown/agent_spec.py",  # the same, of agents as Markdown
        "agent/agents/markdown/agent_parser.py",
        "agent/agents/child_settings.py",
        "agent/agents/children.py",
        "agent/runtime/assembly.py",
        "state/session.py",  # the limit of a sub-agent
        "ui/commands/agents/listing.py",
    }


def test_a_store_is_as_durable_as_it_was_asked_for(machine: Machine) -> None:
    machine.env["SANDBUR_DURABILITY"] = "normal"
    for environment, synchronous in ({"HOME": machine.env["HOME"]}, 2), (machine.env, 1):
        runtime = Runtime.open({"cwd": machine.project}, environment)
        assert runtime.store.database.query("PRAGMA synchronous") == [(synchronous,)]
        runtime.store.close()


def test_flags_beat_environment_beats_project_beats_user(machine: Machine) -> None:
    machine.write(machine.user_config, 'model = "a/user"\nmax_turns = 1\ntimeout_s = 1\nmode = "plan"')
    machine.write(machine.project_config, 'model = "a/project"\nmax_turns = 2\ntimeout_s = 2')
    trust(machine.project, machine.env)
    machine.env |= {"SANDBUR_MODEL": "a/env", "SANDBUR_MAX_TURNS": "3"}
    settings = machine.load(model="a/flag")
    assert (settings.model, settings.max_turns, settings.timeout_s, settings.mode) == ("a/flag", 3, 2, "plan")


def test_models_are_asked_as_the_configuration_or_the_table_of_a_provider_says(machine: Machine) -> None:
    machine.write(machine.user_config, '[providers.x]\nbase_url = "http://x/v1"\ntransport = "http"')
    machine.env["SANDBUR_TRANSPORT"] = "sdk"
    settings = machine.load()
    assert (settings.transport, settings.providers["x"].transport) == ("sdk", "http")


def test_rules_and_folders_of_all_sources_add_up(machine: Machine) -> None:
    machine.write(machine.user_config, 'allow = ["grep"]\ndeny = ["read_file(.env)"]')
    machine.write(machine.project_config, 'allow = ["glob"]\nadd_dirs = ["sub"]')
    (machine.project / "sub").mkdir()
    (machine.project / "other").mkdir()
    trust(machine.project, machine.env)
    machine.env["SANDBUR_DENY"] = "run_shell_command(rm a,b),write_file\nedit_file(x)"
    settings = machine.load(allow=("read_file",), deny=("glob",), add_dirs=(Path("other"), Path("sub")))
    assert settings.allow == ("read_file", "glob", "grep")
    assert settings.deny == (
        "glob", "run_shell_command(rm a,b)", "write_file", "edit_file(x)", "read_file(.env)",
    )  # fmt: skip
    assert settings.add_dirs == (machine.project / "other", machine.project / "sub")


def test_every_key_of_the_file_is_read(machine: Machine) -> None:
    machine.write(
        machine.user_config,
        """
        fallback_models = ["a/b"]
        max_budget_usd = 2
        store = "sqlite:////tmp/x.db"
        compress_at = 0.5
        durability = "full"
        [prices."own/model"]
        input = 1
        output = 2.5
        cache_read = 0.1
        [context_windows]
        "own/model" = 32000
        """,
    )
    settings = machine.load()
    assert settings.fallback_models == ("a/b",)
    assert settings.max_budget_usd == 2
    assert settings.store == "sqlite:////tmp/x.db"
    assert settings.compress_at == 0.5
    assert settings.prices["own/model"].output == 2.5
    assert settings.context_windows == {"own/model": 32000}


def test_a_provider_of_ones_own_reaches_the_adapters(machine: Machine) -> None:
    machine.write(
        machine.user_config,
        '[providers.own]\nbase_url = "http://127.0.0.1:1/v1"\napi_key_env = "OWN_KEY"\nwire = "chat"',
    )
    own = machine.load().providers["own"]
    assert (own.base_url, own.api_key_env, own.wire) == ("http://127.0.0.1:1/v1", "OWN_KEY", "chat")


def test_the_configuration_of_an_untrusted_folder_is_ignored_visibly(machine: Machine) -> None:
    path = machine.write(machine.project_config, 'model = "evil/model"\nallow = ["*"]')
    settings = machine.load()
    assert settings.model is None
    assert settings.allow == ()
    assert settings.untrusted_config == path
    assert len(settings.notices) == 1
    assert str(path) in settings.notices[0]
    trust(machine.project, machine.env)
    settings = machine.load()
    assert (settings.model, settings.notices, settings.untrusted_config) == ("evil/model", (), None)


def test_trust_ends_with_the_content_it_was_given_for(machine: Machine) -> None:
    machine.write(machine.project_config, 'model = "a/b"')
    trust(machine.project, machine.env)
    assert is_trusted(machine.project, machine.env)
    machine.write(machine.project_config, 'model = "a/c"')
    assert not is_trusted(machine.project, machine.env)
    assert machine.load().model is None


def test_a_malformed_file_of_an_untrusted_folder_changes_nothing(machine: Machine) -> None:
    machine.write(machine.project_config, "not toml at all")
    assert machine.load().mode == "interactive"


def test_the_project_file_of_the_repository_holds_in_its_subfolders(machine: Machine) -> None:
    machine.write(machine.project_config, 'model = "a/b"')
    trust(machine.project, machine.env)
    (machine.project / "deep" / "er").mkdir(parents=True)
    assert machine.load(cwd=machine.project / "deep" / "er").model == "a/b"


def test_no_file_can_set_yolo(machine: Machine) -> None:
    machine.write(machine.project_config, 'mode = "yolo"')
    machine.write(machine.user_config, 'mode = "yolo"')
    trust(machine.project, machine.env)
    settings = machine.load()
    assert settings.mode == "interactive"
    assert len(settings.notices) == 2
    assert all("yolo" in notice for notice in settings.notices)
    assert machine.load(mode="yolo").mode == "yolo"
    machine.env["SANDBUR_MODE"] = "yolo"
    assert machine.load().mode == "yolo"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SANDBUR_MODE", "fast"),
        ("SANDBUR_MAX_TURNS", "many"),
        ("SANDBUR_MAX_TURNS", "0"),
        ("SANDBUR_TIMEOUT", "nan"),
        ("SANDBUR_MAX_BUDGET_USD", "-1"),
        ("SANDBUR_COMPRESS_AT", "x"),
        ("SANDBUR_DURABILITY", "none"),
        ("SANDBUR_STORE", "redis://x"),
        ("SANDBUR_ALLOW", "read_file("),
        ("SANDBUR_ADD_DIR", "/no/such/folder"),
        ("SANDBUR_MODEL", "a\x1b[2J"),
        ("SANDBUR_DENNY", "x"),
        ("SANDBUR_MODELS", "x"),
    ],
)
def test_a_bad_variable_is_named(machine: Machine, variable: str, value: str) -> None:
    machine.env[variable] = value
    problem = machine.problem()
    assert isinstance(problem, ConfigError)
    key = {"SANDBUR_STORE": "store", "SANDBUR_ALLOW": "rule", "SANDBUR_ADD_DIR": "add-dir"}.get(
        variable, variable
    )
    assert key in problem.message


def test_an_empty_variable_and_a_strangers_variable_say_nothing(machine: Machine) -> None:
    machine.env |= {"SANDBUR_MODEL": "", "SANDBUR_MAX_TURNS": " ", "SANDBUR_SOMETHING_ELSE": "x"}
    assert machine.load().model is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cwd": Path("/no/such/folder")}, "-C/--cd"),
        ({"cwd": Path("/etc/passwd")}, "-C/--cd"),
        ({"cwd": Path("a\0b")}, "-C/--cd"),
        ({"add_dirs": (Path("nowhere"),)}, "nowhere"),
        ({"max_turns": 0}, "--max-turns"),
        ({"max_budget_usd": -1.0}, "--max-budget-usd"),
        ({"timeout_s": float("inf")}, "--timeout"),
        ({"mode": "fast"}, "--mode"),
        ({"model": ""}, "--model"),
        ({"fallback_models": ("",)}, "--fallback-model"),
        ({"allow": ("x(",)}, "x("),
        ({"store": "mysql://u:hunter2@h"}, "names no database"),
        ({"store": "postgres://u:hunter2@h:x/d"}, "no readable host"),
        ({"store": "runs.db"}, "not a store URL"),
        ({"store": "sqlite://runs.db"}, "not a store URL"),
        ({"store": "sqlite:///"}, "needs a file"),
        ({"store": "sqlite:///:memory:"}, "needs a file"),
    ],
)
def test_a_bad_flag_is_a_usage_error(machine: Machine, options: dict[str, Any], said: str) -> None:
    problem = machine.problem(**options)
    assert isinstance(problem, UsageError)
    assert problem.exit_code == 2
    assert said in str(problem)
    assert "hunter2" not in str(problem)


def test_a_relative_store_starts_at_the_current_folder(machine: Machine) -> None:
    assert machine.load(store="sqlite:///runs.db").store == f"sqlite:///{Path.cwd()}/runs.db"


def test_the_data_folder_follows_the_variables(machine: Machine) -> None:
    machine.env["XDG_DATA_HOME"] = "/data"
    assert machine.load().home == Path("/data/sandbur")
    machine.env["XDG_DATA_HOME"] = "relative/is/ignored"
    assert machine.load().home == machine.home / ".local/share/sandbur"
    machine.env["SANDBUR_HOME"] = "/mine"
    assert machine.load().store == "sqlite:////mine/sandbur.db"
    machine.env["SANDBUR_HOME"] = "~/mine"
    assert machine.load().home == machine.home / "mine"


def test_the_user_configuration_follows_its_variable(machine: Machine) -> None:
    machine.write(machine.home / "cfg/sandbur/config.toml", 'model = "a/b"')
    machine.env["XDG_CONFIG_HOME"] = str(machine.home / "cfg")
    assert machine.load().model == "a/b"


def test_without_home_the_user_list_knows_the_folder(machine: Machine) -> None:
    del machine.env["HOME"]
    machine.env["XDG_CONFIG_HOME"] = str(machine.home)
    assert machine.load().home.parts[-3:] == (".local", "share", "sandbur")


def test_a_folder_that_was_deleted_under_us_is_said(machine: Machine, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from sandbur.agent.config.load import load_settings
from sandbur.agent.runtime.runtime import Runtime
from sandbur.state.errors import UsageError
os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})
try:
    load_settings({{}}, {machine.env!r})
except UsageError as error:
    print(error)
print(load_settings({{"cwd": Path({str(machine.project)!r})}}, {machine.env!r}).cwd)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "no longer exists" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == str(machine.project), done.stderr


@pytest.mark.parametrize(
    ("project", "user", "counts"), [("off", "required", "required"), ("required", "auto", "required")]
)
def test_a_project_confines_no_less_than_the_user_wants(
    machine: Machine, project: str, user: str, counts: str
) -> None:
    machine.write(machine.user_config, f'sandbox = "{user}"')
    machine.write(machine.project_config, f'sandbox = "{project}"')
    trust(machine.project, machine.env)
    settings = machine.load()
    assert settings.sandbox == counts
    assert any("Ignored `sandbox`" in notice for notice in settings.notices) == (project == "off")


def test_the_settings_know_every_mode_sandbox_and_effort() -> None:
    """They repeat the types, which take long to import."""
    assert get_args(ExecutionMode) == MODES
    assert get_args(SandboxWish) == SANDBOXES
    assert get_args(Effort) == EFFORTS
    assert sorted(CONFINING) == sorted(SANDBOXES)


def test_an_agent_of_a_program_has_the_usual_values_of_the_settings() -> None:
    usual = inspect.signature(Agent).parameters
    shared = {name: getattr(Settings, name) for name in ("mode", "sandbox", "compress_at", "effort")}
    assert {name: usual[name].default for name in shared} == shared
    told = inspect.getdoc(Agent) or ""
    assert f"by a search. None: {Settings.max_listed_tools}." in told
    assert f"gets a part of it. None: {Settings.max_result_tokens:,}." in told


@pytest.mark.parametrize("key", [row.key for row in SETTINGS if row.kind == "line"])
def test_a_line_that_is_empty_is_called_empty(machine: Machine, key: str) -> None:
    machine.write(machine.user_config, f'{key} = ""')
    assert f"`{key}` is empty. Give it a value, or leave it out." in str(machine.problem())


def test_a_flag_that_is_empty_is_called_empty(machine: Machine) -> None:
    assert str(machine.problem(model="")) == (
        "The command line: --model is empty. Give it a value, or leave it out."
    )
