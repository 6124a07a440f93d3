"""The declaration by which an extension plugs in: one object that names all that it adds.

A declaration is light: it names classes and functions by their home, and imports none of them. A home is
`module:name`. A module that begins with a dot is one of Sandbur's own, such as `.ui.commands.acp:AcpCommand`;
any other is found as Python finds it.
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

_ROOT = __name__.partition(".")[0]


def load(home: str) -> Any:
    """Import the module of a home and return what it names there."""
    module, _, name = home.partition(":")
    return getattr(import_module(module, _ROOT), name)


class CommandEntry(Declared):
    """A command: `sandbur NAME`."""

    name: str
    home: str
    """Of a subclass of `sandbur.ui.cli.grammar.Command`."""
    summary: str
    after: str = ""
    """The command that it follows in the help; empty: it comes last."""


class SlashEntry(Declared):
    """A slash command of the chat: `/NAME`."""

    name: str
    usage: str
    """The words after the name, as help shows them."""
    summary: str
    home: str
    """Of a coroutine function that takes a `SlashContext` and the words, and returns a `SlashResult`."""
    group: str = "Extensions"
    """The heading in the help."""
    after: str = ""
    """The command of that group that it follows; empty: it comes last."""
    complete: str = ""
    """The home of a function that takes a `SlashContext`, or None, and yields `SlashOffer`s."""
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
    """What it is for, as a clause."""
    page: str = ""
    """Its page in the documentation: a file below `docs/`, or an address."""
    folders: tuple[str, ...] = ()
    """Of one that ships: its folders and files in Sandbur; without them it is gone, and nothing else is."""
    settings: tuple[Setting, ...] = ()
    files: tuple[ConfigFile, ...] = ()
    runtime: str = ""
    """The home of its `ExtensionRuntime`: what it brings into sessions, and what it observes there."""
    is_used: Callable[[Settings, SessionSettings | None], bool] | None = None
    """Tells whether its runtime is needed. None: where one of its settings has a value, or it has none.

    The session is None before a new one has its prompt."""
    commands: tuple[CommandEntry, ...] = ()
    slash: tuple[SlashEntry, ...] = ()
    find_slash: str = ""
    """The home of a function that takes a name and returns a `SlashCommand` for it, or None: for commands
    that are known only while a session runs."""
    doctor: str = ""
    """The home of a function that takes the settings and yields the `Finding`s of `sandbur doctor`."""
    models: Mapping[str, str] = MappingProxyType({})
    """Name of a model without a provider -> the home of a class of `Model` that is made without arguments."""

    def needs_runtime(self, settings: Settings, session: SessionSettings | None = None) -> bool:
        if not self.runtime:
            return False
        if self.is_used is not None:
            return self.is_used(settings, session)
        return not self.settings or any(settings.of(row.key) for row in self.settings)
