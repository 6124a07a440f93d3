"""Settings: precedence, and every way in which a configuration can be wrong."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings, load_settings
from agent.options import RunOptions
from agent.trust import is_trusted, trust
from state.errors import ConfigError, SandburError, UsageError


class Machine:
    """A home folder and a project folder of one's own."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.home.mkdir()
        (self.project / ".git").mkdir(parents=True)
        self.env = {"HOME": str(self.home)}

    @property
    def user_config(self) -> Path:
        return self.home / ".config/sandbur/config.toml"

    @property
    def project_config(self) -> Path:
        return self.project / ".sandbur/config.toml"

    def write(self, path: Path, content: str | bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o644)
        return path

    def load(self, **options: Any) -> Settings:
        return load_settings(RunOptions(**{"cwd": self.project, **options}), self.env)

    def problem(self, **options: Any) -> SandburError:
        with pytest.raises(SandburError) as caught:
            self.load(**options)
        assert "\n" not in str(caught.value)
        return caught.value


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_said_gives_the_defaults(machine: Machine) -> None:
    settings = machine.load()
    home = machine.home / ".local/share/sandbur"
    assert settings == Settings(
        model=None,
        fallback_models=(),
        mode="interactive",
        allow=(),
        deny=(),
        cwd=machine.project,
        add_dirs=(),
        max_turns=None,
        max_budget_usd=None,
        timeout_s=None,
        store_url=f"sqlite:///{home}/sandbur.db",
        home=home,
        prices={},
        providers={},
        context_windows={},
        compress_at=0.8,
        durability="full",
    )


def test_flags_beat_environment_beats_project_beats_user(machine: Machine) -> None:
    machine.write(machine.user_config, 'model = "a/user"\nmax_turns = 1\ntimeout_s = 1\nmode = "plan"')
    machine.write(machine.project_config, 'model = "a/project"\nmax_turns = 2\ntimeout_s = 2')
    trust(machine.project, machine.env)
    machine.env |= {"SANDBUR_MODEL": "a/env", "SANDBUR_MAX_TURNS": "3"}
    settings = machine.load(model="a/flag")
    assert (settings.model, settings.max_turns, settings.timeout_s, settings.mode) == ("a/flag", 3, 2, "plan")


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
    assert settings.store_url == "sqlite:////tmp/x.db"
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


BAD_FILES: list[tuple[bytes, str]] = [
    (b"model = ", "line 1, column 9"),
    (b'\n\nmodel = "x', "line 3"),
    (b'model = "a"\nmodel = "b"', "line 2"),
    (b'modle = "x"', "Did you mean `mode` or `model`?"),
    (b"zzzzzz = 1", "The keys are: model,"),
    (b"max_turns = '3'", "`max_turns`"),
    (b"max_turns = 0", "`max_turns`"),
    (b"max_turns = true", "`max_turns`"),
    (b"timeout_s = -1", "`timeout_s`"),
    (b"timeout_s = nan", "`timeout_s`"),
    (b"max_budget_usd = inf", "`max_budget_usd`"),
    (b"compress_at = 2", "`compress_at`"),
    (b'mode = "yes"', "`mode`"),
    (b'durability = "none"', "`durability`"),
    (b'allow = "read_file"', "`allow`"),
    (b"allow = [1]", "`allow.0`"),
    (b'allow = ["read_file("]', "`read_file(`"),
    (b'deny = ["(x)"]', "`(x)`"),
    (b'add_dirs = ["/no/such/folder"]', "/no/such/folder"),
    (b'model = ""', "`model`"),
    (b'model = "a\\u0007"', "`model`"),
    (b'store = "postgresql://u:hunter2@h/d"', "PostgreSQL"),
    (b'[prices."a/b"]\ninput = 1', "`prices.a/b.output` is missing"),
    (b'[prices."a/b"]\ninput = 1\noutput = 1\ncache = 1', "Did you mean `cache_read`?"),
    (b'[prices."a/b"]\ninput = -1\noutput = 1', "`prices.a/b.input`"),
    (b'[providers.x]\nbase_url = "ftp://x"', "`providers.x.base_url`"),
    (b'[providers.x]\nbase_ulr = "http://x"', "`base_url`"),
    (b'[providers.x]\nbase_url = "http://x"\nwire = "smoke"', "`providers.x.wire`"),
    (b'[providers.x]\nbase_url = "http://x"\napi_key_env = "not a name"', "`providers.x.api_key_env`"),
    (b'[context_windows]\n"a/b" = 1', "`context_windows.a/b`"),
    (b"\xef\xbb\xbfmax_turns = 1", "byte order mark"),
    (b"# caf\xe9\n", "line 1, column 6"),
    (b"# ok\n#\x00", "line 2"),
    (b"x = " + b"[" * 100_000, ""),
    (b"#" * (1 << 20) + b"\n", "1,048,577 bytes"),
]


@pytest.mark.parametrize(("content", "said"), BAD_FILES)
@pytest.mark.parametrize("place", ["user", "project"])
def test_a_bad_file_is_one_clear_sentence_about_the_place(
    machine: Machine, place: str, content: bytes, said: str
) -> None:
    path = machine.write(machine.user_config if place == "user" else machine.project_config, content)
    if place == "project" and len(content) <= 1 << 20:
        trust(machine.project, machine.env)
    problem = machine.problem()
    assert isinstance(problem, ConfigError)
    assert problem.exit_code == 52
    assert str(path) in problem.message
    assert said in str(problem)
    assert "hunter2" not in str(problem)


def test_an_empty_file_says_nothing(machine: Machine) -> None:
    machine.write(machine.user_config, "")
    assert machine.load().model is None


def test_a_file_that_is_no_file_is_refused(machine: Machine) -> None:
    machine.user_config.mkdir(parents=True)
    assert "is a folder" in machine.problem().message
    machine.user_config.rmdir()
    os.mkfifo(machine.user_config)
    assert "no regular file" in machine.problem().message
    machine.user_config.unlink()
    machine.user_config.symlink_to("nowhere")
    assert "link to a file that does not exist" in machine.problem().message
    machine.user_config.unlink()
    machine.user_config.symlink_to(machine.user_config)
    assert "cannot be read" in machine.problem().message


def test_a_file_that_everybody_can_change_is_refused(machine: Machine) -> None:
    machine.write(machine.user_config, "").chmod(0o666)
    problem = machine.problem()
    assert "every user" in problem.message
    assert problem.hint.startswith("Run: chmod")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_file_without_read_permission_is_refused(machine: Machine) -> None:
    machine.write(machine.user_config, "").chmod(0o600)
    script = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from agent.config import load_settings
from agent.options import RunOptions
from state.errors import ConfigError
os.chmod({str(machine.home.parent.parent)!r}, 0o755)
os.setuid(65534)
try:
    load_settings(RunOptions(cwd=Path("/")), {machine.env!r})
except ConfigError as error:
    print(error)
"""
    for parent in [machine.home, *machine.home.parents][:-1]:
        if parent.stat().st_uid == os.geteuid() and parent.name.startswith(("pytest", "test_", "home")):
            parent.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stdout, done.stderr


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
        ({"store": "mysql://u:hunter2@h/d"}, "MySQL stores come as an extra"),
        ({"store": "postgres://h/d"}, "PostgreSQL stores come as an extra"),
        ({"store": "runs.db"}, "no store URL"),
        ({"store": "sqlite://runs.db"}, "no store URL"),
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
    assert machine.load(store="sqlite:///runs.db").store_url == f"sqlite:///{Path.cwd()}/runs.db"


def test_the_data_folder_follows_the_variables(machine: Machine) -> None:
    machine.env["XDG_DATA_HOME"] = "/data"
    assert machine.load().home == Path("/data/sandbur")
    machine.env["XDG_DATA_HOME"] = "relative/is/ignored"
    assert machine.load().home == machine.home / ".local/share/sandbur"
    machine.env["SANDBUR_HOME"] = "/mine"
    assert machine.load().store_url == "sqlite:////mine/sandbur.db"
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
from agent.config import load_settings
from agent.options import RunOptions
from state.errors import UsageError
os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})
try:
    load_settings(RunOptions(), {machine.env!r})
except UsageError as error:
    print(error)
print(load_settings(RunOptions(cwd=Path({str(machine.project)!r})), {machine.env!r}).cwd)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "no longer exists" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == str(machine.project), done.stderr
