"""The declaration of an extension: one object that names everything the extension adds.

A declaration is cheap to import: it refers to classes and functions by home and imports none of them. A home
is `module:name`. A module that begins with a dot is part of Sandbur, such as `.ui.commands.acp:AcpCommand`;
any other module is found as Python finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

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


class CommandEntry(Declared):
    """A command: `sandbur NAME`."""

    name: str
    home: str
    """Of a subclass of `sandbur.ui.cli.grammar.Command`."""
    summary: str
    after: str = ""
    """The command that precedes it in the help; empty: it comes last."""


class SlashEntry(Declared):
    """A slash command of the chat: `/NAME`."""

    name: str
    usage: str
    """The arguments after the name, as help shows them."""
    summary: str
    home: str
    """The home of a coroutine function that takes a `SlashContext` and the arguments and returns a
    `SlashResult`."""
    group: str = "Extensions"
    """The heading in the help."""
    after: str = ""
    """The command that precedes it in its group; empty: it comes last."""
    complete: str = ""
    """The home of a function that takes a `SlashContext` or None and yields `SlashOffer`s."""
    waits: bool = False
    """An open question has to be answered first."""


class ConfigFile(Declared):
    """A file beside `config.toml` that sets one setting."""

    name: str
    place: Literal["project", "user"]
    """`project`: the nearest one in the folders of the project; it counts once a person trusts it.
    `user`: beside the user's `config.toml`."""
    key: str
    """Of the setting."""
    parse: str
    """The home of a function that takes the content and the path, and returns the value, as
    `SettingReader.check` does, and notices. It raises `ConfigError`."""


class Extension(Declared):
    """One extension; only the name is required."""

    name: str
    about: str = ""
    """A short description, as a clause."""
    page: str = ""
    """Its page in the documentation: a file below `docs/`, or an address."""
    folders: tuple[str, ...] = ()
    """For a built-in extension: its folders and files. Deleting them removes the extension and nothing
    else."""
    settings: tuple[Setting, ...] = ()
    files: tuple[ConfigFile, ...] = ()
    runtime: str = ""
    """The home of its `ExtensionRuntime`, which provides tools, middleware and observers to sessions."""
    is_used: Callable[[Settings, SessionSettings | None], bool] | None = None
    """Returns whether a session needs the runtime. None: it is needed if one of its settings has a truthy
    value, defaults included, or if it has no settings.

    The session is None before a new session has its first prompt.
    """
    of_agent: Callable[[Definition], bool] | None = None
    """Returns whether the agent of a session needs the runtime, whatever the settings are."""
    commands: tuple[CommandEntry, ...] = ()
    slash: tuple[SlashEntry, ...] = ()
    find_slash: str = ""
    """The home of a function that takes a name and returns its `SlashCommand` or None, for commands that
    exist only while a session runs."""
    doctor: str = ""
    """The home of a function that takes the settings and yields the `Finding`s of `sandbur doctor`."""
    agent_files: Mapping[str, str] = MappingProxyType({})
    """Suffix of a file, such as `.yaml` -> the home of a function that takes an `AgentFileText`, the
    environment and the names of further tools, and returns the `AgentParts` of the agent that the file
    describes. It raises `ConfigError`."""
    agent_file_schema: str = ""
    """The home of a function that returns the JSON schema of these files."""
    models: Mapping[str, str] = MappingProxyType({})
    """Name of a model without a provider -> the home of a `Model` class whose constructor takes no
    arguments."""

    def needs_runtime(self, settings: Settings, session: SessionSettings | None = None) -> bool:
        if not self.runtime:
            return False
        if self.is_used is not None:
            return self.is_used(settings, session)
        return not self.settings or any(settings.of(row.key) for row in self.settings)
