"""The declaration of an extension: one object that names everything the extension adds.

A declaration is cheap to import: it refers to classes and functions by home and imports none of them. A home
is the text `module:name`. If the module begins with a dot, it is part of Sandbur, such as
`.ui.commands.acp:AcpCommand`; any other module is imported by its absolute name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..config.setting import Declared, Setting

if TYPE_CHECKING:
    from ...state.session import SessionSettings
    from ..config.settings import Settings
    from ..runtime.agent_definition import Definition

_ROOT = __name__.partition(".")[0]


def load(home: str) -> Any:
    """Import the module of a home and return the object that it names."""
    module, _, name = home.partition(":")
    return getattr(import_module(module, _ROOT), name)


class CitedFile(NamedTuple):
    """A file that an answer cites."""

    path: str
    """Its absolute path; empty if there is no file to open."""
    line: int = 0
    """The first line that is cited, counted from 1; 0: the citation names none."""
    note: str = ""
    """What a reader has to know about the citation, such as `changed since`."""


FindCitedFiles = Callable[[str], Mapping[str, CitedFile]]
"""Returns citation -> file for a text of a model; the citations are as the text has them."""


class CommandEntry(Declared):
    """A command of the shell: `sandbur NAME`."""

    name: str
    home: str
    """The home of a subclass of `sandbur.ui.cli.grammar.Command`."""
    summary: str
    after: str = ""
    """The command that precedes this one in the help. If it is empty, this one comes last."""


class SlashEntry(Declared):
    """A slash command, `/NAME`: of the chat if it has a `home`, of editors if it has an `editor`, or of
    both."""

    name: str
    usage: str
    """The arguments after the name, as help and editors show them."""
    summary: str
    home: str = ""
    """The home of a coroutine function that takes a `SlashContext` and the arguments and returns a
    `SlashResult`."""
    editor: str = ""
    """The home of a coroutine function that takes an `EditorContext` and the arguments. It returns the events
    of a run, or a text that answers the command."""
    aliases: tuple[str, ...] = ()
    group: str = "Extensions"
    """The heading of the group in the help that lists the command."""
    after: str = ""
    """The command that precedes this one in its group. If it is empty, this one comes last."""
    complete: str = ""
    """The home of a function that takes a `SlashContext` or None and yields `SlashOffer`s; empty if the
    arguments have no completion."""
    waits: bool = False
    """Whether an open question has to be answered before the command may run."""


class ConfigFile(Declared):
    """A file beside `config.toml` that sets one setting."""

    name: str
    place: Literal["project", "user"]
    """`project`: the nearest file of this name in the folders of the project counts, once a person trusts it.
    `user`: the file lies in the folder of the user's `config.toml`."""
    key: str
    """The key of the setting."""
    parse: str
    """The home of a function that takes the content and the path of the file. It returns the value, in the
    form that `SettingReader.check` returns, and a list of notices. It raises `ConfigError`."""


class Extension(Declared):
    """The declaration of one extension. Only the name is required; an empty field adds nothing."""

    name: str
    about: str = ""
    """A short description in the form of a clause, without a full stop."""
    page: str = ""
    """The page of the extension in the documentation: a file below `docs/`, or an address."""
    folders: tuple[str, ...] = ()
    """For a built-in extension: its folders and files. If they are deleted, the extension is gone and every
    other part still works."""
    settings: tuple[Setting, ...] = ()
    files: tuple[ConfigFile, ...] = ()
    runtime: str = ""
    """The home of the extension's `ExtensionRuntime`, which provides tools, middleware and observers to
    sessions."""
    is_used: Callable[[Settings, SessionSettings | None], bool] | None = None
    """Return whether a session needs the runtime. If the field is None, a session needs it if one of the
    extension's settings has a truthy value (defaults count), or if the extension has no settings.

    The session is None before a new session has its first prompt.
    """
    of_agent: Callable[[Definition], bool] | None = None
    """Returns whether the agent of a session needs the runtime, whatever the settings are."""
    commands: tuple[CommandEntry, ...] = ()
    slash: tuple[SlashEntry, ...] = ()
    find_slash: str = ""
    """The home of a function that takes a name and returns the `SlashCommand` of that name or None. It serves
    commands that exist only while a session runs."""
    doctor: str = ""
    """The home of a function that takes the settings and yields the `Finding`s of `sandbur doctor`."""
    before_resume: str = ""
    """The home of a function that takes the data folder and a parsed `Command` that opens stored sessions. It
    is called before the command runs. It may run the command in another process and then raise `SystemExit`.
    It raises `SandburError`."""
    forget_session: str = ""
    """The home of a function that takes the data folder and the id of a session that was deleted, and removes
    the files of the extension about it."""
    rewind: str = ""
    """The home of a function that takes the store, the id of a session and a step. It returns a `Rewind` (see
    `agent/history/time_travel/rewinds.py`) of what the calls after the step changed beside files, or None."""
    verify: str = ""
    """The home of a function that takes the settings and all messages of a session. It returns what `sandbur
    sessions verify` adds: an object with the number `checked`, the sentences `problems`, and `files`, which
    maps the citations of answers to `CitedFile`s for the report; or None."""
    agent_files: Mapping[str, str] = MappingProxyType({})
    """The suffix of a file, such as `.yaml` -> the home of a function that takes an `AgentFileText`, the
    environment and the names of further tools, and returns the `AgentParts` of the agent that the file
    describes. It raises `ConfigError`."""
    agent_file_schema: str = ""
    """The home of a function that returns the JSON schema of agent files."""
    models: Mapping[str, str] = MappingProxyType({})
    """The name of a model without a provider -> the home of a `Model` class whose constructor takes no
    arguments."""

    def needs_runtime(self, settings: Settings, session: SessionSettings | None = None) -> bool:
        if not self.runtime:
            return False
        if self.is_used is not None:
            return self.is_used(settings, session)
        return not self.settings or any(settings.of(row.key) for row in self.settings)
