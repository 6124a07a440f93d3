"""`sandbur config`, and the page that lists every key."""

from pathlib import Path

from support.commands.command import Command
from support.places import ROOT

from sandbur.agent.config.settings import SETTINGS

KEYS = [row for row in SETTINGS if row.about]


def test_what_is_set_counts_is_listed_with_its_source_and_is_taken_out_again(command: Command) -> None:
    own = command.folder / ".config/sandbur/config.toml"
    done = command.run("config", "set", "max_turns", "7")
    assert (done.code, done.out, done.err) == (0, "", f"Set max_turns in {own}.\n")
    listed = {one["key"]: one for one in command.run("config", "list", "--json").lines}
    assert list(listed) == [row.key for row in KEYS]
    assert (listed["max_turns"]["value"], listed["max_turns"]["sources"]) == (7, [str(own)])
    assert f"max_turns           7   ({own})" in command.run("config").out
    told = command.run("config", "set", "max_turns", "8", SANDBUR_MAX_TURNS="9")
    assert told.err.endswith("In this folder The environment overrides this value.\n")
    assert command.run("config", "get", "max_turns").out == "8\n"
    assert command.run("config", "unset", "max_turns").code == 0
    assert command.run("config", "unset", "max_turns").code == 1
    assert command.run("config", "get", "max_turns", "--json").result["value"] is None


def test_a_project_is_changed_where_it_is_the_persons_own(command: Command) -> None:
    project = command.folder / ".sandbur/config.toml"
    assert command.run("config", "set", "--project", "deny", "web_fetch").code == 0
    assert project.read_text() == 'deny = ["web_fetch"]\n'
    assert command.run("config", "get", "deny").out == "web_fetch\n"
    project.write_text('deny = ["grep"]\n')
    refused = command.run("config", "set", "--project", "max_turns", "3")
    assert refused.code == 2
    assert "is not trusted" in refused.err
    assert "ignored: not trusted" in command.run("config", "path").out


def test_no_secret_is_listed(command: Command) -> None:
    config = command.folder / ".config/sandbur/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        'search_url = "https://me:hunter22@search.example"\nvariables = ["token=hunter22"]\n'
        '[mcp_servers.it]\ncommand = "it"\nenv = { TOKEN = "hunter22" }\n'
        '[providers.own]\nbase_url = "http://me:hunter22@127.0.0.1/v1"\n'
    )
    store = "postgresql://me:hunter22@127.0.0.1/test"
    for words in (["list"], ["list", "--json"], ["get", "providers"], ["get", "variables"], ["get", "store"]):
        done = command.run("config", *words, "--store", store)
        assert done.code == 0, done.err
        assert "hunter22" not in done.out + done.err


def test_words_that_do_not_fit_are_refused(command: Command) -> None:
    for words, says in (
        (["get"], "needs a KEY"),
        (["set", "model"], "needs a VALUE"),
        (["list", "model"], "sandbur config get model"),
        (["get", "model", "x"], "one word too many"),
        (["get", "aliases.none"], "`aliases` has no entry `none`"),
        (["list", "--project"], "--project belongs to"),
        (["lsit"], "did you mean `list`?"),
    ):
        done = command.run("config", *words)
        assert (done.code, done.out) == (2, "")
        assert says in done.err


def test_the_page_lists_every_key_with_its_variable_flag_and_default() -> None:
    page = (ROOT / "docs/configuration.md").read_text("utf-8")
    keys, _, _ = page.partition("| earlier | now |")
    rows = [line for line in keys.splitlines() if line.startswith("| `")]
    assert rows == [table_row(row.key) for row in KEYS]


def test_the_page_lists_every_earlier_name() -> None:
    _, _, table = (ROOT / "docs/configuration.md").read_text("utf-8").partition("| earlier | now |")
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{'`, `'.join(one.earlier_names)}` | `{one.key}`, `{one.variable}` |"
        for one in SETTINGS
        if one.earlier_names
    ]


def table_row(key: str) -> str:
    """Return what the page has to say of a key."""
    row = next(one for one in SETTINGS if one.key == key)
    names = [f"`{name}`" for name in (row.variable, row.flag.names[-1] if row.flag else "") if name]
    empty = row.default is None or row.default == "" or row.default in ((), {})
    shown = str(row.default).lower() if isinstance(row.default, bool) else str(row.default)
    cells = (f"`{key}`", row.about, "" if empty else f"`{shown}`", " ".join(names))
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def test_the_example_of_the_page_can_be_read(tmp_path: Path, command: Command) -> None:
    page = (ROOT / "docs/configuration.md").read_text("utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    config = command.folder / ".config/sandbur/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(example)
    assert command.run("config", "list").code == 0
